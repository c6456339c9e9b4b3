"""Samples from a server in chunks of time: several at once, and as short as the server wants them.

A chunk that is refused for its size is asked for in two halves of its time; later chunks of that metric start at the length
that was answered. Here do not belong connections, or how a server words a query.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from allocation.errors import SourceUnavailableError
from pipelines.metric_sources.base import Window
from pipelines.metric_sources.prometheus_http import rfc3339
from pipelines.metric_sources.prometheus_json import Points
from pipelines.metric_sources.refusals import TooLargeError, UnreachableError, located, one_line

SHORTEST_MS = 60_000
"""A chunk up to this long is not halved: where it is refused, the run ends."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class Query:
    """The series of one selector over one half-open chunk of time."""

    metric: str
    selector: str
    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        """How much time it asks for."""
        return self.end_ms - self.start_ms

    def halves(self) -> "tuple[Query, Query]":
        """The same in two."""
        middle = self.start_ms + -(-self.length_ms // 2)
        return replace(self, end_ms=middle), replace(self, start_ms=middle)

    def in_words(self) -> str:
        """What is asked for, as it may stand in a message."""
        return f"{one_line(self.selector)} from {rfc3339(self.start_ms)} to {rfc3339(self.end_ms)}"


class Chunks:
    """Asks a server for samples; ``points`` gives those of one query, in time order for each series.

    At most ``concurrency`` chunks are being asked for or wait to be taken.
    """

    def __init__(self, length_ms: int, concurrency: int, points: Callable[[Query], list[Points]]) -> None:
        self._length_ms, self._concurrency, self._points = length_ms, concurrency, points
        self._longest: dict[str, int] = {}

    def read(self, selectors: Iterable[tuple[str, str]], window: Window) -> Iterator[tuple[str, Points]]:
        """Metric and points of the series of these metrics and selectors, chunk by chunk."""
        for query, found in _in_order(self._ask, self._queries(selectors, window), self._concurrency):
            for points in found:
                yield query.metric, points

    def longest_ms(self, metric: str) -> int:
        """How long a chunk of this metric may be, by what was seen so far."""
        return self._longest.get(metric, self._length_ms)

    def _queries(self, selectors: Iterable[tuple[str, str]], window: Window) -> Iterator[Query]:
        for metric, selector in selectors:
            start = window.start_ms
            while start < window.end_ms:
                end = min(start + self.longest_ms(metric), window.end_ms)
                yield Query(metric, selector, start, end)
                start = end

    def _ask(self, query: Query) -> list[Points]:
        found: list[Points] = []
        waiting = [query]
        while waiting:
            part = waiting.pop()
            if part.length_ms > self.longest_ms(part.metric):
                waiting += reversed(part.halves())
                continue
            try:
                found += self._points(part)
            except TooLargeError as error:
                if part.length_ms <= SHORTEST_MS:
                    raise located(error, part.in_words()) from error
                half_ms = part.halves()[0].length_ms
                self._longest[part.metric] = min(self.longest_ms(part.metric), half_ms)
                waiting.append(part)
            except UnreachableError:
                raise
            except SourceUnavailableError as error:
                raise located(error, part.in_words()) from error
        return found


def _in_order(work: Callable[[_In], _Out], items: Iterable[_In], ahead: int) -> Iterator[tuple[_In, _Out]]:
    """Each item with its result, in order; at most ``ahead`` results are being made or wait to be taken."""
    with ThreadPoolExecutor(max_workers=ahead) as pool:
        waiting: deque[tuple[_In, Future[_Out]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) >= ahead:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
