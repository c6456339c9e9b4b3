"""Findings about pods: labels that were lost, reservations that nobody stands behind, and what contradicts the inventory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation import instant
from allocation.compiled import read_only
from allocation.figures import above_limit
from allocation.findings import Code, Finding
from allocation.lives import POD_KEY, names_reservation
from allocation.pieces import first_at
from allocation.ranks import distinct, places_in
from allocation.stretches import times_within
from allocation.view import View, gib

Int64 = npt.NDArray[np.int64]


def notice_pods(view: View) -> list[Finding]:
    """All findings about pods."""
    return [
        *_lost(view), *_reservations(view), *_more_devices(view), *_without_request(view), *_skewed(view), *_outside_life(view),
        *_on_partitioned(view),
    ]  # fmt: skip


def _texts(values: "pd.Series[Any]", word: Callable[[Any], str]) -> "pd.Series[str]":
    """Each value in words; a column of text even where it has no rows."""
    return pd.Series([word(value) for value in values], index=values.index, dtype="object")


def _seconds(ms: "pd.Series[int]") -> "pd.Series[str]":
    return _texts(ms / 1000, "{:g} s".format)


def _within(view: View, rows: pd.DataFrame) -> Int64:
    """How much of each row's ``[start_ms, end_ms)`` lies in its machine's frames."""
    return np.asarray(times_within(view.windows, read_only(rows[["machine", "start_ms", "end_ms"]].to_numpy(np.int64))))


def _lost(view: View) -> list[Finding]:
    lost = view.held.lost
    if lost.empty:
        return []
    lost = lost.assign(machine=lost.device.map(view.devices.machine))
    lost = lost.assign(ms=_within(view, lost)).groupby(["namespace", "pod", "machine", "device"], as_index=False).ms.sum()
    lost = lost[lost.ms > 0]
    evidence = "no series named it for " + _seconds(lost.ms) + " while " + _texts(lost.device, view.device_name)
    return view.of_pods(Code.LABELS_LOST, lost, evidence + " could be held by no other; basis `inferred`")


def _reservations(view: View) -> list[Finding]:
    reserves = names_reservation(view.holders.namespace, view.holders.pod) | view.holders.is_reservation.eq(True)
    if not reserves.any():
        return []
    rows = view.pods[reserves.to_numpy()[view.pods.holder]].groupby(["holder", "device"], as_index=False)
    rows = rows.agg({"covered": "max", "machine": "first"})
    rows = rows[rows.covered > view.policy.max_hold_ms].join(view.holders[["namespace", "pod"]], on="holder")
    evidence = "holds " + _texts(rows.device, view.device_name) + " for " + _seconds(rows.covered)
    evidence += " and nothing tells the workloads behind it. Let kube-state-metrics show labels and annotations of pods"
    return view.of_pods(Code.RESERVATION_UNRESOLVED, rows, evidence)


def _more_devices(view: View) -> list[Finding]:
    """Not for shared replicas or claims, of which a pod may ask several on one device."""
    pods, holders = view.pods, view.holders
    pods = pods[~view.devices.partitioned.to_numpy()[pods.device]]
    counted = (
        ~holders.gpu_resource.fillna("").str.endswith("_shared") & ~holders.has_claim.eq(True) & ~holders.is_reservation.eq(True)
    )
    limit = holders.requested_gpus.where(counted & (holders.requested_gpus > 0))
    whose = pods.holder.to_numpy(np.int64)
    most = np.bincount(whose[distinct(whose, pods.device.to_numpy(np.int64))[1]], minlength=len(holders))
    pods = pods[(most > limit).to_numpy()[whose]]
    if pods.empty:
        return []
    most_asked = np.ceil(limit).fillna(len(view.devices)).to_numpy(np.int64)
    events, limits, machine = map(read_only, (_device_events(view, pods), most_asked, holders.machine.to_numpy(np.int64)))
    found = above_limit(events, limits, machine, len(view.devices), view.windows)
    rows = holders.assign(ms=found[:, 0], most=found[:, 1], limit=limit)
    rows = rows[rows.ms > view.policy.max_hold_ms]
    evidence = "holds up to " + _texts(rows.most, str) + " devices at once for " + _seconds(rows.ms)
    return view.of_pods(Code.POD_ON_MORE_DEVICES, rows, evidence + " and asked for " + _texts(rows.limit, "{:g}".format))


def _device_events(view: View, pods: pd.DataFrame) -> Int64:
    """When each of the pods' series begins and ends to hold a device: holder, time, device, +1 or -1."""
    stretches = view.stretches
    count = np.diff(stretches.offsets)[pods.index]
    index = np.concatenate([np.arange(stretches.offsets[s], stretches.offsets[s + 1]) for s in pods.index])
    who, device = (np.repeat(pods[c].to_numpy(np.int64), count) for c in ("holder", "device"))
    one = np.ones(len(index), np.int64)
    events = np.concatenate(
        [np.column_stack((who, stretches.start[index], device, one)), np.column_stack((who, stretches.end[index], device, -one))]
    )
    return np.asarray(events[np.lexsort((events[:, 1], events[:, 0]))])


