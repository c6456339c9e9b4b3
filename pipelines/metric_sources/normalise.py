"""Pieces of series, as files and servers deliver them, gathered into shards of the table ``samples``.

Here belong the gathering of a shard and of the inventory's stretches, which all sources share. Here do not belong
protocols, or which value is true (``allocation.series``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from allocation.findings import Code, Finding, Severity
from allocation.schemas import SAMPLES
from allocation.series import LABELS, clean
from pipelines.metric_sources.base import InfoSeries, RoleCount, Shard
from pipelines.metric_sources.profiles import Identity, Profile

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

EXPORTED_POD = "exported_pod"
"""Where a row of a metric has this label, the metric's plain labels name the exporter."""


class ShardBuilder:
    """Gathers the pieces of a group of nodes, in any order; fastest where a series' pieces come in time order."""

    def __init__(self, profile: Profile, exported: frozenset[str]) -> None:
        self._profile = profile
        self._exported = exported
        self._pieces: dict[Identity, list[tuple[Ints, Floats]]] = {}

    def add(self, metric: str, labels: Mapping[str, str], times: Ints, values: Floats) -> None:
        """One piece of a series, its values in the exporter's unit."""
        if not len(times):
            return
        for identity, unit in self._profile.identify(metric, labels, exported=metric in self._exported):
            self._pieces.setdefault(identity, []).append((times, values if unit == 1.0 else values * unit))

    def shard(self, nodes: Sequence[str], findings: Iterable[Finding] = ()) -> Shard:
        """The shard of these nodes; the builder is empty after it."""
        pieces, self._pieces = self._pieces, {}
        if not pieces:
            return Shard(tuple(nodes), SAMPLES.empty(), tuple(findings))
        kinds = {column.name: column.type for column in SAMPLES.columns}
        columns = zip(*pieces, strict=True)
        labels = pa.table({name: pa.array(column, kinds[name]) for name, column in zip(LABELS, columns, strict=True)})
        lengths = np.array([sum(len(times) for times, _ in parts) for parts in pieces.values()], np.int64)
        times = np.concatenate([times for parts in pieces.values() for times, _ in parts])
        values = np.concatenate([values for parts in pieces.values() for _, values in parts])
        pieces.clear()
        samples, noticed = clean(labels, lengths, times, values)
        return Shard(tuple(nodes), samples, (*findings, *noticed))


class InfoReducer:
    """Keeps of each series of the inventory only its stretches. The pieces of a series must come in time order."""

    def __init__(self, max_gap_ms: int) -> None:
        self._max_gap_ms = max_gap_ms
        self._stretches: dict[tuple[str, frozenset[tuple[str, str]]], list[tuple[int, int, float]]] = {}

    def add(self, metric: str, labels: Mapping[str, str], times: Ints, values: Floats) -> None:
        """One piece of a series."""
        there = ~np.isnan(values)
        order = np.argsort(times[there], kind="stable")
        times, values = times[there][order], values[there][order]
        if not len(times):
            return
        key = metric, frozenset((name, value) for name, value in labels.items() if value and name != "__name__")
        stretches = self._stretches.setdefault(key, [])
        breaks = np.flatnonzero(np.diff(times) > self._max_gap_ms)
        firsts, lasts = np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(times) - 1]))
        for first, last in zip(firsts, lasts, strict=True):
            start, end, value = int(times[first]), int(times[last]), float(values[last])
            if stretches and start - stretches[-1][1] <= self._max_gap_ms:
                start = stretches.pop()[0]
            stretches.append((start, end, value))

    def result(self) -> list[InfoSeries]:
        """All stretches, in the order of metric, labels and time."""
        ordered = sorted((metric, sorted(labels), found) for (metric, labels), found in self._stretches.items())
        return [InfoSeries(metric, dict(labels), *stretch) for metric, labels, found in ordered for stretch in found]


def node_groups(nodes: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """The nodes in name order, each once, in groups of that size."""
    names = sorted(set(nodes))
    for first in range(0, len(names), size):
        yield tuple(names[first : first + size])


def count_roles(profile: Profile, series: Iterable[tuple[str, Mapping[str, str]]], exported: frozenset[str]) -> list[RoleCount]:
    """How many of these series stand behind each role; a role of the profile that has none is there with 0."""
    counts = {(rule.role, rule.metric): 0 for rule in profile.rules}
    for metric, labels in series:
        for identity, _ in profile.identify(metric, labels, exported=metric in exported):
            if identity.node:
                counts[identity.role, metric] = counts.get((identity.role, metric), 0) + 1
    return [RoleCount(role, metric, count) for (role, metric), count in counts.items()]


def series_without_node(metrics: Iterable[str], profile: Profile, cluster: str) -> list[Finding]:
    """A finding for each metric that has series on which no label names the node: nothing can be charged on them."""
    labels = ", ".join(profile.device.node)
    text = f"cluster {cluster}: series carry none of the labels {labels}, so they belong to no node; add one when scraping"
    return [Finding(Code.NO_SERIES, Severity.WARNING, metric, text) for metric in sorted(metrics)]
