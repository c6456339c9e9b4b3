"""The host's part by requests (R48): weights by hand, and that nothing is lost or made up."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.apportion import apportion
from allocation.findings import Code
from allocation.host import by_requests
from allocation.schemas import USAGE

HOUR = 3_600_000
START = 20_727 * 24 * HOUR
GIB = 2**30
NAN = float("nan")
LAST = 1 << 20
HOLD = 120_000


def usage_of(share: float = 0.8, start: int = START, hours: int = 1) -> pa.Table:
    """One GPU of 80 GiB wholly held by pod `gpu`, and the host's row, in one frame of n1."""
    ppb = round(share * 10**9)
    usual = {
        "node_key": "id-n1", "node": "n1", "node_id": "id-n1",
        "period_start": pd.Timestamp(start, unit="ms", tz="UTC"),
        "period_end": pd.Timestamp(start + hours * HOUR, unit="ms", tz="UTC"),
        "device_ordinal": 0, "device_weight": Decimal(1), "overhead_byte_ms": Decimal(0), "idle_byte_ms": Decimal(0),
        "observed_ms": hours * HOUR, "imputed_ms": 0, "coverage": 1.0,
    }  # fmt: skip
    rows = [
        usual | {"gpu_uuid": "GPU-1", "bucket": "workload", "namespace": "ml", "pod": "gpu", "pod_uid": "u-gpu", "gpu_ordinal": 0,
                 "gpu_weight": Decimal(80 * ppb), "used_byte_ms": Decimal(1), "unmeasured_weight": Decimal(0),
                 "basis": "exclusive"},
        usual | {"bucket": "host", "reason": "gpu_share", "gpu_ordinal": LAST, "gpu_weight": Decimal(80 * (10**9 - ppb)),
                 "used_byte_ms": Decimal(0), "unmeasured_weight": Decimal(1), "basis": "none"},
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=USAGE.arrow())


def nodes_of(cpu: float = 8000, memory: float = 64 * GIB, until: int = 2**42, since: int = 0) -> pd.DataFrame:
    return pd.DataFrame(
        {"node": ["n1"], "node_key": ["id-n1"], "from_ms": [since], "until_ms": [until], "allocatable_cpu_milli": [cpu],
         "allocatable_memory_bytes": [memory]}
    )  # fmt: skip


