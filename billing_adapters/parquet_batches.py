"""Parquet files as batches of columns in their own types; ``RowBatch`` turns them into text.

A decimal keeps its digits and a double becomes the shortest text that means it, so no amount passes through arithmetic.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from allocation.errors import AdapterError
from billing_adapters.files import CHUNK_BYTES
from billing_adapters.row_batches import HeaderCheck, RowBatch, chosen_columns

_BATCH_ROWS = 1 << 17
_REPEATING_BYTES = 8
_REMEDY = "Have it delivered or copied again; nothing was used."


def read_parquet(stream: BinaryIO, file: str, wanted: Sequence[str], check: HeaderCheck) -> Iterator[RowBatch]:
    """See ``readers.read_batches``. A stream that cannot seek is first laid down on the local disk."""
    with tempfile.TemporaryFile() as spool:
        if not stream.seekable():
            shutil.copyfileobj(stream, spool, CHUNK_BYTES)
            spool.seek(0)
        try:
            place = stream if stream.seekable() else spool
            whole = pq.ParquetFile(place)
            names = whole.schema_arrow.names
            chosen = chosen_columns(file, names, wanted)
            check(file, names)
            included = [names[n] for n in chosen.values()]
            place.seek(0)
            yield from _batches(pq.ParquetFile(place, read_dictionary=_repeating(whole, included)), file, included)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            problem = " ".join(str(error).split())[:200]
            raise AdapterError(f"the file is truncated or no Parquet ({problem})", file=file, remedy=_REMEDY) from error


def _repeating(whole: pq.ParquetFile, included: list[str]) -> list[str]:
    """The text columns whose values repeat, by how few bytes the file spends on one: these are read by dictionary."""
    texts = [n for n in included if pa.types.is_string(whole.schema_arrow.field(n).type)]
    if not whole.num_row_groups:
        return texts
    group = whole.metadata.row_group(0)
    chunks = {c.path_in_schema: c for c in (group.column(i) for i in range(group.num_columns))}
    return [n for n in texts if chunks[n].total_uncompressed_size <= _REPEATING_BYTES * max(1, chunks[n].num_values)]


def _batches(whole: pq.ParquetFile, file: str, included: list[str]) -> Iterator[RowBatch]:
    first = 1
    for batch in whole.iter_batches(_BATCH_ROWS, columns=included):
        if batch.num_rows:
            columns = {name.strip().lower(): batch.column(name) for name in included}
            yield RowBatch(file, first, batch.num_rows, columns)
            first += batch.num_rows
