"""Arrow tables as Parquet files: whole, in row groups of one size, or in blocks sorted by time."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 1 << 14
_BLOCK_ROWS, _GROUP_ROWS = 1 << 18, 1 << 13


def parquet_of(data: pa.Table) -> pa.Buffer:
    """A table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, compression="zstd", write_statistics=True)
    return sink.getvalue()


def write_groups(path: Path, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Batches as a file of row groups of one size, wherever batches end."""
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    with pq.ParquetWriter(path, schema, compression="zstd", write_statistics=True, use_dictionary=texts) as writer:
        for group in _row_groups(batches, schema):
            writer.write_table(group, row_group_size=max(len(group), 1))
            del group


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Groups of a fixed number of rows, wherever batches end; one empty group where there is no row."""
    waiting, count, written = list[pa.RecordBatch](), 0, False
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        while count >= ROW_GROUP:
            whole = pa.Table.from_batches(waiting, schema)
            waiting, count, written = whole.slice(ROW_GROUP).to_batches(), count - ROW_GROUP, True
            whole = whole.slice(0, ROW_GROUP).combine_chunks()
            yield whole
            del whole
    if count or not written:
        yield pa.Table.from_batches(waiting, schema).combine_chunks()


def write_blocks(path: Path, batches: Iterable[pa.Table], time: str, none: pa.Table) -> None:
    """Batches of one schema as one file, in blocks that are sorted by a column of times; ``none`` where there is no batch."""
    writer: pq.ParquetWriter | None = None
    try:
        for block in _blocks(batches):
            writer = writer or pq.ParquetWriter(path, block.schema, compression="zstd")
            writer.write_table(block.sort_by(time), row_group_size=_GROUP_ROWS)
        if writer is None:
            pq.write_table(none, path)
    finally:
        if writer is not None:
            writer.close()


def _blocks(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _BLOCK_ROWS:
            yield pa.concat_tables(waiting).unify_dictionaries().combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries().combine_chunks()
