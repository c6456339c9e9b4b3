"""One shard from samples to the table ``usage``: hold, sweep, and the rows in their order of division."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import frame_rows, wide
from allocation.cards import Terms
from allocation.coded import text_column
from allocation.compiled import read_only
from allocation.devices import Shard
from allocation.findings import Code, Finding, Severity
from allocation.frame_rows import Output, keep_rows, ordered
from allocation.frames import sweep_frames
from allocation.held import held
from allocation.host import by_requests
from allocation.instant import ABSENT
from allocation.noticed import notice
from allocation.policy import BY_SKU, FROM_LIST_PRICES, WHOLE_PPB, Policy
from allocation.schemas import USAGE, conform
from allocation.sweep import EVEN, HOLDER, PROPORTIONAL, SEPARATE, Choice
from allocation.times import from_ms, time_column
from allocation.view import gib

Int64 = npt.NDArray[np.int64]
BUCKETS = ("workload", "idle", "overhead", "stranded", "host", "unallocated")
REASONS = (None, "gpu_without_metrics", "node_without_metrics", "unknown_time", "mig_partition", "gpu_share")
BASES = ("exclusive", "measured", "estimated_requests", "estimated_even", "inferred", "none", "mig")
_NONE, _MIG = 5, 6
PARTS = (None, "gpu", "host")
_POLICIES = {"proportional": PROPORTIONAL, "even": EVEN, "separate": SEPARATE, "holder": HOLDER}


@dataclass(frozen=True)
class Measured:
    """What one shard gave."""

    usage: pa.Table
    findings: tuple[Finding, ...]


def terms_of(policy: Policy) -> Terms:
    """The policy in the kernel's numbers."""
    choice = Choice(_POLICIES[policy.overhead], _POLICIES[policy.idle])
    return Terms(choice, policy.stranded == "spread", policy.min_coverage)


def measure(samples: pa.Table, nodes: pd.DataFrame, pods: pd.DataFrame, periods: pd.DataFrame, policy: Policy) -> Measured:
    """The weights of every period of the shard's machines.

    Args:
        samples: table ``samples`` of the shard's nodes, read with a margin of ``max_gap`` on both sides.
        nodes: table ``nodes`` with ``from_ms``, ``until_ms``.
        pods: table ``pods``, one row a pod, with ``seen_ms``, ``started_ms``, ``ended_ms``, and what each asked for (``lives``).
        periods: one row a frame: ``node_key``, ``start_ms``, ``end_ms``, ``expected_ms``, distinct; with ``gpu_share_ppb`` where
            list prices tell it (-1: they do not).
        policy: the method's choices; with ``host: by_requests`` nodes and pods have the columns that ``host`` asks for.
    """
    known = held(samples, nodes, pods, sorted(set(periods.node_key)), policy)
    shard, runs = known.shard, known.runs
    number = pd.Series(np.arange(len(shard.machines)), index=shard.machines.node_key)
    periods = periods.sort_values(["node_key", "start_ms", "end_ms"], ignore_index=True).assign(
        machine=lambda d: d.node_key.map(number)
    )
    wanted = frames_of(periods, shard.machines, policy)
    out = space(shard, wanted, policy)
    sweep_frames(runs, shard.topology, terms_of(policy), wanted, out)
    rows, notes = in_order(out), out.notes[: out.count[1]]
    findings = (*_findings(notes, periods, shard), *notice(known, periods, policy))
    table = table_of(rows, periods, shard, _chosen(shard.machines, policy) == BY_SKU)
    if policy.host == "separate":
        return Measured(table, findings)
    table, told = by_requests(table, nodes, pods, periods, policy.max_hold_ms)
    return Measured(table, (*findings, *told))


def frames_of(periods: pd.DataFrame, machines: pd.DataFrame, policy: Policy) -> Int64:
    """The frames as the kernel reads them (see ``sweep_frames``); ``periods`` has ``machine``, a row of ``machines``.

    Where lines are told apart by their part, GPUs weigh K and the host weighs something: no line is divided over both.
    """
    share = _chosen(machines, policy)
    wanted = periods[["machine", "start_ms", "end_ms", "expected_ms"]].to_numpy(np.int64)
    ppb = share[wanted[:, 0]]
    listed = periods["gpu_share_ppb"].to_numpy(np.int64) if "gpu_share_ppb" in periods else np.full(len(ppb), -1)
    ppb = np.where(ppb == FROM_LIST_PRICES, np.where(listed < 0, WHOLE_PPB, listed), np.where(ppb == BY_SKU, 1, ppb))
    return read_only(np.column_stack((wanted, ppb)))


def _chosen(machines: pd.DataFrame, policy: Policy) -> Int64:
    """The policy's choice for each machine (see ``Policy.share_of``)."""
    return np.array([policy.share_of(kind) for kind in machines.instance_type], np.int64)


