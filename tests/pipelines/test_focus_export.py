"""Computed days as charges in FOCUS: the columns of each version, money and parts that add up exactly, types, both formats."""

import csv
import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import cli

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
IN_1_2 = """
AvailabilityZone BilledCost BillingAccountId BillingAccountName BillingAccountType BillingCurrency BillingPeriodEnd
BillingPeriodStart CapacityReservationId CapacityReservationStatus ChargeCategory ChargeClass ChargeDescription ChargeFrequency
ChargePeriodEnd ChargePeriodStart CommitmentDiscountCategory CommitmentDiscountId CommitmentDiscountName
CommitmentDiscountQuantity CommitmentDiscountStatus CommitmentDiscountType CommitmentDiscountUnit ConsumedQuantity ConsumedUnit
ContractedCost ContractedUnitPrice EffectiveCost InvoiceId InvoiceIssuerName ListCost ListUnitPrice PricingCategory
PricingCurrency PricingCurrencyContractedUnitPrice PricingCurrencyEffectiveCost PricingCurrencyListUnitPrice PricingQuantity
PricingUnit ProviderName PublisherName RegionId RegionName ResourceId ResourceName ResourceType ServiceCategory ServiceName
ServiceSubcategory SkuId SkuMeter SkuPriceDetails SkuPriceId SubAccountId SubAccountName SubAccountType Tags
"""
NEW_IN_1_3 = """
AllocatedMethodDetails AllocatedMethodId AllocatedResourceId AllocatedResourceName AllocatedTags ContractApplied
HostProviderName ServiceProviderName
"""
NEW_IN_1_4 = ["CommitmentProgramEligibilityDetails", "InvoiceDetailId"]
OF_VERSION = {
    "1.2": {*IN_1_2.split()},
    "1.3": {*IN_1_2.split(), *NEW_IN_1_3.split()},
    "1.4": {*IN_1_2.split(), *NEW_IN_1_3.split(), *NEW_IN_1_4} - {"ProviderName", "PublisherName"},
}
NEVER_NULL = """
BilledCost BillingAccountId BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory ChargePeriodEnd ChargePeriodStart
ContractedCost EffectiveCost InvoiceIssuerName ListCost ServiceCategory ServiceName ServiceSubcategory
"""
COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")

Rows = list[dict[str, Any]]


class Day:
    """A configuration whose days are computed, in a folder of its own."""

    def __init__(self, config: Path, first: date, days: int) -> None:
        self.config, self.first, self.until = config, first, first + timedelta(days=days)
        self.window = ["--from", str(self.first), "--until", str(self.until)]
        assert cli.main(["run", str(config), *self.window]) in (0, 3)

    def export(self, name: str, *options: str) -> Path:
        path = self.config.parent / name
        assert cli.main(["export", "focus", str(self.config), *self.window, "--to", str(path), *options]) == 0
        return path

    def rows(self, name: str = "all.parquet", *options: str) -> Rows:
        return rows_of(self.export(name, *options))

    def chargeback(self) -> Rows:
        files = sorted((self.config.parent / "out" / "chargeback").glob("date=*/cluster=*/part-*.parquet"))
        return [row for file in files for row in rows_of(file)]


def rows_of(path: Path) -> Rows:
    with pq.ParquetFile(path) as file:
        rows: Rows = file.read().to_pylist()
        return rows


def copied(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("out"))
    return target / "chargeback.yaml"


def with_invoices(bill: Path, invoice: Callable[[dict[str, str]], str]) -> None:
    """Writes a bill in CSV again, with the column InvoiceId."""
    with bill.open(encoding="utf-8", newline="") as file:
        rows = [{**row, "InvoiceId": invoice(row)} for row in csv.DictReader(file)]
    with bill.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Day:
    folder = tmp_path_factory.mktemp("quickstart") / "copy"
    return Day(copied(ROOT / "examples" / "quickstart", folder), date(2026, 10, 1), 1)


@pytest.fixture
def case(tmp_path: Path) -> Callable[..., Day]:
    def computed(name: str, first: date = date(2026, 10, 1), days: int = 1) -> Day:
        return Day(copied(CASES / name, tmp_path / name), first, days)

    return computed


def sums(rows: Rows, metric: str, currency: str, cost: str) -> dict[tuple[str, str], Decimal]:
    found: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        found[row[metric], row[currency]] += row[cost]
    return dict(found)


