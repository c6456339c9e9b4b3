import gzip
import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError
from tests.billing_adapters.bills import FOCUS_ROW, focus_bytes, parse_all, sample, write, write_export


def one_line(tmp_path: Path, change: Mapping[str, str], cost: str = "billed") -> dict[str, object]:
    rows: list[dict[str, object]] = parse_all("focus", write(tmp_path / "bill.csv", focus_bytes(change)), cost=cost).to_pylist()
    return rows[0]


def test_real_sample_sums_to_its_published_total_exactly() -> None:
    lines = parse_all("focus", sample("focus", "focus_sample_1.0_1000rows.csv"))
    total = sum(lines["cost_nanos"].to_pylist()) * Decimal("1e-9") + sum(lines["cost_residue"].to_pylist())
    assert lines.num_rows == 1000
    assert total == Decimal("20.52022672899")


def test_real_sample_keeps_its_gpu_lines_in_scope_with_the_time_they_ran() -> None:
    path = sample("focus", "focus_sample_1.0_1000rows.csv")
    rows = parse_all("focus", path).to_pylist()
    text = path.read_text().splitlines()
    gpu = [row for row in rows if "g5.4xlarge" in text[row["source_row"]]]
    assert len(gpu) == 8
    assert sum(row["cost_nanos"] for row in gpu) == 10_203_682_944
    assert {row["scope_rule"] for row in gpu} == {None}
    assert {row["provider"] for row in gpu} == {"aws"}
    # Five whole hours and 0.296111, 0.683889, 0.303056 h.
    assert sorted(row["machine_ms"] for row in gpu) == [1_066_000, 1_091_002, 2_462_000, *[3_600_000] * 5]
    assert len({row["node_key"] for row in gpu}) == 8


@pytest.mark.parametrize(("cost", "nanos"), [("billed", 10), ("effective", 8), ("contracted", 9), ("list", 12)])
def test_each_cost_metric_reads_its_own_column(tmp_path: Path, cost: str, nanos: int) -> None:
    line = one_line(tmp_path, {}, cost)
    assert (line["cost_metric"], line["cost_nanos"]) == (cost, nanos * 10**9)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, None),
        ({"ResourceId": ""}, "no_resource"),
        ({"ResourceId": "NULL", "ChargeCategory": "Tax"}, "no_resource"),
        ({"ServiceCategory": ""}, None),
        ({"ServiceCategory": "compute"}, None),
        ({"ServiceCategory": "Security", "ConsumedUnit": "vCPU-Hours"}, "service_not_compute"),
        ({"ServiceCategory": "Networking", "ConsumedUnit": "GB"}, "service_not_compute"),
        ({"ConsumedUnit": "GB", "PricingUnit": "GB"}, "unit_not_time"),
        ({"ConsumedUnit": "GB-Mo", "PricingUnit": "GB-Months"}, "unit_not_time"),
        ({"ConsumedUnit": "", "PricingUnit": ""}, "unit_not_time"),
        ({"ConsumedUnit": "Requests/Second", "PricingUnit": "Units/Month"}, "unit_not_time"),
        ({"ConsumedUnit": "GiB-hours", "PricingUnit": ""}, None),
        ({"ConsumedUnit": "byte-seconds", "PricingUnit": ""}, None),
        ({"ConsumedUnit": "Units", "PricingUnit": "OCPU Hours"}, None),
        ({"ConsumedUnit": "GB Hours", "PricingUnit": ""}, None),
        ({"ConsumedUnit": "GB", "PricingUnit": "GB", "ChargeCategory": "Credit"}, None),
        ({"ConsumedUnit": "", "PricingUnit": "", "ChargeCategory": "Purchase"}, None),
        ({"ServiceCategory": "Other", "ChargeCategory": "Adjustment"}, None),
        ({"CommitmentDiscountStatus": "Unused"}, "reserved_unused"),
        ({"CapacityReservationStatus": "unused"}, "reserved_unused"),
        ({"CommitmentDiscountStatus": "Used"}, None),
        ({"AllocatedResourceId": "pod-1"}, "provider_split"),
    ],
)
def test_scope_rule(tmp_path: Path, change: dict[str, str], rule: str | None) -> None:
    assert one_line(tmp_path, change)["scope_rule"] == rule


