"""What stands out among the raw series of a shard: replicas, clocks that disagree, two exporters on one device.

All of them are read; these findings say what was made of them (R4, R25). Single values do not belong here
(``allocation.series``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from allocation.findings import Code, Finding, Severity
from allocation.times import from_ms
from pipelines.metric_sources.base import Floats, Ints
from pipelines.metric_sources.profiles import PROFILES, Identity, Profile

REPLICA_LABELS = frozenset(
    [
        "prometheus_replica",
        "prometheus",
        "replica",
        "__replica__",
        "receive_replica",
        "ha_replica",
        "instance",
        "job",
        "endpoint",
        "service",
        "__name__",
    ]
)
"""Labels by which a server tells its replicas and targets apart: they say nothing of device or holder."""

_SLOTS = frozenset({"vgpu"})
"""Labels that number the slots of a device that pods share."""
_FEWEST_CHANGES = 3
_Device = tuple[str, str, str]
_Exporter = tuple[int, int]


class RawSeries(NamedTuple):
    """One series as it was read, under one of its identities; times ascend."""

    identity: Identity
    profile: Profile
    metric: str
    labels: Mapping[str, str]
    exported: bool
    times: Ints
    values: Floats

    @property
    def device(self) -> _Device:
        """Node, GPU and instance."""
        return self.identity.node, self.identity.gpu_uuid, self.identity.gpu_instance


def told_once(rows: Sequence[RawSeries]) -> list[RawSeries]:
    """The series of devices without the copies that an exporter writes for each holder or slot of the device.

    Rows of one metric with one meaning that differ only in holder or slot repeat one value: what they say alike counts once.
    Where they differ at one time both values stay, for ``allocation.series`` to choose from and to count.
    """
    alike: dict[tuple[Identity, str, frozenset[tuple[str, str]]], list[RawSeries]] = {}
    for row in rows:
        key = row.identity, row.metric, frozenset(row.labels.items())
        if row.identity.level == "device":
            names = _holder_names(row) | _SLOTS
            key = row.identity, row.metric, frozenset(pair for pair in row.labels.items() if pair[0] not in names)
        alike.setdefault(key, []).append(row)
    return [copies[0] if len(copies) == 1 else _merged(copies, dict(key[2])) for key, copies in alike.items()]


def _merged(copies: Sequence[RawSeries], labels: Mapping[str, str]) -> RawSeries:
    times, values = (np.concatenate([getattr(row, name) for row in copies]) for name in ("times", "values"))
    order = np.lexsort((values, times))
    times, values = times[order], values[order]
    new = np.ones(len(times), np.bool_)
    new[1:] = (times[1:] != times[:-1]) | (values[1:] != values[:-1])
    return copies[0]._replace(labels=labels, times=times[new], values=values[new])


def _holder_names(row: RawSeries) -> set[str]:
    """The labels that name a holder; where a server moved the exporter's own aside, the plain ones name the exporter."""
    names = row.profile.exported if row.exported and row.profile.exported else row.profile.holder
    return {*names.namespace, *names.pod, *names.pod_uid, *names.container}


def noticed(rows: Sequence[RawSeries], max_hold_ms: int) -> Iterator[Finding]:
    """All findings about these series, one a device and code."""
    pairs = _replicas(rows)
    devices: dict[_Device, list[tuple[RawSeries, RawSeries]]] = {}
    for pair in pairs:
        devices.setdefault(pair[0].device, []).append(pair)
    for device, found in sorted(devices.items(), key=lambda item: item[0]):
        yield _duplicates(device, found)
        yield from _skewed(device, found, max_hold_ms)
    yield from _two_exporters(rows)