def space(shard: Shard, wanted: Int64, policy: Policy) -> Output:
    """Room for all rows that the frames can have; untouched room costs no memory."""
    topology, size = shard.topology, len(shard.machines)
    machine_of_gpu = np.repeat(np.arange(size), np.diff(topology.gpu_offsets))
    machine_of_device = np.repeat(machine_of_gpu, np.diff(topology.device_offsets))
    held = np.diff(topology.device_holder_offsets)
    if policy.idle == "proportional":
        held = held + np.diff(topology.holder_offsets)[machine_of_device]
    room = (
        np.bincount(machine_of_device, held + 6, size)
        + np.bincount(machine_of_gpu, minlength=size) * 4
        + np.maximum(topology.gpu_count, 0)
        + 4
    )
    rows = int(room[wanted[:, 0]].sum()) if len(wanted) else 0
    notes = int((np.bincount(machine_of_device, minlength=size) * 6 + 4)[wanted[:, 0]].sum()) if len(wanted) else 0
    return Output(
        np.empty((rows, frame_rows.ROW_COLUMNS), np.int64),
        np.empty((notes, frame_rows.NOTE_COLUMNS), np.int64),
        np.zeros(2, np.int64),
    )


def in_order(out: Output) -> Int64:
    """The rows that weigh anything or have a holder, in the order of division, in which most come out already."""
    rows = out.rows[: keep_rows(out.rows, out.count[0])]
    if not ordered(rows):
        rows = np.take(rows, np.lexsort([rows[:, key] for key in reversed(frame_rows.ORDER)]), axis=0)
    kept: Int64 = rows
    return kept


def _names(values: "pd.Series[str]", index: Int64) -> pa.Array:
    """Names by number; null where the number is ABSENT or the name is empty."""
    if not len(values):
        return pa.nulls(len(index), pa.string())
    names = text_column(values)
    known = pc.if_else(pc.equal(names, ""), None, names)
    return known.take(pa.array(index, mask=index == ABSENT))


def _words(choices: tuple[str | None, ...], index: Int64) -> pa.Array:
    return pa.array(choices, pa.string()).take(pa.array(index))


def _basis(rows: Int64, shard: Shard) -> pa.Array:
    """The weakest basis of the held time; an instance with one holder all the time is `mig` (R28)."""
    basis = np.where(rows[:, frame_rows.BASIS] == ABSENT, _NONE, rows[:, frame_rows.BASIS])
    device = rows[:, frame_rows.DEVICE]
    if len(shard.devices):
        on_instance = (device != ABSENT) & shard.topology.is_instance[np.maximum(device, 0)]
        basis = np.where(on_instance & (basis == 0), _MIG, basis)
    return _words(BASES, basis)


def _for_part(rows: Int64, by_sku: npt.NDArray[np.bool_]) -> pa.Array:
    """Which lines each row divides, ``by_sku`` being true for a row whose machine's lines are told apart by their part."""
    of_host = rows[:, frame_rows.GPU_ORDINAL] == frame_rows.LAST_ORDINAL
    apart = by_sku & (rows[:, frame_rows.REASON] != frame_rows.NODE_WITHOUT_METRICS)
    return _words(PARTS, np.where(apart, 1 + of_host, 0))


def table_of(rows: Int64, periods: pd.DataFrame, shard: Shard, by_sku: npt.NDArray[np.bool_] | None = None) -> pa.Table:
    """Rows in order as the table ``usage``.

    ``periods`` has ``machine``, ``start_ms`` and ``end_ms`` of each frame; ``by_sku`` says of each machine whether its lines are
    told apart by the part that they pay for; None: of none.
    """
    frame, gpu, device, holder = (rows[:, c] for c in (frame_rows.FRAME, frame_rows.GPU, frame_rows.DEVICE, frame_rows.HOLDER))
    machine = periods.machine.to_numpy(np.int64)[frame]
    expected = np.maximum(rows[:, frame_rows.EXPECTED], 1)
    coverage = np.minimum(rows[:, frame_rows.KNOWN] / expected, 1.0)

    def weight(column: int) -> pa.Array:
        return wide.to_decimal_column(rows[:, column], rows[:, column + 1])

    def moment(column: str) -> pa.Array:
        return time_column(periods[column].to_numpy(np.int64)[frame])

    columns = {
        "node_key": _names(shard.machines.node_key, machine),
        "node": _names(shard.machines.node, machine),
        "node_id": _names(shard.machines.node_id, machine),
        "period_start": moment("start_ms"),
        "period_end": moment("end_ms"),
        "gpu_uuid": _names(shard.gpus.gpu_uuid, gpu),
        "gpu_model": _names(shard.gpus.gpu_model, gpu),
        "gpu_instance": _names(shard.devices.gpu_instance, device),
        "mig_profile": _names(shard.devices.mig_profile, device),
        "bucket": _words(BUCKETS, rows[:, frame_rows.BUCKET]),
        "reason": _words(REASONS, rows[:, frame_rows.REASON]),
        "namespace": _names(shard.holders.namespace, holder),
        "pod": _names(shard.holders.pod, holder),
        "pod_uid": _names(shard.holders.pod_uid, holder),
        "for_part": _for_part(rows, np.zeros(len(rows), np.bool_) if by_sku is None else by_sku[machine]),
        "gpu_ordinal": pa.array(rows[:, frame_rows.GPU_ORDINAL].astype(np.int32)),
        "device_ordinal": pa.array(rows[:, frame_rows.DEVICE_ORDINAL].astype(np.int32)),
        "gpu_weight": weight(frame_rows.GPU_WEIGHT),
        "device_weight": weight(frame_rows.DEVICE_WEIGHT),
        "used_byte_ms": weight(frame_rows.USED),
        "overhead_byte_ms": weight(frame_rows.OVER),
        "idle_byte_ms": weight(frame_rows.FREE),
        "unmeasured_weight": weight(frame_rows.UNMEASURED),
        "observed_ms": pa.array(rows[:, frame_rows.OBSERVED]),
        "imputed_ms": pa.array(rows[:, frame_rows.IMPUTED]),
        "coverage": pa.array(coverage),
        "basis": _basis(rows, shard),
    }
    return conform(pa.table(columns), USAGE, source="sweep")


