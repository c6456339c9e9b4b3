"""``gpu_share: by_sku``: lines of GPUs to the GPUs, lines of cores and memory to the host. Every figure is worked out by hand."""

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

from allocation.chargeback import Stamp, charge
from allocation.owners import Owners
from allocation.policy import BY_SKU, WHOLE_PPB, Policy
from tests.allocation.test_properties import lines_table, parts_of
from tests.oracle import Machine, Period, Series
from tests.shards import Shard, measured, pods_table

GIB = 2**30
HOUR = 3_600_000
NOON = 1_790_812_800_000
PERIOD = Period(NOON, NOON + HOUR, HOUR)
UNIT = 10**9


def held(pod: str, gib: int, gpu: str = "GPU-1") -> Series:
    """So much memory of a pod all the hour."""
    points = tuple((NOON + minute * 60_000, gib * GIB) for minute in range(0, 60, 10))
    return Series("pod_memory", gpu, points, holder=("ns", pod, ""))


def charged(costs: Sequence[int], parts: Sequence[str | None], *series: Series, policy: Policy) -> list[dict[str, object]]:
    """The rows of lines that each pay for a part of one machine with one GPU of 80 GiB."""
    shard = Shard(series, (Machine(gpus=1, memory=80 * GIB),), (PERIOD,), policy)
    periods = [PERIOD] * len(costs)
    lines = lines_table(list(costs), periods)
    at = lines.schema.get_field_index("machine_part")
    lines = lines.set_column(at, lines.schema.field(at), pa.array(parts, pa.string()))
    found, _ = charge(lines, parts_of(list(costs), periods), measured(shard).usage, pods_table({}), Owners(), Stamp("p", "r"))
    rows: list[dict[str, object]] = found.table.to_pylist()
    return rows


def sums(rows: list[dict[str, object]]) -> dict[tuple[object, object, object], Decimal]:
    found: dict[tuple[object, object, object], Decimal] = {}
    for row in rows:
        key = row["line_item_id"], row["bucket"], row["pod"]
        found[key] = found.get(key, Decimal(0)) + Decimal(str(row["cost"]))
    return found


TEN = Policy(max_hold_ms=600_000, gpu_share_ppb=BY_SKU)


def test_each_line_goes_to_its_side_and_a_credit_with_its_row() -> None:
    """GPU 2.933908, its credit -0.4, cores 0.379332, memory 0.360145 and a row of no part 1: a has 60 of 80 GiB, b 20."""
    costs = [2_933_908_000, -400_000_000, 379_332_000, 360_145_000, UNIT]
    rows = charged(costs, ["gpu", "gpu", "core", "memory", None], held("a", 60), held("b", 20), policy=TEN)
    assert sums(rows) == {
        ("l0", "workload", "a"): Decimal("2.200431"),
        ("l0", "workload", "b"): Decimal("0.733477"),
        ("l1", "workload", "a"): Decimal("-0.3"),
        ("l1", "workload", "b"): Decimal("-0.1"),
        ("l2", "host", None): Decimal("0.379332"),
        ("l3", "host", None): Decimal("0.360145"),
        ("l4", "workload", "a"): Decimal("0.75"),
        ("l4", "workload", "b"): Decimal("0.25"),
    }
    assert {(r["bucket"], r["reason"]) for r in rows} == {("workload", None), ("host", "gpu_share")}


def test_lines_of_gpus_are_divided_as_with_a_share_of_one() -> None:
    """To the last nano, also where it cannot be even: by_sku changes who pays for cores, and nothing of the GPUs."""
    series = held("a", 7), held("b", 11), held("c", 3, "GPU-2")
    costs = [1, -1, 1_000_000_007, 999_999_999_999]
    parts = ["gpu", "gpu", "gpu", None]
    whole = Policy(max_hold_ms=600_000, gpu_share_ppb=WHOLE_PPB)
    assert charged(costs, parts, *series, policy=TEN) == charged(costs, parts, *series, policy=whole)


def test_a_machine_without_series_is_not_divided_at_all() -> None:
    rows = charged([UNIT, UNIT], ["gpu", "core"], policy=TEN)
    assert sums(rows) == {(line, "unallocated", None): Decimal(1) for line in ("l0", "l1")}
    assert {r["reason"] for r in rows} == {"node_without_metrics"}


@pytest.mark.parametrize(("share", "host"), [(800_000_000, Decimal("0.2")), (WHOLE_PPB, Decimal(0))])
def test_with_a_number_the_part_does_not_matter(share: int, host: Decimal) -> None:
    policy = Policy(max_hold_ms=600_000, gpu_share_ppb=share)
    rows = charged([UNIT] * 3, ["gpu", "core", None], held("a", 80), policy=policy)
    found = sums(rows)
    assert [found.get((line, "host", None), Decimal(0)) for line in ("l0", "l1", "l2")] == [host] * 3


def test_by_type_only_the_machines_of_the_type_tell_parts_apart() -> None:
    """The only machine is of no known type: the table's default, all to the GPUs."""
    policy = Policy(max_hold_ms=600_000, gpu_shares=(("a2-*", BY_SKU),))
    assert sums(charged([UNIT], ["core"], held("a", 80), policy=policy)) == {("l0", "workload", "a"): Decimal(1)}
    assert (policy.share_of("a2-highgpu-1g"), policy.share_of("a3-highgpu-8g")) == (BY_SKU, WHOLE_PPB)
