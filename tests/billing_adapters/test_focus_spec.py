"""Example files of the FOCUS specification, and the real sample, read with totals that are summed up independently.

The examples leave columns out that every FOCUS file has. ``wrapped`` puts these around the rows and changes none that is there.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import AdapterError
from tests.billing_adapters.bills import csv_bytes, parse_all, sample, write

NULLS = ("", "null", "NULL", "(null)")
AROUND = {
    "BillingAccountId": "111122223333",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2025-04-01T00:00:00Z",
    "ProviderName": "Aura Web",
    "ResourceId": "",
    "ServiceCategory": "Compute",
}
EXAMPLES = [
    ("commitment", "capacity_reservation_eligible_spend"),
    ("commitment", "commitment_discount_purchase_scenario_1"),
    ("commitment", "commitment_discount_usage_scenario_1"),
    ("commitment", "commitment_discount_usage_scenario_2"),
    ("commitment", "commitment_discount_usage_scenario_3"),
    ("commitment", "commitment_discount_usage_scenario_4"),
    ("commitment", "one_hundred_percent_utilization_with_commitment_discount_flexibility_with_2_resources"),
    ("commitment", "zero_percent_utilization_without_commitment_discount_flexibility"),
    ("correction", "closed_scenario_1_original"),
    ("correction", "closed_scenario_1_delta"),
    ("correction", "closed_scenario_1_ledger"),
    ("correction", "closed_scenario_3_ledger"),
]
each_example = pytest.mark.parametrize(("folder", "name"), EXAMPLES, ids=[name for _, name in EXAMPLES])
COLUMNS = {"billed": "BilledCost", "effective": "EffectiveCost", "list": "ListCost", "contracted": "ContractedCost"}
Reading = Callable[..., pa.Table]


def rows_of(folder: str, name: str) -> list[dict[str, str]]:
    with sample("focus_spec", folder, f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def wrapped(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{**AROUND, **row} for row in rows]


@pytest.fixture
def read(tmp_path: Path) -> Reading:
    def reading(rows: list[dict[str, str]], cost: str = "billed") -> pa.Table:
        return parse_all("focus", write(tmp_path / "example.csv", csv_bytes(rows)), cost=cost)

    return reading


def total(lines: pa.Table) -> Decimal:
    whole: int = sum(lines["cost_nanos"].to_pylist())
    return whole * Decimal("1e-9") + sum(lines["cost_residue"].to_pylist(), Decimal(0))


def by(lines: pa.Table, *names: str) -> dict[tuple[object, ...], Decimal]:
    sums: dict[tuple[object, ...], Decimal] = defaultdict(Decimal)
    for row in lines.to_pylist():
        sums[tuple(row[name] for name in names)] += row["cost_nanos"] * Decimal("1e-9")
    return dict(sums)


@each_example
def test_every_metric_of_an_example_has_the_file_s_own_sum(read: Reading, folder: str, name: str) -> None:
    rows = rows_of(folder, name)
    told = [metric for metric, column in COLUMNS.items() if column in rows[0]]
    assert {"billed", "effective"} <= set(told)
    for metric in told:
        lines = read(wrapped(rows), metric)
        assert lines.num_rows == len(rows)
        assert total(lines) == sum(Decimal(row[COLUMNS[metric]]) for row in rows)


@each_example
def test_an_example_as_it_stands_is_refused_with_the_columns_that_it_lacks(folder: str, name: str) -> None:
    with pytest.raises(AdapterError, match=r"mandatory columns are missing: BillingAccountId, BillingCurrency"):
        parse_all("focus", sample("focus_spec", folder, f"{name}.csv"))


@pytest.mark.parametrize("metric", ["billed", "effective", "list"])
def test_the_real_sample_has_its_own_sum_by_every_metric_that_it_tells(metric: str) -> None:
    path = sample("focus", "focus_sample_1.0_1000rows.csv")
    with path.open(newline="") as file:
        wanted = sum(Decimal(row[COLUMNS[metric]]) for row in csv.DictReader(file))
    lines = parse_all("focus", path, cost=metric)
    assert lines.num_rows == 1000
    assert total(lines) == wanted


def test_the_real_sample_leaves_contracted_costs_empty() -> None:
    with pytest.raises(AdapterError, match=r"row \d+: ContractedCost: the cost is empty"):
        parse_all("focus", sample("focus", "focus_sample_1.0_1000rows.csv"), cost="contracted")


def test_purchases_are_billed_at_once_and_have_no_effective_cost(read: Reading) -> None:
    # 8760 at once; 3 x 1.00 an hour; 4380 at once and 3 x 0.50 an hour. Effective 0 on all.
    answers = {"1": Decimal(8760), "2": Decimal(3), "3": Decimal("4381.5")}
    for number, billed in answers.items():
        rows = wrapped(rows_of("commitment", f"commitment_discount_purchase_scenario_{number}"))
        # Two of the files have an hour 30, which the next test refuses: 20:00 plus ten hours is 06:00 of the next day.
        rows = [{**row, "ChargePeriodEnd": row["ChargePeriodEnd"].replace("01T30:", "02T06:")} for row in rows]
        assert total(read(rows)) == billed
        assert total(read(rows, "effective")) == 0


@pytest.mark.parametrize(("number", "row"), [("2", 3), ("3", 4)])
def test_an_hour_30_of_an_example_is_refused_with_its_row(read: Reading, number: str, row: int) -> None:
    rows = wrapped(rows_of("commitment", f"commitment_discount_purchase_scenario_{number}"))
    with pytest.raises(AdapterError, match=rf"example\.csv, row {row}: ChargePeriodEnd: .*2023-02-01T30:00:00Z"):
        read(rows)


def test_usage_under_a_commitment(read: Reading) -> None:
    machine, commitment = (None, "<my-resource-id>"), ("reserved_unused", "<my-commitment-discount-id>")
    answers: dict[str, tuple[Decimal, dict[tuple[object, ...], Decimal]]] = {
        "1": (Decimal(0), {machine: Decimal(1)}),
        "2": (Decimal(0), {commitment: Decimal(1)}),
        "3": (Decimal(0), {machine: Decimal("0.75"), commitment: Decimal("0.25")}),
        # Committed 1.00 and 0.50 beyond it.
        "4": (Decimal("0.5"), {machine: Decimal("1.5")}),
    }
    for number, (billed, effective) in answers.items():
        rows = wrapped(rows_of("commitment", f"commitment_discount_usage_scenario_{number}"))
        assert total(read(rows)) == billed
        assert by(read(rows, "effective"), "scope_rule", "resource_id") == effective


def test_a_commitment_that_nobody_used_stands_outside(read: Reading) -> None:
    name = "zero_percent_utilization_without_commitment_discount_flexibility"
    sums = by(read(wrapped(rows_of("commitment", name)), "effective"), "scope_rule")
    # The purchase's 0 and the on-demand hour of 2.00 may be split; 1.50 were left unused.
    assert sums == {(None,): Decimal(2), ("reserved_unused",): Decimal("1.5")}


def test_a_capacity_reservation_used_and_unused(read: Reading) -> None:
    rows = wrapped(rows_of("commitment", "capacity_reservation_eligible_spend"))
    # The example names no resources and no units: a machine, the reservation, another machine, and a support plan.
    more: list[Mapping[str, str]] = [
        {"ResourceId": "vm-1", "ConsumedUnit": "Hours"},
        {"ResourceId": "cr-arc-acme-001", "ConsumedUnit": "Hours"},
        {"ResourceId": "vm-2", "ConsumedUnit": "Hours"},
        {"ResourceId": "support-1", "ConsumedUnit": "Plans", "ServiceCategory": "Other"},
    ]
    lines = read([{**row, **extra} for row, extra in zip(rows, more, strict=True)], "effective")
    assert by(lines, "scope_rule", "capacity_reservation") == {
        (None, "cr-arc-acme-001"): Decimal(180),
        ("reserved_unused", "cr-arc-acme-001"): Decimal(70),
        (None, None): Decimal(120),
        ("service_not_compute", None): Decimal(50),
    }
    assert total(lines) == 420


@pytest.mark.parametrize("style", ["delta", "ledger"])
@pytest.mark.parametrize(("metric", "first", "second"), [("billed", 1200, 300), ("effective", 1200, 300), ("list", 1600, 400)])
def test_corrections_of_a_closed_month_by_both_views(read: Reading, style: str, metric: str, first: int, second: int) -> None:
    rows = wrapped([*rows_of("correction", "closed_scenario_1_original"), *rows_of("correction", f"closed_scenario_1_{style}")])
    lines = read(rows, metric)
    assert by(lines, "resource_id") == {("R-111",): Decimal(first), ("R-222",): Decimal(second)}
    may, june = date(2025, 5, 1), date(2025, 6, 1)
    assert by(lines, "billing_period") == {(may,): Decimal(first + second), (june,): Decimal(0)}
    assert {row["charge_period_start"].date() for row in lines.to_pylist()} == {may}
    assert lines["is_correction"].to_pylist() == [False] + [True] * (len(rows) - 1)
    assert set(lines["scope_rule"].to_pylist()) == {None}


def test_corrections_that_replace_take_the_original_s_place(read: Reading) -> None:
    # A replacement delivers the closed period's rows anew: the delivery has the right rows only.
    original = wrapped(rows_of("correction", "closed_scenario_1_original"))[0]
    new = [{**original, "BilledCost": "1200"}, {**original, "BilledCost": "300", "ResourceId": "R-222"}]
    assert by(read(new), "resource_id") == {("R-111",): Decimal(1200), ("R-222",): Decimal(300)}


def test_corrections_without_resource_or_quantity_are_never_dropped(read: Reading) -> None:
    lines = read(wrapped(rows_of("correction", "closed_scenario_3_ledger")))
    assert total(lines) == Decimal("0.002")
    assert by(lines, "scope_rule", "is_correction") == {("no_resource", True): Decimal("0.002")}
    assert lines["usage_quantity"].to_pylist() == [None, None]


def test_a_split_of_the_provider_keeps_its_sum(read: Reading) -> None:
    base = {**AROUND, "ChargePeriodStart": "2026-04-01T00:00:00Z", "ChargePeriodEnd": "2026-04-02T00:00:00Z"}
    base |= {"ChargeCategory": "Usage", "ResourceId": "cluster-aura-shared-01", "ConsumedUnit": "vCPU-Hours"}
    parts = [("", "0.00"), ("pod-aura-orders-01", "40.00"), ("pod-aura-scoring-01", "35.00"), ("pod-aura-frontend-01", "25.00")]
    lines = read([{**base, "AllocatedResourceId": pod, "BilledCost": cost} for pod, cost in parts])
    assert total(lines) == 100
    assert by(lines, "scope_rule") == {(None,): Decimal(0), ("provider_split",): Decimal(100)}
