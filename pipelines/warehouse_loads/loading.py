"""The walk of a load, the same for every warehouse: what is there already is passed over, the rest replaces its partition."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from allocation.errors import ChargebackError
from allocation.schemas import Table
from pipelines.partition import Partition
from pipelines.warehouse_loads.asked import Asked, current_mark, rows_of


class Warehouse(Protocol):
    """What a kind of warehouse does. A partition is replaced whole, or stays as it was."""

    def prepare(self, table: Table) -> None:
        """Makes the table, or adds the columns that it lacks; refuses one with other columns."""
        ...

    def marks(self, table: Table) -> Mapping[Partition, str]:
        """The marks of all partitions that are loaded."""
        ...

    def replace(self, table: Table, partition: Partition, mark: str, batches: Iterator[pa.RecordBatch]) -> int:
        """Puts these rows in the place of the partition's, together with the mark; how many there were."""
        ...


@dataclass
class Loaded:
    """What a load did: partitions with their rows, and those that were passed over or are in the warehouse only."""

    loaded: list[tuple[str, Partition, int]] = field(default_factory=list)
    skipped: list[tuple[str, Partition]] = field(default_factory=list)
    left: list[tuple[str, Partition]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """All that were loaded."""
        return sum(rows for _, _, rows in self.loaded)


def load(asked: Asked, warehouse: Warehouse) -> Loaded:
    """Loads all that is asked for, table by table in order of days; what is loaded when an error comes stays."""
    stored = {table.name: asked.partitions(table) for table in asked.tables}
    if not any(stored.values()):
        raise ChargebackError(
            f"{asked.store.location}: no partition of the tables asked for is stored in these days; "
            "compute them with `gpu-chargeback run CONFIG --from DAY --until DAY`"
        )
    for table in asked.tables:
        warehouse.prepare(table)
    done = Loaded()
    for table in asked.tables:
        _load_table(asked, warehouse, table, stored[table.name], done)
    return done


def _load_table(asked: Asked, warehouse: Warehouse, table: Table, stored: list[Partition], done: Loaded) -> None:
    marks = warehouse.marks(table)
    done.left += [(table.name, partition) for partition in sorted(marks, key=str) if _is_left(asked, partition, stored)]
    for partition in stored:
        mark = current_mark(asked.store, table, partition)
        if mark is None:
            raise ChargebackError(f"{asked.store.place(table.name)}/{partition.path}: is being written just now. Load again")
        if not asked.again and marks.get(partition) == mark:
            done.skipped.append((table.name, partition))
        else:
            rows = warehouse.replace(table, partition, mark, rows_of(asked.store, table, partition, mark))
            done.loaded.append((table.name, partition, rows))


def _is_left(asked: Asked, partition: Partition, stored: list[Partition]) -> bool:
    return asked.covers(partition) and partition not in stored
