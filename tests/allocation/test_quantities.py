"""Quantities of ``daily_mart``: counted once however many lines bill the time. Every figure is worked out by hand."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.chargeback import Rows, Stamp, charge
from allocation.marts import booked_periods, daily_mart, nano_hours
from allocation.model_split import ModelSplit, Served
from allocation.owners import Owners
from allocation.policy import BY_SKU, Policy
from allocation.quantities import counted_parts
from allocation.schemas import COUNTERS
from allocation.sums import PARTS_OF_A_MS, sums_of
from tests.allocation.test_properties import lines_table, parts_of
from tests.oracle import Holder, Machine, Period, Series
from tests.shards import EPOCH, LATEST, Shard, measured, pods_table
from tests.strategies import shards

GIB, HOUR, NOON, UNIT = 2**30, 3_600_000, 1_790_812_800_000, 10**9
PERIOD = Period(NOON, NOON + HOUR, HOUR)
DAY = Period(NOON - 12 * HOUR, NOON + 12 * HOUR, 24 * HOUR)
ALWAYS = (int(EPOCH.timestamp()) * 1000, int(LATEST.timestamp()) * 1000)
SPLIT = ModelSplit({"vllm": {"prompt": 10**6, "generation": 10**6}})
Row = dict[str, object]


def held(pod: str, gib: int, gpu: str = "GPU-1", instance: str = "", hours: int = 1) -> Series:
    """So much memory of a pod from noon on."""
    points = tuple((NOON + minute * 60_000, gib * GIB) for minute in range(0, 60 * hours, 10))
    return Series("pod_memory", gpu, points, instance=instance, holder=("ns", pod, ""))


def of_instance(role: str, gib: int, instance: str) -> Series:
    points = tuple((NOON + minute * 60_000, gib * GIB) for minute in range(0, 60, 10))
    return Series(role, "GPU-1", points, instance=instance)


def pods_asking(asked: dict[str, float | None]) -> pa.Table:
    pods = pods_table({Holder(("ns", pod, "")) if callable(Holder) else ("ns", pod, ""): ALWAYS for pod in asked})
    at = pods.schema.get_field_index("requested_gpus")
    return pods.set_column(at, pods.schema.field(at), pa.array([asked[p] for p in pods["pod"].to_pylist()], pa.float64()))


def charged(
    costs: Sequence[int],
    *series: Series,
    machine_part: Sequence[str | None] | None = None,
    periods: Sequence[Period] | None = None,
    machine: Machine | None = None,
    policy: Policy | None = None,
    asked: dict[str, float | None] | None = None,
    counters: pa.Table | None = None,
    metrics: Sequence[str] | None = None,
) -> Rows:
    """Lines of one machine, each over its period."""
    of_line = list(periods or [PERIOD] * len(costs))
    machine = machine or Machine(gpus=1, memory=80 * GIB)
    shard = Shard(series, (machine,), tuple(dict.fromkeys(of_line)), policy or Policy(max_hold_ms=600_000))
    lines = lines_table(list(costs), of_line)
    for name, values in (("machine_part", machine_part), ("cost_metric", metrics)):
        if values:
            at = lines.schema.get_field_index(name)
            lines = lines.set_column(at, lines.schema.field(at), pa.array(values, pa.string()))
    told = pd.DataFrame([{"node_key": f"id-{p.node}", "start_ms": p.start, "end_ms": p.end, "expected_ms": p.expected} for p in
                         shard.periods]).assign(gpus=machine.gpus or 0)  # fmt: skip
    served = None if counters is None else Served(counters, SPLIT, 900_000)
    pods = pods_asking(asked or {})
    found, _ = charge(
        lines, parts_of(list(costs), of_line), measured(shard).usage, pods, Owners(), Stamp("p", "r"), served=served, periods=told
    )
    return found


def sums(rows: Rows, *keys: str) -> dict[tuple[object, ...], Row]:
    """Figures of the day's mart by some columns of ``holders`` that its keys need not have."""
    holders = sums_of(rows.table, rows.beside).holders
    at = holders.schema.get_field_index("namespace")
    named = holders.set_column(at, "namespace", holders["pod"]) if "pod" in keys else holders
    mart = daily_mart(named, date(2026, 10, 1), (), "run")
    names = ["namespace" if key == "pod" else key for key in keys]
    figures = [n for n in mart.column_names if n.endswith(("_hours", "cost")) or n == "tokens"]
    added = mart.group_by(names, use_threads=False).aggregate([(name, "sum") for name in figures])
    return {tuple(r[n] for n in names): {name: r[f"{name}_sum"] for name in figures} for r in added.to_pylist()}


def hours(text: str) -> Decimal:
    return Decimal(text).quantize(Decimal("0.000000001"))


