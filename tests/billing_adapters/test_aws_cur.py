"""The legacy report: its spelling, its files, and which of them count."""

import gzip
import json
import zipfile
from datetime import date
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError
from billing_adapters import manifests
from billing_adapters.aws_columns import one_word
from billing_adapters.base import BillOptions
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import cur_bytes, lines_of, parse_all, write
from tests.billing_adapters.reports import (
    ASSEMBLY,
    PERIOD,
    legacy,
    legacy_bytes,
    manifest_of,
    packed,
    total,
    write_report,
    zipped,
)

GZ = "report-1.csv.gz"


def refusal(path: Path) -> str:
    with pytest.raises(AdapterError) as caught:
        parse_all("aws-cur", path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("lineItem/ResourceId", "line_item_resource_id"),
        ("savingsPlan/SavingsPlanEffectiveCost", "savings_plan_savings_plan_effective_cost"),
        ("reservation/reservationARN", "reservation_reservation_a_r_n"),
        ("lineItem/USAGETYPE", "line_item_usage_type"),
        ("pricing/publicOnDemandCost", "pricing_public_on_demand_cost"),
        ("splitLineItem/ParentResourceId", "split_line_item_parent_resource_id"),
    ],
)
def test_a_column_is_known_in_each_spelling(spelling: str, name: str) -> None:
    assert one_word(spelling) == one_word(name)


def test_the_same_rows_in_three_spellings_are_the_same_lines(tmp_path: Path) -> None:
    changes: tuple[dict[str, str], ...] = ({}, {"line_item_line_item_type": "Tax", "line_item_resource_id": ""})
    report = parse_all("aws-cur", write(tmp_path / "a" / "bill.csv", legacy_bytes(*changes)))
    text = legacy_bytes(*changes).decode()
    header, rest = text.split("\n", 1)
    names = {legacy(n): n for n in cur_bytes({}).decode().split("\n")[0].split(",") if n != "product"}
    athena = ",".join(names.get(n, one_word(n).replace("product", "product_")) for n in header.split(","))
    other = parse_all("aws-cur", write(tmp_path / "b" / "bill.csv", f"{athena}\n{rest}".encode()))
    loud = header.replace("lineItem/ResourceId", "lineItem/RESOURCEID").replace("lineItem/UsageType", "lineItem/usageType")
    third = parse_all("aws-cur", write(tmp_path / "c" / "bill.csv", f"{loud}\n{rest}".encode()))
    apart = ["delivery_id", "instance_type", "region"]
    assert report.drop_columns(apart).equals(other.drop_columns(apart))
    assert report.drop_columns(["delivery_id"]).equals(third.drop_columns(["delivery_id"]))
    assert report["instance_type"].to_pylist() == ["p5.48xlarge", "p5.48xlarge"]
    assert report["region"].to_pylist() == ["us-west-2", "us-west-2"]
    assert report["scope_rule"].to_pylist() == [None, "no_resource"]


def test_fused_and_doubled_headers_that_nobody_needs_are_no_matter_but_a_needed_one_twice_is(tmp_path: Path) -> None:
    header, rest = legacy_bytes({}).split(b"\n", 1)
    fused = header + b",pricing/OfferingClasspricing/PurchaseOption,product/tenancy,product/tenancy\n" + rest[:-1] + b",x,y,z\n"
    assert total(parse_all("aws-cur", write(tmp_path / "a.csv", fused))) * 100 == 9832
    doubled = header + b",line_item_resource_id\n" + rest[:-1] + b",i-0b\n"
    assert "2 times" in refusal(write(tmp_path / "b.csv", doubled))


def test_names_at_the_end_that_no_row_has_are_no_matter_unless_one_is_needed(tmp_path: Path) -> None:
    header, rest = legacy_bytes({}, {}).split(b"\n", 1)
    more = header + b",costCategory/CostCenter,costCategory/Unit\n"
    assert parse_all("aws-cur", write(tmp_path / "a.csv", more + rest)).num_rows == 2
    assert "row 1: the row is ragged" in refusal(write(tmp_path / "b.csv", header + b",reservation/EffectiveCost\n" + rest))
    assert "row 2: the row is ragged" in refusal(write(tmp_path / "c.csv", more + rest.replace(b"\n", b",x,y\n", 1)[:-1] + b"\n"))
    assert "row 3: the row is ragged" in refusal(write(tmp_path / "d.csv", more + rest + b"1,2\n"))


