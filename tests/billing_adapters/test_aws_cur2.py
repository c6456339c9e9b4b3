from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.billing_adapters.bills import cur_bytes, parse_all, sample, write, write_export

PLAN = {
    "line_item_line_item_type": "SavingsPlanCoveredUsage",
    "line_item_unblended_cost": "32.00",
    "savings_plan_savings_plan_effective_cost": "20.00",
}
NEGATION = {
    "line_item_line_item_type": "SavingsPlanNegation",
    "line_item_unblended_cost": "-32.00",
    "line_item_resource_id": "",
}


def one_line(tmp_path: Path, change: Mapping[str, str], cost: str = "billed") -> dict[str, object]:
    rows: list[dict[str, object]] = parse_all("aws-cur2", write(tmp_path / "bill.csv", cur_bytes(change)), cost=cost).to_pylist()
    return rows[0]


@pytest.mark.parametrize("export", ["gpucur2", "gpucur2csv"])
def test_sample_sums_to_its_known_total_in_both_layouts(export: str) -> None:
    bill = parse_all("aws-cur2", sample("aws_cur2_derived", "exports", export))
    lines = bill
    total = sum(lines["cost_nanos"].to_pylist()) * Decimal("1e-9") + sum(lines["cost_residue"].to_pylist())
    assert lines.num_rows == 192
    # The generator's published total, rounded where it was written.
    assert total.quantize(Decimal("1e-9")) == Decimal("2877.354322582")
    assert set(lines["billing_period"].to_pylist()) == {date(2026, 10, 1)}
    by_type: dict[str, int] = {}
    for row in lines.to_pylist():
        name = row["instance_type"] if row["scope_rule"] is None else row["scope_rule"]
        by_type[name] = by_type.get(name, 0) + row["cost_nanos"]
    assert by_type["p5.48xlarge"] == 2_359_680_000_000
    assert by_type["p4d.24xlarge"] == 786_542_400_000
    assert by_type["g5.12xlarge"] == 0
    assert by_type["no_resource"] == -786_542_400_000 + 511_200_000_000
    scoped = [row for row in lines.to_pylist() if row["scope_rule"] is None]
    assert {row["machine_ms"] for row in scoped} == {3_600_000}
    assert sum(r["cost_nanos"] for r in lines.to_pylist() if r["line_type"] == "SavingsPlanNegation") == -786_542_400_000


def test_both_layouts_of_the_sample_hold_the_same_lines() -> None:
    whole = [parse_all("aws-cur2", sample("aws_cur2_derived", "exports", e)) for e in ("gpucur2", "gpucur2csv")]
    keys = ["line_item_id", "cost_nanos", "machine_ms", "scope_rule", "charge_period_start", "instance_type"]
    first, second = (sorted(map(str, lines.select(keys).to_pylist())) for lines in whole)
    assert first == second


def test_savings_plan_under_effective(tmp_path: Path) -> None:
    rows = ({**PLAN}, {**NEGATION, "identity_line_item_id": "id2"}, {"identity_line_item_id": "id3"})
    path = write(tmp_path / "bill.csv", cur_bytes(*rows))
    effective = parse_all("aws-cur2", path, cost="effective")
    assert effective["cost_nanos"].to_pylist() == [20 * 10**9, 0, 98_320_000_000]
    assert effective["line_item_id"].to_pylist() == ["id1-1", "id2-1", "id3-1"]
    assert effective["pricing_category"].to_pylist() == ["committed", None, "on-demand"]


