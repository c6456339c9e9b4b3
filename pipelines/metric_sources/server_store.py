"""A store of series behind an API like Prometheus': its index, and its samples chunk by chunk.

Here belongs what servers have in common. Here do not belong HTTP (``server_http``), how samples are asked for (``prometheus``,
``victoriametrics``) or the meaning of labels (``profiles``).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from allocation.findings import Finding
from pipelines.metric_sources.base import Raw, Wanted, Window
from pipelines.metric_sources.chunks import Chunks, Query
from pipelines.metric_sources.prometheus_http import PrometheusApi
from pipelines.metric_sources.prometheus_json import Points
from pipelines.metric_sources.promql import one_of, selector
from pipelines.metric_sources.recorded import shared
from pipelines.metrics_entries import MetricsEntry


class ServerStore(ABC):
    """See ``SeriesStore``. What is asked for in advance stays bounded: a few chunks of a few series."""

    def __init__(self, entry: MetricsEntry, cluster: str) -> None:
        self._match = entry.match
        self.api = PrometheusApi(entry, cluster)
        self._chunks = Chunks(entry.chunk, entry.concurrency, self.points)

    @abstractmethod
    def points(self, query: Query) -> list[Points]:
        """The samples of one query, those of each series in time order, none of them outside its time."""

    def notices(self) -> Sequence[Finding]:
        """Nothing: what is wrong with an answer is an error."""
        return ()

    def reach(self) -> str:
        """Empty: a server is not asked for all of its past."""
        return ""

    def names(self, window: Window) -> Sequence[str]:
        """The names of all metrics with series near the window, sorted: the server answers by blocks of its index."""
        selectors = [selector("", self._match)] if self._match else []
        return sorted(self.api.label_values("__name__", selectors, window))

    def label_names(self, metrics: Sequence[str], window: Window) -> Mapping[str, frozenset[str]]:
        """For each of the metrics, the labels that have a value on one of its series."""
        return {m: frozenset(self.api.label_names([selector(m, self._match)], window)) - {"__name__"} for m in metrics}

    def values(self, label: str, wanted: Sequence[Wanted], window: Window) -> Sequence[str]:
        """The values of a label on these series."""
        if not wanted:
            return []
        return [v for v in self.api.label_values(label, [self._selector(w) for w in wanted], window) if v]

    def label_sets(self, wanted: Sequence[Wanted], window: Window) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Metric and labels of these series, metric by metric."""
        for one in wanted:
            for labels in self.api.series([self._selector(one)], window):
                yield one.metric, shared(labels)

    def read(self, wanted: Sequence[Wanted], window: Window) -> Iterator[Raw]:
        """These series, chunk by chunk."""
        selectors = ((one.metric, self._selector(one)) for one in wanted)
        for metric, (labels, times, values) in self._chunks.read(selectors, window):
            yield metric, labels, times, values

    def _selector(self, wanted: Wanted) -> str:
        absent = (f'{label}=""' for label in wanted.absent)
        present = (f'{label}!=""' for label in wanted.present)
        among = (one_of(label, sorted(values)) for label, values in wanted.among)
        return selector(wanted.metric, self._match, *absent, *present, *among)


def inside(points: Points, query: Query) -> Points:
    """The points in the query's time: a server may count the ends of a time differently."""
    labels, times, values = points
    if len(times) and (times[0] < query.start_ms or times[-1] >= query.end_ms):
        kept = (times >= query.start_ms) & (times < query.end_ms)
        return labels, times[kept], values[kept]
    return points