def measured_once(rows: Sequence[RawSeries]) -> list[RawSeries]:
    """The series without a second measurement of the same containers, which would be added to the first.

    Where two exporters measure containers on one device, the one that stands earlier in ``PROFILES`` counts as long as it is
    there, and the samples of the other before and after. Of two that the configuration names, the entry that stands first.
    """
    number = _exporters(rows)
    spans: dict[_Device, dict[_Exporter, list[RawSeries]]] = {}
    for row, exporter in zip(rows, number, strict=True):
        if (row.identity.role, row.identity.level) == ("pod_memory", "container"):
            spans.setdefault(row.device, {}).setdefault(exporter, []).append(row)
    chosen = {device: (min(by), by) for device, by in spans.items() if len(by) > 1}
    kept = []
    for row, exporter in zip(rows, number, strict=True):
        first_of, by = chosen.get(row.device, (exporter, {}))
        if exporter != first_of and (row.identity.role, row.identity.level) == ("pod_memory", "container"):
            first, last = _span(by[first_of])
            outside = (row.times < first) | (row.times > last)
            row = row._replace(times=row.times[outside], values=row.values[outside])  # noqa: PLW2901
        if len(row.times):
            kept.append(row)
    return kept


def _exporters(rows: Iterable[RawSeries]) -> list[_Exporter]:
    """Which exporter each row is of, in order of preference: the place in ``PROFILES``, then that among equal names.

    Two entries with ``profile: custom`` are two exporters unless they name the same series and labels.
    """
    names = list(PROFILES)
    known: list[Profile] = []
    places: dict[int, _Exporter] = {}
    told = []
    for row in rows:
        if id(row.profile) not in places:
            if row.profile not in known:
                known.append(row.profile)
            place = names.index(row.profile.name) if row.profile.name in names else len(names)
            places[id(row.profile)] = place, known.index(row.profile)
        told.append(places[id(row.profile)])
    return told


def _replicas(rows: Sequence[RawSeries]) -> Iterator[tuple[RawSeries, RawSeries]]:
    """Series that differ only in labels of replicas and overlap in time, each with the first that it overlaps."""
    of_identity: dict[tuple[Identity, str], list[RawSeries]] = {}
    for row in rows:
        of_identity.setdefault((row.identity, row.metric), []).append(row)
    for same in of_identity.values():
        alike: dict[frozenset[tuple[str, str]], list[RawSeries]] = {}
        for row in same if len(same) > 1 else ():
            alike.setdefault(_own_labels(row), []).append(row)
        for copies in alike.values():
            yield from _overlapping(sorted(copies, key=lambda row: int(row.times[0])))


def _own_labels(row: RawSeries) -> frozenset[tuple[str, str]]:
    holder = row.profile.holder
    moved = (*holder.namespace, *holder.pod, *holder.pod_uid, *holder.container) if row.exported else ()
    return frozenset((name, value) for name, value in row.labels.items() if name not in REPLICA_LABELS and name not in moved)


def _overlapping(copies: Sequence[RawSeries]) -> Iterator[tuple[RawSeries, RawSeries]]:
    longest = copies[0]
    for row in copies[1:]:
        if row.times[0] <= longest.times[-1]:
            yield longest, row
        if row.times[-1] > longest.times[-1]:
            longest = row


def _duplicates(device: _Device, pairs: Sequence[tuple[RawSeries, RawSeries]]) -> Finding:
    labels = {name for one, other in pairs for name, _ in one.labels.items() ^ other.labels.items()}
    evidence = (
        f"{len(pairs)} series are copies of others that differ only in {', '.join(sorted(labels)) or 'nothing'}, at the same "
        "time; copies count as one series"
    )
    return Finding(
        Code.HA_DUPLICATES, Severity.INFO, _subject(device), evidence, _period(r for p in pairs for r in p), len(pairs)
    )


