"""Rows that a provider split itself: each origin's money is split by us once, never twice and never not at all."""

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import ChargebackError
from allocation.split_rows import settled
from tests.billing_adapters.bills import focus_bytes, parse_all, write

Row = dict[str, str]


def row(cost: str, pod: str = "", **more: str) -> Row:
    return {"BilledCost": cost, "EffectiveCost": cost, "AllocatedResourceId": pod, **more}


def sums(tmp_path: Path, *rows: Row, cost: str | tuple[str, ...] = "billed") -> dict[str | None, Decimal]:
    """What each rule has in all; None is what is split."""
    lines = settled(parse_all("focus", write(tmp_path / "bill.csv", focus_bytes(*rows)), cost=cost))
    told: dict[str | None, Decimal] = {}
    for line in lines.to_pylist():
        told[line["scope_rule"]] = told.get(line["scope_rule"], Decimal(0)) + line["cost_nanos"] * Decimal("1e-9")
    return told


PARTS = [row("40", "pod-1"), row("35", "pod-2"), row("25", "pod-3")]


def test_an_origin_that_stays_with_nothing(tmp_path: Path) -> None:
    assert sums(tmp_path, row("0"), *PARTS) == {None: 100}


def test_an_origin_that_is_not_delivered(tmp_path: Path) -> None:
    assert sums(tmp_path, *PARTS) == {None: 100}


def test_an_origin_that_keeps_its_money(tmp_path: Path) -> None:
    assert sums(tmp_path, row("100"), *PARTS) == {None: 100, "provider_split": 100}


def test_parts_that_were_rounded_are_copies_still(tmp_path: Path) -> None:
    parts = [row("33.33", f"pod-{n}") for n in range(3)]
    assert sums(tmp_path, row("100"), *parts) == {None: 100, "provider_split": Decimal("99.99")}


def test_a_credit_and_its_split_are_the_mirror_image(tmp_path: Path) -> None:
    parts = [row("-40", "pod-1"), row("-60", "pod-2")]
    assert sums(tmp_path, row("0"), *parts) == {None: -100}
    assert sums(tmp_path, row("-100"), *parts) == {None: -100, "provider_split": -100}


def test_hours_and_machines_are_told_apart(tmp_path: Path) -> None:
    later = {"ChargePeriodStart": "2026-10-01T01:00:00Z", "ChargePeriodEnd": "2026-10-01T02:00:00Z"}
    other = {"ResourceId": "i-0b00000000000002b"}
    rows = [row("100"), *PARTS, row("0", **later), *[{**part, **later} for part in PARTS], row("100", **other)]
    # The first hour's parts are copies; the second's are the money; the other machine has no parts.
    assert sums(tmp_path, *rows) == {None: 300, "provider_split": 100}


def test_each_metric_is_settled_by_itself(tmp_path: Path) -> None:
    # Under a commitment the origin is billed nothing; its effective cost stays beside the copies.
    origin = row("0") | {"EffectiveCost": "100"}
    assert sums(tmp_path, origin, *PARTS, cost="billed") == {None: 100}
    assert sums(tmp_path, origin, *PARTS, cost="effective") == {None: 100, "provider_split": 100}
    assert sums(tmp_path, origin, *PARTS, cost=("billed", "effective")) == {None: 200, "provider_split": 100}


def test_another_charge_on_the_same_machine_is_no_origin(tmp_path: Path) -> None:
    rows = [row("0"), *PARTS, row("100", SkuId="SKU-OTHER"), row("-100", ChargeClass="Correction")]
    assert sums(tmp_path, *rows) == {None: 100}


def test_a_small_charge_beside_its_parts_is_a_charge(tmp_path: Path) -> None:
    assert sums(tmp_path, row("5"), *PARTS) == {None: 105}


def test_an_origin_of_more_than_its_parts_cannot_be_told(tmp_path: Path) -> None:
    with pytest.raises(ChargebackError, match=r"bill\.csv, row 1: .*i-0a00000000000001a adds up to 75.* origin has 100 "):
        sums(tmp_path, row("100"), *PARTS[:2])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"ResourceId": ""}, "no_resource"),
        ({"ServiceCategory": "Storage"}, "service_not_compute"),
        ({"ConsumedUnit": "GB", "PricingUnit": "GB"}, "unit_not_time"),
        ({"CapacityReservationStatus": "Unused"}, "reserved_unused"),
    ],
)
def test_parts_of_what_is_not_split_stay_outside_by_its_rule(tmp_path: Path, change: Row, rule: str) -> None:
    assert sums(tmp_path, *[{**part, **change} for part in PARTS]) == {rule: 100}


def test_a_part_says_nothing_of_the_machine_s_time(tmp_path: Path) -> None:
    content = focus_bytes(row("0"), row("40", "pod-1", ConsumedQuantity="0.4"), {"AllocatedMethodId": "vcpu-hours"})
    lines = parse_all("focus", write(tmp_path / "bill.csv", content))
    assert lines["scope_rule"].to_pylist() == [None, "provider_split", "provider_split"]
    assert lines["machine_ms"].to_pylist() == [3_600_000, None, None]


def test_order_changes_nothing_and_other_bills_are_left_alone(tmp_path: Path) -> None:
    rows = [row("100"), *PARTS, row("0", ResourceId="i-2"), *[{**part, "ResourceId": "i-2"} for part in PARTS]]
    wanted = sums(tmp_path, *rows)
    random.Random(3).shuffle(rows)  # noqa: S311 - an order, no secret
    assert sums(tmp_path, *rows) == wanted == {None: 200, "provider_split": 100}
    plain: pa.Table = parse_all("focus", write(tmp_path / "plain.csv", focus_bytes({}, {"ResourceId": ""})))
    assert settled(plain) is plain