def pod(name: str, cpu: float, memory: float, start: float = 0, end: float = NAN, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Times in minutes from START; without an end it is seen for two hours."""
    return {
        "namespace": "ml", "pod": name, "pod_uid": f"u-{name}", "node": "n1", "seen_ms": START + round(start * 60_000),
        "seen_until_ms": START + 2 * HOUR, "started_ms": START + start * 60_000, "ended_ms": START + end * 60_000,
        "requested_cpu_milli": cpu, "requested_memory_bytes": memory, **more,
    }  # fmt: skip


def periods_of(hours: int = 1, expected: int | None = None) -> pd.DataFrame:
    end = START + hours * HOUR
    return pd.DataFrame({"node_key": ["id-n1"], "start_ms": [START], "end_ms": [end], "expected_ms": [expected or hours * HOUR]})


def money(usage: pa.Table, nanos: int = 100 * 10**9) -> dict[tuple[str, str], int]:
    """Overhead nanos of the host's part of one line, by bucket and pod; the three columns of a row add up to it."""
    _, _, parts = apportion(np.array([nanos]), np.array([0]), np.array([len(usage)]), usage)
    rows = zip(usage.to_pylist(), parts.tolist(), strict=True)
    assert int(parts.sum()) == nanos
    told = [(r, p) for r, p in rows if r["gpu_ordinal"] == LAST]
    assert all(p[0] == p[2] == 0 for _, p in told)
    return {(r["bucket"], r["pod"] or ""): p[1] for r, p in told}


def dollars(usage: pa.Table) -> dict[tuple[str, str], float]:
    return {key: nanos / 10**9 for key, nanos in money(usage).items()}


A = pod("a", 4000, 16 * GIB)
B = pod("b", 2000, 32 * GIB, end=30)


def test_half_by_cpu_half_by_memory() -> None:
    """$100, share 0.8: host 20. CPU half 10: a 4 of 8 cores = 5, b 2 of 8 for half the hour = 1.25, 3.75 left. Memory half 10:
    a 16 of 64 GiB = 2.50, b 32 of 64 for half the hour = 2.50, 5 left."""
    usage, found = by_requests(usage_of(), nodes_of(), pd.DataFrame([B, A]), periods_of(), HOLD)
    assert found == []
    assert dollars(usage) == {("workload", "a"): 7.5, ("workload", "b"): 3.75, ("host", ""): 8.75}
    assert [r["pod"] for r in usage.to_pylist()] == ["gpu", "a", "b", None]
    row = usage.to_pylist()[1]
    assert (row["gpu_uuid"], row["basis"], row["observed_ms"], row["reason"]) == (None, "estimated_requests", 0, None)
    assert (row["namespace"], row["pod_uid"], row["used_byte_ms"]) == ("ml", "u-a", 0)


def test_more_than_the_node_has_is_shared() -> None:
    """c asks for 12 of 8 cores and a for 4: of 10 a gets 2.50, c 7.50; memory unasked: 10 left."""
    asking = pd.DataFrame([pod("a", 4000, 0), pod("c", 12000, NAN)])
    usage, _ = by_requests(usage_of(), nodes_of(), asking, periods_of(), HOLD)
    assert dollars(usage) == {("workload", "a"): 2.5, ("workload", "c"): 7.5, ("host", ""): 10.0}


def test_nothing_left_is_no_row() -> None:
    usage, _ = by_requests(usage_of(), nodes_of(), pd.DataFrame([pod("a", 8000, 64 * GIB)]), periods_of(), HOLD)
    assert dollars(usage) == {("workload", "a"): 20.0}


def test_what_is_not_told_stays_with_the_host() -> None:
    """No allocatable memory: its half stays; of the CPU half a has 5."""
    usage, found = by_requests(usage_of(), nodes_of(memory=NAN), pd.DataFrame([A]), periods_of(), HOLD)
    assert dollars(usage) == {("workload", "a"): 5.0, ("host", ""): 15.0}
    assert [(f.code, f.subject) for f in found] == [(Code.HOST_NOT_DIVIDED, "n1")]
    assert "how much memory the node" in found[0].evidence
    usage, found = by_requests(usage_of(), nodes_of(NAN, NAN), pd.DataFrame([A]), periods_of(), HOLD)
    assert dollars(usage) == {("workload", "a"): 0.0, ("host", ""): 20.0}
    assert "how much cpu and memory the node" in found[0].evidence


def test_a_machine_that_was_there_for_a_part_of_the_hour() -> None:
    """A quarter of an hour expected: 4 of 8 cores in it is half of the CPU half."""
    asking = pd.DataFrame([pod("a", 4000, 0, 0, 15)])
    usage, _ = by_requests(usage_of(), nodes_of(), asking, periods_of(expected=HOUR // 4), HOLD)
    assert dollars(usage) == {("workload", "a"): 5.0, ("host", ""): 15.0}


@pytest.mark.parametrize(
    ("more", "minutes"),
    [
        ({}, 60),
        ({"ended_ms": float(START + HOUR // 2)}, 30),
        ({"seen_until_ms": START + HOUR // 4}, 17),
        ({"started_ms": NAN, "seen_ms": START + HOUR // 2}, 30),
        ({"started_ms": float(START - HOUR), "ended_ms": float(START)}, 0),
        ({"node": "n2"}, 0),
        ({"node": ""}, 0),
    ],
)
def test_time_alive(more: dict[str, Any], minutes: int) -> None:
    """Of unknown end: max_hold (2 m) after the last sight. 6 of 8 cores in the whole hour are 7.50, $0.125 a minute."""
    usage, _ = by_requests(usage_of(), nodes_of(), pd.DataFrame([pod("a", 6000, 0, **more)]), periods_of(), HOLD)
    assert dollars(usage).get(("workload", "a"), 0.0) == pytest.approx(minutes * 0.125)


def test_a_name_that_meant_another_machine() -> None:
    """Until half past the name n1 meant another machine: a counts here from then on, 4 of 8 cores for half the hour."""
    nodes = pd.concat([nodes_of(since=START + HOUR // 2), nodes_of(until=START + HOUR // 2).assign(node_key="id-old")])
    usage, _ = by_requests(usage_of(), nodes, pd.DataFrame([pod("a", 4000, 0)]), periods_of(), HOLD)
    assert dollars(usage) == {("workload", "a"): 2.5, ("host", ""): 17.5}


def test_without_a_host_part_or_requests_nothing_changes() -> None:
    only_gpu = usage_of().slice(0, 1)
    assert by_requests(only_gpu, nodes_of(), pd.DataFrame([A]), periods_of(), HOLD) == (only_gpu, [])
    silent = pd.DataFrame([pod("a", NAN, 0)])
    assert by_requests(usage_of(), nodes_of(), silent, periods_of(), HOLD) == (usage_of(), [])


def test_requests_that_cannot_be_leave_all_in_the_host() -> None:
    """4000 pods that each ask for all of the largest machine, for a day: the weights would not fit."""
    asking = pd.DataFrame([pod(f"p{n}", 2.0**22 - 1, 2.0**45 - 1) for n in range(4000)]).assign(seen_until_ms=START + 48 * HOUR)
    usage, found = by_requests(usage_of(hours=24), nodes_of(2.0**22 - 1, 2.0**45 - 1), asking, periods_of(24), HOLD)
    assert money(usage)["host", ""] == 20 * 10**9
    assert [f.code for f in found] == [Code.HOST_NOT_DIVIDED]


asked = st.tuples(
    st.integers(0, 300_000), st.integers(0, 2**42), st.integers(0, 60), st.integers(1, 60), st.sampled_from(["a", "b", "ü", "B"])
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(asked, max_size=8), st.integers(1, 400_000), st.integers(1, 2**42),
    st.integers(-(9 * 10**18), 9 * 10**18), st.integers(1, 999_999_999),
)  # fmt: skip
def test_parts_are_the_largest_remainder_parts(
    drawn: list[tuple[int, int, int, int, str]], cpu: int, memory: int, nanos: int, share: int
) -> None:
    """Each part is within one nano of its exact share, in exact fractions; the parts add up to the host's part."""
    told = [pod(f"{name}{n}", c, m, start, min(60, start + length)) for n, (c, m, start, length, name) in enumerate(drawn)]
    usage = usage_of(share / 10**9)
    host = money(usage, nanos)["host", ""]
    frame = pd.DataFrame(told) if told else pd.DataFrame([A]).iloc[:0]
    divided, _ = by_requests(usage, nodes_of(cpu, memory), frame, periods_of(), HOLD)
    parts = money(divided, nanos)
    assert sum(parts.values()) == host
    halves = []
    for column, most in (("requested_cpu_milli", cpu), ("requested_memory_bytes", memory)):
        wants = {p["pod"]: int(p[column]) * int(p["ended_ms"] - p["started_ms"]) for p in told}
        whole = max(most * HOUR, sum(wants.values()))
        halves.append({name: Fraction(want, 2 * whole) for name, want in wants.items()})
    exact = {name: host * (halves[0][name] + halves[1][name]) for name in halves[0]}
    assert all(abs(nanos - exact[name]) < 1 for (bucket, name), nanos in parts.items() if bucket == "workload")
    rows = [r for r in divided.to_pylist() if r["gpu_ordinal"] == LAST]
    keys = [(r["bucket"] == "host", (r["pod"] or "").encode()) for r in rows]
    assert keys == sorted(keys)
