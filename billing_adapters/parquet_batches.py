"""Parquet files as batches of columns in their own types; ``RowBatch`` turns them into text.

A decimal keeps its digits and a double becomes the shortest text that means it, so no amount passes through arithmetic.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from allocation.errors import AdapterError
from billing_adapters.files import seekable
from billing_adapters.record_columns import column_at, leaf_names
from billing_adapters.row_batches import HeaderCheck, RowBatch, Spelling, chosen_columns

_BATCH_ROWS = 1 << 18
_REPEATING_BYTES = 8
_SMALL_GROUP_ROWS = 1 << 14
_REMEDY = "Have it delivered or copied again; nothing was used."


def read_parquet(
    stream: BinaryIO, file: str, wanted: Sequence[str], check: HeaderCheck, spelling: Spelling
) -> Iterator[RowBatch]:
    """See ``readers.read_batches``. A stream that cannot seek is first laid down on the local disk."""
    with seekable(stream) as source:
        try:
            whole = pq.ParquetFile(source)
            names = leaf_names(whole.schema_arrow)
            chosen = chosen_columns(file, names, wanted, spelling)
            check(file, names)
            included = {name: names[place] for name, place in chosen.items()}
            repeating, groups = _grouped(whole, _repeating(whole, list(included.values())))
            encoded = pq.ParquetFile(source, metadata=whole.metadata, read_dictionary=repeating)
            yield from _batches(encoded, file, included, groups)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            problem = " ".join(str(error).split())[:200]
            raise AdapterError(f"the file is truncated or no Parquet ({problem})", file=file, remedy=_REMEDY) from error


def _grouped(whole: pq.ParquetFile, repeating: list[str]) -> tuple[list[str], list[list[int] | None]]:
    """What to read by dictionary, and the row groups to read at once (None: all).

    Arrow cannot put together a record whose fields have another dictionary in each row group, so these are read one by one.
    Where they are small, batches that span them, with no dictionaries in records, are faster.
    """
    count = whole.num_row_groups
    flat = [path for path in repeating if "." not in path]
    if len(flat) == len(repeating) or count < 2:
        return repeating, [None]
    if whole.metadata.num_rows < _SMALL_GROUP_ROWS * count:
        return flat, [None]
    return repeating, [[number] for number in range(count)]


def _repeating(whole: pq.ParquetFile, included: list[str]) -> list[str]:
    """The paths of text columns whose values repeat, by how few bytes the file spends on one: these are read by dictionary."""
    leaves = [whole.schema.column(i) for i in range(len(whole.schema))]
    texts = {leaf.path for leaf in leaves if leaf.logical_type.type == "STRING" and _is_within(leaf.path, included)}
    if not whole.num_row_groups:
        return sorted(texts)
    group = whole.metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema in texts and chunk.total_uncompressed_size <= _REPEATING_BYTES * max(1, chunk.num_values)
    ]


def _is_within(path: str, included: Iterable[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in included)


def _batches(
    whole: pq.ParquetFile, file: str, included: dict[str, str], groups: Sequence[list[int] | None]
) -> Iterator[RowBatch]:
    first = 1
    for group in groups:
        for batch in whole.iter_batches(_BATCH_ROWS, row_groups=group, columns=list(included.values())):
            if batch.num_rows:
                columns = {name: column_at(batch, there) for name, there in included.items()}
                yield RowBatch(file, first, batch.num_rows, columns)
                first += batch.num_rows
