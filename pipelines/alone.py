"""Doing something that no other process may do at the same time, on a disk or in an object store.

A disk's lock is taken back by the system when its holder ends. In an object store each one lays down a claim and looks for
others: of two that come together at most one goes on. A claim that is older than an hour belongs to nobody any more.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import PurePosixPath
from uuid import uuid4

from allocation.errors import ChargebackError
from pipelines.asides import locked
from pipelines.places import Place

_CLAIM = ".claim-"
_STALE = timedelta(hours=1)
_PAUSE_SECONDS = 0.2


class TakenError(ChargebackError):
    """Another process does it right now."""


@contextmanager
def alone(place: Place, folder: str, *, what: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Holds a folder for as long as the block runs.

    Raises:
        TakenError: another process held it for all of the time that could be waited.
    """
    place.make(folder)
    until = time.monotonic() + wait_seconds
    while (held := _take(place, folder)) is None:
        if time.monotonic() >= until:
            raise TakenError(
                f"{place.location}/{folder}: {what} is under way in another process; wait for its end, then try again"
            )
        time.sleep(_PAUSE_SECONDS * (0.5 + random.random()))  # noqa: S311 - so that two do not meet for ever
    try:
        yield
    finally:
        held.let_go()


class _Claim:
    def __init__(self, place: Place, path: str) -> None:
        self._place, self._path = place, path

    def let_go(self) -> None:
        self._place.forget(self._path)


class _Lock:
    def __init__(self, lock: object) -> None:
        self._lock = lock

    def let_go(self) -> None:
        self._lock.close()  # type: ignore[attr-defined]


def _take(place: Place, folder: str) -> _Claim | _Lock | None:
    if place.is_disk:
        lock = locked(place.on_disk(folder), ".lock")
        return None if lock is None else _Lock(lock)
    mine = f"{_CLAIM}{uuid4().hex}"
    place.write(f"{folder}/{mine}", b"")
    others = [path for path, age in place.ages(folder) if _is_claim(path) and not path.endswith(mine) and age < _STALE]
    if others:
        place.forget(f"{folder}/{mine}")
        return None
    return _Claim(place, f"{folder}/{mine}")


def _is_claim(path: str) -> bool:
    return PurePosixPath(path).name.startswith(_CLAIM)
