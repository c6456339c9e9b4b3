"""Pieces of series, as files and servers deliver them, gathered into shards of the table ``samples``.

Here belong the gathering of a shard and of the inventory's stretches, which all sources share. Here do not belong
protocols, where a row is (``placing``), or which value is true (``allocation.series``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.schemas import SAMPLES
from allocation.series import LABELS, clean
from allocation.times import HOUR_MS
from pipelines.metric_sources.base import Floats, InfoSeries, Ints, Raw, RoleCount, Shard
from pipelines.metric_sources.placing import Places
from pipelines.metric_sources.profiles import Identity, Profile
from pipelines.metric_sources.recorded import shared
from pipelines.metric_sources.replicas import RawSeries, measured_once, noticed, told_once

_Key = tuple[str, str, tuple[tuple[str, str], ...]]
_Device = tuple[str, str, str, str]


@dataclass
class _Gathered:
    """A raw series as it comes in: what it stands for, and its pieces."""

    profile: Profile
    metric: str
    labels: Mapping[str, str]
    exported: bool
    identities: list[tuple[Identity, float]]
    pieces: list[tuple[Ints, Floats]] = field(default_factory=list)

    def whole(self) -> tuple[Ints, Floats]:
        """All its samples in time order; the pieces are gone after it."""
        pieces, self.pieces = self.pieces, []
        times, values = (np.concatenate([piece[n] for piece in pieces]) for n in (0, 1))
        if np.any(times[1:] < times[:-1]):
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        return times, values


class ShardBuilder:
    """Gathers the series of a group of nodes from all sources, in pieces of any order.

    ``max_hold_ms`` is how far apart replicas may tell the same change.
    """

    def __init__(self, places: Places, nodes: Sequence[str], max_hold_ms: int) -> None:
        self._places = places
        self._nodes = tuple(nodes)
        self._group = frozenset(nodes)
        self._max_hold_ms = max_hold_ms
        self._series: dict[_Key, _Gathered] = {}
        self._nameless: dict[str, set[str]] = {}

    def add(self, profile: Profile, piece: Raw, *, exported: bool) -> None:
        """One piece of a series, its values in the exporter's unit; a series of another node is left out."""
        metric, labels, times, values = piece
        if not len(times):
            return
        key = profile.name, metric, tuple(sorted(labels.items()))
        series = self._series.get(key)
        if series is None:
            labels = shared(labels)
            identities = [one for one in self._identify(profile, metric, labels, exported=exported) if one[0].node in self._group]
            series = _Gathered(profile, metric, labels, exported, identities)
            self._series[profile.name, metric, tuple(sorted(labels.items()))] = series
        if series.identities:
            series.pieces.append((times, values))

    def shard(self, findings: Iterable[Finding] = ()) -> Shard:
        """The shard of these nodes; the builder is empty after it."""
        rows = told_once(list(self._rows()))
        told = [*self._unknown_pods(), *noticed(rows, self._max_hold_ms)]
        rows = measured_once(rows)
        if not rows:
            return Shard(self._nodes, SAMPLES.empty(), (*findings, *told))
        kinds = {column.name: column.type for column in SAMPLES.columns}
        columns = zip(*(row.identity for row in rows), strict=True)
        labels = pa.table({name: pa.array(column, kinds[name]) for name, column in zip(LABELS, columns, strict=True)})
        lengths = np.array([len(row.times) for row in rows], np.int64)
        times, values = np.concatenate([row.times for row in rows]), np.concatenate([row.values for row in rows])
        rows.clear()
        samples, dropped = clean(labels, lengths, times, values)
        return Shard(self._nodes, samples, (*findings, *told, *dropped))

    def _identify(
        self, profile: Profile, metric: str, labels: Mapping[str, str], *, exported: bool
    ) -> Iterator[tuple[Identity, float]]:
        for identity, unit in self._places.identify(profile, metric, labels, exported=exported):
            if identity.pod_uid and not identity.pod:
                self._nameless.setdefault(metric, set()).add(identity.pod_uid)
            else:
                yield identity, unit

    def _rows(self) -> Iterator[RawSeries]:
        """The series in bytes, one row an identity; the builder is empty after it."""
        gathered, self._series = [one for one in self._series.values() if one.pieces], {}
        samples = [one.whole() for one in gathered]
        factors = _factors(gathered, samples)
        for one, (times, values) in zip(gathered, samples, strict=True):
            for identity, unit in one.identities:
                factor = unit * factors.get((one.profile.name, *identity[4:7]), 1.0)
                told = values if factor == 1.0 else values * factor
                yield RawSeries(identity, one.profile, one.metric, one.labels, one.exported, times, told)

    def _unknown_pods(self) -> Iterator[Finding]:
        """A finding for each metric whose rows name pods by uids that nobody knows a pod by: they are left out."""
        for metric, uids in sorted(self._nameless.items()):
            text = f"{len(uids)} pods are named by uid alone and no kube_pod_info has that uid, for example {min(uids)}; left out"
            yield Finding(Code.NO_SERIES, Severity.WARNING, metric, text, count=len(uids))


def _factors(gathered: Sequence[_Gathered], samples: Sequence[tuple[Ints, Floats]]) -> dict[_Device, float]:
    """For each device whose exporter may state another unit than it says: the factor that its total tells."""
    totals: dict[_Device, tuple[Profile, float]] = {}
    for one, (_, values) in zip(gathered, samples, strict=True):
        for identity, unit in one.identities if one.profile.decimal_totals_mib else ():
            if identity.role == "total" and np.isfinite(values).any():
                device = (one.profile.name, *identity[4:7])
                largest = float(np.max(values[np.isfinite(values)])) * unit
                totals[device] = one.profile, max(largest, totals[device][1] if device in totals else 0.0)
    return {device: profile.scale(total) for device, (profile, total) in totals.items()}


_Stretch = tuple[int, int, float]
_Labels = frozenset[tuple[str, str]]
_FLAGS = frozenset({"kube_pod_status_phase"})
"""Metrics that state with 1 what is and with 0 what is not: only what is counts."""
_MOMENTS = frozenset({"kube_node_created", "kube_pod_created", "kube_pod_container_state_started", "kube_pod_completion_time"})
"""Metrics whose value is a time: a new time is a new stretch."""
_VERSIONED = {
    "kube_pod_labels": "label_",
    "kube_pod_annotations": "annotation_",
    "kube_namespace_labels": "label_",
    "kube_node_info": "provider_id",
}
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


def count_roles(profile: Profile, series: Iterable[tuple[str, Mapping[str, str], bool]], places: Places) -> list[RoleCount]:
    """How many of these series (metric, labels, whether moved aside) stand behind each role; one without any is there with 0.

    A series that belongs to no node is not counted.
    """
    counts = {(rule.role, rule.metric): 0 for rule in profile.rules}
    for metric, labels, exported in series:
        for identity, _ in places.identify(profile, metric, labels, exported=exported):
            if identity.node:
                key = identity.role, metric
                counts[key] = counts.get(key, 0) + 1
    return [RoleCount(role, metric, count) for (role, metric), count in counts.items()]
