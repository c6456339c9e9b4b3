"""The quick start's day with its bill as Google delivers it, in BigQuery and as a dump in a bucket: the rows of FOCUS.

BigQuery is a fake of its protocol that the real client talks to; the bucket is a real server of Cloud Storage's protocol.
"""

import csv
import json
import re
import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.day_bill import read_day
from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk
from tests.billing_adapters.detailed_rows import PROJECT, ZONE, discount, used
from tests.fake_bigquery import PATH, FakeBigQuery
from tests.object_stores import Bucket

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
DAY, NEXT = date(2026, 10, 1), date(2026, 10, 2)
KEYS = ("node", "gpu_uuid", "namespace", "pod", "bucket", "team", "model", "charge_period_start")
NODES = {"i-0a1f3c5e7d9b2a4c6": "gpu-a", "i-0b2e4d6f8a1c3e5b7": "gpu-b", "i-0c3d5e7f9b1a2c4d6": "gpu-c"}
# Three nodes for 24 hours at 3.744, 8.40 and 8.40, less a credit of 2.40 on one of them.
SPLIT = Decimal("490.656")
# Beside them 2.70 of transfer, 0.80 of a volume and 12.50 of tax.
WHOLE = Decimal("506.656")
# Of gpu-c, which has no exporter, the bill tells the parts: they are 8.40.
PARTS = {"gpu": 6.0, "core": 1.4, "memory": 1.0}

Sums = dict[tuple[object, ...], Decimal]


def as_google(row: dict[str, str]) -> list[dict[str, Any]]:
    """A row of the quick start's bill as rows of the detailed export."""
    start, cost, node = row["ChargePeriodStart"][:13], float(row["EffectiveCost"]), NODES.get(row["ResourceId"], "")
    if row["SkuId"] == "EGRESS":
        egress = {"id": "9DE9-9092-B3BC", "description": "Network Internet Egress from Americas to Americas"}
        return [used(start, cost, name=node, sku=egress, usage=_usage("bytes", "gibibyte"))]
    if row["SkuId"] == "VOLUME-GP3":
        disk = {"id": "D973-5D65-BAB2", "description": "Storage PD Capacity"}
        return [
            used(
                start,
                cost,
                sku=disk,
                usage=_usage("byte-seconds", "gibibyte month"),
                resource={"name": "pvc-1"},
                system_labels=[],
            )
        ]
    if row["ChargeCategory"] == "Tax":
        return [used(start, cost, sku={"id": "", "description": "Tax"}, cost_type="tax", resource=None)]
    if row["ChargeCategory"] == "Purchase":
        fee, paid = {"id": "C-1", "description": "Commitment - dollar based v1: Compute Flexible CUDs"}, float(row["BilledCost"])
        offset = [discount("offset", -paid, "FEE_UTILIZATION_OFFSET")]
        return [used(start, paid, sku=fee, resource=None, credits=offset)]
    if node == "gpu-c":
        return [used(start, part_cost, part=part, name=node) for part, part_cost in PARTS.items()]
    # The service level credit stands in the row of its hour.
    given = (-2.4,) if node == "gpu-b" and start == "2026-10-01T05" else ()
    return [used(start, cost, *given, name=node)] if row["ChargeCategory"] == "Usage" else []


def _usage(unit: str, pricing_unit: str) -> dict[str, Any]:
    return {"amount": 1.0, "unit": unit, "amount_in_pricing_units": 1.0, "pricing_unit": pricing_unit}


def bill() -> list[dict[str, Any]]:
    with (QUICKSTART / "bill.csv").open(encoding="utf-8", newline="") as stream:
        return [line for row in csv.DictReader(stream) for line in as_google(row)]


def load(bigquery: FakeBigQuery, rows: list[dict[str, Any]]) -> None:
    """The last hours of the day are loaded on the next one."""
    late = [row for row in rows if row["usage_start_time"].hour >= 20]
    bigquery.table.load(DAY, [row for row in rows if row not in late])
    bigquery.table.load(NEXT, late)


