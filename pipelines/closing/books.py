"""Which months are closed, and which partitions with them: read from what closing and reopening wrote.

Each is one file ``closes/YYYY-MM/NNNN-close.json`` or ``NNNN-reopen.json``; the last one says how the month stands.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from allocation.errors import ChargebackError
from pipelines.months import Month
from pipelines.partition import Partition
from pipelines.storage import TableStore

FOLDER = "closes"
CLOSE, REOPEN = "close", "reopen"


@dataclass(frozen=True)
class Entry:
    """One closing or reopening of a month, as it was written."""

    month: Month
    number: int
    kind: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Books:
    """The months that are closed now, each with the entry that closed it."""

    entries: tuple[Entry, ...] = ()

    @property
    def closed(self) -> tuple[date, ...]:
        """Their first days, in order."""
        return tuple(sorted(entry.month.first for entry in self.entries))

    def is_closed(self, month: Month) -> bool:
        """Whether the month is."""
        return month.first in self.closed

    def hold(self, partition: Partition) -> bool:
        """Whether the result tables of a partition must stay as they are: its day's month is closed, or a closed month has it."""
        return self.is_closed(Month.of(partition.day)) or any(_has(entry, "partitions", partition) for entry in self.entries)

    def hold_bookings(self, partition: Partition) -> bool:
        """Whether a closed month has this partition of ``adjustments``."""
        return any(_has(entry, "bookings", partition) for entry in self.entries)

    def open_from(self, month: Month) -> Month:
        """The month, or the first after it that is open."""
        while self.is_closed(month):
            month = month.next
        return month


def _has(entry: Entry, what: str, partition: Partition) -> bool:
    return [partition.day.isoformat(), partition.cluster] in entry.content[what]


def open_books(store: TableStore) -> Books:
    """The books as they stand in the store now."""
    with store.root.reaching():
        names = store.root.names(FOLDER)
    found = [last_entry(store, Month.parse(name)) for name in names if not name.startswith(".")]
    return Books(tuple(entry for entry in found if entry and entry.kind == CLOSE))


def entries_of(store: TableStore, month: Month) -> list[str]:
    """The names of a month's entries, the first one first."""
    with store.root.reaching():
        return [name for name in store.root.names(_folder(month)) if name.endswith(".json")]


def last_entry(store: TableStore, month: Month) -> Entry | None:
    """How the month stands, None where it was never closed."""
    names = entries_of(store, month)
    return read_entry(store, month, names[-1]) if names else None


def read_entry(store: TableStore, month: Month, name: str) -> Entry:
    """One entry by its name."""
    place = f"{_folder(month)}/{name}"
    number, _, kind = name.removesuffix(".json").partition("-")
    try:
        with store.root.reaching():
            return Entry(month, int(number), kind, json.loads(store.root.read(place)))
    except ValueError as error:
        raise ChargebackError(
            f"{store.location}/{place}: is damaged, so nobody knows what is closed; restore it from a copy of the store"
        ) from error


def add_entry(store: TableStore, month: Month, kind: str, content: Mapping[str, object]) -> str:
    """Writes the next entry of a month; its place. Who calls holds the folder alone."""
    number = len(entries_of(store, month)) + 1
    place = f"{_folder(month)}/{number:04d}-{kind}.json"
    with store.root.reaching():
        store.root.make(_folder(month))
        store.root.write_whole(place, (json.dumps(content, indent=1, sort_keys=True, default=str) + "\n").encode())
    return f"{store.location.rstrip('/')}/{place}"


def _folder(month: Month) -> str:
    return f"{FOLDER}/{month}"