_CODES = {
    frame_rows.NOTE_OVER: Code.OVER_CAPACITY,
    frame_rows.NOTE_REPEATED: Code.REPEATED_DEVICE_VALUES,
    frame_rows.NOTE_UNMAPPED: Code.POD_MEMORY_NOT_MAPPED,
    frame_rows.NOTE_GUESS: Code.CAPACITY_UNKNOWN,
    frame_rows.NOTE_LOW: Code.LOW_COVERAGE,
    frame_rows.NOTE_MORE: Code.MORE_GPUS_THAN_NAMEPLATE,
    frame_rows.NOTE_GPU: Code.GPU_WITHOUT_METRICS,
    frame_rows.NOTE_NODE: Code.NODE_WITHOUT_METRICS,
}


def _findings(notes: Int64, periods: pd.DataFrame, shard: Shard) -> list[Finding]:
    """Notes of all frames, one finding a code and device."""
    if not len(notes):
        return []
    table = pd.DataFrame(notes, columns=["frame", "device", "code", "a", "b", "c", "d"])
    table = table.join(periods[["machine", "start_ms", "end_ms"]], on="frame")
    found = []
    for (code, machine, device), group in table.groupby(["code", "machine", "device"], sort=True):
        subject = str(shard.machines.node[machine])
        if device != ABSENT:
            key = shard.devices.iloc[int(device)]
            subject = "/".join(part for part in (subject, key.gpu_uuid, key.gpu_instance) if part)
        period = (from_ms(group.start_ms.min()), from_ms(group.end_ms.max()))
        told = Finding(_CODES[int(code)], Severity.WARNING, subject, _evidence(int(code), group), period, count=len(group))
        found.append(replace(told, excess=_excess(group)) if code == frame_rows.NOTE_REPEATED else told)
    return found


def _excess(group: pd.DataFrame) -> tuple[tuple[int, int, int], ...]:
    """By charge period, how many byte-ms more than the truth a naive sum over repeated values counts."""
    columns = (group[name].to_list() for name in ("start_ms", "end_ms", "b", "c"))
    return tuple((start, end, (high << wide.BITS) + low) for start, end, high, low in zip(*columns, strict=True))


def _evidence(code: int, group: pd.DataFrame) -> str:
    seconds = group.a.sum() / 1000
    if code == frame_rows.NOTE_OVER:
        return f"pods claimed up to {gib(group.b.max())} of {gib(group.c.max())} GiB for {seconds:g} s; each was scaled down"
    if code == frame_rows.NOTE_REPEATED:
        more = wide.to_float(group.b.to_numpy(np.int64), group.c.to_numpy(np.int64)).sum()
        return (
            f"pods repeat the device's value for {seconds:g} s; it is counted once. A naive sum over pods would count "
            f"{gib(more / 1000)} GiB-seconds more"
        )
    if code == frame_rows.NOTE_UNMAPPED:
        return (
            f"all pods show 0 bytes for {seconds:g} s while the device is in use; its memory was shared among them. "
            "Let the exporter see host process ids"
        )
    if code == frame_rows.NOTE_GUESS:
        return (
            f"no series and no configuration tell the memory of the device; {gib(group.a.max())} GiB, the most ever seen in use, "
            "stands for it. Set gpu_memory for the node"
        )
    if code == frame_rows.NOTE_LOW:
        return f"known {seconds:g} of {group.b.sum() / 1000:g} expected s; the rest is bucket unallocated, reason unknown_time"
    if code == frame_rows.NOTE_MORE:
        return f"up to {group.a.max()} GPUs show values, the machine has {group.b.max()}; a card may have been swapped"
    if code == frame_rows.NOTE_GPU:
        return f"up to {group.a.max()} GPUs without any value in {len(group)} periods; their share is bucket unallocated"
    return "the node is on the bill and has no series that day; its whole cost is bucket unallocated"
