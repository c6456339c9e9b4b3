import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError, ChargebackError, SourceUnavailableError
from billing_adapters import manifests
from tests.billing_adapters.bills import CUR_ROW, FOCUS_ROW, cur_bytes, focus_bytes, parse_all, write, write_export

FOCUS_ROWS: list[tuple[dict[str, str], list[str]]] = [
    ({"BilledCost": ""}, ["BilledCost", "empty"]),
    ({"BilledCost": "NULL"}, ["BilledCost", "empty"]),
    ({"BilledCost": "NaN"}, ["NaN", "no number"]),
    ({"BilledCost": "inf"}, ["inf", "no number"]),
    ({"BilledCost": "1.234,56"}, ["1.234,56", "no number"]),
    ({"BilledCost": "1,234.56"}, ["1,234.56", "no number"]),
    ({"BilledCost": "$5"}, ["$5", "no number"]),
    ({"BilledCost": "9223372036.854775808"}, ["9223372036.854775808", "does not fit"]),
    ({"BillingCurrency": "usd"}, ["usd", "ISO 4217"]),
    ({"BillingCurrency": "XXQ"}, ["XXQ", "ISO 4217"]),
    ({"BillingCurrency": ""}, ["BillingCurrency", "empty"]),
    ({"BillingAccountId": "null"}, ["BillingAccountId", "empty"]),
    ({"ProviderName": ""}, ["ProviderName", "empty"]),
    ({"ChargeCategory": "Misc"}, ["Misc", "Usage, Purchase"]),
    ({"ChargePeriodStart": ""}, ["ChargePeriodStart", "empty"]),
    ({"ChargePeriodEnd": "2026-10-01T30:00:00Z"}, ["ChargePeriodEnd", "2026-10-01T30:00:00Z"]),
    ({"ChargePeriodEnd": "2026-02-30T00:00:00Z"}, ["2026-02-30T00:00:00Z"]),
    ({"ChargePeriodStart": "1970-01-01T00:00:00Z"}, ["1970-01-01"]),
    ({"ChargePeriodStart": "10/01/2026"}, ["10/01/2026"]),
    ({"ChargePeriodEnd": "2026-10-01T00:00:00Z"}, ["ends at 2026-10-01T00:00:00Z", "ChargePeriodEnd"]),
    ({"ChargePeriodEnd": "2026-10-01T01:00:00+02:00"}, ["ends at 2026-09-30T23:00:00Z"]),
]


@pytest.mark.parametrize(("change", "parts"), FOCUS_ROWS, ids=lambda v: str(v)[:50])
def test_a_focus_row_that_cannot_be_read_names_file_and_row(tmp_path: Path, change: dict[str, str], parts: list[str]) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}, {}, change, {}))
    with pytest.raises(AdapterError) as caught:
        parse_all("focus", path)
    for part in ("bill.csv", "row 3", *parts):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_row_is_counted_over_batches(tmp_path: Path) -> None:
    header, row, bad = focus_bytes({}, {"BilledCost": "x"}).splitlines(keepends=True)
    path = write(tmp_path / "bill.csv", header + row * 60_000 + bad)
    with pytest.raises(AdapterError, match="row 60001: BilledCost"):
        parse_all("focus", path)


def test_the_first_impossible_time_among_many_is_the_one_named(tmp_path: Path) -> None:
    starts = [f"2026-10-0{day}T00:00:00Z" for day in range(1, 8)] + ["2026-10-32", "never"]
    rows = [{"ChargePeriodStart": start, "ChargePeriodEnd": "2026-11-01"} for start in starts]
    with pytest.raises(AdapterError, match=r"row 8: ChargePeriodStart: the time '2026-10-32'"):
        parse_all("focus", write(tmp_path / "bill.csv", focus_bytes(*rows)))


def test_another_currency_than_configured_names_file_row_and_both(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}, {"BillingCurrency": "EUR"}))
    with pytest.raises(AdapterError, match=r"bill\.csv, row 2.*EUR.*USD"):
        parse_all("focus", path, currency="USD")


