"""A report as a workbook: a sheet a table, typed cells, totals as formulas with their value; rows go to disk as they come.

Texts are written as texts whatever they begin with: nothing from a cluster or a bill becomes a formula or a link.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from allocation.errors import MissingExtraError
from pipelines.reports.columns import nanos_of
from pipelines.reports.names import clean
from pipelines.reports.tables import added

if TYPE_CHECKING:
    from xlsxwriter import Workbook

_EXACT = "#,##0.000000000"
_BLOCK = 4096


def write_workbook(path: Path, tables: Mapping[str, pa.Table], places: int) -> None:
    """Writes the tables as sheets in their order."""
    try:
        import xlsxwriter  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("xlsxwriter", "report") from error
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(path, options) as book:
        shown = "#,##0" + ("." + "0" * places if places else "")
        for name, table in tables.items():
            _sheet(book, name, table, shown)


def _sheet(book: "Workbook", name: str, table: pa.Table, shown: str) -> None:
    sheet = book.add_worksheet(name)
    head = book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
    formats = [_format(book, column, table, shown) for column in table.column_names]
    sheet.freeze_panes(1, 0)
    for place, column in enumerate(table.column_names):
        sheet.set_column(place, place, _width(table[column].type))
    for place, column in enumerate(table.column_names):
        sheet.write_string(0, place, column.replace("_", " "), head)
    row = 1
    for batch in table.to_batches(max_chunksize=_BLOCK):
        for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            _row(sheet, row, cells, formats)
            row += 1
    sums = added(name, table)
    if sums and row > 1:
        _totals(book, sheet, row, table, sums, shown)
    sheet.autofilter(0, 0, max(row - 1, 1), len(table.column_names) - 1)


def _row(sheet: Any, row: int, cells: Sequence[Any], formats: Sequence[Any]) -> None:  # noqa: ANN401 -- the library's own
    for place, (value, form) in enumerate(zip(cells, formats, strict=True)):
        if value is None:
            continue
        if isinstance(value, str):
            sheet.write_string(row, place, clean(value), form)
        elif hasattr(value, "isoformat"):
            sheet.write_datetime(row, place, value, form)
        else:
            sheet.write_number(row, place, float(value), form)


def _totals(book: "Workbook", sheet: Any, row: int, table: pa.Table, sums: Sequence[str], shown: str) -> None:  # noqa: ANN401
    bold = book.add_format({"bold": True, "top": 1})
    for place, column in enumerate(table.column_names):
        if column in sums:
            letter = _letter(place)
            form = book.add_format({"bold": True, "top": 1, "num_format": _EXACT if column.endswith("_exact") else shown})
            sheet.write_formula(row, place, f"=SUM({letter}2:{letter}{row})", form, _total(table[column]))
        else:
            sheet.write_string(row, place, "total" if place == 0 else "", bold)


def _total(column: pa.ChunkedArray) -> float:
    if not pa.types.is_decimal(column.type):
        return float(sum(column.to_pylist()))
    return float(sum(nanos_of(column)) / 10**column.type.scale)


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else _letter(place // 26 - 1) + _letter(place % 26)


def _format(book: "Workbook", column: str, table: pa.Table, shown: str) -> Any:  # noqa: ANN401
    kind = table[column].type
    if pa.types.is_date(kind):
        return book.add_format({"num_format": "yyyy-mm-dd"})
    if f"{column}_exact" in table.column_names:
        return book.add_format({"num_format": shown})
    if pa.types.is_decimal(kind):
        return book.add_format({"num_format": _EXACT if column.endswith("_exact") else "#,##0.0"})
    return book.add_format({"num_format": "#,##0"} if pa.types.is_integer(kind) else {"num_format": "@"})


def _width(kind: pa.DataType) -> int:
    return 28 if pa.types.is_string(kind) else 16
