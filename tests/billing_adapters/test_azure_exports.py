"""Azure exports: which run of a month counts, what its manifest must say, and what is refused."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from allocation.errors import AdapterError
from billing_adapters import azure_exports
from billing_adapters.base import BillOptions
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.azure_runs import GUID, PERIOD, RUN, azure_bytes, rows_of, write_run
from tests.billing_adapters.bills import focus_bytes, parse_all, sample, write

OTHER_GUID = "0bd50fdf-c923-4e1e-850c-196dd3dcc123"
LATER = "202610030712"
ONE, TWO = azure_bytes({}), azure_bytes({}, {"CostInBillingCurrency": "1"})


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing does not come in these tests."""
    monkeypatch.setattr(azure_exports, "RACE_WAITS", ())


def refused(path: Path, *parts: str, kind: str = "azure", cost: str | tuple[str, ...] = "billed") -> None:
    with pytest.raises(AdapterError) as caught:
        parse_all(kind, path, cost=cost)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def files_of(path: Path, kind: str = "azure") -> list[tuple[date | None, tuple[str, ...]]]:
    found = load_bill_source(kind, BillOptions("bill", str(path))).discover()
    return [(delivery.billing_period, delivery.files) for delivery in found]


def test_the_newest_complete_run_counts_and_surplus_files_do_not(tmp_path: Path) -> None:
    root = write_run(tmp_path / "gpu", {"000001.csv": ONE, "000002.csv.gz": TWO})
    write_run(root, {"part_0_0001.csv": TWO}, run=LATER, guid=OTHER_GUID)
    write(root / PERIOD / LATER / OTHER_GUID / "surplus.csv", ONE)
    write(root / PERIOD / LATER / OTHER_GUID / "_checkpoint.csv", ONE)
    assert files_of(root) == [(date(2026, 10, 1), (f"{PERIOD}/{LATER}/{OTHER_GUID}/part_0_0001.csv",))]
    (root / PERIOD / LATER / OTHER_GUID / "manifest.json").unlink()
    older = f"{PERIOD}/{RUN}/{GUID}"
    assert files_of(root) == [(date(2026, 10, 1), (f"{older}/000001.csv", f"{older}/000002.csv.gz"))]
    assert parse_all("azure", root).num_rows == 3
    write_run(root, {"part_0_0001.csv": TWO, "part_1_0001.csv": ONE}, run="202610040712", guid=OTHER_GUID)
    (root / PERIOD / "202610040712" / OTHER_GUID / "part_1_0001.csv").write_bytes(ONE[:-20])
    assert files_of(root)[0][1][0].startswith(older)


def test_every_month_is_a_delivery_of_its_own(tmp_path: Path) -> None:
    root = write_run(tmp_path / "gpu", {"000001.csv": ONE})
    write_run(root, {"000001.csv": azure_bytes({"Date": "2026-11-01"})}, period="20261101-20261130", run="202611020700")
    assert [month for month, _ in files_of(root)] == [date(2026, 10, 1), date(2026, 11, 1)]
    write_run(root, {"000001.csv": ONE}, period="20261030-20261102")
    refused(root, "20261001-20261031 and 20261030-20261102 overlap", "twice")


def test_the_path_may_begin_anywhere_in_the_layout(tmp_path: Path) -> None:
    root = write_run(tmp_path / "finops" / "gpu", {"000001.csv": ONE})
    for path in (tmp_path / "finops", root, root / PERIOD, root / PERIOD / RUN, root / PERIOD / RUN / GUID):
        ((month, files),) = files_of(path)
        assert (month, len(files), parse_all("azure", path).num_rows) == (date(2026, 10, 1), 1, 1)


