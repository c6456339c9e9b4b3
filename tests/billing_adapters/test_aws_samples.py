"""The real and generated AWS samples: totals against sums that the csv module and decimals make, per cost metric."""

import csv
import gzip
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError
from tests.billing_adapters.bills import parse_all, sample
from tests.billing_adapters.reports import total

UNBLENDED = ("lineItem/UnblendedCost", "line_item_unblended_cost")
LIST = ("pricing/publicOnDemandCost", "pricing_public_on_demand_cost")
PLAN = ("savingsPlan/SavingsPlanEffectiveCost", "savings_plan_savings_plan_effective_cost")
TYPE = ("lineItem/LineItemType", "line_item_line_item_type")


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from csv.DictReader(content.decode("utf-8-sig").splitlines(keepends=True))


def cell(row: dict[str, str], names: tuple[str, str]) -> str:
    return next((row[name] for name in names if name in row), "")


def cost_of(row: dict[str, str], metric: str) -> Decimal:
    """Only what the samples hold: usage, usage of a savings plan, its negation and its recurring fee."""
    kind = cell(row, TYPE)
    if metric == "list":
        return Decimal(cell(row, LIST)) if kind in ("Usage", "SavingsPlanCoveredUsage") else Decimal(0)
    if metric == "effective" and kind != "Usage":
        return Decimal(cell(row, PLAN)) if kind == "SavingsPlanCoveredUsage" else Decimal(0)
    return Decimal(cell(row, UNBLENDED))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("test_cur.csv", 19),
        ("aws_2022-07-01-alt-columns.csv", 2),
        ("aws_2023-06-01.csv", 3),
        ("aws_2023-06-01-not-final.csv", 3),
        ("aws_empty_frame.csv", 0),
    ],
)
def test_a_fixture_of_the_legacy_report_sums_as_the_csv_module_sums_it(name: str, lines: int) -> None:
    path = sample("aws_legacy_cur", name)
    metrics = ("billed", "effective", "list")
    table = parse_all("aws-cur", path, cost=metrics)
    assert table.num_rows == lines * 3
    for metric in metrics:
        assert total(table, metric) == sum((cost_of(row, metric) for row in rows_of(path)), Decimal(0)), metric


def test_known_figures_of_the_fixtures() -> None:
    transfer = parse_all("aws-cur", sample("aws_legacy_cur", "test_cur.csv"))
    assert set(transfer["scope_rule"].to_pylist()) == {"usage_not_instance"}
    assert set(transfer["machine_ms"].to_pylist()) == {None}
    final = parse_all("aws-cur", sample("aws_legacy_cur", "aws_2023-06-01.csv"), cost=("billed", "effective"))
    assert (total(final), total(final, "effective")) == (Decimal(30), Decimal("0.3"))
    assert set(final["currency"].to_pylist()) == {"NOK"}
    open_month = parse_all("aws-cur", sample("aws_legacy_cur", "aws_2023-06-01-not-final.csv"))
    assert total(open_month) == 30
    marketplace = parse_all("aws-cur", sample("aws_legacy_cur", "aws_2022-07-01-alt-columns.csv")).to_pylist()
    assert {(r["service"], r["scope_rule"], r["node_key"]) for r in marketplace} == {
        ("mra", "usage_not_instance", "i-055386473d0b3fc65")
    }


def test_the_generated_report_by_its_manifest() -> None:
    root = sample("aws_legacy_cur_generated", "cur", "gpucur")
    lines = parse_all("aws-cur", root)
    (file,) = root.rglob("*.csv.gz")
    assert lines.num_rows == 192
    assert total(lines) == sum((cost_of(row, "billed") for row in rows_of(file)), Decimal(0))
    # The generator's published total, a sum of doubles.
    assert total(lines).quantize(Decimal("1e-10")) == Decimal("2877.354322581606").quantize(Decimal("1e-10"))
    of_machines: dict[str, Decimal] = {}
    for row in lines.to_pylist():
        if row["scope_rule"] is None:
            kind = row["instance_type"]
            of_machines[kind] = of_machines.get(kind, Decimal(0)) + row["cost_nanos"] * Decimal("1e-9")
    assert (of_machines["p5.48xlarge"], of_machines["p4d.24xlarge"], of_machines["g5.12xlarge"]) == (
        Decimal("2359.68"),
        Decimal("786.5424"),
        Decimal(0),
    )


def test_the_generated_report_cannot_say_what_its_reservations_cost() -> None:
    root = sample("aws_legacy_cur_generated", "cur", "gpucur")
    with pytest.raises(AdapterError, match=r"a DiscountedUsage line has no effective cost"):
        parse_all("aws-cur", root, cost="effective")
    with pytest.raises(AdapterError, match=r"pricing_public_on_demand_cost: .*convertible"):
        parse_all("aws-cur", root, cost="list")


def test_the_legacy_report_and_the_exports_that_were_made_of_it_are_the_same_lines() -> None:
    keys = ["cost_nanos", "machine_ms", "scope_rule", "charge_period_start", "resource_id", "usage_type"]
    report = parse_all("aws-cur", sample("aws_legacy_cur_generated", "cur", "gpucur"))
    wanted = sorted(map(str, report.select(keys).to_pylist()))
    for export in ("gpucur2", "gpucur2csv"):
        lines = parse_all("aws-cur2", sample("aws_cur2_derived", "exports", export))
        assert sorted(map(str, lines.select(keys).to_pylist())) == wanted
        assert total(lines) == total(report)


def test_the_parquet_export_sums_as_its_doubles_written_out() -> None:
    root = sample("aws_cur2_derived", "exports", "gpucur2")
    chunks = sorted(root.rglob("*.parquet"))[:2]
    costs = [cost for chunk in chunks for cost in pq.read_table(chunk)["line_item_unblended_cost"].to_pylist()]
    assert total(parse_all("aws-cur2", root)) == sum((Decimal(repr(cost)) for cost in costs), Decimal(0))
