"""What a partition's figures were, run by run: each different one is kept as its mart, with what it rested on.

A version is a Parquet file under ``versions/date=.../cluster=.../``, named by when it was written, how, and by which run. The
clock stands here and in no result table. Here does not belong what is closed or why figures changed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import clock
from pipelines.parquet_files import parquet_of
from pipelines.partition import Partition
from pipelines.storage import TableStore

PUBLISHED, BOOKED = "published", "booked"
_STAMP = "%Y%m%dT%H%M%S.%fZ"
_TOLD = b"version"
_TABLE, _LINES = "versions", "lines-"


@dataclass(frozen=True)
class Version:
    """One version of a partition: when it was written, by which run, and how."""

    store: TableStore
    partition: Partition
    name: str

    @property
    def at(self) -> datetime:
        """When it was written, in UTC."""
        return datetime.strptime(self.name.split("-")[0], _STAMP).replace(tzinfo=UTC)

    @property
    def kind(self) -> str:
        """``published`` or ``booked``."""
        return self.name.split("-")[1]

    @property
    def run_id(self) -> str:
        """The run that computed it."""
        return self.name.split("-")[2].removesuffix(".parquet")

    @cached_property
    def mart(self) -> pa.Table:
        """Its figures: rows of ``daily_mart``."""
        place = self.store.root
        with place.reaching():
            return pq.read_table(BytesIO(place.read(f"{_folder(self.partition)}/{self.name}")))

    @property
    def told(self) -> Mapping[str, Any]:
        """What it rested on (``inputs``), and what else was said of it."""
        told: Mapping[str, Any] = json.loads((self.mart.schema.metadata or {}).get(_TOLD, b"{}"))
        return told


def versions_of(store: TableStore, partition: Partition) -> list[Version]:
    """A partition's versions, the oldest first."""
    with store.root.reaching():
        names = store.root.names(_folder(partition))
    return [Version(store, partition, name) for name in names if name.endswith(".parquet") and not name.startswith(_LINES)]


def partitions_of(store: TableStore) -> list[Partition]:
    """All partitions that have versions."""
    with store.root.reaching():
        days = store.root.names(_TABLE)
        found = [(day, cluster) for day in days for cluster in store.root.names(f"{_TABLE}/{day}")]
    return [
        Partition(date.fromisoformat(day.removeprefix("date=")), unquote(cluster.removeprefix("cluster=")))
        for day, cluster in found
    ]


def lines_booked(store: TableStore, partition: Partition) -> pa.Table | None:
    """Rows of ``reconciliation`` as of the last version, where that was booked; None where the table itself has them."""
    known = versions_of(store, partition)
    if not known or known[-1].kind != BOOKED:
        return None
    with store.root.reaching():
        return pq.read_table(BytesIO(store.root.read(f"{_folder(partition)}/{_LINES}{known[-1].name}")))


def record(
    store: TableStore,
    partition: Partition,
    run_id: str,
    kind: str,
    mart: pa.Table,
    told: Mapping[str, object],
    lines: pa.Table | None = None,
) -> None:
    """Keeps a version, unless the last one has the same figures and rested on the same.

    ``lines``: the rows of ``reconciliation``, where no table of the partition gets them.
    """
    known = versions_of(store, partition)
    if known and (kind == BOOKED or known[-1].kind == kind) and _same(known[-1], mart, told):
        return
    text = json.dumps(told, sort_keys=True, default=str).encode()
    kept = mart.replace_schema_metadata({**(mart.schema.metadata or {}), _TOLD: text})
    name = f"{clock.now().strftime(_STAMP)}-{kind}-{run_id}.parquet"
    with store.root.reaching():
        store.root.make(_folder(partition))
        if lines is not None:
            store.root.write_whole(f"{_folder(partition)}/{_LINES}{name}", parquet_of(lines))
        store.root.write_whole(f"{_folder(partition)}/{name}", parquet_of(kept))


def _same(last: Version, mart: pa.Table, told: Mapping[str, object]) -> bool:
    figures = [name for name in mart.column_names if name != "run_id"]
    return last.told.get("inputs") == told.get("inputs") and bool(last.mart.select(figures).equals(mart.select(figures)))


def _folder(partition: Partition) -> str:
    return f"{_TABLE}/{partition.path}"
