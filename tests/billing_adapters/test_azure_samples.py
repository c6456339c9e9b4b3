"""The Azure samples: totals against sums that the csv module and decimals make, per cost metric, and the known figures."""

import csv
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from allocation.errors import AdapterError
from tests.billing_adapters.bills import parse_all, sample, write
from tests.billing_adapters.reports import total

COST = ("cost", "costinbillingcurrency", "pretaxcost")
QUANTITY = ("quantity", "usagequantity")
PRICE = {"contracted": ("effectiveprice", "resourcerate"), "list": ("paygprice",)}
EVERY = {
    "EA_ActualCost_Small.csv": (11, ("billed", "contracted", "list")),
    "EA_AmortizedCost_Small.csv": (28, ("effective", "contracted")),
    "EA_NoRows.csv": (0, ("billed", "contracted", "list")),
    "koku_azure_camelCased.csv": (3, ("billed", "contracted")),
    "koku_azure_version_2.csv": (5, ("billed", "contracted")),
    "opencost_headers_Enterprise.csv": (1, ("billed", "contracted", "list")),
    "opencost_headers_EnterpriseCamel.csv": (1, ("billed", "contracted", "list")),
    "opencost_headers_German.csv": (1, ("billed", "contracted")),
    "opencost_headers_PayAsYouGo.csv": (1, ("billed", "contracted")),
    "opencost_headers_YA.csv": (1, ("billed", "contracted")),
    "opencost_values_MissingBrackets.csv": (1, ("billed", "list")),
    "opencost_values_Template.csv": (87, ("billed", "list")),
    "opencost_values_VirtualMachine.csv": (1, ("billed", "list")),
}


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows by the lower-case English name of each column."""
    header, *rows = csv.reader(path.read_text(encoding="utf-8-sig").splitlines(keepends=True))
    names = [name.rpartition("(")[2].rstrip(")").lower() for name in header]
    return [dict(zip(names, row, strict=False)) for row in rows if row]


def cell(row: Mapping[str, str], names: tuple[str, ...]) -> Decimal:
    return next(Decimal(row[name]) for name in names if name in row)


def cost_of(row: Mapping[str, str], metric: str) -> Decimal:
    if metric == "list" and row.get("chargetype", "Usage") != "Usage":
        return Decimal(0)
    if metric == "list" and "paygcostinbillingcurrency" in row:
        return Decimal(row["paygcostinbillingcurrency"])
    return cell(row, COST) if metric not in PRICE else cell(row, PRICE[metric]) * cell(row, QUANTITY)


def readable(name: str, folder: Path) -> tuple[Path, str | None]:
    """The sample, and the currency that its entry must say; what no real export has (below) is put right in a copy."""
    path = sample("azure", name)
    content = path.read_bytes()
    if name == "koku_azure_version_2.csv":
        return write(folder / name, content.replace(b",MC,", b",USD,")), None
    if name == "opencost_values_Template.csv":
        return write(folder / name, content.replace(b",resourcelocation", b"", 1)), "USD"
    return path, "USD" if name.startswith("opencost_values") else None


@pytest.mark.parametrize("name", EVERY)
def test_a_sample_sums_as_the_csv_module_sums_it(tmp_path: Path, name: str) -> None:
    path, currency = readable(name, tmp_path)
    rows, metrics = EVERY[name]
    for metric in metrics:
        lines = parse_all("azure", path, cost=metric, currency=currency)
        assert lines.num_rows == rows
        assert total(lines, metric) == sum((cost_of(row, metric) for row in rows_of(path)), Decimal(0)), metric


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("koku_azure_version_2.csv", ["row 1", "'MC' is no currency code"]),
        ("opencost_values_Template.csv", ["no column says the currency", "currency: EUR"]),
        ("opencost_headers_BOM.csv", ["row 1", "empty"]),
    ],
)
def test_what_a_sample_lacks_is_said(name: str, parts: list[str]) -> None:
    with pytest.raises(AdapterError) as caught:
        parse_all("azure", sample("azure", name))
    for part in (name, *parts):
        assert part in str(caught.value)


def test_the_known_figures_of_the_amortized_sample() -> None:
    path = sample("azure", "EA_AmortizedCost_Small.csv")
    lines = parse_all("azure", path, cost="effective")
    assert str(total(lines, "effective")).startswith("16.296932136636644627")
    rows = lines.to_pylist()
    split = {r["source_row"]: r for r in rows if r["scope_rule"] is None}
    assert sorted(split) == [1, 2]
    reserved, planned = split[1], split[2]
    assert reserved["node_key"].endswith("/virtualmachinescalesets/aks-agentpool-42850074-vmss/virtualmachines/1")
    assert reserved["node_key"].startswith("/subscriptions/9ec51cfd-5ca7-4d76-8101-dd0a4abc5674/resourcegroups/mc_analytics")
    assert (reserved["cost_nanos"], reserved["machine_ms"]) == (493_152_000, 8 * 3_600_000)  # 8 h x 0.061644
    assert (reserved["instance_type"], reserved["pricing_category"]) == ("Standard_DS2_v2", "committed")
    assert (planned["cost_nanos"], planned["cost_residue"]) == (6_000_000, Decimal("4.68e-10"))  # 0.006000000468
    assert (planned["machine_ms"], planned["pricing_category"]) == (1_155_080, "committed")  # 0.32085564 h
    bandwidth = next(r for r in rows if r["cost_nanos"] == 118_867)
    assert (bandwidth["service"], bandwidth["scope_rule"]) == ("Bandwidth", "service_not_compute")
    unused = next(r for r in rows if r["cost_nanos"] == 2_640_000_000)
    assert unused["scope_rule"] == "reserved_unused"
    assert unused["capacity_reservation"] == "f8b42087-c198-4ad8-8515-fce989cc5fff"
    assert unused["machine_ms"] is None
    with pytest.raises(AdapterError, match=r"row 1: PayGPrice is 0 although the row was paid for"):
        parse_all("azure", path, cost="list")


def test_the_known_figures_of_the_actual_sample() -> None:
    path = sample("azure", "EA_ActualCost_Small.csv")
    lines = parse_all("azure", path)
    assert total(lines) == Decimal("8.5450077867419368")
    bought = lines.to_pylist()[0]
    assert (bought["charge_category"], bought["line_type"], bought["cost_nanos"]) == ("Purchase", "Purchase", 3_250_000_000)
    assert "subscriptions" not in bought["node_key"]
    assert set(lines["billing_period"].to_pylist()) == {bought["charge_period_start"].date().replace(day=1)}
    with pytest.raises(AdapterError, match=r"Purchase stands only in an export of type ActualCost.*AmortizedCost"):
        parse_all("azure", path, cost="effective")


def test_quantities_are_hours_whatever_the_unit_of_measure() -> None:
    """3 x 0.025 = 0.075 in units of ``100 Hours``, and 22 of ``10 Hours`` on one machine's day can be hours only."""
    path = sample("azure", "opencost_headers_PayAsYouGo.csv")
    assert total(parse_all("azure", path, cost="contracted"), "contracted") == Decimal("0.075") == total(parse_all("azure", path))
    enterprise = parse_all("azure", sample("azure", "opencost_headers_Enterprise.csv")).to_pylist()[0]
    assert (enterprise["usage_unit"], enterprise["machine_ms"]) == ("10 Hours", 10 * 3_600_000)


def test_information_without_braces_names_the_machine() -> None:
    for name in ("opencost_values_MissingBrackets.csv", "opencost_values_VirtualMachine.csv"):
        row = parse_all("azure", sample("azure", name), currency="USD").to_pylist()[0]
        assert row["node_key"].endswith("/virtualmachinescalesets/aks-nodepool1-12345678-vmss/virtualmachines/0")
        assert (row["instance_type"], row["scope_rule"], row["machine_ms"]) == ("Standard_DS2_v2", None, None)
