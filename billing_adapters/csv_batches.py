"""CSV files as batches of text columns: nothing is guessed, only the wanted columns are kept."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from allocation.errors import AdapterError
from billing_adapters.files import Rejoined
from billing_adapters.row_batches import NULL_WORDS, HeaderCheck, RowBatch, Spelling, chosen_columns

_BLOCK_BYTES = 2 << 20
_HEADER_BYTES = 1 << 20
_RAGGED = re.compile(r"Row #(\d+): (Expected \d+ columns, got \d+)")


def read_csv(stream: BinaryIO, file: str, wanted: Sequence[str], check: HeaderCheck, spelling: Spelling) -> Iterator[RowBatch]:
    """See ``readers.read_batches``. A byte order mark, CRLF and quoted newlines are read; blank lines are no rows."""
    header = _header(stream, file)
    chosen = chosen_columns(file, header, wanted, spelling)
    check(file, header)
    first = _record(stream)
    rest = cast("BinaryIO", io.BufferedReader(Rejoined(first, stream), _BLOCK_BYTES))
    yield from _batches(rest, file, header[: _used(first, header, chosen)], chosen)


def _used(first: bytes, header: Sequence[str], chosen: Mapping[str, int]) -> int:
    """How many of the header's names have cells: some writers name columns at its end that no row has.

    Only where all of them are columns that nobody wants; else, and where a later row is of another length, it is ragged.
    """
    cells = len(next(csv.reader(first.decode("utf-8", "replace").splitlines(keepends=True)), []))
    return cells if max(chosen.values(), default=-1) < cells < len(header) else len(header)


def _record(stream: BinaryIO) -> bytes:
    """One line, with the lines that a quoted cell of it goes on to."""
    raw = stream.readline(_HEADER_BYTES)
    while raw.count(b'"') % 2 and len(raw) < _HEADER_BYTES and (more := stream.readline(_HEADER_BYTES)):
        raw += more
    return raw


def _header(stream: BinaryIO, file: str) -> list[str]:
    raw = _record(stream)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in raw:
        raise AdapterError("the file is not UTF-8 text", file=file, remedy="Export it as UTF-8.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AdapterError("the header is not UTF-8 text", file=file, remedy="Export the file as UTF-8.") from error
    names = next(csv.reader(text.splitlines(keepends=True)), []) if len(raw) < _HEADER_BYTES else []
    if not names:
        raise AdapterError("the file has no header line", file=file, remedy="Have it delivered or copied again.")
    return [name.strip() for name in names]


def _batches(stream: BinaryIO, file: str, header: Sequence[str], chosen: dict[str, int]) -> Iterator[RowBatch]:
    names = [str(i) for i in range(len(header))]
    included = [names[place] for place in chosen.values()]
    first = 1
    try:
        for batch in _open(stream, names, included):
            if batch.num_rows:
                columns = {name: batch.column(names[place]) for name, place in chosen.items()}
                rows = RowBatch(file, first, batch.num_rows, columns)
                _refuse_nul(rows)
                yield rows
                first += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _explained(error, file) from error


def _refuse_nul(rows: RowBatch) -> None:
    """A NUL byte in a cell: text of another encoding, or a damaged file."""
    for name, texts in rows.columns.items():
        data = texts.buffers()[2]
        if data is None or np.frombuffer(data, np.uint8).all():
            continue
        holding = pc.fill_null(pc.match_substring(texts, "\0"), False)
        if pc.any(holding).as_py():
            problem = f"the file is not UTF-8 text (a NUL byte in the column {name})"
            raise rows.error(pc.index(holding, True).as_py(), problem, "Export it as UTF-8.")


def _open(stream: BinaryIO, names: list[str], included: list[str]) -> Iterator[pa.RecordBatch]:
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in included},
        include_columns=included,
        null_values=list(NULL_WORDS),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=names)
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    try:
        reader = pyarrow.csv.open_csv(stream, read_options=reading, parse_options=parsing, convert_options=convert)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return
        raise
    yield from reader


def _explained(error: pa.ArrowInvalid, file: str) -> AdapterError:
    text = " ".join(str(error).split())
    ragged = _RAGGED.search(text)
    if ragged:
        problem = f"the row is ragged: {ragged[2].lower()}"
        return AdapterError(problem, file=file, row=int(ragged[1]), remedy="Have the file delivered or copied again.")
    if "UTF8" in text:
        return AdapterError("the file is not UTF-8 text", file=file, remedy="Export it as UTF-8.")
    return AdapterError(f"the file is no readable CSV ({text[:200]})", file=file, remedy="Have it delivered or copied again.")