@pytest.mark.parametrize(
    ("change", "milliseconds"),
    [
        ({}, 3_600_000),
        ({"ConsumedQuantity": "0.25"}, 900_000),
        ({"ConsumedQuantity": "1.5"}, None),
        ({"ConsumedQuantity": "0"}, None),
        ({"ConsumedQuantity": "-1"}, None),
        ({"ConsumedQuantity": "", "ConsumedUnit": "", "PricingQuantity": "0.5", "PricingUnit": "Hrs"}, 1_800_000),
        ({"ConsumedUnit": "vCPU-Hours"}, None),
        ({"ServiceName": "GPU accelerators"}, None),
        ({"ProviderName": "Microsoft"}, 3_600_000),
        ({"ProviderName": "Google Cloud"}, None),
        ({"ProviderName": "Oracle"}, None),
        ({"ChargeCategory": "Credit"}, None),
        ({"ChargeClass": "Correction", "ConsumedQuantity": "0.25"}, None),
        ({"ServiceCategory": "Networking"}, None),
        ({"ChargePeriodEnd": "2026-10-02T00:00:00Z", "ConsumedQuantity": "24"}, 86_400_000),
    ],
)
def test_machine_time(tmp_path: Path, change: dict[str, str], milliseconds: int | None) -> None:
    assert one_line(tmp_path, change)["machine_ms"] == milliseconds


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-10-01T00:00:00Z", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-10-01 00:00:00", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-10-01", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-10-01T02:00:00+02:00", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-09-30 19:00:00.1234567-0500", datetime(2026, 10, 1, microsecond=123456, tzinfo=UTC)),
        ("2026-10-01 00:00:00 UTC", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-10-01t00:00:00z", datetime(2026, 10, 1, tzinfo=UTC)),
        ("2026-10-01 00:00:00 +00:00", datetime(2026, 10, 1, tzinfo=UTC)),
    ],
)
def test_times_of_any_spelling(tmp_path: Path, text: str, instant: datetime) -> None:
    assert one_line(tmp_path, {"ChargePeriodStart": text})["charge_period_start"] == instant


@pytest.mark.parametrize(
    ("columns", "provider"),
    [
        ({"ProviderName": "Amazon Web Services"}, "aws"),
        ({"ProviderName": "Azure"}, "azure"),
        ({"ProviderName": "Google Cloud"}, "gcp"),
        ({"ProviderName": "Aura Web"}, "aura web"),
        ({"ProviderName": "Reseller", "ServiceProviderName": "Microsoft"}, "azure"),
        ({"ProviderName": "AWS", "ServiceProviderName": "null"}, "aws"),
    ],
)
def test_provider(tmp_path: Path, columns: dict[str, str], provider: str) -> None:
    assert one_line(tmp_path, columns)["provider"] == provider


