"""Versions of FOCUS by their columns, and headers of other formats."""

from pathlib import Path

import pytest

from allocation.errors import AdapterError
from billing_adapters.base import BillOptions
from billing_adapters.focus import FocusBill
from billing_adapters.focus_versions import focus_version
from tests.billing_adapters.bills import CUR_ROW, csv_bytes, focus_bytes, parse_all, sample, write

V1_0 = ("BilledCost", "ChargePeriodStart", "ConsumedQuantity", "ProviderName", "PublisherName", "ResourceId")
V1_1 = (*V1_0, "CapacityReservationId", "SkuMeter", "SkuPriceDetails")
V1_2 = (*V1_1, "InvoiceId", "PricingCurrency")
V1_3 = (*V1_2, "ServiceProviderName", "HostProviderName", "AllocatedMethodId", "ContractApplied")
V1_4 = (*(c for c in V1_3 if c not in ("ProviderName", "PublisherName")), "InvoiceDetailId")


@pytest.mark.parametrize(
    ("columns", "version"),
    [
        (V1_0, "1.0"),
        (V1_1, "1.1"),
        (V1_2, "1.2"),
        (V1_3, "1.3"),
        (V1_4, "1.4"),
        # What a version brought may be left out of an export: one column of it is enough.
        (("ChargePeriodStart", "ProviderName", "CapacityReservationStatus"), "1.1"),
        (("ChargePeriodStart", "ProviderName", "PricingCurrencyEffectiveCost"), "1.2"),
        (("ChargePeriodStart", "ProviderName", "AllocatedTags"), "1.3"),
        (("ChargePeriodStart", "ServiceProviderName", "PublisherName"), "1.3"),
        (("ChargePeriodStart", "ServiceProviderName"), "1.4"),
        (("ChargePeriodStart", "ProviderName", "CommitmentProgramEligibilityDetails"), "1.4"),
        ([c.upper() for c in V1_2], "1.2"),
        (("ChargePeriodStart", "ChargeSubcategory", "UsageQuantity", "EffectiveCost"), "0.5"),
        (("ChargePeriodStart", "ChargeType", "AmortizedCost"), "0.5"),
        (("line_item_unblended_cost",), None),
        ((), None),
    ],
)
def test_version(columns: tuple[str, ...], version: str | None) -> None:
    assert focus_version(columns) == version


def test_the_real_sample_and_the_specification_s_corrections() -> None:
    def header(path: Path) -> list[str]:
        return path.read_text().splitlines()[0].replace('"', "").split(",")

    assert focus_version(header(sample("focus", "focus_sample_1.0_1000rows.csv"))) == "1.0"
    assert focus_version(header(sample("focus_spec", "correction", "closed_scenario_1_delta.csv"))) == "1.2"
    capacity = sample("focus_spec", "commitment", "capacity_reservation_eligible_spend.csv")
    assert focus_version(header(capacity)) == "1.4"


def test_a_delivery_tells_the_version_of_its_header(tmp_path: Path) -> None:
    bill = FocusBill(BillOptions("bill", str(write(tmp_path / "bill.csv", focus_bytes({"InvoiceId": "inv-1"})))))
    assert bill.format_of(bill.discover()[0]) == "FOCUS 1.2"
    header = focus_bytes({}).splitlines(keepends=True)[0]
    empty = FocusBill(BillOptions("bill", str(write(tmp_path / "empty.csv", header))))
    assert empty.format_of(empty.discover()[0]) == "FOCUS 1.1"


def test_focus_1_3_and_1_4_are_read_with_the_newest_name_of_the_provider(tmp_path: Path) -> None:
    both = {"ServiceProviderName": "Microsoft", "HostProviderName": "AWS", "ProviderName": "Reseller"}
    lines = parse_all("focus", write(tmp_path / "both.csv", focus_bytes(both, {**both, "ServiceProviderName": ""})))
    assert lines["provider"].to_pylist() == ["azure", "reseller"]
    without = focus_bytes({}).replace(b"ProviderName", b"ServiceProviderName")
    assert parse_all("focus", write(tmp_path / "new.csv", without))["provider"].to_pylist() == ["aws"]
    host = focus_bytes({}).replace(b"ProviderName", b"HostProviderName")
    assert parse_all("focus", write(tmp_path / "host.csv", host))["provider"].to_pylist() == ["aws"]


OTHERS: list[tuple[dict[str, str], list[str]]] = [
    (
        {"ChargePeriodStart": "2026-10-01", "UsageQuantity": "1", "ChargeSubcategory": "x"},
        ["0.5", "UsageQuantity", "1.0 or later"],
    ),
    (CUR_ROW, ["AWS CUR 2.0", "kind: aws-cur2"]),
    ({"identity/LineItemId": "1", "lineItem/UnblendedCost": "1"}, ["AWS CUR (legacy)", "kind: aws-cur"]),
    (
        {"MeterCategory": "Virtual Machines", "CostInBillingCurrency": "1", "Date": "10/01/2026"},
        ["Azure cost export", "kind: azure"],
    ),
    ({"PreTaxCost": "1", "UsageDateTime": "2026-10-01"}, ["Azure cost export", "kind: azure"]),
    ({"usage_start_time": "2026-10-01", "cost": "1", "cost_type": "regular"}, ["Google Cloud", "kind: gcp"]),
    ({"lineItem/referenceNo": "1", "cost/myCost": "1"}, ["Oracle", "FOCUS instead"]),
    ({"a": "1", "b": "2"}, ["BilledCost", "no cost column of FOCUS", "a, b"]),
]


@pytest.mark.parametrize(("row", "parts"), OTHERS, ids=lambda v: next(iter(v))[:30])
def test_another_format_is_named_with_what_to_do(tmp_path: Path, row: dict[str, str], parts: list[str]) -> None:
    path = write(tmp_path / "bill.csv", csv_bytes([row]))
    with pytest.raises(AdapterError) as caught:
        parse_all("focus", path)
    for part in ("bill.csv", *parts):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["EA_ActualCost_Small.csv", "EA_AmortizedCost_Small.csv", "koku_azure_version_2.csv"])
def test_real_azure_exports_are_told_from_focus(name: str) -> None:
    with pytest.raises(AdapterError, match="Azure cost export"):
        parse_all("focus", sample("azure", name))


def test_real_legacy_cur_is_told_from_focus() -> None:
    with pytest.raises(AdapterError, match=r"AWS CUR \(legacy\)"):
        parse_all("focus", sample("aws_legacy_cur", "test_cur.csv"))
