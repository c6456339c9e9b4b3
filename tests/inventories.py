"""Pods as an inventory tells them, written by hand, and what the method makes of series beside them.

Here belongs the bridge for tests of the sharing modes; random shards are in ``tests.strategies``.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from allocation.findings import Code, Finding
from allocation.policy import Policy
from allocation.usage import Measured, measure
from pipelines.inventory import nodes_frame
from tests.oracle import Machine, Period, Series
from tests.shards import nodes_table, samples_table

HOUR = 3_600_000
START = 20_727 * 24 * HOUR
GIB = 2**30
SCRAPE = 30_000
POLICY = Policy()


@dataclass(frozen=True)
class Pod:
    """One pod: name, life in ms from START (``None``: not known), and what it asked for."""

    pod: str
    start: int = 0
    end: int | None = None
    namespace: str = "ml"
    uid: str = ""
    node: str = "n1"
    gpus: float = float("nan")
    resource: str = ""
    memory: float = float("nan")
    fraction: float = float("nan")
    group: str = ""
    claim: bool = False
    reserves: str = ""


def pods_of(*pods: Pod, until: int = 48 * HOUR) -> pd.DataFrame:
    """The frame that the method reads; pods of unknown end are seen until ``until``."""
    rows = [
        {
            "namespace": p.namespace, "pod": p.pod, "pod_uid": p.uid or f"uid-{p.pod}", "node": p.node,
            "seen_ms": START + p.start, "seen_until_ms": START + (until if p.end is None else p.end),
            "started_ms": float(START + p.start), "ended_ms": float("nan") if p.end is None else float(START + p.end),
            "requested_gpus": p.gpus, "declared_memory_bytes": p.memory, "declared_fraction": p.fraction,
            "gpu_group": p.group, "gpu_resource": p.resource, "has_claim": p.claim, "reserves_index": p.reserves,
        }
        for p in pods
    ]  # fmt: skip
    columns = ["namespace", "pod", "pod_uid", "seen_ms", "started_ms", "ended_ms"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns).astype({"seen_ms": "int64", "started_ms": "float64"})


def every(value: float, start: int = 0, end: int = HOUR, step: int = SCRAPE) -> tuple[tuple[int, int], ...]:
    """Samples of one value (bytes), from START + start to before START + end, ms."""
    return tuple((START + t, int(value)) for t in range(start, end, step))


def row(gpu: str, pod: str, points: tuple[tuple[int, int], ...], namespace: str = "ml", **more: Any) -> Series:  # noqa: ANN401
    """A pod's row in the device's own metric."""
    return Series("pod_memory", gpu, points, holder=(namespace, pod, ""), level="device", metric="fb_used", **more)


def card(gpu: str, points: tuple[tuple[int, int], ...], role: str = "used", **more: Any) -> Series:  # noqa: ANN401
    """A device's own row."""
    metric = "fb_used" if role == "used" else f"fb_{role}"
    return Series(role, gpu, points, level="device" if role == "used" else "container", metric=metric, **more)


def periods_of(start: int, end: int, node: str = "n1") -> tuple[Period, ...]:
    """The hours from START + start to START + end."""
    return tuple(Period(START + t, START + t + HOUR, HOUR, node) for t in range(start, end, HOUR))


def taken(
    series: tuple[Series, ...], pods: pd.DataFrame, *, machine: Machine | None = None, hours: tuple[int, int] = (0, 1),
    policy: Policy = POLICY, **told: object,
) -> Measured:  # fmt: skip
    """The method's answer over whole hours of one machine; ``told`` are further columns of its node."""
    nodes = nodes_frame(nodes_table((machine or Machine(gpus=1, memory=80 * GIB),))).assign(**told)
    wanted = periods_of(hours[0] * HOUR, hours[1] * HOUR)
    periods = pd.DataFrame(
        {
            "node_key": ["id-n1"] * len(wanted),
            "start_ms": np.array([p.start for p in wanted], np.int64),
            "end_ms": np.array([p.end for p in wanted], np.int64),
            "expected_ms": HOUR,
        }
    )
    return measure(samples_table(series), nodes, pods, periods, policy)


def used_gib_seconds(measured: Measured) -> dict[tuple[str, str], Fraction]:
    """By (GPU, pod): GiB seconds used. Idle and overhead rows have no pod."""
    found: dict[tuple[str, str], Fraction] = {}
    for r in measured.usage.to_pylist():
        if r["bucket"] == "workload":
            key = (r["gpu_uuid"], r["pod"])
            found[key] = found.get(key, Fraction(0)) + Fraction(str(r["used_byte_ms"])) / GIB / 1000
    return found


def bases(measured: Measured) -> dict[str, set[str]]:
    """By pod: the bases of its rows."""
    found: dict[str, set[str]] = {}
    for r in measured.usage.to_pylist():
        if r["bucket"] == "workload":
            found.setdefault(r["pod"], set()).add(r["basis"])
    return found


def found(measured: Measured, code: Code) -> list[Finding]:
    """The findings of one code."""
    return [f for f in measured.findings if f.code is code]