def test_words_for_null_and_descriptions(tmp_path: Path) -> None:
    change = {
        "x_InstanceType": "NULL",
        "SkuPriceDetails": '{"CoreCount": 8, "InstanceType": "p4d.24xlarge"}',
        "PricingCategory": "Dynamic",
        "ChargeClass": "Correction",
        "SubAccountId": "(null)",
        "RegionId": "N/A",
        "ResourceId": " arn:aws:ec2:us-east-1:1:instance/i-0ABC ",
    }
    line = one_line(tmp_path, change)
    assert line["instance_type"] == "p4d.24xlarge"
    assert line["pricing_category"] == "spot"
    assert line["is_correction"] is True
    assert line["sub_account"] is None
    assert line["region"] is None
    assert line["node_key"] == "i-0abc"
    assert line["billing_period"] == date(2026, 10, 1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, ("SKU-GPU-1", "gpu.1x80", None)),
        ({"SkuMeter": "GPU hours"}, ("GPU hours", "gpu.1x80", None)),
        # As FOCUS of AWS has it: a usage type beside the SKU, and no column for the type of machine.
        (
            {"x_UsageType": "USW2-BoxUsage:p5.48xlarge", "x_InstanceType": "", "SkuMeter": "x"},
            ("USW2-BoxUsage:p5.48xlarge", "p5.48xlarge", None),
        ),
        ({"x_UsageType": "SpotUsage:g5.xlarge", "x_InstanceType": ""}, ("SpotUsage:g5.xlarge", "g5.xlarge", None)),
        ({"x_UsageType": "EBS:VolumeUsage.gp3", "x_InstanceType": ""}, ("EBS:VolumeUsage.gp3", None, None)),
        (
            {"x_SkuDetails": '{"InstanceType": "g6.xlarge"}', "x_UsageType": "BoxUsage:g5.xlarge", "x_InstanceType": ""},
            ("BoxUsage:g5.xlarge", "g6.xlarge", None),
        ),
        ({"CapacityReservationId": "CR-0ABC"}, ("SKU-GPU-1", "gpu.1x80", "cr-0abc")),
    ],
)
def test_usage_type_machine_type_and_reservation(tmp_path: Path, change: dict[str, str], told: tuple[str | None, ...]) -> None:
    line = one_line(tmp_path, change)
    assert (line["usage_type"], line["instance_type"], line["capacity_reservation"]) == told


def test_descriptions_that_are_made_once_stand_with_their_own_rows(tmp_path: Path) -> None:
    regions, units, types = ("us-east-1", "", "eu-1"), ("Hours", "GB"), ("a.1", "b.2", "", "c.3", "d.4")
    changes = [
        {"RegionId": regions[n % 3], "ConsumedUnit": units[n % 2], "x_InstanceType": types[n % 5], "PricingUnit": ""}
        for n in range(60)
    ]
    rows = parse_all("focus", write(tmp_path / "bill.csv", focus_bytes(*changes))).to_pylist()
    for n, row in enumerate(rows):
        assert row["region"] == (regions[n % 3] or None)
        assert row["usage_unit"] == units[n % 2]
        assert row["instance_type"] == (types[n % 5] or None)
        assert row["scope_rule"] == (None if n % 2 == 0 else "unit_not_time")


FREE = {"ListCost": "0", "ContractedCost": "0.00"}


@pytest.mark.parametrize("metric", ["list", "contracted"])
def test_usage_that_was_paid_for_is_never_priced_at_nothing(tmp_path: Path, metric: str) -> None:
    for paid in ({}, {"BilledCost": "0"}, {"EffectiveCost": "0", "BilledCost": "1E-7"}):
        path = write(tmp_path / "bill.csv", focus_bytes({}, {**FREE, **paid}))
        with pytest.raises(
            AdapterError, match=rf"bill\.csv, row 2: {metric.capitalize()}Cost is 0 although the row was paid for"
        ):
            parse_all("focus", path, cost=metric)
        assert parse_all("focus", path).num_rows == 2


@pytest.mark.parametrize(
    "change",
    [
        {"BilledCost": "0", "EffectiveCost": "-0.000"},
        {"ChargeCategory": "Credit", "BilledCost": "-5"},
        {"ChargeCategory": "Tax"},
        {"ChargeCategory": "Purchase"},
        {"ResourceId": ""},
        {"ServiceCategory": "Storage"},
        {"ListCost": "1e-12"},
    ],
)
def test_what_has_no_price_may_be_listed_at_nothing(tmp_path: Path, change: dict[str, str]) -> None:
    assert one_line(tmp_path, {**FREE, **change}, "list")["cost_nanos"] == 0


