"""From the pieces of one shard's series to the flat arrays that the sweep reads.

Here belongs the order of devices, series and holders; the rows that repeat a device's value become one series more (R2). How
series become pieces stands in ``pieces``.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation import instant
from allocation.compiled import kernel, read_only
from allocation.frame_rows import Topology
from allocation.intervals import NEVER, Reports, first_above
from allocation.pieces import Pieces
from allocation.policy import Policy
from allocation.times import DAY_MS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
ROLES = {
    "used": instant.USED,
    "free": instant.FREE,
    "total": instant.TOTAL,
    "reserved": instant.RESERVED,
    "pod_memory": instant.POD,
    "declared": instant.DECLARED,
}
LEVELS = {"container": instant.CONTAINER, "device": instant.DEVICE, "inferred": instant.INFERRED_LEVEL}
_GPU_KEY = ["machine", "gpu_uuid"]
_DEVICE_KEY = ["machine", "gpu_uuid", "instance_rank", "gpu_instance", "mig_profile"]
_HOLDER_KEY = ["machine", "namespace", "pod", "pod_uid"]


@dataclass(frozen=True)
class Shard:
    """Flat arrays of one shard, and the tables that turn their numbers back into names (row = number)."""

    offsets: Int64
    ts: Int64
    values: Int64
    alive: Int64
    reports: Reports
    topology: Topology
    machines: pd.DataFrame
    gpus: pd.DataFrame
    devices: pd.DataFrame
    holders: pd.DataFrame
    series: pd.DataFrame
    """``metric`` and ``container`` of each series; all else of it stands in the topology."""


def machines_of(nodes: pd.DataFrame, machine_keys: list[str]) -> pd.DataFrame:
    """The machines of a shard, one row each; a row's number is the machine's number."""
    return nodes[nodes.node_key.isin(machine_keys)].drop_duplicates("node_key").sort_values("node_key", ignore_index=True)


def build(pieces: Pieces, machines: pd.DataFrame, policy: Policy) -> Shard:
    """The shard's arrays.

    Args:
        pieces: the pieces of all series.
        machines: the machines that have frames in this shard; those without series get no GPU.
        policy: for the configured reserve.
    """
    placed = _sorted_pieces(pieces.table)
    gpus = placed.drop_duplicates("gpu")[_GPU_KEY].reset_index(drop=True)
    devices = placed.drop_duplicates("device")[[*_DEVICE_KEY, "gpu"]].reset_index(drop=True)
    table, ts, values = _with_repeated_rows(placed, pieces.ts, pieces.values)
    return _arrays(table, ts, values, machines, gpus.merge(_models(table), on=_GPU_KEY, how="left"), devices, policy)


def _sorted_pieces(pieces: pd.DataFrame) -> pd.DataFrame:
    """In order of device, role and holder, with the numbers of GPU and device; a GPU's whole card always has a device."""
    rank = pd.to_numeric(pieces.gpu_instance, errors="coerce").fillna(2**40).astype("int64")
    pieces = pieces.assign(
        instance_rank=np.where(pieces.gpu_instance == "", -1, rank), role=pieces.role.map(ROLES).astype("int64")
    )
    pieces = _with_known_profile(pieces)
    whole = pieces.drop_duplicates(["machine", "gpu_uuid"]).assign(
        gpu_instance="", mig_profile="", instance_rank=-1, role=-1, pod="", lo=0, hi=0
    )
    pieces = pd.concat([pieces, whole], ignore_index=True)
    pieces.loc[pieces.instance_rank == -1, "mig_profile"] = ""
    pieces = pieces.sort_values([*_DEVICE_KEY, "role", "namespace", "pod", "pod_uid", "container", "metric"], ignore_index=True)
    return pieces.assign(**{name: _numbers(pieces, key) for name, key in (("gpu", _GPU_KEY), ("device", _DEVICE_KEY))})


def _numbers(table: pd.DataFrame, key: list[str]) -> Int64:
    """The number of each row's key in a table that is sorted by it."""
    new = np.zeros(len(table), np.bool_)
    for name in key:
        values = table[name].to_numpy(object)
        new[1:] |= values[1:] != values[:-1]
    return np.cumsum(new, dtype=np.int64)