@pytest.mark.parametrize(
    ("change", "cost", "amount"),
    [
        ({}, "billed", "98.32"),
        ({"line_item_net_unblended_cost": "90"}, "billed", "90"),
        ({"line_item_net_unblended_cost": ""}, "billed", "98.32"),
        ({}, "list", "110"),
        ({"line_item_line_item_type": "Tax"}, "list", "0"),
        ({"line_item_line_item_type": "Credit", "line_item_unblended_cost": "-5"}, "effective", "-5"),
        ({**PLAN, "savings_plan_net_savings_plan_effective_cost": "18"}, "effective", "18"),
        ({**PLAN, "savings_plan_net_savings_plan_effective_cost": ""}, "effective", "20"),
        ({"line_item_line_item_type": "DiscountedUsage", "reservation_effective_cost": "7.5"}, "effective", "7.5"),
        ({"line_item_line_item_type": "SavingsPlanUpfrontFee"}, "effective", "0"),
        ({"line_item_line_item_type": "SavingsPlanRecurringFee"}, "effective", "0"),
        (
            {
                "line_item_line_item_type": "SavingsPlanRecurringFee",
                "savings_plan_total_commitment_to_date": "21.3",
                "savings_plan_used_commitment": "20.0000000005",
            },
            "effective",
            "1.2999999995",
        ),
        (
            {
                "line_item_line_item_type": "RIFee",
                "reservation_unused_amortized_upfront_fee_for_billing_period": "5.5000000004",
                "reservation_unused_recurring_fee": "70.3700000004",
            },
            "effective",
            "75.8700000008",
        ),
        ({"line_item_line_item_type": "Fee"}, "effective", "98.32"),
        ({"line_item_line_item_type": "Fee", "reservation_reservation_a_r_n": "arn:aws:ri"}, "effective", "0"),
        ({"line_item_line_item_type": "Refund", "line_item_product_code": "ComputeSavingsPlans"}, "effective", "0"),
        ({"line_item_operation": "EKSPod-EC2", "line_item_unblended_cost": ""}, "billed", "0"),
    ],
)
def test_cost_by_type_of_line(tmp_path: Path, change: dict[str, str], cost: str, amount: str) -> None:
    line = one_line(tmp_path, change, cost)
    nanos, residue = line["cost_nanos"], line["cost_residue"]
    assert isinstance(nanos, int)
    assert isinstance(residue, Decimal)
    assert nanos * Decimal("1e-9") + residue == Decimal(amount)
    assert abs(residue) <= Decimal("5e-10")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, None),
        ({"line_item_usage_type": "BoxUsage"}, None),
        ({"line_item_usage_type": "EUW1-SpotUsage:g5.xlarge"}, None),
        ({"line_item_usage_type": "DedicatedUsage:p4d.24xlarge"}, None),
        ({"line_item_usage_type": "USW2-DataTransfer-Out-Bytes"}, "usage_not_instance"),
        ({"line_item_usage_type": "EBSOptimized:p2.xlarge"}, "usage_not_instance"),
        ({"line_item_product_code": "AmazonGuardDuty"}, "usage_not_instance"),
        ({"line_item_usage_type": "USW2-UnusedBox:p5.48xlarge"}, "reserved_unused"),
        ({"line_item_usage_type": "UnusedDed:p5.48xlarge"}, "reserved_unused"),
        ({"line_item_operation": "EKSPod-EC2"}, "split_copy"),
        ({"split_line_item_parent_resource_id": "i-0a"}, "split_copy"),
        ({"line_item_resource_id": ""}, "no_resource"),
        ({**NEGATION}, "no_resource"),
        ({"line_item_line_item_type": "Credit", "line_item_usage_type": "anything"}, None),
    ],
)
def test_scope_rule(tmp_path: Path, change: dict[str, str], rule: str | None) -> None:
    assert one_line(tmp_path, change)["scope_rule"] == rule


@pytest.mark.parametrize(
    ("change", "milliseconds"),
    [
        ({}, 3_600_000),
        ({"line_item_usage_amount": "0.5"}, 1_800_000),
        ({"line_item_usage_amount": "2"}, None),
        ({"pricing_unit": "Seconds"}, None),
        ({"line_item_usage_type": "DataTransfer-Out-Bytes"}, None),
        ({**NEGATION, "line_item_resource_id": "i-0a"}, None),
    ],
)
def test_machine_time(tmp_path: Path, change: dict[str, str], milliseconds: int | None) -> None:
    assert one_line(tmp_path, change)["machine_ms"] == milliseconds


