"""Compiled code before it is needed: said where a command has to wait for it, made ahead by ``gpu-chargeback warm``.

Here belongs the telling and the counting. What is walked so that everything is compiled stands in ``warm_scenes``; how and
where compiled code is kept is ``allocation.compiled``'s.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from numba.core.event import Event, Listener, install_listener

from allocation import compiled

Tell = Callable[[str], None]


class Compiles(Listener):
    """Counts the functions that are compiled, and tells before the first; what is read from disk is none."""

    def __init__(self, tell: Tell) -> None:
        self.tell, self.count = tell, 0

    def on_start(self, event: Event) -> None:  # noqa: ARG002
        """A function is about to be compiled."""
        self.count += 1
        if self.count == 1:
            self.tell(_waiting())

    def on_end(self, event: Event) -> None:
        """It is."""


@dataclass(frozen=True)
class Warmed:
    """How many functions were compiled (0: all were there), and how many seconds it took to see to it."""

    count: int
    seconds: float


@contextmanager
def told(tell: Tell) -> Iterator[Compiles]:
    """While inside: one line before the first compile, which takes minutes; none where compiled code is on disk."""
    with install_listener("numba:compile", Compiles(tell)) as seen:
        yield seen


def warm(tell: Tell) -> Warmed:
    """Compiles all that a run may need, by a walk over a small made-up day; told as in ``told``."""
    from pipelines.warm_scenes import walk_all  # noqa: PLC0415 - a run that only tells needs nothing of it

    start = time.perf_counter()
    with told(tell) as seen, tempfile.TemporaryDirectory() as folder:
        walk_all(Path(folder))
    return Warmed(seen.count, time.perf_counter() - start)


def _waiting() -> str:
    place = compiled.cache_place()
    if place is None:
        return "compiling, which takes a few minutes; it is not kept, as no folder can be written: set NUMBA_CACHE_DIR to one"
    return f"compiling, once for this version and kind of machine, which takes a few minutes; kept in {place}"