def test_three_pods_that_share_a_gpu_have_a_third_of_its_time_each() -> None:
    """Equal memory: 1/3 of the GPU's hour; each held it for an hour, and asked for one."""
    rows = charged([90 * UNIT], *(held(pod, 20) for pod in "abc"), asked=dict.fromkeys("abc", 1.0))
    found = sums(rows, "pod", "bucket")
    assert set(found) == {(pod, "workload") for pod in "abc"}
    for of_pod in found.values():
        assert of_pod["gpu_hours"] == hours("0.333333333")
        assert (of_pod["held_gpu_hours"], of_pod["requested_gpu_hours"]) == (1, 1)
        assert (of_pod["used_gib_hours"], of_pod["tokens"]) == (20, None)


def test_credits_taxes_and_fees_add_money_and_no_time() -> None:
    """An hour's line, its credit, a tax, a line of nothing and a day's fee of the same machine: two GPUs, so two hours."""
    costs, periods = [10 * UNIT, -10 * UNIT, UNIT, 0, 48 * UNIT], [PERIOD] * 4 + [DAY]
    machine = Machine(gpus=2, memory=80 * GIB)
    alone = sums(charged(costs[:1], held("a", 40), machine=machine), "bucket", "pod")
    more = sums(charged(costs, held("a", 40), machine=machine, periods=periods), "bucket", "pod")
    for name in ("gpu_hours", "held_gpu_hours", "used_gib_hours", "idle_gib_hours"):
        assert {k: r[name] for k, r in more.items() if r[name]} == {k: r[name] for k, r in alone.items() if r[name]}
    assert sum(r["gpu_hours"] for r in more.values()) == 2  # type: ignore[misc]
    assert sum(r["cost"] for r in more.values()) == 49  # type: ignore[misc]


def test_a_line_of_nothing_has_time_and_each_cost_metric_its_own() -> None:
    rows = charged([0, 5 * UNIT], held("a", 80), metrics=["effective", "list"])
    found = sums(rows, "cost_metric")
    assert {key: r["gpu_hours"] for key, r in found.items()} == {("effective",): 1, ("list",): 1}


def test_instances_have_the_part_of_their_card_that_their_money_is() -> None:
    """Of 40 GiB: 20 and 10 held, 5 idle, 5 stranded: 1/2, 1/4, 1/8, 1/8 of the hour. A pod with both instances asked for two."""
    device = [of_instance(role, gib, i) for i, used, free in (("1", 20, 0), ("2", 10, 0), ("3", 0, 5))
              for role, gib in (("used", used), ("free", free))]  # fmt: skip
    machine = Machine(gpus=1, memory=40 * GIB)
    rows = charged(
        [40 * UNIT], *device, held("a", 20, instance="1"), held("a", 10, instance="2"), machine=machine, asked={"a": 2.0}
    )
    found = {key: r["gpu_hours"] for key, r in sums(rows, "bucket", "pod").items()}
    assert found == {("workload", "a"): hours("0.75"), ("idle", None): hours("0.125"), ("stranded", None): hours("0.125")}
    of_pod = sums(rows, "bucket")[("workload",)]
    assert (of_pod["held_gpu_hours"], of_pod["requested_gpu_hours"]) == (2, 2)


def test_cores_and_memory_have_no_gpu_time() -> None:
    rows = charged(
        [3 * UNIT, UNIT, UNIT], held("a", 40), machine_part=["gpu", "core", "memory"],
        policy=Policy(max_hold_ms=600_000, gpu_share_ppb=BY_SKU),
    )  # fmt: skip
    found = {key: (r["cost"], r["gpu_hours"]) for key, r in sums(rows, "bucket").items()}
    assert found == {("workload",): (3, 1), ("host",): (2, 0)}


def test_a_machine_of_which_nothing_is_known_has_the_time_of_all_its_gpus() -> None:
    rows = charged([8 * UNIT], machine=Machine(gpus=8, memory=80 * GIB))
    assert sums(rows, "reason") == {("node_without_metrics",): {**sums(rows, "reason")[("node_without_metrics",)]}}
    assert sums(rows, "bucket")[("unallocated",)]["gpu_hours"] == 8


