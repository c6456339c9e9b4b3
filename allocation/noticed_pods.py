"""Findings about pods: labels that were lost, reservations that nobody stands behind, and what contradicts the inventory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation import instant
from allocation.figures import above_limit
from allocation.findings import Code, Finding
from allocation.lives import POD_KEY, names_reservation
from allocation.stretches import times_within
from allocation.view import View, gib

Int64 = npt.NDArray[np.int64]


def notice_pods(view: View) -> list[Finding]:
    """All findings about pods."""
    return [
        *_lost(view), *_reservations(view), *_more_devices(view), *_without_request(view), *_skewed(view), *_on_partitioned(view)
    ]  # fmt: skip


def _texts(values: "pd.Series[Any]", word: Callable[[Any], str]) -> "pd.Series[str]":
    """Each value in words; a column of text even where it has no rows."""
    return pd.Series([word(value) for value in values], index=values.index, dtype="object")


def _seconds(ms: "pd.Series[int]") -> "pd.Series[str]":
    return _texts(ms / 1000, "{:g} s".format)


def _within(view: View, rows: pd.DataFrame) -> Int64:
    """How much of each row's ``[start_ms, end_ms)`` lies in its machine's frames."""
    return np.asarray(times_within(view.windows, rows[["machine", "start_ms", "end_ms"]].to_numpy(np.int64)))


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
    most = pods.groupby("holder").device.nunique().reindex(holders.index)
    pods = pods[pods.holder.isin(holders.index[most > limit])]
    if pods.empty:
        return []
    found = above_limit(
        _device_events(view, pods), np.ceil(limit).fillna(len(view.devices)).to_numpy(np.int64),
        holders.machine.to_numpy(np.int64), len(view.devices), view.windows,
    )  # fmt: skip
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
    rows = table[table.own_uid & (table.role == "pod_memory")].merge(view.held.lives[[*POD_KEY, "started_ms"]], on=POD_KEY)
    rows = rows.assign(start_ms=view.held.pieces.ts[rows.lo.to_numpy(np.int64)], end_ms=rows.started_ms)
    rows = rows[rows.end_ms - rows.start_ms > view.policy.max_hold_ms].astype({"end_ms": "int64"})
    rows = rows[_within(view, rows) > 0]
    rows = rows.assign(early=rows.end_ms - rows.start_ms).sort_values("early").drop_duplicates(POD_KEY, keep="last")
    evidence = "its first sample is " + _seconds(rows.early) + " before its start; the clocks of the two sources differ"
    return view.of_pods(Code.SKEWED_CLOCKS, rows, evidence)


def _on_partitioned(view: View) -> list[Finding]:
    """Rows on a whole card in frames in which its instances are known (R23)."""
    card = view.devices.partitioned.to_numpy()[view.series.device]
    pods = _by_frame(view, np.flatnonzero(card & (view.series.role == instant.POD)))
    if pods.empty:
        return []
    is_instance = view.shard.topology.is_instance[view.series.device]
    shows = ~view.series.role.isin((instant.ROWS, instant.DECLARED)).to_numpy()
    parts = _by_frame(view, np.flatnonzero(is_instance & shows))[["gpu", "frame"]].drop_duplicates()
    rows = pods.merge(parts, on=["gpu", "frame"])
    rows = rows.groupby(["holder", "device"], as_index=False).agg({"ms": "sum", "machine": "first"})
    rows = rows.join(view.shard.holders[["namespace", "pod"]], on="holder")
    evidence = (
        "is shown on " + _texts(rows.device, view.device_name) + " for " + _seconds(rows.ms) + " while that card is partitioned"
    )
    return view.of_pods(
        Code.POD_ON_PARTITIONED_GPU, rows, evidence + "; it gets nothing of it. Let the exporter name pods on instances"
    )


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
