"""Files of Google's detailed export: all formats say the same, each credit is a line, and what cannot be read is refused."""

import ast
import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError
from tests.billing_adapters.bills import parse_all, sample, write
from tests.billing_adapters.gcp_files import GCP_ROW, VM, credit, gcp_bytes, json_bytes
from tests.billing_adapters.reports import total

HANDMADE = "handmade_detailed_export_gpu.jsonl"
NODE = "gce:gpu-proj-123/us-central1-a/gke-train-gpu-pool-0a1b2c3d-x1y2"


def parsed(folder: Path, *changes: dict[str, Any], **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any option
    """The lines of rows as JSON."""
    rows: list[dict[str, Any]] = parse_all("gcp", write(folder / "b.jsonl", json_bytes(changes)), **more).to_pylist()
    return rows


def by_hour(lines: pa.Table, metric: str) -> dict[int, Decimal]:
    """What the machine cost in each hour."""
    sums: dict[int, Decimal] = defaultdict(Decimal)
    for row in lines.to_pylist():
        if (row["node_key"], row["scope_rule"], row["cost_metric"]) == (NODE, None, metric):
            sums[row["charge_period_start"].hour] += row["cost_nanos"] * Decimal("1e-9")
    return dict(sums)


def test_the_handmade_export_by_hour_and_in_all() -> None:
    path = sample("gcp", HANDMADE)
    lines = parse_all("gcp", path, cost=("billed", "effective"))
    gross = {0: Decimal("3.673385"), 1: Decimal("3.239477"), 2: Decimal("1.836693")}
    net = {0: Decimal("3.673385"), 1: Decimal("3.165530"), 2: Decimal("1.653024")}
    assert by_hour(lines, "effective") == gross
    assert by_hour(lines, "billed") == net
    assert by_hour(parse_all("gcp", path, cost="effective", include_promotions=True), "effective") == net
    assert (sum(gross.values()), sum(net.values())) == (Decimal("8.749555"), Decimal("8.491939"))
    rows = [json.loads(line, parse_float=Decimal) for line in path.read_text().splitlines()]
    assert total(lines, "effective") == sum(row["cost"] for row in rows) == Decimal("9.481567")
    assert total(lines) == sum(row["cost"] + sum(c["amount"] for c in row["credits"]) for row in rows)


def koku(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_csv_with_lists_as_python_prints_them(tmp_path: Path) -> None:
    """The older sample is the standard export: refused as it is, and read with two empty columns beside."""
    old = sample("gcp", "koku_2020-11-08_2020-11-11.csv")
    with pytest.raises(AdapterError, match=r"standard usage cost export.*Detailed usage cost"):
        parse_all("gcp", old)
    header, *rest = old.read_text().splitlines()
    more = "\n".join([f"{header},resource.name,resource.global_name", *(f"{line},," for line in rest)])
    lines = parse_all("gcp", write(tmp_path / "b.csv", more.encode()))
    given = [c for row in koku(old) for c in ast.literal_eval(row["credits"])]
    assert lines.num_rows == len(rest) + len(given)
    assert given
    wanted = sum(Decimal(row["cost"]) for row in koku(old)) + sum(Decimal(repr(c["amount"])) for c in given)
    assert total(lines) == wanted
    new = sample("gcp", "koku_2022-08-01_5.csv")
    traffic = parse_all("gcp", new)
    assert total(traffic) == sum(Decimal(row["cost"]) for row in koku(new)) == Decimal("0.000012")
    assert set(traffic["scope_rule"].to_pylist()) == {"unit_not_time"}


PYTHON = [
    ("[]", []),
    ("[{'name': 'P', 'amount': -5e-06, 'full_name': None, 'id': 'p', 'type': 'PROMOTION'}]", [("PROMOTION", "-0.000005")]),
    ("""[{'id': "it's Bob's, 'x': 1", 'amount': -1.5, 'type': 'DISCOUNT'}]""", [("DISCOUNT", "-1.5")]),
    ('[{"id": "it\'s", "amount": "-0.25", "type": "FREE_TIER"}]', [("FREE_TIER", "-0.25")]),
    (
        "[{'amount': -1.0, 'type': 'DISCOUNT', 'id': 'None, True'}, {'amount': -2, 'type': None, 'id': 'b'}]",
        [("DISCOUNT", "-1"), (None, "-2")],
    ),
]


@pytest.mark.parametrize(("text", "wanted"), PYTHON)
def test_credits_as_text(tmp_path: Path, text: str, wanted: list[tuple[str | None, str]]) -> None:
    lines = parse_all("gcp", write(tmp_path / "b.csv", gcp_bytes({"credits": text}))).to_pylist()[1:]
    assert [(r["line_type"], r["cost_nanos"] * Decimal("1e-9")) for r in lines] == [(t, Decimal(a)) for t, a in wanted]


@pytest.mark.parametrize(
    "text", ["[{'amount': print(1)}]", "[{'amount': -1", "none of it", "{'amount': -1}", "[{'amount': 'x'}]"]
)
def test_credits_that_are_no_list_of_records(tmp_path: Path, text: str) -> None:
    with pytest.raises(AdapterError, match=r"b.csv, row \d: credits"):
        parse_all("gcp", write(tmp_path / "b.csv", gcp_bytes({}, {"credits": text})))


def table(changes: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as BigQuery exports them to Parquet: records, lists, NUMERIC, times."""
    rows = [json.loads(line) for line in json_bytes(changes).decode().splitlines()]
    for row in rows:
        for name in ("usage_start_time", "usage_end_time", "export_time"):
            row[name] = datetime.fromisoformat(row[name].replace(" UTC", "+00:00"))
        row["cost_at_list"] = Decimal(row["cost_at_list"])
        row["cost"], row["usage"]["amount"] = float(row["cost"]), float(row["usage"]["amount"])
        row["credits"] = [{**c, "amount": float(c["amount"])} for c in row.get("credits", [])]
    few = [(n, pa.string()) for n in ("id", "type", "full_name", "name")]
    texts = {
        "service": ("id", "description"),
        "sku": ("id", "description"),
        "location": ("region", "zone"),
        "invoice": ("month",),
    }
    records = {name: pa.struct([(f, pa.string()) for f in fields]) for name, fields in texts.items()}
    moment = pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        {
            **dict.fromkeys(("billing_account_id", "currency", "cost_type"), pa.string()),
            **records,
            **dict.fromkeys(("usage_start_time", "usage_end_time", "export_time"), moment),
            "project": pa.struct([("id", pa.string())]),
            "resource": pa.struct([("name", pa.string()), ("global_name", pa.string())]),
            "cost": pa.float64(),
            "cost_at_list": pa.decimal128(38, 9),
            "usage": pa.struct([("amount", pa.float64()), ("unit", pa.string()), ("pricing_unit", pa.string())]),
            "credits": pa.list_(pa.struct([*few, ("amount", pa.float64())])),
            "system_labels": pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
        }
    )
    return pa.Table.from_pylist(rows, schema=schema)


SPEC = [
    {"key": "compute.googleapis.com/cores", "value": "12"},
    {"key": "compute.googleapis.com/machine_spec", "value": "a2-highgpu-1g"},
]
MIXED: list[dict[str, Any]] = [
    {"resource.global_name": VM, "cost": 0.1234567890123, "system_labels": SPEC},
    {"resource.global_name": VM, "cost": 1.2e-05, "credits": [credit("DISCOUNT", -1e-06), credit("PROMOTION", -0.3, "p")]},
    {"sku.description": "A2 Instance Ram running in Americas", "usage.unit": "byte-seconds", "system_labels": SPEC},
]


def test_parquet_json_and_csv_are_the_same_lines(tmp_path: Path) -> None:
    pq.write_table(table(MIXED), tmp_path / "b.parquet")
    packed = write(tmp_path / "b.json.gz", gzip.compress(json_bytes(MIXED)))
    flat = [{n: json.dumps(v) if isinstance(v, list) else str(v) for n, v in row.items()} for row in MIXED]
    underscored = gcp_bytes(*flat)
    head, _, body = underscored.partition(b"\n")
    cells = write(tmp_path / "b.csv", head.replace(b".", b"_") + b"\n" + body)
    dropped = ["line_item_id", "source_file", "delivery_id", "source_row"]
    metrics = ("billed", "effective", "list")
    found = [parse_all("gcp", p, cost=metrics).drop_columns(dropped).to_pylist() for p in (tmp_path / "b.parquet", packed, cells)]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 5 * 3
    assert [row["instance_type"] for row in found[0][:3]] == ["a2-highgpu-1g", None, "a2-highgpu-1g"]
    assert total(parse_all("gcp", packed)) == Decimal("0.1234567890123") + Decimal("0.000012") - Decimal("0.300001") + Decimal(
        "2.933908"
    )


@pytest.mark.parametrize("rows_of_group", [7, 20_000])
def test_parquet_of_several_row_groups_small_and_large(tmp_path: Path, rows_of_group: int) -> None:
    """Each group has a dictionary of its own for a record's field; no row is lost or numbered twice where groups meet."""
    whole = pa.concat_tables([table(MIXED)] * (17_000 if rows_of_group > 7 else 5)).combine_chunks()
    pq.write_table(whole, tmp_path / "b.parquet", row_group_size=rows_of_group)
    lines = parse_all("gcp", tmp_path / "b.parquet")
    assert lines.num_rows == len(whole) // 3 * 5
    assert set(lines["source_row"].to_pylist()) == set(range(1, len(whole) + 1))
    assert set(lines["node_key"].to_pylist()) == {"gce:gpu-proj/us-central1-a/gpu-a"}
    each = Decimal("0.1234567890123") + Decimal("0.000012") - Decimal("0.300001") + Decimal("2.933908")
    assert total(lines) == each * (len(whole) // 3)


def test_no_digit_of_a_number_in_json_is_lost(tmp_path: Path) -> None:
    costs = ["0.000123456789012345", "123456.789012345", "0.12345678901234567890123", "1.2e-07", "100", "-5e-10", "0", "1e2"]
    raw = json_bytes([{"cost": f"@{n}"} for n in range(len(costs))]).decode()
    for number, text in enumerate(costs):
        raw = raw.replace(f'"@{number}"', text if number % 2 else f'"{text}"')
    lines = parse_all("gcp", write(tmp_path / "b.jsonl", raw.encode()))
    exact = [r["cost_nanos"] * Decimal("1e-9") + r["cost_residue"] for r in lines.to_pylist()]
    assert exact == [Decimal(text) for text in costs]


def test_each_credit_is_a_line_of_its_own(tmp_path: Path) -> None:
    same = credit("DISCOUNT", "-0.5")
    changes = [{"credits": [same, same, credit("PROMOTION", -0.25)]}, {"credits": [same, same, credit("PROMOTION", -0.25)]}, {}]
    lines = parsed(tmp_path, *changes)
    assert len(lines) == 9
    assert len({r["line_item_id"] for r in lines}) == 9
    given = [r for r in lines if r["charge_category"] == "Credit"]
    assert sorted(r["cost_nanos"] for r in given) == [-500_000_000] * 4 + [-250_000_000] * 2
    assert {(r["node_key"], r["machine_part"], r["usage_quantity"], r["source_row"]) for r in given} == {
        ("gce:gpu-proj/us-central1-a/gpu-a", "gpu", None, row) for row in (1, 2)
    }
    again = parsed(tmp_path, *reversed(changes))
    assert {r["line_item_id"] for r in again} == {r["line_item_id"] for r in lines}
    assert len(parsed(tmp_path, *[{"cost": n} for n in range(100)])) == 100


RULED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"scope_rule": None, "machine_part": "gpu", "pricing_category": "on-demand", "machine_ms": None}),
    ({"sku.description": "A2 Instance Core running in Americas"}, {"machine_part": "core"}),
    (
        {
            "sku.description": "Spot Preemptible A3 Instance Ram",
            "usage.unit": "byte-seconds",
            "usage.pricing_unit": "gibibyte hour",
        },
        {"machine_part": "memory", "pricing_category": "spot", "scope_rule": None},
    ),
    ({"sku.description": "Nvidia H100 GPU attached to DWS Calendar Mode VMs"}, {"pricing_category": "committed"}),
    ({"sku.description": "Nvidia H100 GPU attached to DWS Defined Duration VMs"}, {"pricing_category": "on-demand"}),
    ({"consumption_model.description": "Compute Flexible CUDs - 1 Year"}, {"pricing_category": "committed"}),
    ({"consumption_model.description": "Default"}, {"pricing_category": "on-demand"}),
    ({"credits": [credit("COMMITTED_USAGE_DISCOUNT", -1)]}, {"pricing_category": "committed"}),
    ({"usage.unit": "bytes", "usage.pricing_unit": "gibibyte"}, {"scope_rule": "unit_not_time"}),
    ({"usage.unit": "gibibyte month", "usage.pricing_unit": "gibibyte month"}, {"scope_rule": "unit_not_time"}),
    (
        {"sku.description": "Storage PD Capacity", "usage.unit": "byte-seconds"},
        {"node_key": "gpu-a", "resource_id": "gpu-a", "machine_part": None},
    ),
    ({"resource.global_name": VM.replace("instances/", "disk/")}, {"node_key": VM.replace("instances/", "disk/")}),
    ({"resource.name": "projects/1/instances/gpu-b"}, {"node_key": "gce:gpu-proj/us-central1-a/gpu-b"}),
    ({"resource.global_name": VM, "location.zone": None}, {"node_key": "gce:gpu-proj/us-central1-a/gpu-a", "resource_id": VM}),
    ({"service.id": "24E6-581D-38E5"}, {"scope_rule": "service_not_compute", "node_key": "gpu-a"}),
    (
        {"system_labels": [{"key": "compute.googleapis.com/is_unused_reservation", "value": "true"}]},
        {"scope_rule": "reserved_unused"},
    ),
    (
        {"resource.name": None, "sku.description": "Commitment v1: A2 Core in Americas for 1 Year"},
        {"scope_rule": "no_resource", "charge_category": "Purchase", "pricing_category": None},
    ),
    (
        {"resource.name": None, "cost_type": "tax", "project.id": None, "usage.unit": None},
        {"scope_rule": "no_resource", "charge_category": "Tax", "sub_account": None},
    ),
    (
        {"cost_type": "adjustment", "adjustment_info.id": "a", "cost": -1},
        {"charge_category": "Adjustment", "is_correction": True, "scope_rule": None},
    ),
    ({"cost_type": "rounding_error", "resource.name": None}, {"charge_category": "Adjustment", "is_correction": False}),
]


@pytest.mark.parametrize(("change", "wanted"), RULED)
def test_what_a_row_says_of_itself(tmp_path: Path, change: dict[str, Any], wanted: dict[str, Any]) -> None:
    row = parsed(tmp_path, change)[0]
    assert {name: row[name] for name in wanted} == wanted


def test_invoice_months_that_straddle(tmp_path: Path) -> None:
    """October in California ends seven hours after October in UTC, and a late row comes with November's invoice."""
    night = {"usage_start_time": "2026-11-01 06:00:00 UTC", "usage_end_time": "2026-11-01 07:00:00 UTC"}
    lines = parsed(tmp_path, night, {"invoice.month": "202611", "cost_type": "adjustment", "adjustment_info.id": "late"})
    told = [(r["billing_period"].isoformat(), r["charge_period_start"], r["is_correction"]) for r in lines]
    assert told == [
        ("2026-10-01", datetime(2026, 11, 1, 6, tzinfo=UTC), False),
        ("2026-11-01", datetime(2026, 10, 1, tzinfo=UTC), True),
    ]


def test_rows_that_gke_splits_by_namespace_are_lines_of_their_machine(tmp_path: Path) -> None:
    parts = [{"cost": c, "labels": [{"key": "k8s-namespace", "value": n}]} for c, n in ((1.5, "a"), (1.5, "b"), (0.5, "idle"))]
    lines = parsed(tmp_path, *parts)
    assert [r["cost_nanos"] for r in lines] == [1_500_000_000, 1_500_000_000, 500_000_000]
    assert {r["node_key"] for r in lines} == {"gce:gpu-proj/us-central1-a/gpu-a"}
    assert len({r["line_item_id"] for r in lines}) == 3


REFUSED: list[tuple[str, bytes, str]] = [
    ("s.csv", gcp_bytes({}).replace(b"resource.name", b"x_name"), r"standard usage cost export.*Detailed usage cost"),
    ("s.jsonl", json_bytes([{"resource.name": None}]), r"s.jsonl, row 1: .*standard usage cost export"),
    ("f.csv", b"BilledCost,ChargePeriodStart\n1,2\n", "looks like FOCUS.*kind: focus"),
    ("p.csv", b"pricing_unit,sku.id,list_price\n1,2,3\n", "looks like the export of prices"),
    ("m.csv", gcp_bytes({}).replace(b"invoice.month", b"x"), "mandatory columns are missing: invoice.month; columns: "),
    ("n.jsonl", json_bytes([{}, {"cost": None}]), r"n.jsonl, row 2: cost: the cost is empty"),
    ("c.jsonl", json_bytes([{}, {"credits": [{"type": "DISCOUNT"}]}]), r"c.jsonl, row 2: credits.amount: the cost is empty"),
    ("i.csv", gcp_bytes({}, {"invoice.month": "2026-10"}), r"i.csv, row 2: invoice.month: '2026-10'"),
    ("t.csv", gcp_bytes({"cost_type": "gift"}), r"t.csv, row 1: cost_type: 'gift' is none of regular, tax"),
    ("j.jsonl", json_bytes([{}]) + b"{oops\n", r"j.jsonl, row 2: the file is not one JSON object a line"),
    ("a.json", b"[\n{}\n]\n", r"a.json, row 1: the file is not one JSON object a line"),
    ("z.jsonl.gz", gzip.compress(json_bytes([{"cost": n} for n in range(3000)]))[:-2000], "z.jsonl.gz: the gzip is truncated"),
]


@pytest.mark.parametrize(("name", "content", "problem"), REFUSED, ids=[name for name, *_ in REFUSED])
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    with pytest.raises(AdapterError, match=problem) as caught:
        parse_all("gcp", write(tmp_path / name, content))
    assert "\n" not in str(caught.value)


def test_files_without_machines_and_without_rows_are_a_part_of_a_delivery(tmp_path: Path) -> None:
    """BigQuery shards as it likes: JSON of taxes alone names no project, and a shard may be empty."""
    tax = {
        **dict.fromkeys(("resource.name", "project.id", "usage.unit", "location.zone"), None),
        "cost_type": "tax",
        "cost": "0.73",
    }
    write(tmp_path / "e" / "0.jsonl.gz", gzip.compress(b""))
    write(tmp_path / "e" / "1.jsonl", json_bytes([{**tax, "sku.description": "Tax"}]))
    write(tmp_path / "e" / "2.jsonl", json_bytes([{}]))
    assert total(parse_all("gcp", tmp_path / "e")) == Decimal("0.73") + Decimal("2.933908")
    write(tmp_path / "e" / "3.jsonl", json_bytes([{}]))
    with pytest.raises(AdapterError, match=r"2.jsonl and 3.jsonl|same"):
        parse_all("gcp", tmp_path / "e")


def test_prices_are_of_usage_and_never_silently_none(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"cost_at_effective_price": "2.5", "credits": [credit("DISCOUNT", -1)]},
        {"cost": 0, "cost_at_list": None, "cost_at_effective_price": None},
        {"cost_type": "adjustment", "cost": -1, "cost_at_list": None},
    ]
    lines = parse_all("gcp", write(tmp_path / "b.jsonl", json_bytes(rows)), cost=("list", "contracted"))
    assert (total(lines, "list"), total(lines, "contracted")) == (Decimal("2.933908"), Decimal("2.5"))
    with pytest.raises(AdapterError, match=r"b.jsonl, row 2: cost_at_list is empty although the row costs 2.933908"):
        parsed(tmp_path, {}, {"cost_at_list": None}, cost="list")
    lacking = write(tmp_path / "b.csv", gcp_bytes({}).replace(b"cost_at_list", b"x_other_cost"))
    with pytest.raises(AdapterError, match=r"cost_at_list .*the file can say billed, effective"):
        parse_all("gcp", lacking, cost="list")


