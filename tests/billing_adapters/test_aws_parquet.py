"""Parquet exports of CUR 2.0 as they differ: types of columns, chosen columns by chunk, names of the manifest."""

import gzip
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.billing_adapters.bills import CUR_ROW, cur_bytes, parse_all, write, write_export
from tests.billing_adapters.reports import total

TIMES = ("line_item_usage_start_date", "line_item_usage_end_date", "bill_billing_period_start_date")
OPTIONAL = (
    "line_item_operation",
    "line_item_availability_zone",
    "identity_line_item_id",
    "line_item_net_unblended_cost",
    "savings_plan_savings_plan_effective_cost",
    "capacity_reservation_capacity_reservation_arn",
    "reservation_reservation_a_r_n",
)


def columns() -> dict[str, pa.Array]:
    return {name: pa.array([value] * 3) for name, value in CUR_ROW.items()}


def as_nothing() -> dict[str, pa.Array]:
    return columns() | {name: pa.nulls(3) for name in OPTIONAL}


def as_large_texts() -> dict[str, pa.Array]:
    return {name: column.cast(pa.large_string()) for name, column in columns().items()}


def as_dictionaries() -> dict[str, pa.Array]:
    return {name: column.dictionary_encode() for name, column in columns().items()}


def as_struct() -> dict[str, pa.Array]:
    return columns() | {"product": pa.array([{"instance_type": "p5.48xlarge", "region": "us-west-2"}] * 3)}


def as_map() -> dict[str, pa.Array]:
    entries = [("instance_type", "p5.48xlarge"), ("region", "us-west-2")]
    return columns() | {"product": pa.array([entries] * 3, pa.map_(pa.string(), pa.string()))}


def as_timestamps() -> dict[str, pa.Array]:
    moments = {name: datetime.fromisoformat(CUR_ROW[name].removesuffix("Z")) for name in TIMES}
    return columns() | {name: pa.array([moment] * 3, pa.timestamp("ns")) for name, moment in moments.items()}


@pytest.mark.parametrize("made", [as_nothing, as_large_texts, as_dictionaries, as_struct, as_map, as_timestamps])
def test_types_of_columns_change_nothing(tmp_path: Path, made: object) -> None:
    assert callable(made)
    pq.write_table(pa.table(made()), tmp_path / "bill.parquet")
    lines = parse_all("aws-cur2", tmp_path / "bill.parquet", cost=("billed", "effective", "list"))
    assert [total(lines, m) for m in ("billed", "effective", "list")] == [Decimal("294.96"), Decimal("294.96"), Decimal(330)]
    (kind,) = set(lines["instance_type"].to_pylist())
    assert kind == "p5.48xlarge"
    assert set(lines["machine_ms"].to_pylist()) == {3_600_000}
    assert len(set(lines["line_item_id"].to_pylist())) == 3
    wanted = datetime.fromisoformat("2026-10-01T01:00:00+00:00")
    assert set(lines["charge_period_end"].to_pylist()) == {wanted}


@pytest.mark.parametrize("made", [as_struct, as_map])
@pytest.mark.parametrize("rows_of_group", [1, 20_000])
def test_several_row_groups_of_records(tmp_path: Path, made: object, rows_of_group: int) -> None:
    assert callable(made)
    whole = pa.concat_tables([pa.table(made())] * (1 if rows_of_group == 1 else 14_000)).combine_chunks()
    pq.write_table(whole, tmp_path / "bill.parquet", row_group_size=rows_of_group)
    lines = parse_all("aws-cur2", tmp_path / "bill.parquet")
    assert total(lines) == Decimal("98.32") * len(whole)
    assert set(lines["instance_type"].to_pylist()) == {"p5.48xlarge"}


def test_chunks_of_one_delivery_may_have_other_columns_and_types(tmp_path: Path) -> None:
    root = write_export(tmp_path / "e", {"e-00001.csv.gz": cur_bytes({"line_item_net_unblended_cost": "90"})})
    few = {name: column for name, column in reversed(columns().items()) if name not in ("pricing_unit", "product")}
    few["line_item_unblended_cost"] = pa.array([1, 2, 3])
    pq.write_table(pa.table(few), tmp_path / "x.parquet")
    write(root / "data/BILLING_PERIOD=2026-10/e-00002.snappy.parquet", (tmp_path / "x.parquet").read_bytes())
    manifest = root / "metadata/BILLING_PERIOD=2026-10/e-Manifest.json"
    content = json.loads(manifest.read_text())
    content["dataFiles"].append(content["dataFiles"][0].replace("e-00001.csv.gz", "e-00002.snappy.parquet"))
    manifest.write_text(json.dumps(content))
    lines = parse_all("aws-cur2", root)
    assert [cost // 10**9 for cost in lines["cost_nanos"].to_pylist()] == [90, 1, 2, 3]
    assert lines["machine_ms"].to_pylist() == [3_600_000, None, None, None]


def test_a_manifest_of_the_plain_name_and_a_surplus_chunk(tmp_path: Path) -> None:
    root = write_export(tmp_path / "e", {"e-00001.csv.gz": cur_bytes({})})
    write(root / "data/BILLING_PERIOD=2026-10/e-00002.csv.gz", gzip.compress(b""))
    folder = root / "metadata/BILLING_PERIOD=2026-10"
    (folder / "e-Manifest.json").rename(folder / "Manifest.json")
    write(folder / "20261005T120000Z-0" / "Manifest.json", b"an older execution")
    assert total(parse_all("aws-cur2", root)) == Decimal("98.32")
