"""Files of one JSON object a line as batches of columns, of the types that an adapter expects of its fields.

Amounts are read as decimals, whether they stand as numbers or as texts, so that no digit is lost.
"""

import io
import json
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.json

from allocation.errors import AdapterError
from billing_adapters.files import Rejoined
from billing_adapters.record_columns import column_at, leaf_names
from billing_adapters.row_batches import HeaderCheck, RowBatch, Spelling, chosen_columns

JSON_SUFFIXES = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")
AMOUNT = pa.decimal256(76, 40)
"""What holds the exact value of any amount of a bill, and of the shortest text of a double near it."""
_BLOCK_BYTES = 4 << 20
_HEAD_BYTES = 256 << 10
_REMEDY = "Have it delivered or copied again; nothing was used."


def read_json(
    stream: BinaryIO, file: str, schema: pa.Schema, wanted: Sequence[str], check: HeaderCheck, spelling: Spelling
) -> Iterator[RowBatch]:
    """See ``readers.read_batches``. Fields that ``schema`` does not have are left aside, absent ones are null.

    An empty file has no rows.
    """
    head = stream.read(_HEAD_BYTES)
    if not head.strip():
        return
    check(file, _names_in(head, file))
    names = leaf_names(schema)
    chosen = chosen_columns(file, names, wanted, spelling)
    row = 1
    try:
        whole = cast("BinaryIO", io.BufferedReader(Rejoined(head, stream), _BLOCK_BYTES))
        reading = pyarrow.json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
        parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        for batch in pyarrow.json.open_json(whole, read_options=reading, parse_options=parsing):
            if batch.num_rows:
                columns = {name: column_at(batch, names[place]) for name, place in chosen.items()}
                yield RowBatch(file, row, batch.num_rows, columns)
                row += batch.num_rows
    except pa.ArrowInvalid as error:
        problem = " ".join(str(error).split())[:200]
        raise AdapterError(
            f"row {row} or one after it is no JSON object of the export ({problem})", file=file, remedy=_REMEDY
        ) from error


def _names_in(head: bytes, file: str) -> set[str]:
    """The names of all fields in the file's first rows: a row leaves out what is null."""
    lines = head.decode("utf-8-sig", "replace").split("\n")
    whole = lines[:-1] if len(head) == _HEAD_BYTES and len(lines) > 1 else lines
    names: set[str] = set()
    for number, line in enumerate(filter(str.strip, whole), 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise AdapterError(
                "the file is not one JSON object a line", file=file, row=number, remedy="Export it as JSONL."
            ) from error
        if not isinstance(row, dict):
            raise AdapterError("the file is not one JSON object a line", file=file, row=number, remedy="Export it as JSONL.")
        names |= set(_fields(row, ""))
    if not names:
        raise AdapterError("the file has no row", file=file, remedy="Have it delivered or copied again.")
    return names


def _fields(row: dict[str, object], before: str) -> Iterator[str]:
    for name, value in row.items():
        yield f"{before}{name}"
        if isinstance(value, dict):
            yield from _fields(value, f"{before}{name}.")