def test_a_run_without_its_manifest_is_refused(tmp_path: Path) -> None:
    root = write_run(tmp_path / "gpu", {"000001.csv": ONE}, manifest=False)
    told = (f"{PERIOD}/{RUN}/{GUID}", "has no manifest.json", "not finished", "copy its folder whole")
    refused(root, *told)
    refused(root / PERIOD / RUN / GUID, "has no manifest.json")
    focus = write_run(tmp_path / "focus", {"000001.csv": focus_bytes({})}, manifest=False)
    refused(focus, "has no manifest.json", kind="focus")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"dataRowCount": 5}, ["contradicts itself", "dataRowCount is 5", "have 1"]),
        ({"byteCount": 5}, ["contradicts itself", "byteCount is 5"]),
        ({"blobCount": 2}, ["contradicts itself", "blobCount is 2"]),
        ({"blobs": {}}, ["unknown shape", "`blobs`"]),
        ({"exportConfig": []}, ["unknown shape", "`exportConfig`"]),
        ({"dataRowCount": "1"}, ["unknown shape", "`dataRowCount`"]),
    ],
)
def test_a_manifest_that_cannot_be_so_is_refused(tmp_path: Path, changes: dict[str, Any], parts: list[str]) -> None:
    refused(write_run(tmp_path / "gpu", {"000001.csv": ONE}, **changes), "manifest.json", *parts)


@pytest.mark.parametrize(
    ("blob", "parts"),
    [
        ({"dataRowCount": 2}, ["000001.csv", "2 rows", "has 1"]),
        ({"byteCount": 7}, ["manifest.json", "000001.csv has 7 bytes"]),
        ({"blobName": f"finops/gpu/{PERIOD}/{RUN}/{GUID}/000002.csv"}, ["not there", "000002.csv"]),
        ({"blobName": f"finops/gpu/{PERIOD}/{RUN}/{OTHER_GUID}/000001.csv"}, ["no data file of its own folder"]),
        ({"blobName": f"finops/gpu/{PERIOD}/{RUN}/{GUID}/../000001.csv"}, ["does not stay below"]),
        ({"blobName": f"https://elsewhere.example/{PERIOD}/{RUN}/{GUID}/000001.csv"}, ["does not stay below"]),
        ({"blobName": f"/finops/gpu/{PERIOD}/{RUN}/{GUID}/000001.csv"}, ["does not stay below"]),
    ],
)
def test_a_blob_that_is_not_as_the_manifest_says_is_refused(tmp_path: Path, blob: dict[str, Any], parts: list[str]) -> None:
    told = {"blobName": f"finops/gpu/{PERIOD}/{RUN}/{GUID}/000001.csv", "byteCount": len(ONE), "dataRowCount": 1}
    known: dict[str, Any] = {"blobs": [{**told, **blob}], "byteCount": None, "dataRowCount": None}
    refused(write_run(tmp_path / "gpu", {"000001.csv": ONE}, **known), *parts)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    root = write_run(tmp_path / "gpu", {"000001.csv": ONE})
    write(root / PERIOD / RUN / GUID / "manifest.json", b'{"blobs": [')
    refused(root, "manifest.json", "no JSON")


def test_rows_are_counted_however_they_are_packed(tmp_path: Path) -> None:
    root = write_run(tmp_path / "gpu", {"000001.csv.gz": TWO})
    assert parse_all("azure", root).num_rows == 2 == rows_of(TWO)
    name = f"gpu/{PERIOD}/{RUN}/{GUID}/000001.csv.gz"
    refused(
        write_run(tmp_path / "gpu", {"000001.csv.gz": TWO}, blobs=[{"blobName": name, "dataRowCount": 3}], dataRowCount=3),
        "3 rows",
    )


def test_an_export_of_another_type_is_refused(tmp_path: Path) -> None:
    amortized = write_run(tmp_path / "amortized", {"000001.csv": ONE}, kind="AmortizedCost")
    refused(amortized, "type AmortizedCost", "cost: billed", "type ActualCost", "cost: effective")
    assert parse_all("azure", amortized, cost="effective").num_rows == 1
    actual = write_run(tmp_path / "actual", {"000001.csv": ONE})
    refused(actual, "type ActualCost", "cost: effective", "type AmortizedCost", cost="effective")
    refused(actual, "cost: billed", "effective", "AmortizedCost", cost=("billed", "effective"))
    usage = write_run(tmp_path / "usage", {"000001.csv": ONE}, kind="Usage")
    refused(usage, "type Usage", "type ActualCost")
    prices = write_run(tmp_path / "prices", {"000001.csv": ONE}, kind="PriceSheet")
    refused(prices, "type PriceSheet", "ActualCost or AmortizedCost", cost="contracted")
    refused(tmp_path, "exports lie there", "'actual' and 'amortized'", "never added")


