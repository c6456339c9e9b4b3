"""Pods that were given a GPU while the exporter lost their labels: who must hold a device that nobody is shown on.

A device is *free* at an instant where something is known of it and no series names a holder. A pod is *lost* where it lives on
the machine, asked for the device's resource, and no series names it there on any device. Only one possibility is taken: (a)
exactly one pod is lost, it asked for as many devices as are free, every GPU that must exist is known, and devices are not
shared; or (b) the machine has one device of the kind and it is free: all lost pods hold it. Else nothing is said.

The kind is the whole card, or the profile of an instance; under the MIG strategy `single` all devices of the machine are of one
kind. Everything is judged by what is known at the instant, so that days computed alone equal days computed together. Reservation
pods are never lost: they use no memory, and who stands behind them is not known.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation import instant
from allocation.compiled import kernel, read_only
from allocation.devices import Shard
from allocation.intervals import Runs
from allocation.lives import POD_KEY
from allocation.losses import Kinds, Wanting, losses
from allocation.pieces import Pieces
from allocation.ranks import distinct, places_in, ranks
from allocation.stretches import Stretches, stretches_of

Int64 = npt.NDArray[np.int64]
_UNKNOWN = -1
_MANY = 1 << 40


def find_lost(runs: Runs, shard: Shard, nodes: pd.DataFrame, lives: pd.DataFrame) -> pd.DataFrame:
    """Who must hold which device when.

    Args:
        runs: the runs of the shard's series.
        shard: the shard.
        nodes: table ``nodes`` with ``from_ms``, ``until_ms``.
        lives: as ``lives.pod_lives`` gives them.

    Returns:
        One row a pod, device and unbroken time: ``namespace``, ``pod``, ``pod_uid``, ``device``, ``start_ms``, ``end_ms``.
    """
    wanting = _wanting(shard, nodes, lives)
    if wanting.empty:
        return pd.DataFrame(columns=[*POD_KEY, "device", "start_ms", "end_ms"])
    events = _events(stretches_of(runs), shard, wanting)
    kind_of_pod, kinds = _kinds(shard, wanting)
    shared = wanting.shared.to_numpy(np.bool_)
    found = losses(
        read_only(events),
        kinds,
        Wanting(*map(read_only, (kind_of_pod, *(wanting[name].to_numpy(np.int64) for name in ("request", "name")), shared))),
        _offsets(wanting.machine, len(shard.machines)),
        int(wanting.name.max()) + 1,
    )
    rows = wanting[POD_KEY].iloc[found[:, 0]].reset_index(drop=True)
    rows = rows.assign(device=found[:, 1], start_ms=found[:, 2], end_ms=found[:, 3])
    return rows.sort_values(["device", *POD_KEY, "start_ms"], ignore_index=True)


def _offsets(numbers: "pd.Series[int]", size: int) -> Int64:
    return np.searchsorted(numbers.to_numpy(np.int64), np.arange(size + 1)).astype(np.int64)


def _wanting(shard: Shard, nodes: pd.DataFrame, lives: pd.DataFrame) -> pd.DataFrame:
    """One row a pod that asked for one kind of GPU, and stay of its machine, with its life there."""
    asked = lives[(lives.gpu_resource != "") & (lives.requested_gpus > 0) & ~lives.is_reservation & (lives.node != "")]
    number = pd.Series(np.arange(len(shard.machines)), index=shard.machines.node_key)
    has_gpus = np.diff(shard.topology.gpu_offsets) > 0
    stays = nodes.assign(machine=nodes.node_key.map(number)).dropna(subset=["machine"]).astype({"machine": "int64"})
    stays = stays[has_gpus[stays.machine.to_numpy()]]
    rows = asked.merge(stays[["node", "machine", "from_ms", "until_ms"]], on="node")
    rows = rows.assign(
        from_ms=np.maximum(rows.alive_from.to_numpy(np.int64), rows.from_ms.to_numpy(np.int64)),
        until_ms=np.minimum(rows.alive_until.to_numpy(np.int64), rows.until_ms.to_numpy(np.int64)),
    )
    rows = rows[(rows.from_ms < rows.until_ms).to_numpy()]
    machine, texts = rows.machine.to_numpy(np.int64), [ranks(rows[name]) for name in POD_KEY]
    order = np.lexsort([rows.from_ms.to_numpy(np.int64), *reversed(texts), machine])
    rows = rows.iloc[order].reset_index(drop=True)
    shared = _replicas(shard.machines) > 1
    return rows.assign(
        name=distinct(machine[order], *(text[order] for text in texts[:2]))[0],
        request=np.ceil(rows.requested_gpus).astype("int64"),
        shared=shared.to_numpy()[rows.machine] | rows.gpu_resource.str.endswith("_shared"),
    )


def _column(machines: pd.DataFrame, name: str) -> "pd.Series[float]":
    given = machines[name] if name in machines.columns else pd.Series(np.nan, index=machines.index)
    return given.astype("float64")


def _replicas(machines: pd.DataFrame) -> "pd.Series[float]":
    """Into how many replicas each GPU is shared, NaN where nobody says; 2 stands for an unknown number of several."""
    told = _column(machines, "gpu_replicas")
    many = _column(machines, "gpu_resources") > _column(machines, "gpus")
    if "sharing_strategy" in machines.columns:
        many |= machines.sharing_strategy.astype("object").fillna("").isin(("time-slicing", "mps"))
    return told.mask((told.fillna(1) <= 1) & many, np.inf)


def _kinds(shard: Shard, wanting: pd.DataFrame) -> tuple[Int64, Kinds]:
    """The number of each pod's kind; the kinds of all devices and what must exist on each machine."""
    machines, devices = shard.machines, shard.devices
    strategy = machines.mig_strategy if "mig_strategy" in machines.columns else pd.Series("", index=machines.index)
    single = (strategy.astype("object").fillna("") == "single").to_numpy()
    machine = shard.gpus.machine.to_numpy(np.int64)[devices.gpu.to_numpy(np.int64)]
    profile = "mig_" + devices.mig_profile.str.lower().str.replace(r"[^a-z0-9]", "_", regex=True)
    profile = profile.where(devices.mig_profile != "", "?")
    of_device = profile.mask((devices.gpu_instance == "").to_numpy() | single[machine], "")
    resource = wanting.gpu_resource.str.replace(r"_shared$", "", regex=True)
    of_pod = "mig_" + resource.str.extract(r"_mig_(.*)$")[0]
    codes, _ = pd.factorize(pd.concat([of_device, of_pod.fillna("")], ignore_index=True))
    expected = _column(machines, "gpus").fillna(_column(machines, "gpu_resources")).fillna(_MANY)
    replicas = _replicas(machines).fillna(_MANY).replace(np.inf, _MANY)
    whole = np.repeat(shard.topology.device_offsets[:-1], np.diff(shard.topology.device_offsets))
    kinds = Kinds(
        codes[: len(devices)].astype(np.int64),
        devices.gpu.to_numpy(np.int64),
        whole.astype(np.int64),
        shard.topology.gpu_offsets,
        shard.topology.device_offsets,
        expected.to_numpy(np.int64),
        replicas.to_numpy(np.int64),
    )
    return codes[len(devices) :].astype(np.int64), Kinds(*map(read_only, kinds))


