"""What Google's commitments make of `effective`: the published pairs of the older and the newer model, and what a day keeps."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.billing_adapters.bills import parse_all, write
from tests.billing_adapters.gcp_files import credit, json_bytes
from tests.billing_adapters.reports import total

DOLLAR = "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE"
RAM = {"sku.description": "N2 Instance Ram", "usage.unit": "byte-seconds", "usage.pricing_unit": "gibibyte hour"}
CORE = {"sku.description": "N2 Instance Core"}
FLEXIBLE = {"consumption_model.description": "Compute Flexible CUDs - 1 Year"}
Row = dict[str, Any]


def fee(cost: str, *given: Row, **more: str) -> Row:
    text = {
        "sku.description": "Commitment - dollar based v1: Compute Flexible CUDs",
        "resource.name": None,
        "credits": list(given),
    }
    return {"cost": cost, **text, **{name.replace("__", "."): value for name, value in more.items()}}


def usage(cost: str, covered: str = "", row: Mapping[str, Any] = CORE, kind: str = DOLLAR, **more: str) -> Row:
    given = [credit(kind, covered)] if covered else []
    return {**row, "cost": cost, "credits": given, **{name.replace("__", "."): value for name, value in more.items()}}


def parsed(folder: Path, *rows: Row) -> pa.Table:
    return parse_all("gcp", write(folder / "b.jsonl", json_bytes(rows)), cost=("billed", "effective"))


def amounts(lines: pa.Table, category: str) -> list[Decimal]:
    """The effective costs of lines of a category, in order."""
    mine = [r for r in lines.to_pylist() if (r["charge_category"], r["cost_metric"]) == (category, "effective")]
    return [r["cost_nanos"] * Decimal("1e-9") + r["cost_residue"] for r in mine]


def test_more_used_than_committed_before_and_after(tmp_path: Path) -> None:
    """C = 0.065095 + 0.034905 = 0.1, F = 0.072: 28 % of each credit stays, -0.0182266 and -0.0097734."""
    old = parsed(tmp_path, usage("0.174496", "-0.065095", RAM), usage("0.093568", "-0.034905"), fee("0.046868"), fee("0.025132"))
    assert total(old) == total(old, "effective") == Decimal("0.240064")
    assert amounts(old, "Credit") == [Decimal("-0.0182266"), Decimal("-0.0097734")]
    assert amounts(old, "Purchase") == [0, 0]
    new = parsed(
        tmp_path,
        usage("0.109398", row=RAM),
        usage("0.046868", row={**RAM, **FLEXIBLE}),
        usage("0.058648"),
        usage("0.025132", row={**CORE, **FLEXIBLE}),
        fee("0.072", credit("FEE_UTILIZATION_OFFSET", "-0.072")),
    )
    assert total(new) == total(new, "effective") == Decimal("0.240046")
    assert amounts(new, "Purchase") == [Decimal("0.072")]
    pricing = [r["pricing_category"] for r in new.to_pylist() if r["cost_metric"] == "billed"]
    assert pricing[:4] == ["on-demand", "committed", "on-demand", "committed"]


def test_less_used_than_committed_before_and_after(tmp_path: Path) -> None:
    fees = [fee("0.022994"), fee("0.125637"), fee("0.067369")]
    old = parsed(tmp_path, usage("0.174496", "-0.174496", RAM), usage("0.093568", "-0.093568"), *fees)
    assert total(old) == Decimal("0.216")
    assert abs(total(old, "effective") - Decimal("0.216")) < Decimal("1e-20")
    assert amounts(old, "Purchase") == [0, 0, 0]
    offsets = (credit("FEE_UTILIZATION_OFFSET", "-0.1256348", "a"), credit("FEE_UTILIZATION_OFFSET", "-0.0673581", "b"))
    covered = [usage("0.125637", row={**RAM, **FLEXIBLE}), usage("0.067369", row={**CORE, **FLEXIBLE})]
    new = parsed(tmp_path, *covered, fee("0.216", *offsets))
    assert total(new, "effective") == Decimal("0.2160131")
    unused = sum(amounts(new, "Purchase")) + sum(amounts(new, "Credit"))
    assert unused == Decimal("0.0230071")
    assert {r["scope_rule"] for r in new.to_pylist() if r["charge_category"] != "Usage"} == {"no_resource"}


def test_fees_beyond_the_days_credits_are_an_unused_commitment(tmp_path: Path) -> None:
    """A fee of 5 and credits of 2: the credits bear 2 of it, and 3 stay; a fee of a day without credits stays whole."""
    next_day = {"usage_start_time": "2026-10-02 00:00:00 UTC", "usage_end_time": "2026-10-02 01:00:00 UTC"}
    lines = parsed(tmp_path, usage("2", "-2"), fee("4"), fee("1"), fee("7", **next_day))
    assert amounts(lines, "Credit") == [0]
    assert amounts(lines, "Purchase") == [Decimal("2.4"), Decimal("0.6"), 7]
    assert total(lines) == total(lines, "effective") == 12


@pytest.mark.parametrize(
    "other",
    [
        {"billing_account_id": "01OTHER"},
        {"currency": "EUR"},
        {"usage_start_time": "2026-10-01 23:00:00 UTC", "usage_end_time": "2026-10-02 00:00:00 UTC"},
        {"usage_start_time": "2026-09-30 23:00:00 UTC", "usage_end_time": "2026-10-01 00:00:00 UTC"},
    ],
)
def test_fees_go_to_credits_of_their_account_currency_and_day(tmp_path: Path, other: dict[str, str]) -> None:
    """The third, an hour of the same UTC day, is the one that takes the fee."""
    same_day = other.get("usage_end_time", "").startswith("2026-10-02")
    lines = parsed(tmp_path, {**usage("4", "-4"), **other}, fee("3"))
    assert amounts(lines, "Credit") == [-1 if same_day else -4]
    assert amounts(lines, "Purchase") == [0 if same_day else 3]


def test_resource_based_fees_go_to_their_own_credits(tmp_path: Path) -> None:
    """10 of usage, covered by 6; the commitment costs 4.5: a quarter of the credit stays. Spend-based ones are apart."""
    own = {**fee("4.5"), "sku.description": "Commitment v1: A2 Core in Americas for 1 Year"}
    lines = parsed(tmp_path, usage("10", "-6", kind="COMMITTED_USAGE_DISCOUNT"), own, usage("3", "-2"), fee("1"))
    assert amounts(lines, "Credit") == [Decimal("-1.5"), -1]
    assert amounts(lines, "Purchase") == [0, 0]
    assert total(lines, "effective") == total(lines) == Decimal("10.5")


def test_fees_and_credits_in_several_files_meet_and_thirds_are_kept(tmp_path: Path) -> None:
    """Three credits of 0.1 and a fee of 0.1: two thirds of each stay, 0.0666..., and nothing of the day's 0.1 is lost."""
    for number in range(3):
        write(tmp_path / f"{number}.jsonl", json_bytes([usage(f"0.{number + 1}", "-0.1")]))
    write(tmp_path / "9.jsonl", json_bytes([fee("0.1")]))
    lines = parse_all("gcp", tmp_path, cost=("billed", "effective"))
    assert total(lines) == Decimal("0.4")
    assert abs(total(lines, "effective") - Decimal("0.4")) < Decimal("1e-20")
    assert {amount.quantize(Decimal("1e-12")) for amount in amounts(lines, "Credit")} == {Decimal("-0.066666666667")}


def test_promotions_pay_and_do_not_make_cheaper(tmp_path: Path) -> None:
    row = {**CORE, "cost": "5", "credits": [credit("PROMOTION", -2), credit("FREE_TIER", -1)]}
    path = write(tmp_path / "b.jsonl", json_bytes([row]))
    lines = parse_all("gcp", path, cost=("billed", "effective"))
    assert (total(lines), total(lines, "effective")) == (Decimal(2), Decimal(4))
    assert total(parse_all("gcp", path, cost="effective", include_promotions=True), "effective") == 2