def test_columns_that_the_month_dropped_are_null(tmp_path: Path) -> None:
    needed = "bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate"
    more = "lineItem/ProductCode,lineItem/UsageType,lineItem/ResourceId,lineItem/CurrencyCode,lineItem/UnblendedCost"
    times = "2026-10-01 00:00:00+00:00,2026-10-01 01:00:00+00:00"
    row = f"1,2026-10-01T00:00:00Z,Usage,{times},AmazonEC2,BoxUsage:p5.48xlarge,i-0a,USD,5"
    (line,) = parse_all("aws-cur", write(tmp_path / "bill.csv", f"{needed},{more}\n{row}\n".encode())).to_pylist()
    assert (line["cost_nanos"], line["instance_type"], line["region"], line["machine_ms"]) == (
        5 * 10**9,
        "p5.48xlarge",
        None,
        None,
    )


def test_a_report_without_resource_ids_names_the_setting(tmp_path: Path) -> None:
    text = refusal(write(tmp_path / "bill.csv", legacy_bytes({}).replace(b"lineItem/ResourceId", b"lineItem/TaxType")))
    assert "line_item_resource_id" in text
    assert "resource ids" in text


@pytest.mark.parametrize("name", [GZ, "report-1.csv.zip", "report-1.csv", "report-1.snappy.parquet"])
def test_each_kind_of_file_in_a_report(tmp_path: Path, name: str) -> None:
    content = legacy_bytes({}, {"line_item_unblended_cost": "-1.25"})
    if name.endswith(".parquet"):
        table = pyarrow.csv.read_csv(write(tmp_path / "x.csv", content))
        pq.write_table(table, tmp_path / "x.parquet")
        content = (tmp_path / "x.parquet").read_bytes()
    lines = parse_all("aws-cur", write_report(tmp_path / "report", {name: content}))
    assert [n / 10**9 for n in lines["cost_nanos"].to_pylist()] == [98.32, -1.25]
    assert lines["source_file"].to_pylist() == [f"{PERIOD}/{ASSEMBLY}/{name}"] * 2


def test_only_the_newest_assembly_counts(tmp_path: Path) -> None:
    root = write_report(tmp_path / "report", {GZ: legacy_bytes({})})
    older = root / PERIOD / "00000000-0000-4000-8000-000000000000"
    write(older / GZ, packed(GZ, legacy_bytes({}, {}, {})))
    write(older / "report-Manifest.json", manifest_of([f"cur/report/{PERIOD}/{older.name}/{GZ}"]))
    write(root / PERIOD / ASSEMBLY / "report-2.csv.gz", b"a chunk that the manifest does not name")
    assert parse_all("aws-cur", root).num_rows == 1
    assert parse_all("aws-cur", tmp_path).num_rows == 1


def test_an_assembly_alone_is_refused(tmp_path: Path) -> None:
    root = write_report(tmp_path / "report", {GZ: legacy_bytes({})})
    (root / PERIOD / "report-Manifest.json").rename(root / PERIOD / ASSEMBLY / "report-Manifest.json")
    assert "Point billing.path at the report's own folder" in refusal(root)
    assert "Point billing.path at the report's own folder" in refusal(root / PERIOD / ASSEMBLY)


def test_overwritten_reports_and_the_other_end_of_a_months_folder(tmp_path: Path) -> None:
    write(tmp_path / "r" / "20260901-20260930" / GZ, packed(GZ, legacy_bytes({})))
    write(
        tmp_path / "r" / "20260901-20260930" / "r-Manifest.json",
        manifest_of([f"p/r/20260901-20260930/{GZ}"], start="20260901T000000.000Z"),
    )
    source = load_bill_source("aws-cur", BillOptions("bill", str(tmp_path / "r")))
    (delivery,) = source.discover()
    assert delivery.billing_period == date(2026, 9, 1)
    assert lines_of(source, delivery).num_rows == 1


def test_two_periods_are_two_deliveries_and_two_manifests_of_one_are_refused(tmp_path: Path) -> None:
    root = write_report(tmp_path / "report", {GZ: legacy_bytes({})})
    write(root / "20261101-20261201" / GZ, packed(GZ, legacy_bytes({})))
    manifest = manifest_of([f"cur/report/20261101-20261201/{GZ}"], start="20261101T000000.000Z")
    write(root / "20261101-20261201" / "report-Manifest.json", manifest)
    found = load_bill_source("aws-cur", BillOptions("bill", str(root))).discover()
    assert [d.billing_period for d in found] == [date(2026, 10, 1), date(2026, 11, 1)]
    write_report(tmp_path / "second", {GZ: legacy_bytes({})})
    assert "two manifests for 2026-10" in refusal(tmp_path)