def _skewed(device: _Device, pairs: Sequence[tuple[RawSeries, RawSeries]], max_hold_ms: int) -> Iterator[Finding]:
    late = [(lag, pair) for pair in pairs if (lag := lag_ms(*pair)) is not None and lag > max(max_hold_ms, _scrape_ms(pair))]
    if late:
        lag = max(lag for lag, _ in late)
        evidence = (
            f"replicas tell the same changes of value {lag / 1000:g} s apart (median); max_hold is {max_hold_ms / 1000:g} s"
        )
        period = _period(row for _, pair in late for row in pair)
        yield Finding(Code.SKEWED_CLOCKS, Severity.WARNING, _subject(device), evidence, period, len(late))


def lag_ms(one: RawSeries, other: RawSeries) -> float | None:
    """How far apart two copies tell the same change of value, in the median; None where they share too few changes.

    Each change of the one is compared with the nearest change of the other to the very same value.
    """
    (at, to), (others_at, others_to) = _changes(one), _changes(other)
    if min(len(at), len(others_at)) < _FEWEST_CHANGES:
        return None
    code = np.unique(np.concatenate((to, others_to)), return_inverse=True)[1].astype(np.int64)
    start, span = min(at.min(), others_at.min()), int(max(at.max(), others_at.max()) - min(at.min(), others_at.min())) + 1
    key, others = (code[: len(to)] * (3 * span) + at - start), np.sort(code[len(to) :] * (3 * span) + others_at - start)
    after = np.searchsorted(others, key)
    gaps = np.stack([np.abs(others[np.clip(after + step, 0, len(others) - 1)] - key) for step in (-1, 0)]).min(axis=0)
    shared = gaps < span
    return float(np.median(gaps[shared])) if shared.sum() >= _FEWEST_CHANGES else None


def _changes(row: RawSeries) -> tuple[Ints, Floats]:
    """When the value changed, and to what."""
    place = np.flatnonzero(np.diff(row.values) != 0) + 1
    return row.times[place], row.values[place]


def _scrape_ms(pair: Iterable[RawSeries]) -> float:
    return max(float(np.median(np.diff(row.times))) if len(row.times) > 1 else 0.0 for row in pair)


def _two_exporters(rows: Sequence[RawSeries]) -> Iterator[Finding]:
    """Devices of which two exporters of one level tell the same role at one time."""
    told: dict[tuple[_Device, str, str], dict[tuple[_Exporter, str], list[RawSeries]]] = {}
    for row, exporter in zip(rows, _exporters(rows), strict=True):
        identity = row.identity
        if identity.role != "declared":
            by = told.setdefault((row.device, identity.role, identity.level), {})
            by.setdefault((exporter, identity.metric), []).append(row)
    found: dict[_Device, list[tuple[str, tuple[datetime, datetime]]]] = {}
    for (device, role, _), by in told.items():
        if len({exporter for exporter, _ in by}) > 1:
            for ((_, one), ours), ((_, other), theirs) in pairwise(sorted(by.items(), key=lambda item: item[0])):
                (first, last), (start, end) = _span(ours), _span(theirs)
                if max(first, start) <= min(last, end):
                    period = from_ms(max(first, start)), from_ms(min(last, end) + 1)
                    found.setdefault(device, []).append((f"{role} by {one} and {other}", period))
    for device, both in sorted(found.items()):
        evidence = (
            f"told by two exporters at one time: {'; '.join(sorted(w for w, _ in both))}; of values of the device the larger "
            "stands, of containers' memory that of the exporter named first"
        )
        period = min(p[0] for _, p in both), max(p[1] for _, p in both)
        yield Finding(Code.TWO_EXPORTERS, Severity.WARNING, _subject(device), evidence, period, len(both))


def _span(rows: Iterable[RawSeries]) -> tuple[int, int]:
    ends = [(int(row.times[0]), int(row.times[-1])) for row in rows]
    return min(first for first, _ in ends), max(last for _, last in ends)


def _period(rows: Iterable[RawSeries]) -> tuple[datetime, datetime]:
    first, last = _span(rows)
    return from_ms(first), from_ms(last + 1)


def _subject(device: _Device) -> str:
    return "/".join(part for part in device if part)
