"""Small shards in the words of the oracle, as the tables that the method reads, and the method's answer in the oracle's words.

Here belongs the bridge between ``tests.oracle`` and ``allocation``; strategies are in ``tests.strategies``.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa

from allocation.policy import Policy
from allocation.schemas import NODES, PODS, SAMPLES
from allocation.usage import Measured, measure
from pipelines.inventory import nodes_frame, pods_frame
from tests.oracle import Holder, Key, Machine, Period, Row, Rows, Series
from tests.oracle_inferred import Ask
from tests.oracle_periods import Lives, judge

MODEL = "GPU-MODEL"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Shard:
    """All that one call of the method gets."""

    series: tuple[Series, ...]
    machines: tuple[Machine, ...] = (Machine(),)
    periods: tuple[Period, ...] = ()
    policy: Policy = field(default_factory=Policy)
    lives: Lives = field(default_factory=dict)
    asks: tuple[Ask, ...] = ()

    @property
    def slack(self) -> int:
        """By how many byte-ms a sum may be off: less than one for each piece of time and each division of it."""
        return 8 + 6 * sum(len(s.points) for s in self.series)


def moment(ms: int) -> datetime:
    """Ms since the epoch as a time."""
    return EPOCH + timedelta(milliseconds=ms)


def samples_table(series: tuple[Series, ...]) -> pa.Table:
    """Table ``samples`` of distinct series."""
    rows = []
    for s in series:
        largest: dict[int, int] = {}
        for t, v in s.points:
            largest[t] = max(v, largest.get(t, 0))
        times = sorted(largest)
        rows.append(
            {
                "role": s.role, "level": s.level, "metric": s.metric or f"{s.role}_bytes",
                "includes_reserved": s.includes_reserved, "node": s.node, "gpu_uuid": s.gpu, "gpu_instance": s.instance,
                "mig_profile": "", "gpu_model": MODEL, "namespace": s.holder[0], "pod": s.holder[1], "pod_uid": s.holder[2],
                "container": s.container, "timestamps_ms": times, "values": [float(largest[t]) for t in times],
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SAMPLES.arrow())


def nodes_table(machines: tuple[Machine, ...]) -> pa.Table:
    """Table ``nodes``: every machine all the time."""
    rows = [
        {
            "node": m.node, "node_id": f"id-{m.node}", "node_key": f"id-{m.node}", "alive_from": EPOCH, "alive_until": LATEST,
            "gpus": m.gpus, "gpu_memory_bytes": m.memory, "gpu_memory_configured": m.memory is not None, "configured": True,
        }
        for m in machines
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=NODES.arrow())


def pods_table(lives: Lives) -> pa.Table:
    """Table ``pods`` with known starts and ends."""
    rows = [
        {
            "namespace": ns, "pod": pod, "pod_uid": uid, "seen_from": moment(start), "seen_until": moment(end),
            "started_at": moment(start), "ended_at": moment(end), "labels_from": EPOCH, "labels": [], "annotations": [],
            "gpu_requests": [], "resource_claims": [], "namespace_labels": [],
        }
        for (ns, pod, uid), (start, end) in sorted(lives.items())
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=PODS.arrow())


def pods_of(shard: Shard) -> pd.DataFrame:
    """What the inventory tells: the pods with known lives, and of some of them what they asked for and declared."""
    pods = pods_frame(pods_table(shard.lives))
    for ask in shard.asks:
        mine = (pods.namespace == ask.holder[0]) & (pods.pod == ask.holder[1]) & (pods.pod_uid == ask.holder[2])
        pods.loc[mine, "node"], pods.loc[mine, "gpu_resource"] = ask.node, "nvidia_com_gpu"
        pods.loc[mine, "requested_gpus"] = float(ask.count)
        pods.loc[mine, "declared_memory_bytes"] = np.nan if ask.declared is None else float(ask.declared)
    return pods


def measured(shard: Shard) -> Measured:
    """The method's answer."""
    periods = pd.DataFrame(
        {
            "node_key": [f"id-{p.node}" for p in shard.periods],
            "start_ms": np.array([p.start for p in shard.periods], np.int64),
            "end_ms": np.array([p.end for p in shard.periods], np.int64),
            "expected_ms": np.array([p.expected for p in shard.periods], np.int64),
        }
    )
    return measure(samples_table(shard.series), nodes_frame(nodes_table(shard.machines)), pods_of(shard), periods, shard.policy)