def test_a_price_without_a_bill_is_a_free_tier(tmp_path: Path) -> None:
    line = one_line(tmp_path, {"BilledCost": "0", "EffectiveCost": "0"}, "list")
    assert line["cost_nanos"] == 12 * 10**9


def test_line_ids_do_not_depend_on_order_or_files(tmp_path: Path) -> None:
    changes = [{"BilledCost": str(n % 7), "ResourceId": f"i-{n % 3}"} for n in range(40)]
    whole = parse_all("focus", write(tmp_path / "a" / "bill.csv", focus_bytes(*changes)))
    random.Random(7).shuffle(changes)  # noqa: S311 - an order, no secret
    write(tmp_path / "b" / "x" / "one.csv", focus_bytes(*changes[:11]))
    write(tmp_path / "b" / "two.csv.gz", gzip.compress(focus_bytes(*changes[11:])))
    parts = parse_all("focus", tmp_path / "b")
    key = ["line_item_id", "cost_nanos", "resource_id"]
    assert sorted(map(str, whole.select(key).to_pylist())) == sorted(map(str, parts.select(key).to_pylist()))
    ids = whole["line_item_id"].to_pylist()
    assert len(set(ids)) == 40
    # 21 distinct contents; each comes once or twice.
    assert {i.rpartition("-")[2] for i in ids} == {"1", "2"}
    assert sum(i.endswith("-1") for i in ids) == 21


def test_costs_differ_but_ids_do_not_between_metrics(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}))
    billed, listed = parse_all("focus", path), parse_all("focus", path, cost="list")
    assert billed["line_item_id"].to_pylist() == listed["line_item_id"].to_pylist()


def test_a_folder_ignores_what_is_no_data(tmp_path: Path) -> None:
    write(tmp_path / "bill.csv", focus_bytes({}))
    leftovers = (
        ".hidden.csv",
        "_started.csv",
        "_tmp/part.csv",
        "bill.csv.crc",
        "x.json",
        "q.sql",
        "c.yml",
        "d_$folder$",
    )
    for name in leftovers:
        write(tmp_path / name, b"not a bill")
    write(tmp_path / "empty.csv", b"")
    assert parse_all("focus", tmp_path)["source_file"].to_pylist() == ["bill.csv"]


def test_byte_order_mark_crlf_quoted_newline_blank_line(tmp_path: Path) -> None:
    text = focus_bytes({"ServiceName": "two\nlines"}, {}).replace(b"\n1111", b"\n\n1111")
    content = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
    lines = parse_all("focus", write(tmp_path / "bill.csv", content))
    assert lines["source_row"].to_pylist() == [1, 2]
    assert lines["service"].to_pylist() == ["two\r\nlines", "Amazon Elastic Compute Cloud"]


def test_header_only_is_a_bill_without_lines(tmp_path: Path) -> None:
    header = focus_bytes({}).splitlines(keepends=True)[0]
    assert parse_all("focus", write(tmp_path / "bill.csv", header)).num_rows == 0


