"""Findings about devices: use without a holder, a size that the catalogue denies, a jumping reserve, flat memory."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation import instant
from allocation.compiled import read_only
from allocation.figures import LARGEST, SMALLEST, unheld
from allocation.findings import Code, Finding, Severity
from allocation.ranks import distinct
from allocation.times import HOUR_MS
from allocation.view import View, gib

Int64 = npt.NDArray[np.int64]
IN_USE_BYTES = 100 * 2**20
"""A device that shows no more than this is taken to be empty: contexts and the driver's own use are tens of MiB."""
RESERVE_SHARE = 20
"""Where ``used`` includes an unknown reserve, one part in so many of the device is taken for it."""
CAPACITY_WITHIN = 0.05
RESERVE_JUMP_BYTES, RESERVE_JUMP_SHARE = 64 * 2**20, 0.005
FULL_SHARE, FLAT_SHARE, DAY_SHARE, DAY_LEAST_MS = 0.85, 0.01, 0.95, 12 * HOUR_MS
"""Memory that stood flat: above this share of K, moving by no more than that share of K, for that share of the frames' time and
for so long."""


def notice_devices(view: View) -> list[Finding]:
    """All findings about devices."""
    return [*_without_pods(view), *_capacities(view), *_reserves(view), *_preallocated(view)]


def _without_pods(view: View) -> list[Finding]:
    topology, devices = view.shard.topology, view.devices
    includes = np.zeros(len(devices), np.bool_)
    includes[view.series.device[topology.includes_reserved]] = True
    reserve = np.maximum(topology.reserved, 0)[view.shard.devices.gpu]
    guess = devices["size"].fillna(0).to_numpy() // RESERVE_SHARE
    threshold = IN_USE_BYTES + np.where(includes, np.where(reserve > 0, reserve, guess), 0).astype(np.int64)
    threshold = np.where(devices.partitioned, instant.ABSENT, threshold)
    machine = read_only(devices.machine.to_numpy(np.int64))
    found = unheld(
        view.held.runs, view.stretches, topology.role, topology.series_offsets, machine, threshold,
        view.policy.max_gap_ms, view.windows,
    )  # fmt: skip
    return [
        view.of_device(
            Code.DEVICE_WITHOUT_PODS,
            device,
            f"in use for {found[device, 0] / 1000:g} s, up to {gib(found[device, 1])} GiB, while no series names a pod on it. "
            "Look for a process outside of Kubernetes, or let the exporter name pods",
        )
        for device in np.flatnonzero(found[:, 0]).tolist()
    ]


def _capacities(view: View) -> list[Finding]:
    devices = view.devices
    seen = devices.total.fillna(devices.whole)
    seen = seen.fillna(devices.visible.where(devices.visible > devices.stated))
    is_off = ((seen - devices.stated).abs() > CAPACITY_WITHIN * devices.stated).to_numpy()
    if not is_off.any():
        return []
    off = devices.assign(seen=seen)[is_off]
    return [
        view.of_device(
            Code.CAPACITY_DISAGREES,
            int(device),
            f"its series say {gib(row.seen)} GiB, the configuration or the catalogue says {gib(row.stated)} GiB "
            f"({row.seen / row.stated - 1:+.1%}). Set gpu_memory for the node, or look whether it is another card",
        )
        for device, row in off.iterrows()
    ]


def _reserves(view: View) -> list[Finding]:
    low, high, device = view.figures[:, SMALLEST], view.figures[:, LARGEST], view.series.device.to_numpy(np.int64)
    size = view.devices["size"].fillna(0).to_numpy()[device]
    is_jump = (view.series.role == instant.RESERVED).to_numpy() & (high != instant.ABSENT)
    is_jump &= (high - low > RESERVE_JUMP_BYTES) & (high - low > RESERVE_JUMP_SHARE * size)
    rows = np.flatnonzero(is_jump)
    jumps = pd.DataFrame({"device": device[rows], "low": low[rows], "high": high[rows], "change": (high - low)[rows]})
    jumps = jumps.sort_values("change").drop_duplicates("device", keep="last").sort_values("device")
    return [
        view.of_device(
            Code.RESERVE_JUMPS,
            row.device,
            f"the driver's reserve goes from {gib(row.low)} to {gib(row.high)} GiB or back; a driver may have been changed",
        )
        for row in jumps.itertuples()
    ]


def _perhaps_full(view: View, pods: pd.DataFrame) -> Int64:
    """Devices of which a pod may hold most: what its series show at least adds up to so much."""
    device = pods.device.to_numpy(np.int64)
    number, first = distinct(device, pods.holder.to_numpy(np.int64))
    of = device[first]
    found: Int64 = of[np.bincount(number, pods.smallest.to_numpy(np.float64)) >= FULL_SHARE * view.devices["size"].to_numpy()[of]]
    return found


def _preallocated(view: View) -> list[Finding]:
    """By container the sum of the containers; where rows repeat the device's value, only for the one pod of a device."""
    pods = view.pods[view.pods.level.isin((instant.CONTAINER, instant.DEVICE))]
    pods = pods[pods.device.isin(_perhaps_full(view, pods))]
    if pods.empty:
        return []
    own = pods[pods.level == instant.CONTAINER].groupby(["device", "holder"], as_index=False)
    own_rows = own.agg({"machine": "first", "covered": "min", "smallest": "sum", "largest": "sum"})
    alone = pods.groupby("device").holder.transform("nunique") == 1
    rows = pods[alone & (pods.level == instant.DEVICE)].groupby(["device", "holder"], as_index=False)
    device_rows = rows.agg({"machine": "first", "covered": "max", "smallest": "min", "largest": "max"})
    told = pd.concat([own_rows, device_rows], ignore_index=True)
    size = told.device.map(view.devices["size"])
    day = pd.Series(view.frame_ms)[told.machine].to_numpy()
    flat = (told.smallest > FULL_SHARE * size) & (told.largest - told.smallest <= FLAT_SHARE * size)
    told = told.assign(size=size)[flat & (told.covered >= np.maximum(DAY_SHARE * day, DAY_LEAST_MS))]
    names = view.shard.holders
    return [
        view.of_device(
            Code.PREALLOCATED_MEMORY,
            row.device,
            f"{names.namespace[row.holder]}/{names.pod[row.holder]} holds {gib(row.largest)} of {gib(row.size)} GiB all day, "
            f"within {gib(row.largest - row.smallest)} GiB. What a framework reserves at its start blocks the card, busy or not",
            Severity.INFO,
        )
        for row in told.sort_values(["device", "holder"]).itertuples()
    ]