def test_a_missing_cost_column_lists_the_metrics_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}).replace(b"BilledCost", b"Other").replace(b"ListCost", b"More"))
    with pytest.raises(AdapterError, match=r"BilledCost.*missing.*effective, contracted"):
        parse_all("focus", path)


def test_a_missing_mandatory_column_lists_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}).replace(b"ResourceId", b"Other"))
    with pytest.raises(AdapterError, match=r"bill\.csv: mandatory columns are missing: ResourceId; columns: .*SkuId"):
        parse_all("focus", path)


CONTENTS: list[tuple[str, bytes, list[str]]] = [
    ("empty.csv.gz", gzip.compress(b""), ["no header"]),
    (
        "truncated.csv.gz",
        gzip.compress(focus_bytes(*[{"BilledCost": str(n)} for n in range(3000)]))[:-900],
        ["gzip is truncated"],
    ),
    ("header.csv.gz", gzip.compress(focus_bytes({}))[:20], ["gzip is truncated"]),
    ("plain.csv.gz", focus_bytes({}), ["gzip is truncated or damaged"]),
    ("ragged.csv", focus_bytes({}, {}) + b"1,2,3\n", ["row 3", "ragged", "got 3"]),
    ("utf16.csv", focus_bytes({}).decode().encode("utf-16"), ["not UTF-8"]),
    ("latin.csv", focus_bytes({}).replace(b"Elastic", b"\xe4\xf6"), ["not UTF-8"]),
    ("double.csv", focus_bytes({}).replace(b"ListCost", b"BilledCost"), ["BilledCost", "2 times"]),
    ("footer.parquet", b"PAR1 and then nothing", ["truncated or no Parquet"]),
]


@pytest.mark.parametrize(("name", "content", "parts"), CONTENTS, ids=[c[0] for c in CONTENTS])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, parts: list[str]) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(AdapterError) as caught:
        parse_all("focus", path)
    for part in (name, *parts):
        assert part in str(caught.value)


def test_a_cut_parquet_file_is_named(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table({name: [value] for name, value in FOCUS_ROW.items()}), whole)
    path = write(tmp_path / "cut.parquet", whole.read_bytes()[:-200])
    with pytest.raises(AdapterError, match=r"cut\.parquet: the file is truncated or no Parquet"):
        parse_all("focus", path)


def test_nan_in_parquet_names_its_row(tmp_path: Path) -> None:
    table = pa.table({name: [value, value] for name, value in FOCUS_ROW.items()})
    place = table.column_names.index("BilledCost")
    pq.write_table(table.set_column(place, "BilledCost", pa.array([1.0, float("nan")])), tmp_path / "b.parquet")
    with pytest.raises(AdapterError, match=r"b\.parquet, row 2: BilledCost.*no number"):
        parse_all("focus", tmp_path / "b.parquet")


def test_nothing_at_the_path(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match=r"no such file or folder.*billing\.path"):
        parse_all("focus", tmp_path / "missing")
    write(tmp_path / "notes.txt", b"x")
    with pytest.raises(AdapterError, match="no bill is there"):
        parse_all("focus", tmp_path)


def test_a_scheme_that_is_not_read() -> None:
    with pytest.raises(ChargebackError, match="ftp://x/y"):
        parse_all("focus", "ftp://x/y")


CUR_ROWS: list[tuple[dict[str, str], str, list[str]]] = [
    ({"line_item_unblended_cost": ""}, "billed", ["line_item_unblended_cost", "empty"]),
    ({"line_item_line_item_type": "DiscountedUsage"}, "effective", ["DiscountedUsage", "reservation_effective_cost"]),
    (
        {"line_item_line_item_type": "SavingsPlanCoveredUsage"},
        "effective",
        ["savings_plan_savings_plan_effective_cost"],
    ),
    ({"pricing_public_on_demand_cost": "convertible"}, "list", ["convertible"]),
    ({"pricing_public_on_demand_cost": ""}, "list", ["pricing_public_on_demand_cost", "empty"]),
    ({"line_item_currency_code": "ABC"}, "billed", ["ABC", "ISO 4217"]),
    ({"line_item_line_item_type": ""}, "billed", ["line_item_line_item_type", "empty"]),
    ({"line_item_usage_end_date": "2026-09-30T00:00:00Z"}, "billed", ["line_item_usage_end_date"]),
]


