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

_BATCH_ROWS = 1 << 16
_REMEDY = "Have it delivered or copied again; nothing was used."


def read_parquet(stream: BinaryIO, file: str, wanted: Sequence[str], check: HeaderCheck) -> Iterator[RowBatch]:
    """See ``readers.read_batches``. A stream that cannot seek is first laid down on the local disk."""
    with tempfile.TemporaryFile() as spool:
        if not stream.seekable():
            shutil.copyfileobj(stream, spool, CHUNK_BYTES)
            spool.seek(0)
        try:
            whole = pq.ParquetFile(stream if stream.seekable() else spool)
            names = whole.schema_arrow.names
            chosen = chosen_columns(file, names, wanted)
            check(file, names)
            yield from _batches(whole, file, [names[place] for place in chosen.values()])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            problem = " ".join(str(error).split())[:200]
            raise AdapterError(f"the file is truncated or no Parquet ({problem})", file=file, remedy=_REMEDY) from error


def _batches(whole: pq.ParquetFile, file: str, included: list[str]) -> Iterator[RowBatch]:
    first = 1
    for batch in whole.iter_batches(_BATCH_ROWS, columns=included):
        if batch.num_rows:
            columns = {name.strip().lower(): batch.column(name) for name in included}
            yield RowBatch(file, first, batch.num_rows, columns)
            first += batch.num_rows