def test_tokens_stand_once_on_their_model_and_time_goes_by_them() -> None:
    """Two GPUs of one server: llama 300 + 300 tokens, mistral 200: 3 : 1 of two hours. A credit adds none."""
    series = [("llama", "prompt", 300), ("llama", "generation", 300), ("mistral", "prompt", 150), ("mistral", "generation", 50)]
    counters = pa.Table.from_pylist(
        [
            {
                "server": "vllm", "kind": kind, "namespace": "ns", "pod": "a", "pod_uid": "", "model": model, "instance": "",
                "replica": "", "timestamps_ms": [NOON + m * 600_000 for m in range(6)],
                "values": [n * i // 5 for i in range(6)],
            }
            for model, kind, n in series
        ],
        schema=COUNTERS.arrow(),
    )  # fmt: skip
    machine = Machine(gpus=2, memory=80 * GIB)
    rows = charged([80 * UNIT, -UNIT], held("a", 40), held("a", 40, "GPU-2"), machine=machine, counters=counters)
    found = {key: (r["tokens"], r["gpu_hours"]) for key, r in sums(rows, "model").items()}
    assert found == {("llama",): (600, hours("1.5")), ("mistral",): (200, hours("0.5"))}
    unnamed = counters.filter(pa.array([True, True, False, False]))
    at = unnamed.schema.get_field_index("model")
    unnamed = unnamed.set_column(at, unnamed.schema.field(at), pa.array(["", ""]))
    rows = charged([80 * UNIT, -UNIT], held("a", 40), held("a", 40, "GPU-2"), machine=machine, counters=unnamed)
    assert [r["tokens"] for r in sums(rows, "bucket").values()] == [600]


def test_a_fee_of_months_stands_in_the_day_s_month() -> None:
    september, october, november = (date(2026, m, 1) for m in (9, 10, 11))
    billed = pa.chunked_array([pa.array([september, september, november, september, october])])
    spread = pa.chunked_array([pa.array([True, False, True, False, True])])
    found = booked_periods(billed, spread, date(2026, 10, 20), [])
    assert found.to_pylist() == [october, september, november, september, october]
    closed = booked_periods(billed, spread, date(2026, 10, 20), [september])
    assert closed.to_pylist() == [october, october, november, october, october]


@pytest.mark.parametrize("units", [PARTS_OF_A_MS * HOUR, 2**20 * 3600])
def test_hours_are_rounded_once_half_to_even(units: int) -> None:
    values = [0, 1, 7, units, 2**53 + 1, 2**60 + 3, units // 2**9, 10**15 + 1]
    found = nano_hours(np.array(values, np.int64), units).tolist()
    assert found == [round(Fraction(v * 10**9, units)) for v in values]


PERIODS = st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda p: (p[0], p[0] + p[1]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(PERIODS, st.integers(0, 1), st.integers(0, 1), st.integers(-3, 3)), max_size=12))
def test_no_moment_of_a_machine_counts_twice(asked: list[tuple[tuple[int, int], int, int, int]]) -> None:
    """And what does not count is longer than, or as long as, one that does and that it overlaps; the larger amount speaks."""
    frames = {key: n for n, key in enumerate(dict.fromkeys((m, p) for p, m, _, _ in asked))}
    parts = pd.DataFrame(
        {"node_key": [f"m{m}" for _, m, _, _ in asked], "start_ms": [p[0] for p, *_ in asked],
         "end_ms": [p[1] for p, *_ in asked], "nanos": [n for *_, n in asked]}
    ).astype({"start_ms": "int64", "end_ms": "int64", "nanos": "int64"})  # fmt: skip
    first = np.array([frames[m, p] for p, m, _, _ in asked], np.int64)
    metric = np.array([k for _, _, k, _ in asked], np.int64)
    counts = counted_parts(parts, metric, first, np.zeros(len(asked), np.bool_))
    for kind in (0, 1):
        for machine in (0, 1):
            mine = [(p, n, bool(c)) for (p, m, k, n), c in zip(asked, counts, strict=True) if (m, k) == (machine, kind)]
            kept = sorted(p for p, _, c in mine if c)
            assert all(a[1] <= b[0] for a, b in pairwise(kept))
            for p, n, c in mine:
                same = [o for q, o, d in mine if q == p and d]
                over = [q for q in kept if q[0] < p[1] and p[0] < q[1]]
                assert c or over
                assert not same or abs(same[0]) >= abs(n)
                assert c or bool(same) or min(q[1] - q[0] for q in over) <= p[1] - p[0]


@settings(max_examples=25, deadline=None)
@given(shards(mig=True), st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=3))
def test_gpu_time_is_gpus_times_expected_time(shard: Shard, costs: list[int]) -> None:
    """To the last part of a ms, whatever the lines are."""
    usage = measured(shard).usage
    of_line = [p for p in shard.periods for _ in costs]
    told = pd.DataFrame([{"node_key": f"id-{p.node}", "start_ms": p.start, "end_ms": p.end, "expected_ms": p.expected} for p in
                         shard.periods]).assign(gpus=5)  # fmt: skip
    lines, parts = lines_table(costs * len(shard.periods), of_line), parts_of(costs * len(shard.periods), of_line)
    rows, _ = charge(lines, parts, usage, pods_table(shard.lives), Owners(), Stamp("p", "r"), periods=told)
    frames = usage.select(["node_key", "period_start", "period_end", "gpu_ordinal", "reason", "bucket"]).to_pandas()
    frames = frames[frames.bucket != "host"].drop_duplicates(["node_key", "period_start", "period_end", "gpu_ordinal"])
    expected = {(f"id-{p.node}", p.start, p.end): p.expected for p in shard.periods}
    spans = [frames[name].astype("int64") // 1000 for name in ("period_start", "period_end")]
    keys = zip(frames.node_key, *spans, frames.reason, strict=True)
    wanted = sum(expected[key, start, end] * (5 if why == "node_without_metrics" else 1) for key, start, end, why in keys)
    overlapping = len(shard.periods) > len({p.node for p in shard.periods}) and any(
        a.node == b.node and a.start < b.end and b.start < a.end for a in shard.periods for b in shard.periods if a is not b
    )
    got = sum(rows.beside["gpu_time"].to_pylist())
    assert got <= wanted * PARTS_OF_A_MS if overlapping else got == wanted * PARTS_OF_A_MS
