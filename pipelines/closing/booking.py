"""Corrections of closed months: the difference between what is charged and what would be charged now, into ``adjustments``.

What is charged is what the partition's files say and what was booked of it before; so each difference is booked once. Here does
not belong what makes a month closed (``books``) or how legs are made (``allocation.ledger``).
"""

from collections.abc import Mapping
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.ledger import booked_in, legs
from allocation.schemas import ADJUSTMENTS, DAILY_MART, conform
from pipelines import clock
from pipelines.alone import alone
from pipelines.closing.books import Books
from pipelines.closing.causes import REOPENED, cause_of
from pipelines.months import Month
from pipelines.partition import Partition
from pipelines.results import Booked, Results
from pipelines.storage import TableStore
from pipelines.versions import versions_of

_WAIT_SECONDS = 120.0


def book(
    store: TableStore,
    books: Books,
    results: Results,
    inputs: Mapping[str, object],
    day: date | None,
) -> Booked:
    """Books the difference between what a closed month's partition has and what it would have.

    Args:
        store: the tables.
        books: what is closed.
        results: the partition as it would be written.
        inputs: marks of what the results rest on.
        day: the booking date, None: today.
    """
    with alone(store.root, ADJUSTMENTS.name, what="booking adjustments", wait_seconds=_WAIT_SECONDS):
        closed = store.read("daily_mart", results.partition)
        then = [] if closed is None else [closed]
        found = legs([*then, *booked_before(store, results.partition)], results.daily_mart)
        partition = _free(books, Partition(day or clock.today(), results.partition.cluster))
        month = books.open_from(Month.of(partition.day)).first
        found = found.append_column("booked_period", booked_in(found["billing_period"], books.closed, month))
        why = cause_of(_then(store, results.partition), inputs)
        rows = _rows(found, results, why, None if closed is None else _run_of(closed))
        _append(store, partition, rows)
    return Booked(rows, partition.day, why, stays=True)


def take_back(store: TableStore, books: Books, results: Results, day: date | None) -> Booked | None:
    """Books the reverse of all that was booked of a partition which is open again and was written anew; None where nothing was.

    It stands in the months in which that was booked, as far as they are open.
    """
    if not booked_before(store, results.partition):
        return None
    with alone(store.root, ADJUSTMENTS.name, what="booking adjustments", wait_seconds=_WAIT_SECONDS):
        earlier = pa.concat_tables(booked_before(store, results.partition))
        partition = _free(books, Partition(day or clock.today(), results.partition.cluster))
        taken = [ADJUSTMENTS.empty()]
        for period in sorted(earlier["booked_period"].unique().to_pylist()):
            mine = earlier.filter(pc.equal(earlier["booked_period"], pa.scalar(period)))
            found = legs([mine], DAILY_MART.empty())
            month = books.open_from(Month(period)).first
            found = found.append_column("booked_period", pa.repeat(pa.scalar(month), len(found)))
            taken.append(_rows(found, results, REOPENED, results.run_id))
        rows = pa.concat_tables(taken)
        _append(store, partition, rows)
    return Booked(rows, partition.day, REOPENED, stays=False)


def booked_before(store: TableStore, partition: Partition) -> list[pa.Table]:
    """All legs that were booked of a partition."""
    booked = [p for p in store.partitions(ADJUSTMENTS.name) if p.cluster == partition.cluster]
    parts = (part for one in booked for part in store.read_parts(ADJUSTMENTS.name, one))
    mine = [part.filter(pc.equal(part["original_date"], pa.scalar(partition.day))) for part in parts]
    return [rows for rows in mine if len(rows)]


def _free(books: Books, partition: Partition) -> Partition:
    """The booking day's partition, or the first after it that no closed month has."""
    while books.hold_bookings(partition):
        partition = Partition(partition.day + timedelta(days=1), partition.cluster)
    return partition


def _rows(found: pa.Table, results: Results, why: str, closed_run: str | None) -> pa.Table:
    columns: dict[str, object] = {name: found[name] for name in found.column_names}
    columns |= {
        "original_date": pa.repeat(pa.scalar(results.partition.day), len(found)),
        "closed_run_id": pa.repeat(pa.scalar(closed_run, pa.string()), len(found)),
        "run_id": pa.repeat(results.run_id, len(found)),
        "cause": pa.repeat(why, len(found)),
    }
    return conform(pa.table({name: columns[name] for name in ADJUSTMENTS.names}), ADJUSTMENTS, source="adjustments")


def _append(store: TableStore, partition: Partition, rows: pa.Table) -> None:
    if not len(rows):
        return
    there = store.read(ADJUSTMENTS.name, partition)
    both = rows if there is None else pa.concat_tables([there, rows])
    store.write(ADJUSTMENTS.name, partition, both, {"rows": len(both), "run_ids": both["run_id"].unique().to_pylist()})


def _then(store: TableStore, partition: Partition) -> Mapping[str, object]:
    """The marks of what the partition rested on when it was last written or booked."""
    known = versions_of(store, partition)
    then: Mapping[str, object] = known[-1].told.get("inputs", {}) if known else {}
    return then


def _run_of(closed: pa.Table) -> str | None:
    return closed["run_id"][0].as_py() if len(closed) else None
