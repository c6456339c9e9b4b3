"""Months as billing periods, and the rows of marts and adjustments whose money stands in one.

Here does not belong what is made of the rows (reports, monthly marts, closing).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import SettingsError
from allocation.schemas import ADJUSTMENTS, DAILY_MART
from pipelines.partition import Partition
from pipelines.storage import TableStore

_READERS = 8
BACK = timedelta(days=400)
"""How long before a month a day can lie that a line of the month's bill still corrects."""
_MARKS = ("date", "cluster", "entry", "cause")
_KEPT = [name for name in DAILY_MART.names if name != "run_id"]


@dataclass(frozen=True, order=True)
class Month:
    """A billing period, by its first day."""

    first: date

    @classmethod
    def parse(cls, text: str) -> "Month":
        """A month written like 2026-10; anything else is refused."""
        try:
            return cls(date.fromisoformat(f"{text}-01"))
        except ValueError:
            raise SettingsError(f"{text!r} is no month; write it like 2026-10") from None

    @classmethod
    def of(cls, day: date) -> "Month":
        """The month of a day."""
        return cls(day.replace(day=1))

    @property
    def next(self) -> "Month":
        """The month after this one."""
        return Month.of(self.first + timedelta(days=31))

    @property
    def before(self) -> "Month":
        """The month before this one."""
        return Month.of(self.first - timedelta(days=1))

    @property
    def days(self) -> list[date]:
        """Its days in order."""
        return [self.first + timedelta(days=n) for n in range((self.next.first - self.first).days)]

    def __str__(self) -> str:
        return f"{self.first:%Y-%m}"


def month_rows(store: TableStore, month: Month) -> pa.Table:
    """The rows of ``daily_mart`` and ``adjustments`` that are booked in the month.

    Columns: ``date`` (the original day of an adjustment), ``cluster``, ``entry`` (``charge`` or ``adjustment``), ``cause``
    (null for a charge), and those of ``daily_mart`` but for ``run_id``. Rows stand in the order of days and clusters.
    """
    charges = [("daily_mart", p) for p in store.partitions("daily_mart") if may_hold(p, month)]
    corrections = [("adjustments", p) for p in store.partitions("adjustments") if p.day >= month.first]
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(lambda of: list(_rows(store, of[0], of[1], month)), [*charges, *corrections]))
    return pa.concat_tables([_empty(), *(table for tables in found for table in tables)])


def may_hold(partition: Partition, month: Month) -> bool:
    """Whether money of the month can stand in a partition of that day."""
    return month.first - BACK <= partition.day <= month.next.next.first


def _rows(store: TableStore, table: str, partition: Partition, month: Month) -> Iterator[pa.Table]:
    for part in store.read_parts(table, partition):
        rows = part.filter(pc.equal(part["booked_period"], pa.scalar(month.first)))
        if not len(rows):
            continue
        corrects = table == ADJUSTMENTS.name
        day = rows["original_date"] if corrects else pa.repeat(partition.day, len(rows)).cast(pa.date32())
        entry = pa.repeat("adjustment" if corrects else "charge", len(rows))
        marks = [day, pa.repeat(partition.cluster, len(rows)), entry, rows["cause"] if corrects else pa.nulls(len(rows))]
        kept = pa.table(dict(zip(_MARKS, marks, strict=True)) | {name: rows[name] for name in _KEPT})
        yield kept.cast(_empty().schema)


def _empty() -> pa.Table:
    mine = DAILY_MART.arrow()
    marks = [pa.field(name, pa.date32() if name == "date" else pa.string()) for name in _MARKS]
    return pa.schema([*marks, *(mine.field(name).remove_metadata() for name in _KEPT)]).empty_table()
