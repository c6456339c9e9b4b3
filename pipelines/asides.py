"""Folders in which files are made before they become a partition, and who may write in them.

On disk a folder is held by a lock that the system takes back when its holder ends, however it ends: what a killed run left is
found free, and used again or removed. An object store has no such lock and needs none: what is made there is named by content.
"""

from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

from pipelines.places import Place

_LOCK = "lock"


class Aside:
    """A folder ``.aside-KEY-DAY-CLUSTER`` beside a table's partitions, held by this process until ``let_go``.

    Where another process holds it, one beside it is taken instead.
    """

    def __init__(self, place: Place, table: str, partition: str, key: str) -> None:
        self._place = place
        self._lock: IO[bytes] | None = None
        self.folder = ""
        number = 0
        while not self.folder:
            self._take(f"{table}/.aside-{key}.{number}-{quote(partition, safe='')}")
            number += 1
        sweep(place, table, partition, self.folder)

    def _take(self, folder: str) -> None:
        self._place.make(folder)
        if self._place.is_disk:
            self._lock = locked(self._place.on_disk(folder))
        if self._lock or not self._place.is_disk:
            self.folder = folder

    def let_go(self, *, keep: bool = False) -> None:
        """Ends the holding; what is in the folder goes, unless it is kept for a later run."""
        if not keep:
            self._place.drop(self.folder)
        if self._lock:
            self._lock.close()
            self._lock = None


def sweep(place: Place, table: str, partition: str, kept: str = "") -> None:
    """Removes what ended runs left of a partition, under any key; ``kept``: a folder that stays."""
    for name in place.names(table):
        folder = f"{table}/{name}"
        if not name.startswith(".aside-") or folder == kept or _partition_of(name) != partition:
            continue
        lock = locked(place.on_disk(folder)) if place.is_disk else None
        if lock or not place.is_disk:
            place.drop(folder)
        if lock:
            lock.close()


def _partition_of(name: str) -> str:
    return unquote(name.removeprefix(".aside-").partition("-")[2])


def locked(folder: Path, name: str = _LOCK) -> IO[bytes] | None:
    """The folder's lock, or None where another process holds it or the folder went away."""
    try:
        lock = (folder / name).open("ab")
    except FileNotFoundError:
        return None
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    except OSError:  # a disk that knows no locks
        return lock
    if (folder / name).exists():
        return lock
    lock.close()
    return None