def parts_of_lines(rows: Rows) -> dict[str, Decimal]:
    found: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        elements = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)["Elements"]
        assert len(elements) == 1
        assert elements[0]["AllocatedRatio"] == row["x_AllocatedRatio"]
        found[row["x_LineItemId"]] += elements[0]["AllocatedRatio"]
    return dict(found)


@pytest.mark.parametrize("version", ["1.2", "1.3", "1.4"])
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_version_has_its_columns_and_ours(quickstart: Day, version: str, ending: str) -> None:
    path = quickstart.export(f"v{version}{ending}", "--focus-version", version)
    if ending == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            names = next(csv.reader(file))
    else:
        names = pq.read_schema(path).names
    theirs = [name for name in names if not name.startswith("x_")]
    assert theirs == sorted(OF_VERSION[version])
    assert {"x_Team", "x_Model", "x_Bucket", "x_Basis", "x_Coverage", "x_GpuUuid", "x_CostMetric", "x_RunId"} <= set(names)


def test_money_and_rows_are_those_of_chargeback(quickstart: Day) -> None:
    rows, own = quickstart.rows(), quickstart.chargeback()
    assert len(rows) == len(own) > 0
    assert sums(rows, "x_CostMetric", "BillingCurrency", "EffectiveCost") == sums(own, "cost_metric", "currency", "cost")
    by_pod: dict[Any, Decimal] = defaultdict(Decimal)
    for row in own:
        by_pod[f"{row['namespace']}/{row['pod']}" if row["pod"] else row["bucket"]] += row["cost"]
    exported: dict[Any, Decimal] = defaultdict(Decimal)
    for row in rows:
        exported[row["AllocatedResourceId"] or "unallocated"] += row["EffectiveCost"]
    assert exported == by_pod


