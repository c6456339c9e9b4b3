"""What a closed month is: every file with its hash, every sum, and what the figures rest on.

Here does not belong whether a month may be closed (``ready``).
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import ADJUSTMENTS, BILL_CLUSTER, MONTHLY_MART, SCHEMA_VERSION
from allocation.summed import summed
from pipelines.months import Month, month_rows
from pipelines.partition import COMMIT, Partition
from pipelines.results import RESULT_TABLES
from pipelines.storage import TableStore
from pipelines.version import VERSION

_HASHERS = 4


def partitions_of(store: TableStore, month: Month, rows: pa.Table) -> tuple[list[Partition], list[Partition]]:
    """The partitions of the result tables, and those of ``adjustments``, that a month's closing holds.

    Those of its days, and any other in which money of it stands.

    Args:
        store: the tables.
        month: the month.
        rows: what is booked in it (``month_rows``).
    """
    own = {p for name in RESULT_TABLES for p in store.partitions(name) if Month.of(p.day) == month}
    charges = rows.filter(pc.equal(rows["entry"], "charge")).group_by(["date", "cluster"]).aggregate([])
    own |= {Partition(row["date"], row["cluster"]) for row in charges.to_pylist()}
    booked = {p for p in store.partitions(ADJUSTMENTS.name) if p.day >= month.first and _books(store, p, month)}
    return sorted(own, key=_order), sorted(booked, key=_order)


def _books(store: TableStore, partition: Partition, month: Month) -> bool:
    periods = (part["booked_period"] for part in store.read_parts(ADJUSTMENTS.name, partition))
    return any(pc.any(pc.equal(period, pa.scalar(month.first))).as_py() for period in periods)


def _order(partition: Partition) -> tuple[str, str]:
    return partition.day.isoformat(), partition.cluster


def manifest(store: TableStore, month: Month, at: datetime, by: str) -> dict[str, object]:
    """The month as it stands in the store."""
    rows = month_rows(store, month)
    own, booked = partitions_of(store, month, rows)
    held = [(name, p) for p in own for name in RESULT_TABLES] + [(ADJUSTMENTS.name, p) for p in booked]
    held += [(MONTHLY_MART.name, p) for p in store.partitions(MONTHLY_MART.name) if p.day == month.first]
    return {
        "month": str(month),
        "at": at.isoformat(),
        "by": by,
        "version": VERSION,
        "schema_version": SCHEMA_VERSION,
        "partitions": _keys(own),
        "bookings": _keys(booked),
        "totals": totals(rows),
        "tables": _tables(store, held),
        "files": hashed(store, _paths(store, held)),
        "rests_on": {str(p): _rests_on(store, p) for p in own},
    }


def _keys(partitions: Iterable[Partition]) -> list[list[str]]:
    return [[p.day.isoformat(), p.cluster] for p in partitions]


def totals(rows: pa.Table) -> list[dict[str, str]]:
    """What is booked in a month, exactly, by entry, cost metric and currency."""
    keys = ["entry", "cost_metric", "currency"]
    sums = summed(rows, keys, ["cost"], in_order=True)
    return [row | {"cost": f"{row['cost']:f}"} for row in sums.to_pylist()]


def _tables(store: TableStore, held: Sequence[tuple[str, Partition]]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name, partition in held:
        commit = store.commit(name, partition)
        if commit is not None:
            told = {key: commit.detail.get(key) for key in ("rows", "run_id")}
            found.append({"table": name, "date": partition.day.isoformat(), "cluster": partition.cluster, **told})
    return found


def _paths(store: TableStore, held: Sequence[tuple[str, Partition]]) -> list[str]:
    return [path for name, partition in held for path in files_of(store, name, partition)]


def files_of(store: TableStore, table: str, partition: Partition) -> list[str]:
    """All files of a partition, its marker among them, below the store; none where it is not whole."""
    if store.commit(table, partition) is None:
        return []
    folder = f"{table}/{partition.path}"
    with store.root.reaching():
        return [f"{folder}/{name}" for name in store.root.names(folder) if name.endswith(".parquet") or name == COMMIT]


def hashed(store: TableStore, paths: Sequence[str]) -> list[dict[str, object]]:
    """Path, SHA-256 and size of files, several read at once."""
    with store.root.reaching(), ThreadPoolExecutor(_HASHERS) as pool:
        found = pool.map(store.root.digest, paths)
        return [{"path": p, "sha256": digest, "bytes": size} for p, (digest, size) in zip(paths, found, strict=True)]


def _rests_on(store: TableStore, partition: Partition) -> dict[str, object]:
    """Fingerprints of bill deliveries and metric queries, and the marks of policy, owners and code."""
    commit = store.commit("chargeback", partition)
    samples = None if partition.cluster == BILL_CLUSTER else store.commit("samples", partition)
    told = {} if commit is None else {key: commit.detail.get(key) for key in ("run_id", "deliveries", "inputs")}
    return told | {"metric_queries": samples.detail.get("fingerprint") if samples else None}
