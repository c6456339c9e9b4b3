"""What the rows of Azure exports mean: spellings, dates, machines, scope, costs."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError
from allocation.node_keys import node_keys
from tests.billing_adapters.azure_runs import azure_bytes
from tests.billing_adapters.bills import AZURE_ROW, SCALE_SET, csv_bytes, focus_bytes, parse_all, write
from tests.billing_adapters.reports import total

GROUP = "/subscriptions/1111/resourceGroups/MC_example/providers/Microsoft.Compute"
HOUR_MS = 3_600_000


def lines(folder: Path, *changes: dict[str, str], **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any option
    found: list[dict[str, Any]] = parse_all("azure", write(folder / "bill.csv", azure_bytes(*changes)), **options).to_pylist()
    return found


def refused(path: Path, *parts: str, **options: Any) -> None:  # noqa: ANN401 - any option
    with pytest.raises(AdapterError) as caught:
        parse_all("azure", path, **options)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def renamed(names: dict[str, str], row: dict[str, str] = AZURE_ROW) -> bytes:
    return csv_bytes([{names.get(name, name): value for name, value in row.items()}])


SPELLINGS = [
    {"CostInBillingCurrency": "Cost"},
    {"CostInBillingCurrency": "PreTaxCost", "Date": "UsageDateTime", "Quantity": "UsageQuantity", "ResourceId": "InstanceId"},
    {"BillingCurrency": "BillingCurrencyCode", "SubscriptionId": "SubscriptionGuid", "EffectivePrice": "ResourceRate"},
    {name: name[0].lower() + name[1:] for name in AZURE_ROW},
    {name: f"Auf Deutsch ({name})" for name in AZURE_ROW} | {"BillingCurrency": "Währung (Currency)"},
]


@pytest.mark.parametrize("names", SPELLINGS, ids=["EA", "PAYG", "v2", "MCA", "German"])
def test_every_spelling_of_the_columns_gives_the_same_lines(tmp_path: Path, names: dict[str, str]) -> None:
    wanted = parse_all("azure", write(tmp_path / "a" / "bill.csv", azure_bytes({})), cost=("billed", "contracted"))
    path = write(tmp_path / "b" / "bill.csv", b"\xef\xbb\xbf" + renamed(names))
    found = parse_all("azure", path, cost=("billed", "contracted"))
    assert found.drop_columns("delivery_id").equals(wanted.drop_columns("delivery_id"))


def test_two_spellings_of_one_column_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", csv_bytes([{**AZURE_ROW, "PreTaxCost": "1"}]))
    refused(path, "'CostInBillingCurrency' and 'PreTaxCost' mean the same", "2 times", "Take one of them out")


@pytest.mark.parametrize(
    ("gone", "parts"),
    [
        ("CostInBillingCurrency", ["CostInBillingCurrency (or Cost, PreTaxCost)", "columns: AdditionalInfo, BillingAccountId"]),
        ("AdditionalInfo", ["mandatory columns are missing: AdditionalInfo", "actual, amortized or FOCUS"]),
        ("ResourceId", ["ResourceId (or InstanceId, InstanceName)"]),
        ("BillingCurrency", ["no column says the currency", "currency: EUR"]),
    ],
)
def test_a_missing_column_is_named_with_what_is_there(tmp_path: Path, gone: str, parts: list[str]) -> None:
    refused(write(tmp_path / "bill.csv", renamed({gone: "x_other"})), "bill.csv", *parts)


def test_a_file_without_currency_is_in_the_entry_s(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", renamed({"BillingCurrency": "x_other"}))
    assert parse_all("azure", path, currency="EUR")["currency"].to_pylist() == ["EUR"]


def test_who_pays_as_he_goes_is_billed_by_subscription_and_zeros_are_no_id(tmp_path: Path) -> None:
    zero = "00000000-0000-0000-0000-000000000000"
    path = write(tmp_path / "bill.csv", renamed({"BillingAccountId": "x_other"}))
    row = parse_all("azure", path).to_pylist()[0]
    assert row["billing_account"] == row["sub_account"] == AZURE_ROW["SubscriptionId"]
    (row,) = lines(tmp_path, {"SubscriptionId": zero, "ReservationId": zero, "PricingModel": ""})
    assert (row["billing_account"], row["sub_account"], row["pricing_category"]) == ("111122223333", None, None)


def test_a_line_is_of_its_whole_utc_day_and_of_the_month_of_its_period(tmp_path: Path) -> None:
    for day, order in (("10/02/2026", "month_first"), ("2/10/2026", "day_first"), ("2026-10-02", "day_first")):
        change = {"Date": day, "BillingPeriodStartDate": "", "BillingPeriodEndDate": ""}
        (row,) = lines(tmp_path, change, date_order=order)
        assert row["charge_period_start"] == datetime(2026, 10, 2, tzinfo=UTC)
        assert row["charge_period_end"] - row["charge_period_start"] == timedelta(days=1)
        assert row["billing_period"] == date(2026, 10, 1)
    (row,) = lines(tmp_path, {"Date": "2026-09-30"})
    assert (row["charge_period_start"].month, row["billing_period"]) == (9, date(2026, 10, 1))


@pytest.mark.parametrize(
    ("dates", "order", "told"),
    [
        (("02/03/2021", "02/01/2021", "02/28/2021"), "day_first", "month_first"),
        (("02/03/2021", "01/03/2021", "31/03/2021"), "month_first", "day_first"),
        (("13/03/2021", "", ""), "month_first", "day_first"),
        (("2021-03-02", "01/03/2021", "31/03/2021"), "month_first", "day_first"),
    ],
)
def test_the_billing_period_proves_the_order_of_a_date(tmp_path: Path, dates: tuple[str, ...], order: str, told: str) -> None:
    change = dict(zip(("Date", "BillingPeriodStartDate", "BillingPeriodEndDate"), dates, strict=True))
    path = write(tmp_path / "bill.csv", azure_bytes(change))
    refused(path, "row 1", dates[0], f"date_order: {told}", date_order=order)
    assert parse_all("azure", path, date_order=told)["charge_period_start"].to_pylist()[0].month in (2, 3)


def test_the_billing_period_proves_its_own_order_beside_a_date_of_parquet_s(tmp_path: Path) -> None:
    row = {**AZURE_ROW, "BillingPeriodStartDate": "01/10/2026", "BillingPeriodEndDate": "31/10/2026"}
    pq.write_table(pa.Table.from_pylist([row | {"Date": date(2026, 10, 1)}]), tmp_path / "bill.parquet")
    refused(tmp_path / "bill.parquet", "row 1", "2026-10-01", "date_order: day_first")
    (told,) = parse_all("azure", tmp_path / "bill.parquet", date_order="day_first").to_pylist()
    assert (told["charge_period_start"], told["billing_period"]) == (datetime(2026, 10, 1, tzinfo=UTC), date(2026, 10, 1))


def test_dates_are_written_in_one_way_and_are_whole_days(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", azure_bytes({}, {"Date": "10/02/2026"}))
    refused(path, "row 2", "'10/02/2026' is written otherwise")
    refused(write(tmp_path / "bill.csv", azure_bytes({"Date": "2026-10-01T05:00:00Z"})), "row 1", "no whole day")
    refused(
        write(tmp_path / "bill.csv", azure_bytes({"Date": "02/30/2026", "BillingPeriodStartDate": ""})), "row 1", "impossible"
    )


@pytest.mark.parametrize(
    ("resource", "name", "key"),
    [
        (SCALE_SET, "aks-gpu-1234-vmss_12", f"{SCALE_SET}/virtualMachines/12"),
        (SCALE_SET.upper(), "AKS-gpu-1234-vmss_0", f"{SCALE_SET}/virtualMachines/0"),
        (SCALE_SET.lstrip("/"), "aks-gpu-1234-vmss00000c", f"{SCALE_SET}/virtualMachines/12"),
        (f"{SCALE_SET}/", "aks-gpu-1234-vmss0000zz", f"{SCALE_SET}/virtualMachines/1295"),
        (SCALE_SET, "aks-gpu-1234-vmss_0a1b2c3d", f"{GROUP}/virtualMachines/aks-gpu-1234-vmss_0a1b2c3d"),
        (SCALE_SET, "aks-gpu-1234-vmss_12345678", f"{GROUP}/virtualMachines/aks-gpu-1234-vmss_12345678"),
        (SCALE_SET, "another_7", SCALE_SET),
        (SCALE_SET, None, SCALE_SET),
        (f"{GROUP}/virtualMachines/vm-1", "vm-1", f"{GROUP}/virtualMachines/vm-1"),
        (f"{GROUP}/virtualMachineScaleSets/a_b_c", "a_b_c_3", f"{GROUP}/virtualMachineScaleSets/a_b_c/virtualMachines/3"),
    ],
)
def test_a_machine_has_the_key_of_its_provider_id(tmp_path: Path, resource: str, name: str | None, key: str) -> None:
    wanted = node_keys(pa.array([f"azure://{key}"])).to_pylist()[0]
    for text in ('{{"VMName": {0}}}', '"ServiceType": "x",  "VmName": {0}'):
        information = text.format("null" if name is None else f'"{name}"')
        (row,) = lines(tmp_path, {"ResourceId": resource, "AdditionalInfo": information})
        assert (row["node_key"], row["resource_id"]) == (wanted, resource)
    details = {"ProviderName": "Microsoft", "ResourceId": resource, "x_SkuDetails": information.replace("VmName", "VMName")}
    focus = parse_all("focus", write(tmp_path / "focus.csv", focus_bytes({**details, "x_InstanceType": ""}))).to_pylist()[0]
    assert (focus["node_key"], focus["instance_type"]) == (wanted, "x")


def test_equal_rows_of_focus_on_two_machines_have_ids_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"ProviderName": "Microsoft", "ResourceId": SCALE_SET, "x_SkuDetails": f'{{"VMName": "aks-gpu-1234-vmss_{n}"}}'}
        for n in (0, 1)
    ]
    first, second = (
        {line["node_key"]: line["line_item_id"] for line in parse_all("focus", path).to_pylist()}
        for path in (
            write(tmp_path / "a.csv", focus_bytes(*rows)),
            write(tmp_path / "b.csv", focus_bytes(*reversed(rows))),
        )
    )
    assert first == second
    assert len(set(first.values())) == 2


MACHINE = {"scope_rule": None, "charge_category": "Usage"}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, {**MACHINE, "machine_ms": 24 * HOUR_MS, "pricing_category": "on-demand", "service": "Virtual Machines"}),
        ({"UnitOfMeasure": "10 Hours", "Quantity": "22"}, {**MACHINE, "machine_ms": 22 * HOUR_MS}),
        ({"Quantity": "25"}, {**MACHINE, "machine_ms": None}),
        ({"PricingModel": "Spot"}, {**MACHINE, "pricing_category": "spot"}),
        ({"PricingModel": "SavingsPlan"}, {**MACHINE, "pricing_category": "committed"}),
        ({"PricingModel": "Reservation"}, {**MACHINE, "pricing_category": "committed"}),
        ({"PricingModel": "", "MeterName": "NC24ads A100 v4 Spot"}, {**MACHINE, "pricing_category": "spot"}),
        ({"PricingModel": "", "ReservationId": "9a3b"}, {**MACHINE, "pricing_category": "committed"}),
        ({"MeterCategory": "Virtual Machines Licenses"}, {**MACHINE, "machine_ms": None}),
        ({"MeterCategory": "Bandwidth", "UnitOfMeasure": "1 GB"}, {"scope_rule": "service_not_compute", "machine_ms": None}),
        ({"MeterCategory": "Storage", "UnitOfMeasure": "1/Month"}, {"scope_rule": "service_not_compute"}),
        ({"MeterCategory": "Virtual Network"}, {"scope_rule": "service_not_compute"}),
        ({"ConsumedService": "Microsoft.MachineLearningServices"}, {"scope_rule": "service_not_compute"}),
        ({"UnitOfMeasure": "1 GB"}, {"scope_rule": "unit_not_time"}),
        ({"UnitOfMeasure": "1/Day"}, {"scope_rule": "unit_not_time"}),
        ({"ResourceId": ""}, {"scope_rule": "no_resource", "node_key": None}),
        (
            {"AdditionalInfo": '{"UsageType":"ComputeCR","VMCapacityReservationId":"F8B4"}', "ResourceId": f"{GROUP}/x/y"},
            {"scope_rule": "reserved_unused", "capacity_reservation": "f8b4", "machine_ms": None},
        ),
        (
            {"AdditionalInfo": '{"UsageType":"ComputeHR","VMCapacityReservationId":"F8B4","VMName":"aks-gpu-1234-vmss_3"}'},
            {**MACHINE, "capacity_reservation": "f8b4", "machine_ms": 24 * HOUR_MS},
        ),
        ({"ChargeType": "Refund"}, {"charge_category": "Adjustment", "scope_rule": None, "machine_ms": None}),
        ({"ChargeType": "Purchase"}, {"charge_category": "Purchase", "scope_rule": None, "pricing_category": None}),
        ({"ChargeType": "Tax", "ResourceId": ""}, {"charge_category": "Tax", "scope_rule": "no_resource"}),
        ({"ChargeType": "RoundingAdjustment", "ResourceId": ""}, {"charge_category": "Adjustment", "scope_rule": "no_resource"}),
    ],
)
def test_what_a_row_is(tmp_path: Path, change: dict[str, str], wanted: dict[str, Any]) -> None:
    (row,) = lines(tmp_path, change)
    assert {name: row[name] for name in wanted} == wanted
    assert (row["provider"], row["region"], row["line_type"]) == ("azure", "westeurope", change.get("ChargeType", "Usage"))


@pytest.mark.parametrize("kind", ["UnusedReservation", "UnusedSavingsPlan"])
def test_what_nobody_used_of_a_commitment_is_of_the_amortized_dataset(tmp_path: Path, kind: str) -> None:
    for resource in ("", SCALE_SET):
        (row,) = lines(tmp_path, {"ChargeType": kind, "ResourceId": resource, "SubscriptionId": ""}, cost="effective")
        assert (row["charge_category"], row["scope_rule"], row["sub_account"]) == ("Usage", "reserved_unused", None)


def test_an_empty_type_of_charge_is_refused_and_a_missing_column_of_it_is_usage(tmp_path: Path) -> None:
    refused(write(tmp_path / "bill.csv", azure_bytes({}, {"ChargeType": ""})), "row 2", "ChargeType is empty")
    path = write(tmp_path / "bill.csv", renamed({"ChargeType": "x_other", "UnitOfMeasure": "x_unit"}))
    (row,) = parse_all("azure", path).to_pylist()
    assert (row["charge_category"], row["line_type"], row["scope_rule"]) == ("Usage", None, None)
    assert row["machine_ms"] == 24 * HOUR_MS


def test_contracted_and_list_are_exact_products(tmp_path: Path) -> None:
    change = {"Quantity": "0.32085564", "EffectivePrice": "0.0187", "PayGPrice": "1e-7"}
    rows = parse_all("azure", write(tmp_path / "bill.csv", azure_bytes(change)), cost=("contracted", "list"))
    assert (total(rows, "contracted"), total(rows, "list")) == (Decimal("0.006000000468"), Decimal("3.2085564e-8"))
    assert rows["cost_nanos"].to_pylist() == [6_000_000, 32]


def test_list_is_the_cost_that_the_export_tells_else_price_times_quantity(tmp_path: Path) -> None:
    changes = [
        {"PaygCostInBillingCurrency": "80.5", "PayGPrice": "9"},
        {"PaygCostInBillingCurrency": "", "PayGPrice": "4"},
        {"ChargeType": "Purchase", "PaygCostInBillingCurrency": "", "PayGPrice": "7"},
    ]
    rows = lines(tmp_path, *changes, cost="list")
    assert [row["cost_nanos"] for row in rows] == [80_500_000_000, 96 * 10**9, 0]


def test_a_price_is_asked_of_the_rows_that_need_it(tmp_path: Path) -> None:
    changes = [
        {"PaygCostInBillingCurrency": "120", "PayGPrice": ""},
        {"PaygCostInBillingCurrency": "", "PayGPrice": "5", "Quantity": "24"},
        {"MeterCategory": "SaaS", "PaygCostInBillingCurrency": "", "PayGPrice": "", "EffectivePrice": ""},
    ]
    assert [row["cost_nanos"] for row in lines(tmp_path, *changes, cost="list")] == [120 * 10**9, 120 * 10**9, 0]


def test_no_price_for_what_was_paid_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", azure_bytes({"PayGPrice": "4"}, {"PayGPrice": "0"}))
    refused(path, "row 2", "PayGPrice is 0 although", "88.152", cost="list")
    path = write(tmp_path / "bill.csv", azure_bytes({"EffectivePrice": "0"}))
    refused(path, "row 1", "EffectivePrice is 0 although", cost="contracted")
    outside = {"MeterCategory": "Bandwidth", "PayGPrice": "0"}
    free = {"CostInBillingCurrency": "0.00", "PayGPrice": "0"}
    assert [row["cost_nanos"] for row in lines(tmp_path, outside, free, cost="list")] == [0, 0]
    refused(write(tmp_path / "bill.csv", azure_bytes({"EffectivePrice": ""})), "row 1", "empty", cost="contracted")
    refused(
        write(tmp_path / "bill.csv", azure_bytes({"EffectivePrice": "1,5"})), "row 1", "'1,5' is no number", cost="contracted"
    )


def test_prices_in_another_currency_than_the_bill_s_are_not_exchanged(tmp_path: Path) -> None:
    change = {"PricingCurrency": "EUR", "PayGPrice": "4"}
    path = write(tmp_path / "bill.csv", azure_bytes(change))
    assert parse_all("azure", path)["cost_nanos"].to_pylist() == [88_152_000_000]
    for cost, column in (("contracted", "EffectivePrice"), ("list", "PayGPrice")):
        refused(path, "row 1", f"{column} is in EUR, but the bill is in USD", cost=cost)
    (row,) = lines(tmp_path, {**change, "PaygCostInBillingCurrency": "80"}, cost="list")
    assert row["cost_nanos"] == 80 * 10**9


def test_parquet_of_doubles_and_times_says_the_same(tmp_path: Path) -> None:
    row = {**AZURE_ROW, "Quantity": "0.32085564", "EffectivePrice": "0.0187", "CostInBillingCurrency": "0.006000000468"}
    wanted = parse_all("azure", write(tmp_path / "bill.csv", csv_bytes([row])), cost=("billed", "contracted"))
    table: dict[str, pa.Array] = {name: pa.array([value]) for name, value in row.items()}
    for name in ("Quantity", "EffectivePrice", "CostInBillingCurrency"):
        table[name] = pa.array([float(row[name])])
    for name in ("Date", "BillingPeriodStartDate", "BillingPeriodEndDate"):
        table[name] = pa.array([datetime.fromisoformat(row[name])], pa.timestamp("us"))
    pq.write_table(pa.table(table), tmp_path / "part_0_0001.snappy.parquet", compression="snappy")
    found = parse_all("azure", tmp_path / "part_0_0001.snappy.parquet", cost=("billed", "contracted"))
    ids = ["delivery_id", "source_file", "line_item_id"]
    assert found.drop_columns(ids).equals(wanted.drop_columns(ids))