def athena(root: Path, manifest_folder: str) -> Path:
    write(root / "x.csv", legacy_bytes({}))
    data = root / "r" / "year=2026" / "month=10" / "r-00001.snappy.parquet"
    data.parent.mkdir(parents=True)
    pq.write_table(pyarrow.csv.read_csv(root / "x.csv"), data)
    (root / "x.csv").unlink()
    key = "some/prefix/r/r/year=2026/month=10/r-00001.snappy.parquet"
    write(root / manifest_folder / "r-Manifest.json", manifest_of([key]))
    write(root / "r" / "cost_and_usage_data_status" / "status.parquet", b"no lines")
    write(root / "r" / "create-table.sql", b"CREATE TABLE")
    write(root / "r" / "crawler-cfn.yml", b"Resources:")
    return root


@pytest.mark.parametrize("folder", [PERIOD, "r/year=2026/month=10"])
def test_the_layout_for_athena_with_its_manifest_in_either_place(tmp_path: Path, folder: str) -> None:
    lines = parse_all("aws-cur", athena(tmp_path / "r", folder))
    assert lines["cost_nanos"].to_pylist() == [98_320_000_000]
    assert lines["source_file"].to_pylist() == ["r/year=2026/month=10/r-00001.snappy.parquet"]


def test_the_manifest_of_the_period_goes_before_one_beside_the_files(tmp_path: Path) -> None:
    root = athena(tmp_path / "r", PERIOD)
    write(root / "r/year=2026/month=10/r-Manifest.json", manifest_of(["p/r/r/year=2026/month=10/gone.parquet"]))
    assert parse_all("aws-cur", root).num_rows == 1


BAD_MANIFESTS: list[tuple[bytes, str]] = [
    (b"", "no JSON"),
    (b"[" * 100_000, "no JSON"),
    (b"[1]", "unknown shape"),
    (b'{"dataFiles": []}', "billingPeriod.start"),
    (b'{"billingPeriod": {"start": "October"}, "reportKeys": ["a"], "bucket": "b"}', "billingPeriod.start"),
    (b'{"billingPeriod": {"start": 20261001}, "reportKeys": ["a"], "bucket": "b"}', "billingPeriod.start"),
    (manifest_of([]), "reportKeys` is empty"),
    (b'{"billingPeriod": {"start": "20261001T000000.000Z"}, "reportKeys": ["a"]}', "bucket"),
    (b'{"billingPeriod": {"start": "20261001T000000.000Z"}, "bucket": "b", "reportKeys": "a"}', "list of texts"),
    (b'{"billingPeriod": {"start": "20261001T000000.000Z"}, "bucket": "b", "reportKeys": [1]}', "list of texts"),
    (manifest_of([f"cur/report/{PERIOD}/../../secret.csv"]), "does not stay below"),
    (manifest_of([f"/{PERIOD}//x.csv"]), "not below"),
    (manifest_of(["cur/report/x.csv.gz"]), "not below"),
    (manifest_of([f"cur/report/20260901-20261001/{GZ}"]), "no data file of 2026-10"),
    (manifest_of([f"cur/report/{PERIOD}/x.json"]), "no data file of 2026-10"),
    (manifest_of([f"cur/report/{PERIOD}/{ASSEMBLY}/{GZ}"] * 2), "twice"),
]


@pytest.mark.parametrize(("content", "part"), BAD_MANIFESTS, ids=[f"{n}-{m[1]}" for n, m in enumerate(BAD_MANIFESTS)])
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, content: bytes, part: str) -> None:
    root = write_report(tmp_path / "report", {GZ: legacy_bytes({})})
    write(root / PERIOD / "report-Manifest.json", content)
    text = refusal(root)
    assert "report-Manifest.json" in text
    assert part in text


def test_a_missing_chunk_is_named_and_never_taken_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "RACE_WAITS", (0.01,))
    root = write_report(tmp_path / "report", {GZ: legacy_bytes({})}, named=[GZ, "report-2.csv.gz"])
    write(root / "report-2.csv.gz", packed(GZ, legacy_bytes({})))
    write(root / PERIOD / "report-2.csv.gz", packed(GZ, legacy_bytes({})))
    text = refusal(root)
    assert "not there" in text
    assert f"{ASSEMBLY}/report-2.csv.gz" in text


