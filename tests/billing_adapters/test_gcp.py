"""Google's detailed export as files: the worked examples, the published samples, and what is refused."""

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError
from billing_adapters.base import BillOptions
from billing_adapters.parsed import all_lines
from billing_adapters.registry import load_bill_source

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "billing" / "gcp"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the published samples are not beside this checkout")
HANDMADE = SAMPLES / "handmade_detailed_export_gpu.jsonl"
NODE = "gce:gpu-proj-123/us-central1-a/gke-train-gpu-pool-0a1b2c3d-x1y2"
ROW: dict[str, Any] = {
    "billing_account_id": "01ABCD-23EF45-67890A",
    "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
    "sku": {"id": "039F-D0DA-4055", "description": "Nvidia Tesla A100 GPU running in Americas"},
    "usage_start_time": "2026-10-05 00:00:00 UTC",
    "usage_end_time": "2026-10-05 01:00:00 UTC",
    "project": {"id": "p"},
    "location": {"region": "us-central1", "zone": "us-central1-a"},
    "resource": {"name": "vm", "global_name": "//compute.googleapis.com/projects/1/zones/us-central1-a/instances/47"},
    "cost": 1.0,
    "currency": "USD",
    "usage": {"amount": 3600.0, "unit": "seconds", "pricing_unit": "hour"},
    "credits": [],
    "invoice": {"month": "202610"},
    "cost_type": "regular",
    "export_time": "2026-10-05 09:12:31.123456 UTC",
}


def lines(path: Path, *costs: str, promotions: bool = False) -> list[dict[str, Any]]:
    options = BillOptions("bill", str(path), costs or ("billed",), include_promotions=promotions)
    source = load_bill_source("gcp", options)
    rows: list[dict[str, Any]] = [
        row for d in source.discover() for row in all_lines(source.parse(d), costs or ("billed",), source="x").to_pylist()
    ]
    return rows


def written(path: Path, *changes: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(ROW | change) + "\n" for change in changes), encoding="utf-8")
    return path


def total(rows: list[dict[str, Any]], metric: str = "billed") -> Decimal:
    return sum((Decimal(r["cost_nanos"]).scaleb(-9) + r["cost_residue"] for r in rows if r["cost_metric"] == metric), Decimal(0))


def fee(cost: float, *given: dict[str, Any]) -> dict[str, Any]:
    sku = {"id": "F", "description": "Commitment - dollar based v1: GCE for 1 year"}
    return {"sku": sku, "resource": None, "cost": cost, "credits": list(given)}


def credit(kind: str, amount: float | str) -> dict[str, Any]:
    return {"type": kind, "amount": amount, "id": kind, "full_name": kind, "name": kind}


@needs_samples
def test_the_worked_example_by_hour() -> None:
    rows = [r for r in lines(HANDMADE) if r["node_key"] == NODE and r["scope_rule"] is None]
    hours = [[r for r in rows if r["charge_period_start"].hour == hour] for hour in range(3)]
    assert [total([r for r in hour if r["charge_category"] != "Credit"]) for hour in hours] == [
        Decimal("3.673385"),
        Decimal("3.239477"),
        Decimal("1.836693"),
    ]
    assert [total(hour) for hour in hours] == [Decimal("3.673385"), Decimal("3.165530"), Decimal("1.653024")]
    whole = [r for r in lines(HANDMADE) if r["charge_category"] != "Credit"]
    assert total(whole) == Decimal("9.481567")
    assert {r["machine_part"] for r in rows} == {"gpu", "core", "memory"}
    assert {r["instance_type"] for r in rows} == {"a2-highgpu-1g"}


@needs_samples
@pytest.mark.parametrize("name", ["koku_2020-11-08_2020-11-11.csv", "koku_2022-08-01_5.csv"])
def test_published_samples_add_up(name: str, tmp_path: Path) -> None:
    with (SAMPLES / name).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    path = SAMPLES / name
    if "resource.name" not in rows[0]:
        with pytest.raises(AdapterError, match="Detailed usage cost"):
            lines(path)
        path = tmp_path / "bill.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, [*rows[0], "resource.name", "resource.global_name"])
            writer.writeheader()
            writer.writerows(rows)
    amounts = [credit["amount"] for row in rows for credit in eval(row["credits"], {"__builtins__": {}}, {})]  # noqa: S307
    assert total(lines(path)) == sum((Decimal(r["cost"]) for r in rows), Decimal(0)) + sum(
        (Decimal(repr(a)) for a in amounts), Decimal(0)
    )


