"""Shards on this machine: few in this process, more in a pool of processes.

A worker is started clean, with the kernels loaded once for all, and ends when this process does, however it ends.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import chain, islice
from multiprocessing.context import BaseContext
from typing import Any

import pandas as pd

from allocation.errors import ChargebackError
from pipelines.engines.base import Result, Task
from pipelines.frugal import be_frugal

_FEW = 3
"""So many tasks take less time than starting workers."""
_PRELOADED = ["pipelines.shards"]


class LocalEngine:
    """See ``Engine``. At most ``in_flight`` tasks are being run or have results that wait to be taken."""

    def __init__(self, workers: int, in_flight: int) -> None:
        self._workers, self._in_flight = workers, in_flight
        self._pool: ProcessPoolExecutor | None = None

    def map(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results in the order of the tasks."""
        coming = iter(tasks)
        first = list(islice(coming, _FEW)) if self._workers > 1 else []
        if len(first) < _FEW:
            yield from map(work, chain(first, coming))
            return
        yield from self._in_pool(pickle.dumps(work), chain(first, coming))

    def _in_pool(self, work: bytes, tasks: Iterable[Any]) -> Iterator[Any]:
        self._pool = self._pool or ProcessPoolExecutor(self._workers, mp_context=_context(), initializer=_prepare)
        waiting: deque[Future[Any]] = deque()
        try:
            for task in tasks:
                waiting.append(self._pool.submit(_run, work, task))
                if len(waiting) >= self._in_flight:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            self._pool = None
            raise ChargebackError(
                "a worker process ended before its shard was done, most likely for lack of memory; nothing was written. "
                "Run again with fewer engine.workers, or fewer nodes_per_shard. A script that starts a run needs "
                "`if __name__ == '__main__':` around it"
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Ends the workers."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _context() -> BaseContext:
    """A clean start for workers: forked from a process that has no threads where there is such a thing, else started anew."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _prepare() -> None:
    """A worker leaves Ctrl-C to its parent, ends when that does, and keeps no memory that it does not need.

    Text of a shard's small tables stays Python's own: they are looked up more often than they are long.
    """
    be_frugal(as_worker=True)
    pd.set_option("mode.string_storage", "python")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@lru_cache(1)
def _unpacked(work: bytes) -> Callable[[Any], Any]:
    unpacked: Callable[[Any], Any] = pickle.loads(work)  # noqa: S301
    return unpacked


def _run(work: bytes, task: object) -> object:
    return _unpacked(work)(task)
