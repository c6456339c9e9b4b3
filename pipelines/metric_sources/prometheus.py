"""Series from a server that speaks Prometheus' HTTP API.

Raw samples come by range selectors on the instant-query API, never by ``query_range``, which would step them anew. A
half-open chunk ``[a, b)`` is asked for at ``b`` - 1 ms over ``b - a`` ms; where the server counts the left end in
(Prometheus 2), the sample at ``a`` - 1 ms is dropped. Here do not belong HTTP (``prometheus_http``), JSON
(``prometheus_json``) or the meaning of labels (``profiles``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from allocation.findings import Finding
from pipelines.metric_sources.base import Raw, Wanted, Window
from pipelines.metric_sources.prometheus_http import PrometheusApi
from pipelines.metric_sources.prometheus_json import Points, read_matrix
from pipelines.metric_sources.promql import one_of, selector
from pipelines.metric_sources.recorded import shared
from pipelines.metric_sources.source import ProfiledSource
from pipelines.settings import MetricsEntry

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class _Query:
    """One range selector over one half-open chunk of time."""

    metric: str
    selector: str
    start_ms: int
    end_ms: int


class PrometheusStore:
    """See ``SeriesStore``. What is asked for in advance stays bounded: a few chunks of a few series."""

    def __init__(self, entry: MetricsEntry, cluster: str) -> None:
        self._entry = entry
        self._api = PrometheusApi(entry, cluster)

    def notices(self) -> Sequence[Finding]:
        """Nothing: what is wrong with an answer is an error."""
        return ()

    def reach(self) -> str:
        """Empty: a server is not asked for all of its past."""
        return ""

    def names(self, window: Window) -> Sequence[str]:
        """The names of all metrics with series near the window, sorted: the server answers by blocks of its index."""
        selectors = [selector("", self._entry.match)] if self._entry.match else []
        return sorted(self._api.label_values("__name__", selectors, window))

    def label_names(self, metrics: Sequence[str], window: Window) -> Mapping[str, frozenset[str]]:
        """For each of the metrics, the labels that have a value on one of its series."""
        return {m: frozenset(self._api.label_names([selector(m, self._entry.match)], window)) - {"__name__"} for m in metrics}

    def values(self, label: str, wanted: Sequence[Wanted], window: Window) -> Sequence[str]:
        """The values of a label on these series."""
        if not wanted:
            return []
        return [v for v in self._api.label_values(label, [self._selector(w) for w in wanted], window) if v]

    def label_sets(self, wanted: Sequence[Wanted], window: Window) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Metric and labels of these series, metric by metric."""
        for one in wanted:
            for labels in self._api.series([self._selector(one)], window):
                yield one.metric, shared(labels)

    def read(self, wanted: Sequence[Wanted], window: Window) -> Iterator[Raw]:
        """These series, chunk by chunk."""
        for query, found in _in_order(self._ask, self._chunks(wanted, window), self._entry.concurrency):
            for labels, times, values in found:
                yield query.metric, labels, times, values

    def _chunks(self, wanted: Iterable[Wanted], window: Window) -> Iterator[_Query]:
        for one in wanted:
            for start in range(window.start_ms, window.end_ms, self._entry.chunk):
                yield _Query(one.metric, self._selector(one), start, min(start + self._entry.chunk, window.end_ms))

    def _selector(self, wanted: Wanted) -> str:
        absent = (f'{label}=""' for label in wanted.absent)
        present = (f'{label}!=""' for label in wanted.present)
        among = (one_of(label, sorted(values)) for label, values in wanted.among)
        return selector(wanted.metric, self._entry.match, *absent, *present, *among)

    def _ask(self, query: _Query) -> list[Points]:
        promql = f"{query.selector}[{query.end_ms - query.start_ms}ms]"
        data = self._api.query(promql, query.end_ms - 1)
        try:
            found = list(read_matrix(data))
        except ValueError as error:
            raise self._api.unreadable(error) from error
        return [_from(points, query.start_ms) for points in found]


class PrometheusSource(ProfiledSource):
    """See ``MetricSource``."""

    def __init__(self, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        super().__init__(PrometheusStore(entry, cluster), entry, cluster, max_gap_ms)


def _from(points: Points, start_ms: int) -> Points:
    """The points without those before the chunk, which stand in the chunk before."""
    labels, times, values = points
    if len(times) and times[0] < start_ms:
        inside = times >= start_ms
        return labels, times[inside], values[inside]
    return points


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