def test_plain_files_without_manifest_are_refused_but_one_alone_is_a_delivery(tmp_path: Path) -> None:
    write(tmp_path / "one" / "a.csv.gz", packed(GZ, legacy_bytes({})))
    assert parse_all("aws-cur", tmp_path / "one").num_rows == 1
    assert parse_all("aws-cur", tmp_path / "one" / "a.csv.gz").num_rows == 1
    write(tmp_path / "one" / "b.csv.gz", packed(GZ, legacy_bytes({}, {})))
    assert "no YYYYMMDD-YYYYMMDD/REPORT-Manifest.json" in refusal(tmp_path / "one")


def test_contracted_is_no_cost_of_the_report(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match=r"aws-cur has no cost 'contracted'; it can say billed, effective, list"):
        parse_all("aws-cur", tmp_path, cost="contracted")


def test_a_zip_of_several_files_is_read_in_order_and_each_is_named(tmp_path: Path) -> None:
    members = {
        "report-1.csv": legacy_bytes({}),
        "../../evil/report-2.csv": b"",
        "sub/report-2.csv": legacy_bytes({"line_item_unblended_cost": "2"}, {"line_item_unblended_cost": "3"}),
        "__MACOSX/._report-1.csv": b"\0\1",
        "readme.txt": b"x",
    }
    path = write(tmp_path / "b.csv.zip", zipped(members))
    lines = parse_all("aws-cur", path)
    assert [n / 10**9 for n in lines["cost_nanos"].to_pylist()] == [98.32, 2, 3]
    assert lines["source_row"].to_pylist() == [1, 1, 2]
    assert lines["source_file"].to_pylist() == ["b.csv.zip/report-1.csv"] + ["b.csv.zip/sub/report-2.csv"] * 2


def test_a_name_that_leads_out_of_a_zip_writes_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "in" / "b.zip",
        zipped({"../../evil.csv": legacy_bytes({}), "/abs.csv": legacy_bytes({"line_item_unblended_cost": "1"})}),
    )
    before = sorted(p.name for p in tmp_path.rglob("*"))
    assert parse_all("aws-cur", path).num_rows == 2
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def damaged() -> dict[str, tuple[bytes, str]]:
    rows = [{"line_item_unblended_cost": str(n), "identity_line_item_id": f"id{n * 7919}"} for n in range(3000)]
    whole = zipped({"report-1.csv": legacy_bytes(*rows)})
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes(b ^ 0xFF for b in whole[middle : middle + 64]) + whole[middle + 64 :]
    return {
        "cut.csv.zip": (whole[:-200], "the zip is truncated or damaged"),
        "flipped.csv.zip": (flipped, "the zip is truncated or damaged"),
        "nothing.csv.zip": (zipped({}), "holds no CSV file"),
        "text.csv.zip": (b"a,b\n1,2\n", "the zip is truncated or damaged"),
        "cut.csv.gz": (gzip.compress(legacy_bytes(*rows))[:-900], "the gzip is truncated or damaged"),
        "cut.snappy.parquet": (b"PAR1 and no footer", "truncated or no Parquet"),
    }


@pytest.mark.parametrize("name", list(damaged()))
def test_a_damaged_chunk_is_named(tmp_path: Path, name: str) -> None:
    content, problem = damaged()[name]
    root = write_report(tmp_path / "report", {name.replace(".zip", "").replace(".gz", ""): b""}, named=[name])
    write(root / PERIOD / ASSEMBLY / name, content)
    text = refusal(root)
    assert problem in text
    assert name in text


def test_a_zip_with_a_password_is_named(tmp_path: Path) -> None:
    content = bytearray(zipped({"report-1.csv": legacy_bytes({})}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    assert "cannot be unpacked" in refusal(write(tmp_path / "locked.zip", bytes(content)))


def test_a_bomb_in_a_zip_ends_at_its_first_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as whole, whole.open("report-1.csv", "w") as part:
        part.write(legacy_bytes({}))
        for _ in range(40):
            part.write(b"0" * (1 << 20))
    text = refusal(path)
    assert "bomb.csv.zip" in text
    assert "no readable CSV" in text


def test_the_generated_report_keeps_its_manifest_from_another_bucket_on_disk(tmp_path: Path) -> None:
    root = write_report(tmp_path / "report", {GZ: legacy_bytes({})})
    content = json.loads((root / PERIOD / "report-Manifest.json").read_text())
    write(root / PERIOD / "report-Manifest.json", json.dumps({**content, "bucket": "another"}).encode())
    assert parse_all("aws-cur", root).num_rows == 1