def _with_known_profile(pieces: pd.DataFrame) -> pd.DataFrame:
    """An instance whose profile one source does not name has the one that the others name, where they name one."""
    key = ["machine", "gpu_uuid", "gpu_instance"]
    named = pieces[pieces.mig_profile != ""].drop_duplicates([*key, "mig_profile"])
    if named.empty:
        return pieces
    one = named[~named.duplicated(key, keep=False)][[*key, "mig_profile"]].rename(columns={"mig_profile": "known_profile"})
    pieces = pieces.merge(one, on=key, how="left")
    return pieces.assign(mig_profile=pieces.mig_profile.where(pieces.mig_profile != "", pieces.known_profile.fillna("")))


def _with_repeated_rows(pieces: pd.DataFrame, ts: Int64, values: Int64) -> tuple[pd.DataFrame, Int64, Int64]:
    """Adds, for each device with device-level pod rows, the one series that they are: of equal times the larger value."""
    rows = pieces[(pieces.role == instant.POD) & (pieces.level == "device")]
    if rows.empty:
        return pieces[pieces.role >= 0], ts, values
    count = (rows.hi - rows.lo).to_numpy()
    index = np.repeat(rows.lo.to_numpy() - np.concatenate(([0], np.cumsum(count)[:-1])), count) + np.arange(count.sum())
    device = np.repeat(rows.device.to_numpy(), count)
    order = np.lexsort((values[index], ts[index], device))
    index, device = index[order], device[order]
    last = np.ones(len(index), np.bool_)
    last[:-1] = (device[1:] != device[:-1]) | (ts[index[1:]] != ts[index[:-1]])
    index, device = index[last], device[last]
    first = np.flatnonzero(np.concatenate(([True], device[1:] != device[:-1])))
    merged = (
        rows.drop_duplicates("device")
        .sort_values("device")
        .assign(role=instant.ROWS, namespace="", pod="", pod_uid="", container="", from_ms=-NEVER, until_ms=NEVER)
    )
    merged = merged.assign(lo=len(ts) + first, hi=len(ts) + np.append(first[1:], len(index)))
    stays = rows.groupby("device")[["stay_from", "stay_until"]].first()
    merged = merged.assign(from_ms=merged.device.map(stays.stay_from), until_ms=merged.device.map(stays.stay_until))
    together = pd.concat([pieces[pieces.role >= 0], merged], ignore_index=True).sort_values(
        ["device", "role"], kind="stable", ignore_index=True
    )
    return together, np.concatenate((ts, ts[index])), np.concatenate((values, values[index]))


def _offsets(numbers: "pd.Series[int]", size: int) -> Int64:
    """Where each number's stretch begins in an ascending column of numbers."""
    return np.searchsorted(numbers.to_numpy(np.int64), np.arange(size + 1)).astype(np.int64)


@kernel
def _gather(lo: Int64, hi: Int64, ts: Int64, values: Int64) -> tuple[Int64, Int64, Int64]:
    """Where each piece begins, and the samples of all pieces one after the other."""
    offsets = np.zeros(len(lo) + 1, np.int64)
    for k in range(len(lo)):
        offsets[k + 1] = offsets[k] + hi[k] - lo[k]
    times, memory = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
    for k in range(len(lo)):
        times[offsets[k] : offsets[k + 1]] = ts[lo[k] : hi[k]]
        memory[offsets[k] : offsets[k + 1]] = values[lo[k] : hi[k]]
    return offsets, times, memory


def _arrays(
    pieces: pd.DataFrame, ts: Int64, values: Int64, machines: pd.DataFrame, gpus: pd.DataFrame, devices: pd.DataFrame,
    policy: Policy,
) -> Shard:  # fmt: skip
    named = (pieces.pod != "").to_numpy(np.bool_)
    holders = pieces[named][_HOLDER_KEY].drop_duplicates().sort_values(_HOLDER_KEY, ignore_index=True)
    holder = np.full(len(pieces), -1, np.int64)
    holder[named] = pieces[named].groupby(_HOLDER_KEY, sort=True).ngroup()
    pairs, pair = np.unique(np.column_stack((pieces.device, holder))[named], axis=0, return_inverse=True)
    local = np.zeros(len(pieces), np.int64)
    local[named] = pair - np.searchsorted(pairs[:, 0], pairs[:, 0])[pair]
    pieces = pieces.assign(local=local)
    offsets, times, memory = _gather(*map(read_only, (pieces.lo.to_numpy(np.int64), pieces.hi.to_numpy(np.int64), ts, values)))
    days = _days(pieces, offsets, times, len(gpus))
    topology = _topology(pieces, machines, gpus, devices, holders, pairs, days, policy)
    alive = read_only(pieces[["from_ms", "until_ms"]].to_numpy(np.int64))
    series = pieces[["metric", "container"]].reset_index(drop=True)
    return Shard(offsets, times, memory, alive, _reports(pieces), topology, machines, gpus, devices, holders, series)


