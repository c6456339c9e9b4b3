"""How a piece of work, its tasks and their results travel between machines: as pickles in files below the store's location.

A task that is run twice, at once or again, writes the same result twice; nobody reads a part of one. Here does not belong who
runs tasks (``spark``).
"""

import pickle
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import uuid4

from allocation.errors import ChargebackError, SettingsError
from pipelines.asides import Aside
from pipelines.places import Place

_FOLDER, _WORK = ".work", "work"


@dataclass(frozen=True)
class Desk:
    """A working folder as a worker knows it. ``key``: of its place; can be sent to another process."""

    key: tuple[str, str | None, str | None]
    folder: str

    def run(self, number: int) -> bytes:
        """Runs one task and writes its result. What is returned is empty, or the pickle of the error that ended it."""
        try:
            place, work = _opened(self)
            with place.reaching():
                task = pickle.loads(place.read(_task(self.folder, number)))  # noqa: S301
            result = pickle.dumps(work(task), pickle.HIGHEST_PROTOCOL)
            with place.reaching():
                place.write_whole(_result(self.folder, number), result)
        except ChargebackError as error:
            return pickle.dumps(error)
        return b""


class WorkFolder:
    """A working folder as its owner knows it, removed by ``close``.

    On disk, what a killed run left is removed by the next one; in an object store, where nobody knows whether its owner lives,
    it stays.
    """

    def __init__(self, place: Place, work: Callable[[Any], Any]) -> None:
        key = uuid4().hex
        self._place = place
        with place.reaching():
            self._aside = Aside(place, _FOLDER, "shared" if place.is_disk else key, key)
            self.desk = Desk(place.key, self._aside.folder)
            place.write_whole(f"{self._aside.folder}/{_WORK}", pickle.dumps(work, pickle.HIGHEST_PROTOCOL))

    def put(self, number: int, task: object) -> None:
        """Lays a task down."""
        with self._place.reaching():
            self._place.write_whole(_task(self._aside.folder, number), pickle.dumps(task, pickle.HIGHEST_PROTOCOL))

    def take(self, number: int) -> object:
        """The result of a task that was run; its files go."""
        with self._place.reaching():
            result = self._place.read(_result(self._aside.folder, number))
            for path in (_task(self._aside.folder, number), _result(self._aside.folder, number)):
                self._place.forget(path)
        return pickle.loads(result)  # noqa: S301

    def close(self) -> None:
        """Removes it with all that is in it."""
        with self._place.reaching():
            self._aside.let_go()


@lru_cache(1)
def _opened(desk: Desk) -> tuple[Place, Callable[[Any], Any]]:
    """The place, and the work, which is the same for all tasks."""
    place = Place(*desk.key)
    with place.reaching():
        if not place.there(f"{desk.folder}/{_WORK}"):
            raise SettingsError(
                f"output {place.location} is not the same folder on {platform.node()}, where a shard was to be run, as where the "
                "run was started; a cluster needs an object store or a disk that all its machines share"
            )
        return place, pickle.loads(place.read(f"{desk.folder}/{_WORK}"))  # noqa: S301


def _task(folder: str, number: int) -> str:
    return f"{folder}/{number:06d}.task"


def _result(folder: str, number: int) -> str:
    return f"{folder}/{number:06d}.result"
