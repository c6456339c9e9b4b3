"""Parquet files as batches of columns in their own types; ``RowBatch`` turns them into text.

A decimal keeps its digits and a double becomes the shortest text that means it, so no amount passes through arithmetic.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from allocation.errors import AdapterError
from billing_adapters.files import seekable
from billing_adapters.row_batches import HeaderCheck, RowBatch, Spelling, chosen_columns

_BATCH_ROWS = 1 << 16
_REMEDY = "Have it delivered or copied again; nothing was used."


def read_parquet(
    stream: BinaryIO, file: str, wanted: Sequence[str], check: HeaderCheck, spelling: Spelling, repeated: Collection[str]
) -> Iterator[RowBatch]:
    """See ``readers.read_batches``. A stream that cannot seek is first laid down on the local disk."""
    with seekable(stream) as source:
        try:
            whole = pq.ParquetFile(source)
            names = whole.schema_arrow.names
            chosen = chosen_columns(file, names, wanted, spelling)
            check(file, names)
            included = {name: names[place] for name, place in chosen.items()}
            texts = [there for name, there in included.items() if name in repeated and _is_text(whole, there)]
            encoded = pq.ParquetFile(source, metadata=whole.metadata, read_dictionary=texts)
            yield from _batches(encoded, file, included)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            problem = " ".join(str(error).split())[:200]
            raise AdapterError(f"the file is truncated or no Parquet ({problem})", file=file, remedy=_REMEDY) from error


def _is_text(whole: pq.ParquetFile, name: str) -> bool:
    kind = whole.schema_arrow.field(name).type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _batches(whole: pq.ParquetFile, file: str, included: dict[str, str]) -> Iterator[RowBatch]:
    first = 1
    for batch in whole.iter_batches(_BATCH_ROWS, columns=list(included.values())):
        if batch.num_rows:
            columns = {name: batch.column(there) for name, there in included.items()}
            yield RowBatch(file, first, batch.num_rows, columns)
            first += batch.num_rows
