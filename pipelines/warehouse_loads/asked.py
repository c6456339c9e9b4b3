"""What is asked to be loaded, and its rows in the columns of a warehouse. Here does not belong any kind of warehouse."""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from allocation.errors import ChargebackError, SchemaError, SettingsError, nearest
from allocation.schemas import PUBLIC, Column, Table
from pipelines.partition import Commit, Partition
from pipelines.storage import TableStore
from pipelines.warehouse.ddl import READABLE
from pipelines.warehouse.words import PARTITION


@dataclass(frozen=True)
class Asked:
    """Tables of a store, and the days of them: all stored ones where ``days`` is None. ``again``: whatever is loaded already."""

    store: TableStore
    tables: Sequence[Table]
    days: Collection[date] | None = None
    again: bool = False

    def covers(self, partition: Partition) -> bool:
        """Whether a partition's day is asked for."""
        return self.days is None or partition.day in self.days

    def partitions(self, table: Table) -> list[Partition]:
        """The stored ones, in order."""
        return [partition for partition in self.store.partitions(table.name) if self.covers(partition)]


def tables_of(names: Sequence[str]) -> list[Table]:
    """The named tables, each once; without names all that users read."""
    for name in names:
        if name not in READABLE:
            raise SettingsError(f"--table {name!r} is no table for warehouses; {nearest(name, READABLE)}")
    return [READABLE[name] for name in dict.fromkeys(names)] or list(PUBLIC)


def columns_of(table: Table) -> tuple[Column, ...]:
    """The columns in a warehouse: day and cluster first, so that new columns of the table stand at the end."""
    return (*PARTITION, *table.columns)


def arrow_of(table: Table) -> pa.Schema:
    """The same as an Arrow schema."""
    return pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns_of(table)])


def mark_of(commit: Commit) -> str:
    """What a partition's rows are told by: a hash over the hashes of its files."""
    parts = {name: digest for name, digest in commit.files.items() if name.startswith("part-")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def current_mark(store: TableStore, table: Table, partition: Partition) -> str | None:
    """The mark of what is stored now, or None where nothing is."""
    commit = store.commit(table.name, partition)
    return None if commit is None else mark_of(commit)


def rows_of(store: TableStore, table: Table, partition: Partition, mark: str) -> Iterator[pa.RecordBatch]:
    """A partition's rows as the warehouse has them, with few in memory.

    Raises:
        ChargebackError: the partition was written again meanwhile, so that these may be rows of both.
    """
    schema = arrow_of(table)
    place = f"{store.place(table.name)}/{partition.path}"
    for batch in store.batches(table.name, partition):
        yield _fitted(batch, table, partition, schema, place)
    if current_mark(store, table, partition) != mark:
        raise ChargebackError(f"{place}: was written while it was being loaded; nothing of it was loaded. Load again")


def _fitted(batch: pa.RecordBatch, table: Table, partition: Partition, schema: pa.Schema, place: str) -> pa.RecordBatch:
    unknown = [name for name in batch.schema.names if name not in table.names]
    lost = [column.name for column in table.columns if not column.nullable and column.name not in batch.schema.names]
    if unknown or lost:
        said = "; ".join(
            f"{what} {', '.join(names)}" for what, names in (("unknown columns", unknown), ("no columns", lost)) if names
        )
        raise SchemaError(
            f"{place}: has {said}. Another version wrote it; load with that one, or run the day again with this one"
        )
    days = pa.repeat(pa.scalar(partition.day, pa.date32()), len(batch))
    clusters = pa.repeat(pa.scalar(partition.cluster, pa.string()), len(batch))
    held = (_column(batch, column) for column in table.columns)
    return pa.RecordBatch.from_arrays([days, clusters, *held], schema=schema)


def _column(batch: pa.RecordBatch, column: Column) -> pa.Array:
    """A column that came with a later version is null in older files."""
    if column.name not in batch.schema.names:
        return pa.nulls(len(batch), column.type)
    return batch.column(column.name).cast(column.type)
