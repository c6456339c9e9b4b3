"""Series from a file of OpenMetrics text with timestamps.

The file is read once, on first use; what no role and no inventory needs is forgotten at once. Here do not belong the
grammar (``openmetrics_text``) or the meaning of labels (``profiles``).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from allocation.errors import SeriesError, SettingsError
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
from pipelines.metric_sources.openmetrics_text import parse
from pipelines.metric_sources.profiles import profile_of
from pipelines.settings import MetricsEntry


@dataclass(frozen=True)
class _Series:
    """One series of the file; ``node`` is empty where it is no device's."""

    metric: str
    labels: dict[str, str]
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    node: str

    def inside(self, window: Window) -> NDArray[np.bool_]:
        return (self.times >= window.start_ms) & (self.times < window.end_ms)


class OpenMetricsSource:
    """See ``MetricSource``."""

    def __init__(self, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        if entry.path is None:
            raise SettingsError(f"clusters.{cluster}.metrics: kind openmetrics needs `path`")
        self._path = entry.path
        self._match = entry.match
        self._cluster = cluster
        self._max_gap_ms = max_gap_ms
        self._nodes_per_shard = entry.nodes_per_shard
        self._profile = profile_of(entry, cluster)

    def nodes(self, window: Window) -> Sequence[str]:
        """Names of the nodes whose devices have samples in the window, sorted."""
        return sorted({series.node for series in self._file if series.node and series.inside(window).any()})

    def shards(self, window: Window, nodes: Sequence[str]) -> Iterator[Shard]:
        """The device series of these nodes, ``nodes_per_shard`` nodes at a time."""
        findings = self._unattributed(window)
        for group in node_groups(nodes, self._nodes_per_shard):
            builder = ShardBuilder(self._profile, self._exported)
            for series in self._file:
                if series.node and series.node in group:
                    inside = series.inside(window)
                    builder.add(series.metric, series.labels, series.times[inside], series.values[inside])
            yield builder.shard(group, findings)
            findings = []

    def inventory(self, window: Window) -> Sequence[InfoSeries]:
        """The series of kube-state-metrics in the window, reduced."""
        reducer = InfoReducer(self._max_gap_ms)
        for series in self._file:
            if series.metric in INVENTORY_METRICS:
                inside = series.inside(window)
                reducer.add(series.metric, series.labels, series.times[inside], series.values[inside])
        return reducer.result()

    def roles(self, window: Window) -> Sequence[RoleCount]:
        """How many series stand behind each role in the window."""
        there = [(series.metric, series.labels) for series in self._file if series.inside(window).any()]
        return count_roles(self._profile, there, self._exported)

    def raw(self, window: Window, metrics: Sequence[str]) -> Iterator[RawSeries]:
        """All series of these metrics in the window; the file is read again for them."""
        for series in self._read({*metrics}):
            inside = series.inside(window)
            yield series.metric, series.labels, series.times[inside], series.values[inside]

    def _unattributed(self, window: Window) -> list[Finding]:
        metrics = {
            series.metric
            for series in self._file
            if series.metric in self._profile.metrics
            and not any(map(series.labels.get, self._profile.device.node))
            and series.inside(window).any()
        }
        return series_without_node(metrics, self._profile, self._cluster)

    @cached_property
    def _exported(self) -> frozenset[str]:
        return frozenset(series.metric for series in self._file if EXPORTED_POD in series.labels)

    @cached_property
    def _file(self) -> list[_Series]:
        return self._read({*self._profile.metrics, *INVENTORY_METRICS})

    def _read(self, wanted: Collection[str]) -> list[_Series]:
        try:
            data = self._path.read_bytes()
        except OSError as error:
            setting = f"clusters.{self._cluster}.metrics.path"
            problem = f"cannot be read ({error.strerror}); {setting} must name an OpenMetrics file"
            raise SeriesError(problem, file=str(self._path)) from error
        text = parse(data, str(self._path))
        ends = np.searchsorted(text.series, np.arange(len(text.metrics)), side="right")
        kept = []
        for number, (metric, labels) in enumerate(zip(text.metrics, text.labels, strict=True)):
            if metric in wanted and all(labels.get(name, "") == value for name, value in self._match.items()):
                samples = slice(ends[number - 1] if number else 0, ends[number])
                times, values = text.times[samples].copy(), text.values[samples].copy()
                kept.append(_Series(metric, labels, times, values, self._node(metric, labels)))
        return kept

    def _node(self, metric: str, labels: dict[str, str]) -> str:
        named = self._profile.identify(metric, labels, exported=False)
        return named[0][0].node if named else ""