def _without_request(view: View) -> list[Finding]:
    """Only where the inventory tells of any pod what it asked for."""
    lives, holders = view.held.lives, view.holders
    if not (lives.requested_gpus > 0).any():
        return []
    asked = (holders.requested_gpus > 0) | holders.has_claim.eq(True) | holders.is_reservation.eq(True)
    asked |= holders.declared_memory_bytes.notna() | holders.declared_fraction.notna() | holders.gpu_group.fillna("").ne("")
    rows = view.pods[(holders.known & ~asked).to_numpy()[view.pods.holder] & (view.pods.positive > 0)]
    if rows.empty:
        return []
    rows = rows.groupby(["holder", "device"], as_index=False).agg({"positive": "max", "largest": "max", "machine": "first"})
    rows = rows.join(holders[["namespace", "pod"]], on="holder")
    evidence = "holds up to " + _texts(rows.largest, gib) + " GiB of " + _texts(rows.device, view.device_name)
    evidence += (
        " for " + _seconds(rows.positive) + " and asked for no GPU. It may see all devices by its environment or privileges"
    )
    return view.of_pods(Code.MEMORY_WITHOUT_REQUEST, rows, evidence)


def _skewed(view: View) -> list[Finding]:
    """Samples of a pod before its own start; only where the source itself names the uid."""
    table = view.held.pieces.table
    rows = table[(table.own_uid & (table.role == "pod_memory")).to_numpy(np.bool_)]
    place = places_in(rows, view.held.lives, POD_KEY)
    ends = np.append(view.held.lives.started_ms.to_numpy(np.float64), np.nan)[place]
    starts = view.held.pieces.ts[rows.lo.to_numpy(np.int64)]
    early = ends - starts > view.policy.max_hold_ms
    if not early.any():
        return []
    rows = rows[early].assign(start_ms=starts[early], end_ms=ends[early].astype(np.int64))
    rows = rows[_within(view, rows) > 0]
    ends, hi = rows.end_ms.to_numpy(np.int64), rows.hi.to_numpy(np.int64)
    lo = rows.lo.to_numpy(np.int64)
    rows = rows.assign(early=ends - rows.start_ms, samples=first_at(view.held.pieces.ts, lo, hi, ends) - lo)
    rows = rows.sort_values(["early", "samples"]).drop_duplicates(POD_KEY, keep="last").sort_values(POD_KEY)
    evidence = "its first sample is " + _seconds(rows.early) + " before its start, "
    evidence += _texts(rows.samples, str) + " samples are not used; the clocks of the two sources differ"
    return view.of_pods(Code.SKEWED_CLOCKS, rows, evidence)