def test_the_bill_s_own_machines_cost_in_the_export_what_they_cost_there(quickstart: Day) -> None:
    with (quickstart.config.parent / "bill.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["SkuId"] != "EGRESS"]  # its README: no line of the machine's hours
    exported: dict[str, Decimal] = defaultdict(Decimal)
    for row in quickstart.rows():
        exported[row["ResourceId"]] += row["EffectiveCost"]
    billed = {name: sum(Decimal(n["EffectiveCost"]) for n in lines if n["ResourceId"] == name) for name in exported}
    assert exported == billed
    assert len(exported) == 3


def test_parts_of_a_line_are_one(quickstart: Day) -> None:
    parts = parts_of_lines(quickstart.rows())
    assert len(parts) == 73  # three machines, 24 hours, and a credit
    assert set(parts.values()) == {Decimal(1)}


def test_a_part_is_its_cost_over_the_line_s(quickstart: Day) -> None:
    for row in quickstart.rows():
        assert abs(row["x_AllocatedRatio"] * row["x_OriginCost"] - row["EffectiveCost"]) < Decimal("1e-9")


@pytest.mark.parametrize(
    ("name", "first", "days"),
    [
        ("40-fee-of-two-days", date(2026, 10, 1), 2),
        ("74-zero-and-equal-rows", date(2026, 10, 1), 1),
        ("111-two-clouds-and-a-rack", date(2026, 10, 5), 1),
        ("97-correction-of-a-closed-month", date(2026, 10, 1), 1),
    ],
)
def test_odd_lines_add_up_too(case: Callable[..., Day], name: str, first: date, days: int) -> None:
    day = case(name, first, days)
    rows = day.rows()
    parts = parts_of_lines(rows)
    assert parts
    assert set(parts.values()) == {Decimal(1)}
    own = day.chargeback()
    assert sums(rows, "x_CostMetric", "BillingCurrency", "BilledCost") == sums(own, "cost_metric", "currency", "cost")


def test_types_and_what_may_not_be_null(quickstart: Day) -> None:
    schema = pq.read_schema(quickstart.export("types.parquet"))
    assert {schema.field(name).type for name in COSTS} == {pa.decimal128(38, 9)}
    times = [name for name in schema.names if name.endswith(("PeriodStart", "PeriodEnd"))]
    assert {schema.field(name).type for name in times} == {pa.timestamp("us", "UTC")}
    assert len(times) == 6
    rows = quickstart.rows()
    assert [name for name in NEVER_NULL.split() if any(row[name] is None for row in rows)] == []
    assert {row["BillingPeriodStart"] for row in rows} == {datetime(2026, 10, 1, tzinfo=UTC)}
    assert {row["BillingPeriodEnd"] for row in rows} == {datetime(2026, 11, 1, tzinfo=UTC)}


def test_facts_of_the_line_stay_and_the_holder_s_are_added(quickstart: Day) -> None:
    row = next(r for r in quickstart.rows() if r["AllocatedResourceId"] == "search/embedder-0")
    assert row["ResourceId"] == "i-0a1f3c5e7d9b2a4c6"
    assert (row["ServiceName"], row["ServiceCategory"]) == ("Amazon Elastic Compute Cloud", "Compute")
    assert row["ServiceSubcategory"] == "Virtual Machines"
    assert (row["ServiceProviderName"], row["SubAccountId"], row["RegionId"]) == ("AWS", "444455556666", "us-east-1")
    assert (row["PricingCategory"], row["ChargeFrequency"]) == ("Committed", "Usage-Based")
    assert row["AllocatedMethodId"] == "gpu-chargeback/memory-seconds/1"
    assert json.loads(row["AllocatedTags"]) == {
        "gpu-chargeback/team": "search",
        "gpu-chargeback/model": "embed-large",
        "gpu-chargeback/workload": "StatefulSet/embedder",
    }
    # one of four cards for one hour: 22.48828125 GiB x 3600 s
    element = json.loads(row["AllocatedMethodDetails"])["Elements"][0]
    assert element == {"AllocatedRatio": 0.25, "UsageUnit": "GiB-Seconds", "UsageQuantity": 23028 / 1024 * 3600}
    assert row["EffectiveCost"] == Decimal("3.744") / 4
    assert row["x_UntoldCosts"] == "BilledCost,ContractedCost,ListCost"


def test_accounts_and_regions_are_named_by_their_ids(quickstart: Day) -> None:
    named = ("BillingAccountName", "SubAccountName", "RegionName")
    assert {tuple(row[name] for name in named) for row in quickstart.rows()} == {("111122223333", "444455556666", "us-east-1")}


def test_what_is_no_usage_happens_once(quickstart: Day) -> None:
    found = {(row["ChargeCategory"], row["ChargeFrequency"]) for row in quickstart.rows()}
    assert found == {("Usage", "Usage-Based"), ("Credit", "One-Time")}


def test_each_charge_stands_on_its_line_s_invoice(tmp_path: Path) -> None:
    config = copied(ROOT / "examples" / "quickstart", tmp_path / "copy")
    with_invoices(config.parent / "bill.csv", lambda row: "" if row["ChargePeriodStart"] < "2026-10-01T06" else "INV-7")
    rows = Day(config, date(2026, 10, 1), 1).rows()
    of_hour = {row["x_OriginChargePeriodStart"].hour: row["InvoiceId"] for row in rows if row["ChargeCategory"] == "Usage"}
    assert of_hour == {hour: None if hour < 6 else "INV-7" for hour in range(24)}


def test_csv_holds_the_same_as_parquet(quickstart: Day) -> None:
    with quickstart.export("same.csv").open(encoding="utf-8", newline="") as file:
        texts = list(csv.DictReader(file))
    rows = quickstart.rows()
    assert [Decimal(text["EffectiveCost"]) for text in texts] == [row["EffectiveCost"] for row in rows]
    assert not [text for text in texts if "E" in text["EffectiveCost"].upper()]
    for name in ("AllocatedResourceId", "AllocatedTags", "AllocatedMethodDetails", "x_Reason", "x_LineItemId"):
        assert [text[name] for text in texts] == [row[name] or "" for row in rows]
    assert [datetime.fromisoformat(text["ChargePeriodStart"]) for text in texts] == [row["ChargePeriodStart"] for row in rows]
    assert texts[0]["ChargePeriodStart"].endswith("Z")


def test_money_without_a_measurement_is_allocated_to_nobody(case: Callable[..., Day]) -> None:
    rows = case("11-no-metrics-no-bill").rows()
    lost = [row for row in rows if row["x_Bucket"] == "unallocated"]
    assert lost
    assert {(row["AllocatedResourceId"], row["AllocatedResourceName"], row["AllocatedTags"]) for row in lost} == {(None,) * 3}
    assert {row["AllocatedMethodId"] for row in lost} == {"gpu-chargeback/memory-seconds/1"}


def test_a_correction_is_named(case: Callable[..., Day]) -> None:
    rows = case("97-correction-of-a-closed-month").rows()
    assert {row["ChargeClass"] for row in rows} >= {"Correction"}