def expected(shard: Shard) -> dict[Period, Rows]:
    """The oracle's answer, without the bucket rows that hold nothing."""
    rows = judge(shard.series, shard.machines, shard.lives, shard.periods, shard.policy, shard.asks)
    return {p: {k: r for k, r in of.items() if k.bucket == "workload" or any(r.shares)} for p, of in rows.items()}


def answered(usage: pa.Table, periods: tuple[Period, ...]) -> dict[Period, Rows]:
    """Table ``usage`` in the oracle's words; GPUs without a name are numbered."""
    of = {(f"id-{p.node}", moment(p.start), moment(p.end)): p for p in periods}
    grouped: dict[Period, tuple[list[dict[str, object]], list[Key]]] = {p: ([], []) for p in periods}
    for row, key in zip(usage.to_pylist(), keys_of(usage), strict=True):
        rows, keys = grouped[of[row["node_key"], row["period_start"], row["period_end"]]]
        rows.append(row)
        keys.append(key)
    return {p: _rows_of(*both) for p, both in grouped.items()}


def _rows_of(rows: list[dict[str, object]], keys: list[Key]) -> Rows:
    found: Rows = {}
    shares = shares_of(rows)
    for row, key, part in zip(rows, keys, shares, strict=True):
        assert key not in found, f"two rows of {key}"
        used, overhead, idle, unmeasured = (_whole(row[c]) for c in WEIGHTS)
        times = int(str(row["observed_ms"])), int(str(row["imputed_ms"]))
        coverage = Fraction(float(str(row["coverage"])))
        found[key] = Row(used, overhead, idle, unmeasured, *times, coverage, _text(row["basis"]), part)
    return found


def keys_of(usage: pa.Table) -> list[Key]:
    """The oracle's key of each row of ``usage``; GPUs without a name are numbered within their period."""
    found: list[Key] = []
    unnamed: dict[tuple[object, object, object], int] = defaultdict(int)
    for row in usage.to_pylist():
        gpu = _text(row["gpu_uuid"])
        if row["reason"] == "gpu_without_metrics" and not gpu:
            frame = row["node_key"], row["period_start"], row["period_end"]
            gpu, unnamed[frame] = f"?{unnamed[frame]}", unnamed[frame] + 1
        holder: Holder = (_text(row["namespace"]), _text(row["pod"]), _text(row["pod_uid"]))
        found.append(Key(gpu, _text(row["gpu_instance"]), _text(row["bucket"]), _text(row["reason"]), holder))
    return found


def frames_of(usage: pa.Table, periods: Sequence[Period]) -> tuple[np.ndarray, np.ndarray]:
    """First row of each period's frame in ``usage``, and one past its last."""
    keys = [(r["node_key"], r["period_start"], r["period_end"]) for r in usage.to_pylist()]
    wanted = [(f"id-{p.node}", moment(p.start), moment(p.end)) for p in periods]
    first = np.array([keys.index(k) for k in wanted], np.int64)
    return first, first + np.array([keys.count(k) for k in wanted], np.int64)


WEIGHTS = ("used_byte_ms", "overhead_byte_ms", "idle_byte_ms", "unmeasured_weight")


def shares_of(rows: list[dict[str, object]]) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Which part of a line each column of each row gets, by the three divisions in turn."""
    gpus: dict[object, Fraction] = {}
    devices: dict[object, dict[object, Fraction]] = defaultdict(dict)
    parts: dict[tuple[object, object], Fraction] = defaultdict(Fraction)
    for row in rows:
        gpu, device = row["gpu_ordinal"], row["device_ordinal"]
        assert gpus.setdefault(gpu, _whole(row["gpu_weight"])) == _whole(row["gpu_weight"])
        assert devices[gpu].setdefault(device, _whole(row["device_weight"])) == _whole(row["device_weight"])
        parts[gpu, device] += sum((_whole(row[c]) for c in WEIGHTS), Fraction(0))
    found = []
    for row in rows:
        gpu, device = row["gpu_ordinal"], row["device_ordinal"]
        whole = gpus[gpu] / sum(gpus.values()) * devices[gpu][device] / sum(devices[gpu].values()) / parts[gpu, device]
        used, overhead, idle, unmeasured = (_whole(row[c]) * whole for c in WEIGHTS)
        host = row["bucket"] == "host"
        found.append((used, overhead + (unmeasured if host else 0), idle + (0 if host else unmeasured)))
    return found


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _whole(value: object) -> Fraction:
    return Fraction(str(value))