def test_the_same_rows_in_every_kind_of_file(tmp_path: Path) -> None:
    path = written(
        tmp_path / "bill.jsonl", {"credits": [credit("PROMOTION", -0.25), credit("DISCOUNT", "-0.125")]}, {"cost": "1e-7"}
    )
    table = pyarrow.json.read_json(
        path,
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([("cost", pa.decimal128(38, 9)), ("credits", pa.list_(pa.struct(
                [("type", pa.string()), ("amount", pa.decimal128(38, 9)), ("id", pa.string()), ("full_name", pa.string())])))])
        ),
    )  # fmt: skip
    (tmp_path / "parquet").mkdir()
    pq.write_table(table, tmp_path / "parquet" / "bill.parquet")
    told = [(r["line_type"], r["cost_nanos"], r["node_key"], r["source_row"]) for r in lines(path)]
    assert sorted(told) == [
        ("DISCOUNT", -125_000_000, "gce:p/us-central1-a/vm", 1),
        ("PROMOTION", -250_000_000, "gce:p/us-central1-a/vm", 1),
        ("regular", 100, "gce:p/us-central1-a/vm", 2),
        ("regular", 1_000_000_000, "gce:p/us-central1-a/vm", 1),
    ]
    assert sorted(
        (r["line_type"], r["cost_nanos"], r["node_key"], r["source_row"]) for r in lines(tmp_path / "parquet")
    ) == sorted(told)


def test_newer_commitments_offset_their_fees_themselves(tmp_path: Path) -> None:
    usage = [{"cost": cost} for cost in (0.109398, 0.046868, 0.058648, 0.025132)]
    path = written(tmp_path / "bill.jsonl", *usage, fee(0.072, credit("FEE_UTILIZATION_OFFSET", -0.072)))
    rows = lines(path, "billed", "effective")
    assert total(rows) == total(rows, "effective") == Decimal("0.240046")


@pytest.mark.parametrize(
    ("used", "given", "fees", "whole", "unused"),
    [
        ((0.174496, 0.093568), (-0.065095, -0.034905), (0.046868, 0.025132), "0.240064", "0"),
        ((0.174496, 0.093568), (-0.174496, -0.093568), (0.022994, 0.125637, 0.067369), "0.216000", "0"),
        ((0.1,), (-0.1,), (0.15,), "0.15", "0.05"),
    ],
)
def test_older_commitments_are_brought_to_their_usage(
    tmp_path: Path, used: tuple[float, ...], given: tuple[float, ...], fees: tuple[float, ...], whole: str, unused: str
) -> None:
    kind = "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE"
    usage = [{"cost": c, "credits": [credit(kind, g)]} for c, g in zip(used, given, strict=True)]
    rows = lines(written(tmp_path / "bill.jsonl", *(fee(f) for f in fees), *usage), "billed", "effective")
    assert total(rows) == Decimal(whole)
    assert abs(total(rows, "effective") - Decimal(whole)) < Decimal("1e-24")
    left = total([r for r in rows if r["charge_category"] == "Purchase"], "effective")
    assert abs(left - Decimal(unused)) < Decimal("1e-24")


def test_promotions_pay_and_make_nothing_cheaper_unless_told(tmp_path: Path) -> None:
    path = written(tmp_path / "bill.jsonl", {"credits": [credit("PROMOTION", -0.25)]})
    assert total(lines(path)) == Decimal("0.75")
    assert total(lines(path, "effective"), "effective") == Decimal(1)
    assert total(lines(path, "effective", promotions=True), "effective") == Decimal("0.75")


def test_fifteen_digits_months_that_straddle_and_unused_reservations(tmp_path: Path) -> None:
    late = {"usage_start_time": "2026-11-01 05:00:00 UTC", "usage_end_time": "2026-11-01 06:00:00 UTC", "cost": 0.123456789012345}
    unused = {"system_labels": [{"key": "compute.googleapis.com/is_unused_reservation", "value": "true"}]}
    first, second = lines(written(tmp_path / "bill.jsonl", late, unused))
    assert (first["cost_nanos"], first["cost_residue"]) == (123456789, Decimal("0.000000000012345"))
    assert (first["billing_period"].month, first["charge_period_start"].month) == (10, 11)
    assert (first["scope_rule"], second["scope_rule"]) == (None, "reserved_unused")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cost": None}, "cost"),
        ({"currency": "EURO"}, "ISO 4217"),
        ({"invoice": {"month": "202613"}}, "invoice.month"),
        ({"cost_type": "gift"}, "cost_type"),
    ],
)
def test_what_cannot_be_read_names_its_row(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(AdapterError, match=told) as error:
        lines(written(tmp_path / "bill.jsonl", {}, change))
    assert error.value.row == 2