@pytest.mark.parametrize(("change", "cost", "parts"), CUR_ROWS, ids=lambda v: str(v)[:50])
def test_a_cur_row_that_cannot_be_read_names_file_and_row(
    tmp_path: Path, change: dict[str, str], cost: str, parts: list[str]
) -> None:
    path = write(tmp_path / "bill.csv", cur_bytes({}, change))
    with pytest.raises(AdapterError) as caught:
        parse_all("aws-cur2", path, cost=cost)
    for part in ("bill.csv", "row 2", *parts):
        assert part in str(caught.value)


def test_contracted_is_no_cost_of_cur(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="billed, effective, list"):
        parse_all("aws-cur2", tmp_path, cost="contracted")


def test_a_cur_without_resources_names_the_setting(tmp_path: Path) -> None:
    row = {name: value for name, value in CUR_ROW.items() if name != "line_item_resource_id"}
    path = write(tmp_path / "bill.csv", (",".join(row) + "\n").encode())
    with pytest.raises(AdapterError, match=r"line_item_resource_id.*INCLUDE_RESOURCES"):
        parse_all("aws-cur2", path)


MANIFESTS: list[tuple[bytes, str]] = [
    (b"", "no JSON"),
    (b"{not json", "no JSON"),
    (b"[]", "unknown shape"),
    (b'{"reportKeys": []}', "unknown shape"),
    (b'{"dataFiles": [1]}', "unknown shape"),
    (
        json.dumps({"dataFiles": ["s3://b/x/data/BILLING_PERIOD=2026-10/../../secret.csv"]}).encode(),
        "does not stay below",
    ),
    (json.dumps({"dataFiles": ["s3://b/x/elsewhere/a.csv.gz"]}).encode(), "not below data/BILLING_PERIOD"),
    (json.dumps({"dataFiles": ["data/BILLING_PERIOD=2026-09/a.csv.gz"]}).encode(), "no data file of 2026-10"),
    (json.dumps({"dataFiles": ["data/BILLING_PERIOD=2026-10/a.json"]}).encode(), "no data file of 2026-10"),
    (json.dumps({"dataFiles": ["data/BILLING_PERIOD=2026-10/e-00001.csv.gz"] * 2}).encode(), "twice"),
]


@pytest.mark.parametrize(("content", "part"), MANIFESTS, ids=[m[1] + str(i) for i, m in enumerate(MANIFESTS)])
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, content: bytes, part: str) -> None:
    root = write_export(tmp_path / "e", {"e-00001.csv.gz": cur_bytes({})})
    write(root / "metadata" / "BILLING_PERIOD=2026-10" / "e-Manifest.json", content)
    with pytest.raises(AdapterError) as caught:
        parse_all("aws-cur2", root)
    assert "e-Manifest.json" in str(caught.value)
    assert part in str(caught.value)


def test_a_manifest_that_names_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "RACE_WAITS", (0.01, 0.01, 0.01))
    root = write_export(tmp_path / "e", {"e-00001.csv.gz": cur_bytes({})}, named=["e-00001.csv.gz", "e-00002.csv.gz"])
    with pytest.raises(AdapterError, match=r"e-Manifest\.json.*not there.*e-00002\.csv\.gz"):
        parse_all("aws-cur2", root)


def test_an_export_without_manifest_and_one_with_two(tmp_path: Path) -> None:
    write(tmp_path / "a" / "data" / "BILLING_PERIOD=2026-10" / "e-00001.csv", cur_bytes({}))
    write(tmp_path / "a" / "readme.txt", b"x")
    with pytest.raises(AdapterError, match=r"metadata/BILLING_PERIOD=YYYY-MM"):
        parse_all("aws-cur2", tmp_path / "a")
    root = write_export(tmp_path / "b", {"e-00001.csv.gz": cur_bytes({})})
    write(root / "metadata" / "BILLING_PERIOD=2026-10" / "other-Manifest.json", b"{}")
    with pytest.raises(AdapterError, match="two manifests"):
        parse_all("aws-cur2", root)
