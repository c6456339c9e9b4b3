"""Series from a server that speaks Prometheus' HTTP API.

Raw samples come by range selectors on the instant-query API, never by ``query_range``, which would step them anew. A
half-open chunk ``[a, b)`` is asked for at ``b`` - 1 ms over ``b - a`` ms; where the server counts the left end in
(Prometheus 2), the sample at ``a`` - 1 ms is dropped. Here do not belong HTTP (``prometheus_http``), JSON
(``prometheus_json``) or the meaning of labels (``profiles``).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from allocation.findings import Finding
from pipelines.metric_sources.base import INVENTORY_METRICS, InfoSeries, RawSeries, RoleCount, Shard, Window
from pipelines.metric_sources.normalise import (
    EXPORTED_POD,
    InfoReducer,
    ShardBuilder,
    count_roles,
    node_groups,
    series_without_node,
)
from pipelines.metric_sources.profiles import profile_of
from pipelines.metric_sources.prometheus_http import PrometheusApi
from pipelines.metric_sources.prometheus_json import Points, read_matrix
from pipelines.metric_sources.promql import one_of, selector
from pipelines.settings import MetricsEntry

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class _NodeLabel:
    """One label that names nodes: the matchers of the series on which it does, and the names."""

    label: str
    matchers: tuple[str, ...]
    names: frozenset[str]


@dataclass(frozen=True)
class _Query:
    """One range selector over one half-open chunk of time."""

    metric: str
    selector: str
    start_ms: int
    end_ms: int


class PrometheusSource:
    """See ``MetricSource``."""

    def __init__(self, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        self._entry = entry
        self._cluster = cluster
        self._max_gap_ms = max_gap_ms
        self._profile = profile_of(entry, cluster)
        self._api = PrometheusApi(entry, cluster)
        self._node_labels = lru_cache(maxsize=4)(self._find_node_labels)
        self._exported = lru_cache(maxsize=4)(self._find_exported)

    def nodes(self, window: Window) -> Sequence[str]:
        """Names of the nodes whose devices have series in the window, sorted.

        The server answers by blocks of its index: a node whose last sample lies shortly before the window may be there.
        """
        return sorted(frozenset().union(*(label.names for label in self._node_labels(window))))

    def shards(self, window: Window, nodes: Sequence[str]) -> Iterator[Shard]:
        """The device series of these nodes, ``nodes_per_shard`` nodes at a time; one shard is in memory at a time."""
        exported, findings = self._exported(window), self._unattributed(window)
        for group in node_groups(nodes, self._entry.nodes_per_shard):
            builder = ShardBuilder(self._profile, exported)
            for metric, points in self._fetch(self._group_queries(window, group)):
                builder.add(metric, *points)
            yield builder.shard(group, findings)
            findings = []

    def inventory(self, window: Window) -> Sequence[InfoSeries]:
        """The series of kube-state-metrics in the window, reduced chunk by chunk."""
        reducer = InfoReducer(self._max_gap_ms)
        queries = [
            query for metric in INVENTORY_METRICS for query in self._chunks(metric, selector(metric, self._entry.match), window)
        ]
        for metric, points in self._fetch(queries):
            reducer.add(metric, *points)
        return reducer.result()

    def roles(self, window: Window) -> Sequence[RoleCount]:
        """How many series stand behind each role in the window, by the server's index."""
        found = self._api.series([selector(metric, self._entry.match) for metric in self._profile.metrics], window)
        return count_roles(self._profile, ((s.get("__name__", ""), s) for s in found), self._exported(window))

    def raw(self, window: Window, metrics: Sequence[str]) -> Iterator[RawSeries]:
        """All series of these metrics in the window, metric by metric and chunk by chunk."""
        queries = [query for metric in metrics for query in self._chunks(metric, selector(metric, self._entry.match), window)]
        for metric, points in self._fetch(queries):
            yield metric, *points

    def _group_queries(self, window: Window, group: Sequence[str]) -> list[_Query]:
        """All queries of a shard, those of one series in time order."""
        queries = []
        for metric in self._profile.metrics:
            for label in self._node_labels(window):
                names = [name for name in group if name in label.names]
                if names:
                    series = selector(metric, self._entry.match, *label.matchers, one_of(label.label, names))
                    queries += self._chunks(metric, series, window)
        return queries

    def _chunks(self, metric: str, series: str, window: Window) -> list[_Query]:
        starts = range(window.start_ms, window.end_ms, self._entry.chunk)
        return [_Query(metric, series, start, min(start + self._entry.chunk, window.end_ms)) for start in starts]

    def _fetch(self, queries: Iterable[_Query]) -> Iterator[tuple[str, Points]]:
        """The series of each query, in the order of the queries, with a few of them on their way at a time."""
        for query, found in _in_order(self._ask, queries, self._entry.concurrency):
            for points in found:
                yield query.metric, points

    def _ask(self, query: _Query) -> list[Points]:
        promql = f"{query.selector}[{query.end_ms - query.start_ms}ms]"
        data = self._api.query(promql, query.end_ms - 1)
        try:
            found = list(read_matrix(data))
        except ValueError as error:
            raise self._api.unreadable(error) from error
        return [_from(points, query.start_ms) for points in found]

    def _find_node_labels(self, window: Window) -> tuple[_NodeLabel, ...]:
        """The labels that name nodes: each where none of the earlier ones is there."""
        found: list[_NodeLabel] = []
        absent: tuple[str, ...] = ()
        for label in self._profile.device.node:
            selectors = self._device_selectors(*absent, f'{label}!=""')
            names = frozenset(filter(None, self._api.label_values(label, selectors, window)))
            found.append(_NodeLabel(label, absent, names))
            absent = (*absent, f'{label}=""')
        return tuple(found)

    def _find_exported(self, window: Window) -> frozenset[str]:
        """The metrics on which the server has moved the exporter's own pod label aside."""
        if self._profile.exported is None:
            return frozenset()
        selectors = self._device_selectors(f'{EXPORTED_POD}!=""')
        return frozenset(self._api.label_values("__name__", selectors, window))

    def _unattributed(self, window: Window) -> list[Finding]:
        selectors = self._device_selectors(*(f'{label}=""' for label in self._profile.device.node))
        return series_without_node(self._api.label_values("__name__", selectors, window), self._profile, self._cluster)

    def _device_selectors(self, *matchers: str) -> list[str]:
        return [selector(metric, self._entry.match, *matchers) for metric in self._profile.metrics]


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
