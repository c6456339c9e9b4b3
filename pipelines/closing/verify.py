"""Proof that a closed month's files are those that were closed, byte by byte, and that nothing was put beside them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.closing.books import Entry
from pipelines.closing.manifest import files_of, hashed, partitions_of, totals
from pipelines.months import month_rows
from pipelines.results import RESULT_TABLES
from pipelines.storage import TableStore


@dataclass(frozen=True)
class Verified:
    """What was looked at, and each thing that is not as it was closed."""

    month: str
    files: int
    size_bytes: int
    faults: tuple[str, ...]


def verify(store: TableStore, entry: Entry) -> Verified:
    """The files of a closed month against the entry that closed it."""
    listed = {str(file["path"]): file for file in entry.content["files"]}
    there = _there(store, list(listed))
    found = {str(file["path"]): file for file in hashed(store, there)}
    faults = [*_changed(listed, found), *_beside(store, entry, set(listed))]
    if not faults:
        faults += _sums(store, entry)
    return Verified(str(entry.month), len(found), sum(int(str(f["bytes"])) for f in found.values()), tuple(faults))


def _there(store: TableStore, paths: Sequence[str]) -> list[str]:
    with store.root.reaching():
        return [path for path in paths if store.root.there(path)]


def _changed(listed: dict[str, dict[str, object]], found: dict[str, dict[str, object]]) -> Iterator[str]:
    for path, file in listed.items():
        if path not in found:
            yield f"{path} is gone"
        elif found[path] != file:
            yield f"{path} is another file than was closed ({found[path]['bytes']} bytes, then {file['bytes']})"


def _beside(store: TableStore, entry: Entry, listed: set[str]) -> Iterator[str]:
    """Files of the month that nobody closed."""
    own, _ = partitions_of(store, entry.month, month_rows(store, entry.month))
    for partition in own:
        for name in RESULT_TABLES:
            for path in files_of(store, name, partition):
                if path not in listed:
                    yield f"{path} was put there after the month was closed"


def _sums(store: TableStore, entry: Entry) -> Iterator[str]:
    now = totals(month_rows(store, entry.month))
    if now != entry.content["totals"]:
        yield f"the month's total is {now} and was {entry.content['totals']} when it was closed"