@pytest.mark.parametrize(
    ("line_type", "category"),
    [
        ("Usage", "Usage"),
        ("DiscountedUsage", "Usage"),
        ("Tax", "Tax"),
        ("Credit", "Credit"),
        ("Refund", "Adjustment"),
        ("RIFee", "Purchase"),
        ("EdpDiscount", "Adjustment"),
        ("SavingsPlanNegation", "Adjustment"),
    ],
)
def test_charge_category(tmp_path: Path, line_type: str, category: str) -> None:
    line = one_line(tmp_path, {"line_item_line_item_type": line_type})
    assert (line["charge_category"], line["line_type"]) == (category, line_type)


def test_descriptions_from_the_map_the_zone_and_the_usage_type(tmp_path: Path) -> None:
    line = one_line(tmp_path, {})
    assert (line["provider"], line["region"], line["instance_type"]) == ("aws", "us-west-2", "p5.48xlarge")
    assert (line["billing_account"], line["sub_account"]) == ("111122223333", "444455556666")
    bare = one_line(tmp_path, {"product": "", "line_item_usage_type": "USW2-SpotUsage:g5.xlarge"})
    assert (bare["region"], bare["instance_type"], bare["pricing_category"]) == ("us-west-2", "g5.xlarge", "spot")


def test_map_columns_of_parquet(tmp_path: Path) -> None:
    text = write(tmp_path / "t.csv", cur_bytes({}))
    names, values = (line.split(",", 17) for line in text.read_text().splitlines())
    table = pa.table({name: [value] for name, value in zip(names, values, strict=True) if name != "product"})
    product = pa.array([[("instance_type", "p5.48xlarge"), ("region", "us-west-2")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(table.append_column("product", product), tmp_path / "p.parquet")
    (line,) = parse_all("aws-cur2", tmp_path / "p.parquet").to_pylist()
    assert (line["instance_type"], line["region"], line["cost_nanos"]) == ("p5.48xlarge", "us-west-2", 98_320_000_000)


def test_equal_ids_get_ordinals_by_content(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", cur_bytes({"line_item_unblended_cost": "1"}, {"line_item_unblended_cost": "2"}))
    second = write(tmp_path / "b.csv", cur_bytes({"line_item_unblended_cost": "2"}, {"line_item_unblended_cost": "1"}))
    pairs = [
        dict(zip(lines["line_item_id"].to_pylist(), lines["cost_nanos"].to_pylist(), strict=True))
        for lines in (parse_all("aws-cur2", path) for path in (first, second))
    ]
    assert pairs[0] == pairs[1]
    assert set(pairs[0]) == {"id1-1", "id1-2"}


def test_only_files_of_the_manifest_count_and_decide_the_delivery(tmp_path: Path) -> None:
    chunks = {"e-00001.csv.gz": cur_bytes({}), "e-00002.csv.gz": cur_bytes({"line_item_unblended_cost": "1"})}
    both = write_export(tmp_path / "both" / "e", chunks)
    one = write_export(tmp_path / "one" / "e", chunks, named=["e-00001.csv.gz"])
    assert parse_all("aws-cur2", both).num_rows == 2
    lines = parse_all("aws-cur2", one)
    assert lines["source_file"].to_pylist() == ["data/BILLING_PERIOD=2026-10/e-00001.csv.gz"]
    assert lines["delivery_id"].to_pylist() != parse_all("aws-cur2", both)["delivery_id"].to_pylist()[:1]


def test_a_manifest_without_files_is_a_period_without_lines(tmp_path: Path) -> None:
    assert parse_all("aws-cur2", write_export(tmp_path / "e", {}, named=[])).num_rows == 0
