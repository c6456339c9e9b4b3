"""Pieces of series, as files and servers deliver them, gathered into shards of the table ``samples``.

Here belong the gathering of a shard and of the inventory's stretches, which all sources share. Here do not belong
protocols, or which value is true (``allocation.series``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from allocation.findings import Code, Finding, Severity
from allocation.schemas import SAMPLES
from allocation.series import LABELS, clean
from allocation.times import HOUR_MS
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


_Stretch = tuple[int, int, float]
_Labels = frozenset[tuple[str, str]]
_FLAGS = frozenset({"kube_pod_status_phase"})
"""Metrics that state with 1 what is and with 0 what is not: only what is counts."""
_MOMENTS = frozenset({"kube_node_created", "kube_pod_created", "kube_pod_container_state_started", "kube_pod_completion_time"})
"""Metrics whose value is a time: a new time is a new stretch."""
_VERSIONED = {"kube_pod_labels": "label_", "kube_pod_annotations": "annotation_", "kube_node_info": "provider_id"}
"""Metrics whose labels say what was true until others came, and how the names of those begin."""


class InfoReducer:
    """Keeps of each series of the inventory only its stretches. The pieces of a series must come in time order.

    Where several label sets of one pod or node came and went within ``max_gap``, each keeps its first and last sight of every UTC
    hour, so that which was the last in an hour stays known (R37).
    """

    def __init__(self, max_gap_ms: int) -> None:
        self._max_gap_ms = max_gap_ms
        self._stretches: dict[tuple[str, _Labels], list[_Stretch]] = {}

    def add(self, metric: str, labels: Mapping[str, str], times: Ints, values: Floats) -> None:
        """One piece of a series."""
        there = values == 1 if metric in _FLAGS else ~np.isnan(values)
        order = np.argsort(times[there], kind="stable")
        times, values = times[there][order], values[there][order]
        if not len(times):
            return
        key = metric, frozenset((name, value) for name, value in labels.items() if value and name != "__name__")
        stretches = self._stretches.setdefault(key, [])
        breaks = np.flatnonzero(self._apart(metric, times[:-1], values[:-1], times[1:], values[1:]))
        firsts, lasts = np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(times) - 1]))
        starts, ends, told = times[firsts].tolist(), times[lasts].tolist(), values[lasts].tolist()
        for first, end, value in zip(starts, ends, told, strict=True):
            start = first
            if stretches and not self._apart(metric, stretches[-1][1], stretches[-1][2], start, value):
                start = stretches.pop()[0]
            stretches.append((start, end, value))

    def _apart(self, metric: str, time: Any, value: Any, next_time: Any, next_value: Any) -> Any:  # noqa: ANN401
        """Whether the next sample begins another stretch; for one sample or for arrays."""
        apart = next_time - time > self._max_gap_ms
        if metric in _MOMENTS:
            apart |= next_value != value
        if metric in _VERSIONED:
            apart |= next_time // HOUR_MS != time // HOUR_MS
        return apart

    def result(self) -> list[InfoSeries]:
        """All stretches, in the order of metric, labels and time."""
        several = self._of_several_versions()
        ordered = sorted((metric, sorted(labels), found) for (metric, labels), found in self._stretches.items())
        told = []
        for metric, labels, found in ordered:
            one = metric in _VERSIONED and _whose(metric, labels) not in several[metric]
            told += [InfoSeries(metric, dict(labels), *stretch) for stretch in (self._joined(found) if one else found)]
        return told

    def _of_several_versions(self) -> dict[str, set[_Labels]]:
        """Pods and nodes of which a metric says several things."""
        told: dict[str, dict[_Labels, _Labels]] = {metric: {} for metric in _VERSIONED}
        several: dict[str, set[_Labels]] = {metric: set() for metric in _VERSIONED}
        for metric, labels in self._stretches:
            if metric in _VERSIONED:
                whose = _whose(metric, labels)
                what = frozenset(pair for pair in labels if pair[0].startswith(_VERSIONED[metric]))
                if told[metric].setdefault(whose, what) != what:
                    several[metric].add(whose)
        return several

    def _joined(self, stretches: list[_Stretch]) -> list[_Stretch]:
        joined = stretches[:1]
        for first, last, value in stretches[1:]:
            near = first - joined[-1][1] <= self._max_gap_ms
            joined.append((joined.pop()[0] if near else first, last, value))
        return joined


def _whose(metric: str, labels: Iterable[tuple[str, str]]) -> _Labels:
    """The pod or node that labels of kube-state-metrics are about; where a server moved its labels aside, by those."""
    names = ("node",) if metric.startswith("kube_node_") else ("namespace", "pod", "uid")
    told = dict(labels)
    return frozenset((name, told.get(f"exported_{name}") or told.get(name, "")) for name in names)


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
            key = identity.role, identity.metric
            counts[key] = counts.get(key, 0) + 1
    return [RoleCount(role, metric, count) for (role, metric), count in counts.items()]


def series_without_node(metrics: Iterable[str], profile: Profile, cluster: str) -> list[Finding]:
    """A finding for each metric that has series on which no label names the node: nothing can be charged on them."""
    labels = ", ".join(profile.device.node)
    text = f"cluster {cluster}: series carry none of the labels {labels}, so they belong to no node; add one when scraping"
    return [Finding(Code.NO_SERIES, Severity.WARNING, metric, text) for metric in sorted(metrics)]
