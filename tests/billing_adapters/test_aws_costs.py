"""Every type of line under every metric, and AWS' own worked examples with their published figures."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError
from tests.billing_adapters.bills import CUR_ROW, csv_bytes, cur_bytes, parse_all, write
from tests.billing_adapters.reports import legacy_bytes, total

KINDS = {"aws-cur": legacy_bytes, "aws-cur2": cur_bytes}
METRICS = ("billed", "effective", "list")
RI = {"reservation_reservation_a_r_n": "arn:aws:ec2:us-west-2:1:reserved-instances/r-1"}
PLAN_PRODUCT = {"line_item_product_code": "ComputeSavingsPlans", "line_item_usage_type": "ComputeSP:1yrNoUpfront"}
WASTE = {
    "reservation_unused_amortized_upfront_fee_for_billing_period": "5.5",
    "reservation_unused_recurring_fee": "70.37",
}
COMMITMENT = {"savings_plan_total_commitment_to_date": "21.3", "savings_plan_used_commitment": "20.05"}
NET = {"line_item_net_unblended_cost": "90"}
PLAN = {"savings_plan_savings_plan_effective_cost": "20"}
NET_PLAN = {**PLAN, "savings_plan_net_savings_plan_effective_cost": "18"}

# The row costs 98.32 unblended and 110.00 on the list. Under each type: billed, effective, list.
TYPES: list[tuple[str, dict[str, str], str, str, str]] = [
    ("Usage", {}, "98.32", "98.32", "110"),
    ("Usage", NET, "90", "90", "110"),
    ("SavingsPlanCoveredUsage", PLAN, "98.32", "20", "110"),
    ("SavingsPlanCoveredUsage", {**NET_PLAN, **NET}, "90", "18", "110"),
    ("SavingsPlanNegation", {}, "98.32", "0", "0"),
    ("SavingsPlanRecurringFee", COMMITMENT, "98.32", "1.25", "0"),
    ("SavingsPlanRecurringFee", {**COMMITMENT, **NET}, "90", "1.25", "0"),
    ("SavingsPlanUpfrontFee", {}, "98.32", "0", "0"),
    ("DiscountedUsage", {"reservation_effective_cost": "7.5"}, "98.32", "7.5", "110"),
    ("DiscountedUsage", {"reservation_effective_cost": "7.5", "reservation_net_effective_cost": "7"}, "98.32", "7", "110"),
    ("RIFee", WASTE, "98.32", "75.87", "0"),
    ("RIFee", {**WASTE, "reservation_net_unused_recurring_fee": "60"}, "98.32", "65.5", "0"),
    ("Fee", RI, "98.32", "0", "0"),
    ("Fee", {}, "98.32", "98.32", "0"),
    ("Refund", PLAN_PRODUCT, "98.32", "0", "0"),
    ("Refund", {}, "98.32", "98.32", "0"),
    ("Credit", {"line_item_unblended_cost": "-5"}, "-5", "-5", "0"),
    ("Tax", {}, "98.32", "98.32", "0"),
    ("EdpDiscount", {"line_item_unblended_cost": "-9.832"}, "-9.832", "-9.832", "0"),
    ("PrivateRateDiscount", {"line_item_unblended_cost": "-1"}, "-1", "-1", "0"),
    ("BundledDiscount", {"line_item_unblended_cost": "-2"}, "-2", "-2", "0"),
    ("SppDiscount", {"line_item_unblended_cost": "-3"}, "-3", "-3", "0"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_of_line_under_each_metric(tmp_path: Path, kind: str) -> None:
    rows = [{**more, "line_item_line_item_type": name} for name, more, *_ in TYPES]
    lines = parse_all(kind, write(tmp_path / "bill.csv", KINDS[kind](*rows)), cost=METRICS).to_pylist()
    got = {m: [r["cost_nanos"] * Decimal("1e-9") + r["cost_residue"] for r in lines if r["cost_metric"] == m] for m in METRICS}
    for place, (name, more, *wanted) in enumerate(TYPES):
        assert [got[m][place] for m in METRICS] == [Decimal(w) for w in wanted], (name, more)


@pytest.mark.parametrize("types", [pa.float64(), pa.decimal128(30, 12), pa.string()], ids=str)
def test_amounts_of_parquet_in_each_type(tmp_path: Path, types: pa.DataType) -> None:
    rows = [{**CUR_ROW, **NET_PLAN, **WASTE, **COMMITMENT, **more, "line_item_line_item_type": name} for name, more, *_ in TYPES]
    columns = {name: pa.array([row.get(name) or None for row in rows]) for name in dict.fromkeys(n for row in rows for n in row)}
    costs = [name for name in columns if "cost" in name or "fee" in name or "commitment" in name or "amount" in name]
    arrays = {name: column.cast(types) if name in costs else column for name, column in columns.items()}
    pq.write_table(pa.table(arrays), tmp_path / "bill.parquet")
    lines = parse_all("aws-cur2", tmp_path / "bill.parquet", cost=METRICS)
    text = parse_all("aws-cur2", write(tmp_path / "bill.csv", csv_bytes(rows)), cost=METRICS)
    keys = ["cost_metric", "line_type", "cost_nanos", "cost_residue", "machine_ms", "scope_rule"]
    assert lines.select(keys).to_pylist() == text.select(keys).to_pylist()


def test_the_two_columns_of_discounts_of_cur2_are_never_added(tmp_path: Path) -> None:
    """Discounts stand as rows or in a column, never both; the columns only explain what the cost holds already."""
    columns = {"discount": '{"edp": -9.832}', "discount_total_discount": "-9.832"}
    rows = ({**columns}, {"line_item_line_item_type": "EdpDiscount", "line_item_unblended_cost": "-9.832"})
    lines = parse_all("aws-cur2", write(tmp_path / "bill.csv", cur_bytes(*rows)), cost=("billed", "effective"))
    assert total(lines) == total(lines, "effective") == Decimal("88.488")


@pytest.mark.parametrize("kind", KINDS)
def test_split_cost_rows_are_left_out_and_cost_nothing_twice(tmp_path: Path, kind: str) -> None:
    pod = {
        "line_item_operation": "EKSPod-EC2",
        "split_line_item_parent_resource_id": "i-0a00000000000001a",
        "line_item_resource_id": "arn:aws:eks:us-west-2:1:pod/prod/ns/a/uid",
        "line_item_unblended_cost": "",
        "pricing_public_on_demand_cost": "",
    }
    told = {**pod, "line_item_unblended_cost": "4.5", "pricing_public_on_demand_cost": "5"}
    covered = {**pod, "line_item_line_item_type": "SavingsPlanCoveredUsage"}
    path = write(tmp_path / "bill.csv", KINDS[kind]({}, pod, covered, told))
    lines = parse_all(kind, path, cost=METRICS)
    assert lines["scope_rule"].to_pylist() == [None, "split_copy", "split_copy", "split_copy"] * 3
    assert [total(lines, m) for m in METRICS] == [Decimal("102.82"), Decimal("102.82"), Decimal(115)]
    assert [r["machine_ms"] for r in lines.to_pylist()[:4]] == [3_600_000, None, None, None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_price_without_its_column_names_what_the_file_can_say(tmp_path: Path, kind: str) -> None:
    row = {name: value for name, value in CUR_ROW.items() if name not in ("pricing_public_on_demand_cost", "product")}
    content: Callable[[dict[str, str]], bytes] = lambda row: csv_bytes([row])  # noqa: E731
    with pytest.raises(AdapterError, match=r"pricing_public_on_demand_cost \(cost: list\) is missing; the file can say billed\."):
        parse_all(kind, write(tmp_path / "a.csv", content(row)), cost="list")
    with pytest.raises(AdapterError, match="the file can say billed, effective"):
        parse_all(kind, write(tmp_path / "b.csv", content({**row, **PLAN})), cost="list")
    tax = parse_all(kind, write(tmp_path / "c.csv", content({**row, "line_item_line_item_type": "Tax"})), cost="list")
    assert total(tax, "list") == 0


def test_covered_usage_without_its_effective_cost_names_the_row(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", legacy_bytes(PLAN, {"line_item_line_item_type": "DiscountedUsage"}))
    with pytest.raises(AdapterError, match=r"row 2: a DiscountedUsage line has no effective cost \(reservation_effective_cost\)"):
        parse_all("aws-cur", path, cost="effective")
    assert total(parse_all("aws-cur", path)) == Decimal("196.64")


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_savings_plan_example(tmp_path: Path, kind: str) -> None:
    """Source: AWS, "Understanding Savings Plans": two covered rows and the negation that takes them back."""
    covered = {"line_item_line_item_type": "SavingsPlanCoveredUsage", "line_item_usage_type": "BoxUsage:t3.nano"}
    rows = (
        {**covered, "line_item_unblended_cost": "0.0052", "savings_plan_savings_plan_effective_cost": "0.0026"},
        {
            **covered,
            "line_item_usage_amount": "0.5",
            "line_item_unblended_cost": "0.0026",
            "savings_plan_savings_plan_effective_cost": "0.0013",
        },
        {
            **covered,
            "line_item_line_item_type": "SavingsPlanNegation",
            "line_item_resource_id": "",
            "line_item_usage_amount": "-1.5",
            "line_item_unblended_cost": "-0.0078",
        },
    )
    lines = parse_all(kind, write(tmp_path / "bill.csv", KINDS[kind](*rows)), cost=("billed", "effective"))
    assert total(lines, "billed") == Decimal("0.0000")
    assert total(lines, "effective") == Decimal("0.0039")
    billed = [row for row in lines.to_pylist() if row["cost_metric"] == "billed"]
    assert sum(row["machine_ms"] or 0 for row in billed) == 1.5 * 3_600_000
    assert [row["scope_rule"] for row in billed] == [None, None, "no_resource"]


MONTH = {"line_item_usage_start_date": "2026-10-01T00:00:00Z", "line_item_usage_end_date": "2026-11-01T00:00:00Z"}
FEE = {**MONTH, **RI, "line_item_line_item_type": "RIFee", "line_item_usage_amount": "744", "line_item_unblended_cost": "74.4"}
USED = {**MONTH, "line_item_line_item_type": "DiscountedUsage", "line_item_unblended_cost": "0"}
UNUSED_UPFRONT, UNUSED_RECURRING = WASTE
RI_EXAMPLES: list[tuple[str, list[dict[str, str]], str, str, str]] = [
    (
        "all hours used",
        [{**FEE, UNUSED_UPFRONT: "0", UNUSED_RECURRING: "0"}, {**USED, "reservation_effective_cost": "79.4"}],
        "79.4",
        "0",
        "74.4",
    ),
    (
        "644 of 744 hours used",
        [
            {**FEE, UNUSED_UPFRONT: "10", UNUSED_RECURRING: "0"},
            {**USED, "line_item_usage_amount": "644", "reservation_effective_cost": "69.4"},
        ],
        "69.4",
        "10",
        "74.4",
    ),
    (
        "size flexible",
        [{**FEE, UNUSED_UPFRONT: "5.5", UNUSED_RECURRING: "70.37"}, {**USED, "reservation_effective_cost": "4.53"}],
        "4.53",
        "75.87",
        "74.4",
    ),
]


@pytest.mark.parametrize(("rows", "used", "waste", "billed"), [e[1:] for e in RI_EXAMPLES], ids=[e[0] for e in RI_EXAMPLES])
def test_the_published_reserved_instance_examples(
    tmp_path: Path, rows: list[dict[str, str]], used: str, waste: str, billed: str
) -> None:
    """Source: AWS, "Understanding unused reservation costs"."""
    lines = parse_all("aws-cur", write(tmp_path / "bill.csv", legacy_bytes(*rows)), cost=("billed", "effective"))
    effective = lines.filter(pa.compute.equal(lines["cost_metric"], "effective"))
    by_type = {row["line_type"]: row["cost_nanos"] * Decimal("1e-9") for row in effective.to_pylist()}
    assert by_type == {"DiscountedUsage": Decimal(used), "RIFee": Decimal(waste)}
    assert total(lines, "billed") == Decimal(billed)


def test_the_published_example_of_a_reservation_that_holds_capacity(tmp_path: Path) -> None:
    """644 hours ran, 100 hours of the capacity reservation stayed unused: 69.4 to the machine, 11 beside it."""
    arn = "arn:aws:ec2:us-west-2:111122223333:capacity-reservation/cr-0abc"
    ran = {**USED, "line_item_usage_amount": "644", "reservation_effective_cost": "69.4"}
    kept = {
        **USED,
        "line_item_usage_amount": "100",
        "line_item_usage_type": "USW2-UnusedBox:p5.48xlarge",
        "line_item_resource_id": arn,
        "reservation_effective_cost": "11",
    }
    lines = parse_all("aws-cur", write(tmp_path / "bill.csv", legacy_bytes(FEE, ran, kept)), cost="effective").to_pylist()
    assert [(r["scope_rule"], r["cost_nanos"] / 10**9) for r in lines] == [(None, 0), (None, 69.4), ("reserved_unused", 11)]
    assert [r["capacity_reservation"] for r in lines] == [None, None, "cr-0abc"]


def test_an_upfront_year_is_one_a_day(tmp_path: Path) -> None:
    """Source: AWS, "Understanding your amortized reservation data": 365 upfront, fully used, is 1.00 a day."""
    bought = {**RI, "line_item_line_item_type": "Fee", "line_item_unblended_cost": "365", "line_item_resource_id": ""}
    days = [{**USED, "reservation_effective_cost": "1.00", "identity_line_item_id": f"d{n}"} for n in range(365)]
    lines = parse_all("aws-cur", write(tmp_path / "bill.csv", legacy_bytes(bought, *days)), cost=("billed", "effective"))
    assert total(lines, "billed") == total(lines, "effective") == 365
    assert {r["cost_nanos"] for r in lines.to_pylist() if r["line_type"] == "DiscountedUsage"} == {0, 10**9}