def _outside_life(view: View) -> list[Finding]:
    """Samples before a pod's known start or after its known end: they hold nothing. Told from two of a series on.

    What a source that names the uid shows before the start is a clock that is off (see ``_skewed``).
    """
    table = view.held.pieces.table
    table = table[(table.role == "pod_memory") & (table.level != "inferred")]
    windows = view.windows
    opens, closes = windows.start[windows.offsets[:-1]], windows.end[windows.offsets[1:] - 1]
    opens, closes = opens[table.machine.to_numpy(np.int64)], closes[table.machine.to_numpy(np.int64)]
    begins, ends = table.from_ms.to_numpy(np.int64), table.until_ms.to_numpy(np.int64)
    early = _samples_between(view, table, opens, np.where(table.own_uid, opens, np.minimum(begins, closes)))
    late = _samples_between(view, table, np.maximum(ends, opens), closes)
    if early.empty and late.empty:
        return []
    early = early.assign(ms=early.from_ms - early["first"], says="before its known start")
    late = late.assign(ms=late["last"] - late.until_ms, says="after its known end")
    rows = pd.concat([early, late], ignore_index=True)
    rows = rows[rows.ms > view.policy.max_hold_ms]
    machines = rows.groupby(rows.namespace + "/" + rows.pod).machine.unique()
    keys = ["namespace", "pod", "says"]
    rows = rows.groupby(keys, as_index=False).agg({"samples": "sum", "ms": "max", "machine": "first"})
    evidence = (
        _texts(rows.samples, str) + " samples in the " + _seconds(rows.ms) + " " + rows.says + " were not used. Either they "
    )
    evidence += (
        "are of another pod of that name that kube-state-metrics did not show, or the exporter lets go late, or a clock is off"
    )
    samples = rows.groupby(rows.namespace + "/" + rows.pod).samples.sum()
    found = view.of_pods(Code.SAMPLES_OUTSIDE_LIFE, rows, evidence)
    return [
        replace(finding, count=int(samples[finding.subject]), period=view.period_of(machines[finding.subject]))
        for finding in found
    ]


def _samples_between(view: View, table: pd.DataFrame, start: Int64, end: Int64) -> pd.DataFrame:
    """The pieces with two samples and more in ``[start, end)``: ``samples``, and the ``first`` and ``last`` time of them."""
    ts, lo, hi = view.held.pieces.ts, table.lo.to_numpy(np.int64), table.hi.to_numpy(np.int64)
    begin, until = first_at(ts, lo, hi, start), first_at(ts, lo, hi, end)
    some = until - begin > 1
    begin, until = begin[some], until[some]
    return table[some].assign(samples=until - begin, first=ts[begin], last=ts[until - 1])


def _on_partitioned(view: View) -> list[Finding]:
    """Rows on a whole card in frames in which its instances are known (R23)."""
    card = view.devices.partitioned.to_numpy()[view.series.device]
    if not card.any():
        return []
    pods = _by_frame(view, np.flatnonzero(card & (view.series.role == instant.POD)))
    if pods.empty:
        return []
    is_instance = view.shard.topology.is_instance[view.series.device]
    shows = ~view.series.role.isin((instant.ROWS, instant.DECLARED)).to_numpy()
    parts = _by_frame(view, np.flatnonzero(is_instance & shows))[["gpu", "frame"]].drop_duplicates()
    rows = pods.merge(parts, on=["gpu", "frame"])
    rows = rows.groupby(["holder", "device"], as_index=False).agg({"ms": "sum", "machine": "first", "frame": "nunique"})
    rows = rows.join(view.shard.holders[["namespace", "pod"]], on="holder")
    evidence = "is shown on the whole of " + _texts(rows.device, view.device_name) + " for " + _seconds(rows.ms) + " of "
    evidence += _texts(rows.frame, str) + " charge periods in which that card has instances at some time. In such a period the "
    evidence += "whole card is no device, before the partition and after it too, so the pod gets nothing of it. "
    evidence += "Let the exporter name pods on instances"
    cards = rows.assign(
        subject=rows.namespace + "/" + rows.pod,
        card=_texts(rows.machine, lambda m: str(view.shard.machines.node[m])) + "/" + _texts(rows.device, view.device_name),
    )
    cards_of = cards.groupby("subject").card.unique()
    found = view.of_pods(Code.POD_ON_PARTITIONED_GPU, rows, evidence)
    return [replace(finding, money_of=tuple(cards_of[finding.subject])) for finding in found]


def _by_frame(view: View, ids: Int64) -> pd.DataFrame:
    """How long each of some series holds anything in each frame: ``ms`` beside ``gpu``, ``frame`` and the series."""
    offsets = view.stretches.offsets
    index = np.concatenate([np.arange(0), *(np.arange(offsets[s], offsets[s + 1]) for s in ids)]).astype(np.int64)
    table = view.series.iloc[np.repeat(ids, np.diff(offsets)[ids])].reset_index(drop=True)
    table = table.assign(
        start=view.stretches.start[index], end=view.stretches.end[index], gpu=view.devices.gpu.to_numpy()[table.device]
    )
    table = table.merge(view.frames[["machine", "start_ms", "end_ms"]].reset_index(names="frame"), on="machine")
    ms = np.minimum(table.end, table.end_ms) - np.maximum(table.start, table.start_ms)
    return table.assign(ms=ms)[ms > 0]
