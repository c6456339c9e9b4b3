"""Rows as the CSV that PostgreSQL's COPY reads, written by Arrow: a column at a time, never a row.

Arrow quotes every text and writes null as nothing at all, which is how COPY tells an empty text from null.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

NUL = "\x00"
_OPTIONS = csv.WriteOptions(include_header=False, quoting_style="needed")


def copy_text(batch: pa.RecordBatch) -> memoryview:
    """All rows of a batch, each with its line's end."""
    sink = pa.BufferOutputStream()
    csv.write_csv(batch, sink, _OPTIONS)
    return memoryview(sink.getvalue())


def with_nul(batch: pa.RecordBatch) -> tuple[str, str] | None:
    """The first column with a text that holds a NUL character, and that text; PostgreSQL has no such texts."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type):
            found = column.filter(pc.match_substring(column, NUL))
            if len(found):
                return field.name, found[0].as_py()
    return None