def _events(stretches: Stretches, shard: Shard, wanting: pd.DataFrame) -> Int64:
    """What begins and ends when: 0 a device is known, 1 a device is held, 2 a name of a pod is shown, 3 a pod lives."""
    topology = shard.topology
    device = np.repeat(np.arange(len(shard.devices)), np.diff(topology.series_offsets))
    series = np.repeat(np.arange(len(device)), np.diff(stretches.offsets))
    role, device_of = topology.role[series], device[series]
    machine = shard.gpus.machine.to_numpy(np.int64)[shard.devices.gpu.to_numpy(np.int64)]
    spans = np.stack([machine[device_of], device_of, stretches.start, stretches.end])
    is_pod = role == instant.POD
    pods = spans[:, is_pod]
    holder = topology.device_holders[topology.device_holder_offsets[device_of[is_pod]] + topology.local[series[is_pod]]]
    name = _name_of_holder(shard, wanting)[holder]
    named = np.stack([pods[0], name, pods[2], pods[3]])[:, name >= 0]
    asked = wanting.machine.to_numpy(np.int64)
    lived = np.stack([asked, np.arange(len(asked)), wanting.from_ms.to_numpy(np.int64), wanting.until_ms.to_numpy(np.int64)])
    kinds = (spans[:, (role != instant.ROWS) & (role != instant.DECLARED)], pods, named, lived)
    kind = np.repeat(np.arange(len(kinds)), [of.shape[1] for of in kinds])
    whose, who, start, end = np.concatenate(kinds, axis=1)
    one = np.ones(len(kind), np.int64)
    begins, ends = np.stack([whose, start, kind, who, one]), np.stack([whose, end, kind, who, -one])
    events = np.concatenate((begins, ends), axis=1)
    events = events[:, np.isin(events[0], asked)]
    ordered: Int64 = events[:, np.lexsort((events[1], events[0]))].T
    return ordered