def test_what_only_the_other_type_has_is_refused_where_nothing_tells_the_type(tmp_path: Path) -> None:
    unused = write_run(tmp_path / "a", {"000001.csv": azure_bytes({}, {"ChargeType": "UnusedSavingsPlan"})}, kind=None)
    refused(unused, "row 2", "UnusedSavingsPlan", "cost is billed", "cost: effective")
    bought = azure_bytes({}, {"ChargeType": "Purchase", "PricingModel": "SavingsPlan"})
    refused(write(tmp_path / "bill.csv", bought), "row 2", "Purchase", "ActualCost", cost="effective")
    market = azure_bytes({}, {"ChargeType": "Purchase", "PricingModel": "OnDemand"})
    assert parse_all("azure", write(tmp_path / "market.csv", market), cost="effective").num_rows == 2


def test_the_manifest_of_the_first_version_has_no_type(tmp_path: Path) -> None:
    folder = tmp_path / "20230101-20230131" / "202301041442" / "73746dc5-5dcc-4b83-b340-bb1bd2b1ca30"
    write(folder / "manifest.json", sample("azure", "koku_manifest.json").read_bytes())
    write(folder / "000001.csv", ONE)
    refused(tmp_path, "000001.csv has 423869 bytes", f"has {len(ONE)}")


def test_files_without_manifest_count_where_one_is_in_a_month(tmp_path: Path) -> None:
    content = azure_bytes({}).replace(b"BillingPeriod", b"x_")
    write(tmp_path / "gpu" / "20261001-20261031" / f"gpu_{GUID}.csv", content)
    assert files_of(tmp_path / "gpu") == [(date(2026, 10, 1), (f"20261001-20261031/gpu_{GUID}.csv",))]
    lines = parse_all("azure", tmp_path / "gpu").to_pylist()
    assert [line["billing_period"] for line in lines] == [date(2026, 10, 1)]
    write(tmp_path / "gpu" / "20261001-20261031" / f"gpu_{OTHER_GUID}.csv", TWO)
    refused(tmp_path / "gpu", "several files for 20261001-20261031", "Keep the newest alone")


def test_a_plain_folder_is_one_delivery(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ONE)
    write(tmp_path / "b.csv", TWO)
    assert files_of(tmp_path) == [(None, ("a.csv", "b.csv"))]
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no bill is there")


def test_an_export_of_focus_is_read_by_either_kind_by_its_manifest(tmp_path: Path) -> None:
    azure = {"ProviderName": "Microsoft"}
    root = write_run(tmp_path / "gpu", {"000001.csv": focus_bytes(azure, azure, {**azure, "BilledCost": "1"})}, kind="FocusCost")
    write_run(root, {"000001.csv": focus_bytes(azure)}, kind="FocusCost", run=LATER, guid=OTHER_GUID, manifest=False)
    write(root / PERIOD / RUN / GUID / "surplus.csv", focus_bytes(azure))
    lines = parse_all("azure", root, cost=("billed", "effective"))
    assert lines.num_rows == 6
    assert lines.equals(parse_all("focus", root, cost=("billed", "effective")))
    source = load_bill_source("azure", BillOptions("bill", str(root)))
    assert source.format_of(source.discover()[0]) == f"FOCUS 1.1, run {PERIOD}/{RUN}/{GUID}"  # type: ignore[attr-defined]
    told = json.loads((root / PERIOD / RUN / GUID / "manifest.json").read_text())
    told["blobs"][0]["dataRowCount"] = told["dataRowCount"] = 4
    write(root / PERIOD / RUN / GUID / "manifest.json", json.dumps(told).encode())
    refused(root, "4 rows", "has 3", kind="focus")
    refused(write_run(tmp_path / "actual", {"000001.csv": ONE}), "Azure cost export", "kind: azure", kind="focus")


def test_two_runs_of_which_the_newer_cannot_be_told_are_refused(tmp_path: Path) -> None:
    root = write_run(tmp_path / "gpu", {"000001.csv": ONE})
    write_run(root, {"000001.csv": TWO}, guid=OTHER_GUID)
    refused(root, "which is the newer run cannot be told", GUID, OTHER_GUID)
    write_run(root, {"000001.csv": TWO}, guid=OTHER_GUID, runInfo={"submittedTime": "2026-10-02T07:12:30Z"})
    assert files_of(root) == [(date(2026, 10, 1), (f"{PERIOD}/{RUN}/{OTHER_GUID}/000001.csv",))]
