"""From the pieces of one shard's series to the flat arrays that the sweep reads.

Here belongs the order of devices, series and holders; the rows that repeat a device's value become one series more (R2). How
series become pieces stands in ``pieces``.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation import instant
from allocation.coded import Texts
from allocation.compiled import kernel, read_only
from allocation.frame_rows import Topology
from allocation.intervals import NEVER, Reports, first_above
from allocation.pieces import Pieces
from allocation.policy import Policy
from allocation.ranks import distinct, numbers_of, ranks
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
    found = _placed(_with_known_profile(pieces.table))
    table, ts, values = _with_repeated_rows(found.pieces, pieces.ts, pieces.values)
    return _arrays(found, table, ts, values, machines, policy)


@dataclass(frozen=True)
class _Placed:
    """Pieces in order of device, role and holder, with ``gpu`` and ``device``; the GPUs and the devices, row = number."""

    pieces: pd.DataFrame
    gpus: pd.DataFrame
    devices: pd.DataFrame


def _placed(pieces: pd.DataFrame) -> _Placed:
    """Pieces on their devices; a GPU's whole card always is one, and comes first."""
    count, instance, uuid = len(pieces), ranks(pieces.gpu_instance), ranks(pieces.gpu_uuid)
    rank = np.full(count, -1, np.int64)
    if instance.any():
        told = pd.to_numeric(pieces.gpu_instance, errors="coerce").fillna(2**40).to_numpy().astype(np.int64)
        rank = np.where(instance > 0, told, -1)
    profile = np.where(rank >= 0, ranks(pieces.mig_profile), 0)
    machine = pieces.machine.to_numpy(np.int64)
    gpu, of_gpu = distinct(machine, uuid)
    whole = np.zeros(count, np.int64)
    parts = zip((machine, uuid, rank, instance, profile), (machine, uuid, whole - 1, whole, whole), strict=True)
    device, of_device = distinct(*(np.concatenate(part) for part in parts))
    texts = [ranks(pieces[name]) for name in ("namespace", "pod", "pod_uid", "container", "metric")]
    role = numbers_of(pieces.role, ROLES)
    order = np.lexsort([*reversed(texts), role, device[:count]])
    model = pieces.gpu_model.to_numpy(object)[order]
    gpus = pd.DataFrame({"machine": machine[of_gpu], "gpu_uuid": pieces.gpu_uuid.array.take(of_gpu)})
    gpus["gpu_model"] = pd.array(_first_named(model, gpu[order], len(of_gpu)), dtype="str")
    row = of_device % max(count, 1)
    is_instance = (of_device < count) & (rank[row] >= 0)
    devices = pd.DataFrame({"machine": machine[row], "gpu_uuid": pieces.gpu_uuid.array.take(row)})
    devices["instance_rank"] = np.where(is_instance, rank[row], -1)
    for name in ("gpu_instance", "mig_profile"):
        devices[name] = pd.array(np.where(is_instance, pieces[name].to_numpy(object)[row], ""), dtype="str")
    devices["gpu"] = gpu[row]
    pieces = pieces.assign(role=role, device=device[:count], gpu=gpu)
    return _Placed(pieces.iloc[order].reset_index(drop=True), gpus, devices)


def _first_named(model: Texts, gpu: Int64, gpus: int) -> Texts:
    """The first name of a model that is told on each GPU, None where none is."""
    named = np.flatnonzero(model != "")
    found = np.full(gpus, None, object)
    told, first = np.unique(gpu[named], return_index=True)
    found[told] = model[named[first]]
    return found


def _with_known_profile(pieces: pd.DataFrame) -> pd.DataFrame:
    """An instance whose profile one source does not name has the one that the others name, where they name one."""
    key = ["machine", "gpu_uuid", "gpu_instance"]
    if not (pieces.mig_profile != "").any():
        return pieces
    named = pieces[pieces.mig_profile != ""].drop_duplicates([*key, "mig_profile"])
    one = named[~named.duplicated(key, keep=False)][[*key, "mig_profile"]].rename(columns={"mig_profile": "known_profile"})
    pieces = pieces.merge(one, on=key, how="left")
    return pieces.assign(mig_profile=pieces.mig_profile.where(pieces.mig_profile != "", pieces.known_profile.fillna("")))


def _with_repeated_rows(pieces: pd.DataFrame, ts: Int64, values: Int64) -> tuple[pd.DataFrame, Int64, Int64]:
    """Adds, for each device with device-level pod rows, the one series that they are: of equal times the larger value."""
    rows = pieces[(pieces.role == instant.POD) & (pieces.level == "device")]
    if rows.empty:
        return pieces, ts, values
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
    together = pd.concat([pieces, merged], ignore_index=True).sort_values(["device", "role"], kind="stable", ignore_index=True)
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


def _arrays(found: _Placed, pieces: pd.DataFrame, ts: Int64, values: Int64, machines: pd.DataFrame, policy: Policy) -> Shard:
    machine, device = (pieces[name].to_numpy(np.int64) for name in ("machine", "device"))
    texts = [ranks(pieces[name]) for name in _HOLDER_KEY[1:]]
    held = np.flatnonzero(texts[1])
    number, of_holder = distinct(machine[held], *(part[held] for part in texts))
    columns = {name: pieces[name].array.take(held[of_holder]) for name in _HOLDER_KEY}
    pair, of_pair = distinct(device[held], number)
    pairs = pd.DataFrame({"device": device[held][of_pair], "holder": number[of_pair]})
    local = np.zeros(len(pieces), np.int64)
    local[held] = pair - np.searchsorted(pairs.device.to_numpy(np.int64), device[held])
    offsets, times, memory = _gather(*map(read_only, (pieces.lo.to_numpy(np.int64), pieces.hi.to_numpy(np.int64), ts, values)))
    holders, days = pd.DataFrame(columns), _days(pieces, offsets, times, len(found.gpus))
    topology = _topology(pieces.assign(local=local), machines, found.gpus, found.devices, holders, pairs, days, policy)
    alive = read_only(pieces[["from_ms", "until_ms"]].to_numpy(np.int64))
    series = pieces[["metric", "container"]]
    return Shard(offsets, times, memory, alive, _reports(pieces), topology, machines, found.gpus, found.devices, holders, series)


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
    parts = pieces.gpu.to_numpy(np.int64), ranks(pieces.gpu_instance), ranks(pieces.metric)
    family = pd.factorize(distinct(*parts)[0])[0].astype(np.int64)
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
    pairs: pd.DataFrame,
    days: tuple[Int64, Int64], policy: Policy,
) -> Topology:  # fmt: skip
    machine = gpus.machine.to_numpy(np.int64)
    memory = machines.gpu_memory_bytes.fillna(-1).to_numpy(np.int64)[machine]
    configured = machines.gpu_memory_configured.fillna(False).to_numpy(np.bool_)[machine]
    reserved = np.full(len(gpus), -1, np.int64)
    if policy.reserved_bytes:
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
        device_holder_offsets=_offsets(pairs.device, len(devices)),
        device_holders=pairs.holder.to_numpy(np.int64),
        role=pieces.role.to_numpy(np.int64),
        level=numbers_of(pieces.level, LEVELS),
        includes_reserved=pieces.includes_reserved.to_numpy(np.bool_),
        local=pieces.local.to_numpy(np.int64),
    )
    return Topology(*map(read_only, topology))