def test_parquet_decimals_and_doubles_are_exact(tmp_path: Path) -> None:
    base = {name: [value, value] for name, value in FOCUS_ROW.items()}
    table = pa.table(base)
    place = table.column_names.index
    start = pa.array([datetime(2026, 10, 1), datetime(2026, 10, 1)], pa.timestamp("ns"))  # noqa: DTZ001 - as some exports write
    table = table.set_column(place("ChargePeriodStart"), "ChargePeriodStart", start)
    decimals = pa.array([Decimal("1.0000000015"), Decimal("-0.000000000001")], pa.decimal128(38, 12))
    table = table.set_column(place("BilledCost"), "BilledCost", decimals)
    table = table.set_column(place("ListCost"), "ListCost", pa.array([0.1 + 0.2, 1e-7]))
    details = pa.array([[("InstanceType", "g5.xlarge")], []], pa.map_(pa.string(), pa.string()))
    table = table.drop_columns(["x_InstanceType"]).append_column("SkuPriceDetails", details)
    pq.write_table(table, tmp_path / "bill.parquet")
    billed = parse_all("focus", tmp_path)
    assert billed["cost_nanos"].to_pylist() == [1_000_000_002, 0]
    assert billed["cost_residue"].to_pylist() == [Decimal("-5E-10"), Decimal("-1E-12")]
    assert billed["instance_type"].to_pylist() == ["g5.xlarge", None]
    assert billed["charge_period_start"].to_pylist()[0] == datetime(2026, 10, 1, tzinfo=UTC)
    listed = parse_all("focus", tmp_path, cost="list")
    # 0.1 + 0.2 is the double that is written 0.30000000000000004.
    assert listed["cost_nanos"].to_pylist() == [300_000_000, 100]
    assert listed["cost_residue"].to_pylist() == [Decimal("4E-17"), Decimal(0)]


def test_chunks_of_other_types_and_columns_are_joined_by_name(tmp_path: Path) -> None:
    table = pa.table({name: [value] for name, value in FOCUS_ROW.items()})
    place = table.column_names.index("BilledCost")
    amounts = (pa.array(["1"]), pa.array([2]), pa.array([3.0]), pa.array([Decimal("4.00")]), pa.array([5], pa.int8()))
    for number, amount in enumerate(amounts):
        chunk = table.set_column(place, "BilledCost", amount)
        chunk = chunk.drop_columns(["x_InstanceType"]) if number == 1 else chunk.append_column("Tags", pa.array(["{"]))
        pq.write_table(chunk.select(chunk.column_names[::-1]), tmp_path / f"part-{number}.parquet")
    lines = parse_all("focus", tmp_path)
    assert lines["cost_nanos"].to_pylist() == [n * 10**9 for n in (1, 2, 3, 4, 5)]
    assert lines["instance_type"].to_pylist() == ["gpu.1x80", None, "gpu.1x80", "gpu.1x80", "gpu.1x80"]


@pytest.mark.parametrize(
    "details", ['{"InstanceType": "p4d', "no JSON", "{'InstanceType': 'p4d'}", "[]", '{"InstanceType": null}']
)
def test_details_that_are_no_json_cost_the_machine_s_type_only(tmp_path: Path, details: str) -> None:
    line = one_line(tmp_path, {"x_InstanceType": "", "SkuPriceDetails": details, "Tags": details})
    assert (line["instance_type"], line["cost_nanos"]) == (None, 10 * 10**9)


def test_a_repeated_column_that_nobody_reads_does_no_harm(tmp_path: Path) -> None:
    header, row = focus_bytes({}).splitlines()
    content = header + b",Tags,Tags\n" + row + b",a,b\n"
    assert parse_all("focus", write(tmp_path / "bill.csv", content))["cost_nanos"].to_pylist() == [10 * 10**9]


def test_one_reading_gives_every_metric_that_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}, {}, {"BilledCost": "1.5", "EffectiveCost": "0"}))
    lines = parse_all("focus", path, cost=("billed", "effective"))
    each = [parse_all("focus", path, cost=cost) for cost in ("billed", "effective")]
    assert lines.equals(pa.concat_tables(each))
    assert lines["cost_nanos"].to_pylist() == [10 * 10**9, 10 * 10**9, 1_500_000_000, 8 * 10**9, 8 * 10**9, 0]
    assert len(set(lines["line_item_id"].to_pylist())) == 3


def test_a_focus_data_export_reads_what_its_manifest_names(tmp_path: Path) -> None:
    files = {"new-00001.csv.gz": focus_bytes({"BilledCost": "2"}), "old-00001.csv.gz": focus_bytes({}, {})}
    root = write_export(tmp_path / "export", files, named=["new-00001.csv.gz"])
    assert parse_all("focus", root)["cost_nanos"].to_pylist() == [2 * 10**9]