def _name_of_holder(shard: Shard, wanting: pd.DataFrame) -> Int64:
    """For each holder the number of its name among the wanting pods, or -1."""
    names = wanting[~wanting.name.duplicated()]
    place = places_in(shard.holders, names, ["namespace", "pod"], ["machine"])
    return np.append(names.name.to_numpy(np.int64), [_UNKNOWN])[place]


def with_lost(pieces: Pieces, lost: pd.DataFrame, shard: Shard) -> Pieces:
    """The pieces and one of level `inferred` for each row of ``lost``: 0 bytes at the device's own samples' times."""
    devices = shard.devices.join(shard.gpus[["gpu_uuid", "machine"]].add_prefix("of_"), on="gpu")
    place = devices.iloc[lost.device.to_numpy(np.int64)].reset_index(drop=True)
    offsets, ts = device_times(
        shard.offsets,
        shard.ts,
        shard.topology.role,
        shard.topology.series_offsets,
        read_only(lost[["device", "start_ms", "end_ms"]].to_numpy(np.int64)),
    )
    one = pieces.table.drop_duplicates("machine").set_index("machine")[["node", "stay_from", "stay_until"]]
    more = lost[POD_KEY].assign(
        role="pod_memory", level="inferred", metric="inferred " + lost.namespace + "/" + lost.pod + "/" + lost.pod_uid,
        includes_reserved=False, own_uid=False, container="", gpu_model="",
        **{c: place[c] for c in ("machine", "gpu_uuid", "gpu_instance", "mig_profile")},
        **{c: place.machine.map(one[c]) for c in one.columns},
        from_ms=lost.start_ms, until_ms=lost.end_ms, lo=offsets[:-1], hi=offsets[1:],
    )  # fmt: skip
    return pieces.with_more(more, ts, np.zeros(len(ts), np.int64))


@kernel
def device_times(offsets: Int64, ts: Int64, role: Int64, series_offsets: Int64, spans: Int64) -> tuple[Int64, Int64]:
    """For each span (device, start, end) the times of the device's own samples that can show in it, flat."""
    found, begins = [ts[:0]], np.zeros(len(spans) + 1, np.int64)
    for k in range(len(spans)):
        device, start, end = spans[k]
        parts = ts[:0]
        for s in range(series_offsets[device], series_offsets[device + 1]):
            if role[s] <= instant.RESERVED:
                own = ts[offsets[s] : offsets[s + 1]]
                lo = max(np.searchsorted(own, start, side="right") - 1, 0)
                parts = np.concatenate((parts, own[lo : np.searchsorted(own, end, side="left") + 1]))
        parts = np.unique(parts)
        found.append(parts)
        begins[k + 1] = begins[k] + len(parts)
    flat = np.empty(begins[-1], np.int64)
    for k in range(len(spans)):
        flat[begins[k] : begins[k + 1]] = found[k + 1]
    return begins, flat
