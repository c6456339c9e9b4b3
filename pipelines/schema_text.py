"""The documented columns of every table, as Markdown for people and as plain values for machines.

All words come from ``allocation.schemas``; nothing about a table is said here.
"""

from collections.abc import Sequence

from allocation.errors import SettingsError, nearest
from allocation.schemas import PUBLIC, SCHEMA_VERSION, TABLES, Column, Table

_HEADER = ("column", "type", "null", "unit", "meaning", "key")
_PARTITION = "date, cluster"


def tables_of(name: str | None) -> list[Table]:
    """The table of that name, or all of them for None; a ``SettingsError`` names the nearest for an unknown one."""
    if name is None:
        return list(TABLES.values())
    if name not in TABLES:
        raise SettingsError(f"there is no table {name!r}; {nearest(name, TABLES)}")
    return [TABLES[name]]


def render_schema(name: str | None) -> str:
    """One table, or all, as Markdown: what a row is, then a line for each column."""
    return "\n\n".join(_markdown(table) for table in tables_of(name)) + "\n"


def schema_json(name: str | None) -> list[dict[str, object]]:
    """The same as values that JSON can hold: one entry a table."""
    return [_values(table) for table in tables_of(name)]


def _values(table: Table) -> dict[str, object]:
    return {
        "table": table.name,
        "schema_version": SCHEMA_VERSION,
        "rows": table.rows,
        "key": list(table.key),
        "partition": _PARTITION.split(", ") if table in PUBLIC else [],
        "columns": [
            {"name": c.name, "type": str(c.type), "nullable": c.nullable, "unit": c.unit, "meaning": c.doc} for c in table.columns
        ],
    }


def _markdown(table: Table) -> str:
    rows = [_row(column, table) for column in table.columns]
    widths = [max(map(len, cells)) for cells in zip(_HEADER, *rows, strict=True)]
    head = [f"## {table.name}", "", f"A row is {table.rows}."]
    if table in PUBLIC:
        head[-1] += f" Partitioned by {_PARTITION}, whose values stand in the folders' names."
    return "\n".join([*head, "", _line(_HEADER, widths), _line(["-" * w for w in widths], widths), *_lines(rows, widths)])


def _row(column: Column, table: Table) -> tuple[str, ...]:
    key = "key" if column.name in table.key else ""
    cells = (column.name, str(column.type), "null" if column.nullable else "", column.unit, column.doc, key)
    return tuple(cell.replace("|", "\\|") for cell in cells)


def _lines(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    return [_line(row, widths) for row in rows]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