def _models(pieces: pd.DataFrame) -> pd.DataFrame:
    return pieces[pieces.gpu_model != ""].drop_duplicates(_GPU_KEY)[[*_GPU_KEY, "gpu_model"]]


def _days(pieces: pd.DataFrame, offsets: Int64, ts: Int64, gpus: int) -> tuple[Int64, Int64]:
    """The UTC days on which each GPU has samples, as offsets and days since the epoch."""
    base = ts.min() // DAY_MS if len(ts) else 0
    seen = np.zeros((gpus, int(ts.max() // DAY_MS - base + 1) if len(ts) else 1), np.bool_)
    _mark_days(read_only(pieces.gpu.to_numpy(np.int64)), offsets, ts, base, seen)
    where = np.argwhere(seen)
    return np.searchsorted(where[:, 0], np.arange(gpus + 1)).astype(np.int64), where[:, 1].astype(np.int64) + base


@kernel
def _mark_days(gpu: Int64, offsets: Int64, ts: Int64, base: int, seen: Bool) -> None:
    """Marks the days, counted from ``base``, on which the pieces of each GPU have samples."""
    for k in range(len(gpu)):
        i = offsets[k]
        while i < offsets[k + 1]:
            day = ts[i] // DAY_MS
            seen[gpu[k], day - base] = True
            i = first_above(ts, i, offsets[k + 1], (day + 1) * DAY_MS - 1)


def _reports(pieces: pd.DataFrame) -> Reports:
    """Families of series that report a device together (R1)."""
    family = pieces.groupby(["gpu", "gpu_instance", "metric"], sort=False).ngroup().to_numpy(np.int64)
    real = np.flatnonzero((pieces.role != instant.ROWS).to_numpy())
    order = real[np.argsort(family[real], kind="stable")]
    size = int(family.max() + 1) if len(family) else 0
    is_pod = (pieces.role == instant.POD).to_numpy()
    yields = ((pieces.role == instant.USED) & (pieces.level == "device")).to_numpy()
    reports = Reports(
        family,
        np.searchsorted(family[order], np.arange(size + 1)).astype(np.int64),
        order.astype(np.int64),
        yields,
        is_pod,
    )
    return Reports(*map(read_only, reports))


def _topology(
    pieces: pd.DataFrame, machines: pd.DataFrame, gpus: pd.DataFrame, devices: pd.DataFrame, holders: pd.DataFrame,
    pairs: Int64,
    days: tuple[Int64, Int64], policy: Policy,
) -> Topology:  # fmt: skip
    memory = gpus.machine.map(machines.gpu_memory_bytes).fillna(-1).to_numpy(np.int64)
    configured = gpus.machine.map(machines.gpu_memory_configured).fillna(False).to_numpy(np.bool_)
    reserved = gpus.gpu_model.map(dict(policy.reserved_bytes)).fillna(-1).to_numpy(np.int64)
    topology = Topology(
        gpu_offsets=_offsets(gpus.machine, len(machines)),
        device_offsets=_offsets(devices.gpu, len(gpus)),
        series_offsets=_offsets(pieces.device, len(devices)),
        is_instance=(devices.gpu_instance != "").to_numpy(np.bool_),
        configured=np.where(configured, memory, -1),
        nameplate=np.where(configured, -1, memory),
        reserved=reserved,
        gpu_count=machines.gpus.fillna(-1).to_numpy(np.int64),
        day_offsets=days[0],
        days=days[1],
        holder_offsets=_offsets(holders.machine, len(machines)),
        device_holder_offsets=np.searchsorted(pairs[:, 0], np.arange(len(devices) + 1)).astype(np.int64),
        device_holders=np.ascontiguousarray(pairs[:, 1]),
        role=pieces.role.to_numpy(np.int64),
        level=pieces.level.map(LEVELS).to_numpy(np.int64),
        includes_reserved=pieces.includes_reserved.to_numpy(np.bool_),
        local=pieces.local.to_numpy(np.int64),
    )
    return Topology(*map(read_only, topology))