CREDIT = pa.struct([("amount", pa.float64()), ("type", pa.string())])


@pytest.mark.parametrize("kind", [pa.list_(CREDIT), pa.large_list(CREDIT), pa.list_(CREDIT, 1)], ids=str)
def test_credits_count_in_every_kind_of_list(tmp_path: Path, kind: pa.DataType) -> None:
    row = {**GCP_ROW, "cost": "60", "credits": [{"amount": -20.0, "type": "DISCOUNT"}]}
    table = pa.Table.from_pylist([row])
    place = table.schema.get_field_index("credits")
    pq.write_table(table.set_column(place, "credits", table["credits"].cast(pa.list_(CREDIT)).cast(kind)), tmp_path / "b.parquet")
    assert total(parse_all("gcp", tmp_path / "b.parquet")) == 40


def test_lists_without_a_type_are_empty(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{**GCP_ROW, "cost": "60", "credits": [], "system_labels": []}]), tmp_path / "b.parquet")
    assert total(parse_all("gcp", tmp_path / "b.parquet")) == 60


def test_a_file_without_credits_would_be_read_before_them_and_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([GCP_ROW]), tmp_path / "b.parquet")
    with pytest.raises(AdapterError, match="mandatory columns are missing: credits"):
        parse_all("gcp", tmp_path / "b.parquet")


def test_a_text_of_credits_holds_one_list(tmp_path: Path) -> None:
    odd = '[]} {"v":[{"amount":-5,"type":"D"}]'
    with pytest.raises(AdapterError, match="credits: a text of these rows holds more than one list"):
        parse_all("gcp", write(tmp_path / "b.csv", gcp_bytes({"credits": odd}, {"credits": '[{"amount":-7,"type":"D"}]'})))


def test_a_line_of_json_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    row = json.loads(json_bytes([{"cost": "60"}])) | {"location": {"region": "us\u2028central"}}
    text = json.dumps(row, ensure_ascii=False).encode() + b"\n"
    assert total(parse_all("gcp", write(tmp_path / "b.jsonl", text))) == 60