def dumped(rows: list[dict[str, Any]]) -> bytes:
    """Lines of JSON as BigQuery exports them."""

    def text(value: object) -> str:
        assert isinstance(value, datetime)
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"

    return "".join(json.dumps(row, default=text) + "\n" for row in rows).encode()


def run(folder: Path, **billing: str) -> list[Results]:
    values = yaml.safe_load((QUICKSTART / "chargeback.yaml").read_text(encoding="utf-8"))
    values["billing"] = [{"cost": "effective", "currency": "USD", **billing}]
    folder.mkdir(exist_ok=True)
    series = (QUICKSTART / "metrics.om").read_text(encoding="utf-8")
    if billing["kind"] == "gcp":
        series = re.sub(r"aws:///us-east-1a/(i-\w+)", lambda found: f"gce://{PROJECT}/{ZONE}/{NODES[found[1]]}", series)
    (folder / "metrics.om").write_text(series, encoding="utf-8")
    shutil.copy(QUICKSTART / "bill.csv", folder)
    (folder / "chargeback.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return run_day(open_walk(load_settings(folder / "chargeback.yaml")), DAY)


def sums(results: list[Results]) -> Sums:
    found: Sums = {}
    for row in (row for r in results for row in r.chargeback.to_pylist()):
        key = tuple(row[name] for name in KEYS)
        found[key] = found.get(key, Decimal(0)) + row["cost"]
    return found


@pytest.fixture(scope="module")
def by_focus(tmp_path_factory: pytest.TempPathFactory) -> Sums:
    return sums(run(tmp_path_factory.mktemp("focus") / "day", kind="focus", path="bill.csv"))


def is_whole(results: list[Results]) -> bool:
    rows = [row for r in results for row in r.reconciliation.to_pylist()]
    rules = {row["rule"] for row in rows if row["state"] == "out_of_scope"}
    return sum(row["cost_in"] for row in rows) == WHOLE and rules == {"no_resource", "not_a_node", "unit_not_time"}


def test_from_the_table_to_the_rows(tmp_path: Path, bigquery: FakeBigQuery, by_focus: Sums) -> None:
    rows = bill()
    load(bigquery, rows)
    table = {"kind": "gcp", "path": PATH, "endpoint_url": bigquery.url}
    first = run(tmp_path / "day", **table)
    assert is_whole(first)
    assert sum(sums(first).values()) == SPLIT
    assert sums(first) == by_focus
    assert [sent.partitions for sent in bigquery.read] == [("2026-10-02", "2026-10-03"), ("2026-10-01", "2026-10-02")]
    # What is kept is not queried again.
    walk = open_walk(load_settings(tmp_path / "day" / "chargeback.yaml"))
    assert read_day(walk, DAY).lines.num_rows == sum(r.reconciliation.num_rows for r in first)
    assert len(bigquery.read) == 2


def test_the_order_of_an_answer_changes_nothing(tmp_path: Path, bigquery: FakeBigQuery) -> None:
    rows = [row for row in bill() if row["usage_start_time"].hour < 2]
    results = []
    for name in ("one", "other"):
        bigquery.table.rows.clear()
        load(bigquery, rows)
        results.append(run(tmp_path / name, kind="gcp", path=PATH, endpoint_url=bigquery.url))
        rows.reverse()
    assert [r.chargeback for r in results[0]] == [r.chargeback for r in results[1]]
    assert [r.reconciliation for r in results[0]] == [r.reconciliation for r in results[1]]


def test_from_a_dump_in_a_bucket_to_the_rows(tmp_path: Path, gcs: Bucket, by_focus: Sums) -> None:
    rows = bill()
    gcs.put("exports/gpu/rows-000.json", dumped(rows[:60]))
    gcs.put("exports/gpu/rows-001.json", dumped(rows[60:]))
    results = run(tmp_path / "day", kind="gcp", path=f"{gcs.url}/exports/gpu", endpoint_url=gcs.endpoint_url)
    assert is_whole(results)
    assert sums(results) == by_focus
