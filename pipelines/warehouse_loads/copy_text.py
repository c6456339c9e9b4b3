"""Rows as the text that PostgreSQL's COPY reads, made by Arrow: a column at a time, never a row."""

import pyarrow as pa
import pyarrow.compute as pc

_ESCAPED = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""A backslash first: the others bring theirs."""
_NULL = "\\N"
NUL = "\x00"


def copy_text(batch: pa.RecordBatch) -> memoryview:
    """All rows of a batch, each with its line's end."""
    columns = [_texts(column) for column in batch.columns]
    lines = pc.binary_join_element_wise(*columns, pa.scalar("\t", pa.large_string()))
    ended = pc.binary_join_element_wise(lines, pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string()))
    return _content(ended)


def with_nul(batch: pa.RecordBatch) -> tuple[str, str] | None:
    """The first column with a text that holds a NUL character, and that text; PostgreSQL has no such texts."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_string(field.type):
            found = column.filter(pc.match_substring(column, NUL))
            if len(found):
                return field.name, found[0].as_py()
    return None


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        texts = column.cast(pa.large_string())
        for plain, escaped in _ESCAPED:
            texts = pc.replace_substring(texts, plain, escaped)
    else:
        texts = column.cast(pa.large_string())
    return pc.fill_null(texts, _NULL)


def _content(lines: pa.LargeStringArray) -> memoryview:
    """The bytes of all texts, one behind the other as the array holds them."""
    length = pc.sum(pc.binary_length(lines)).as_py() or 0
    return memoryview(lines.buffers()[2])[:length] if length else memoryview(b"")
