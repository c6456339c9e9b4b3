"""The published FOCUS 1.0 sample over its month: eight GPU machines reach named buckets, the total ties to the last digit."""

import csv
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from pipelines.bills import discover
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "billing" / "focus" / "focus_sample_1.0_1000rows.csv"
BILL_TOTAL = Decimal("20.52022672899")
GPU_TOTAL = Decimal("10.203682944")


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the FOCUS sample is under another licence and not part of the project")
def test_the_published_sample_is_reconciled_to_the_last_digit(tmp_path: Path) -> None:
    with SAMPLE.open(encoding="utf-8", newline="") as stream:
        gpu_ids = [r["ResourceId"] for r in csv.DictReader(stream) if "g5.4xlarge" in r["ChargeDescription"]]
    assert len(set(gpu_ids)) == 8
    (tmp_path / "metrics.om").write_text("# EOF\n", encoding="utf-8")
    nodes = [{"name": f"node-{n}", "provider_id": f"aws:///us-west-2a/{i}", "gpus": 1} for n, i in enumerate(gpu_ids)]
    config = {
        "version": 1,
        "output": "out",
        "clusters": [
            {"name": "prod", "metrics": [{"kind": "openmetrics", "path": "metrics.om", "profile": "dcgm"}], "nodes": nodes}
        ],
        "billing": [{"kind": "focus", "path": str(SAMPLE), "cost": "billed"}],
    }
    (tmp_path / "chargeback.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    settings = load_settings(tmp_path / "chargeback.yaml")
    walk, bills = open_walk(settings), discover(settings)
    first = date(2024, 9, 1)
    results = [r for n in range(31) for r in run_day(walk, first + timedelta(days=n), bills=bills)]
    lines = [row for r in results for row in r.reconciliation.to_pylist()]
    assert sum((row["cost_in"] + row["rounding"] for row in lines), Decimal(0)) == BILL_TOTAL
    assert len({row["line_item_id"] for row in lines}) == 1000
    rows = [row for r in results for row in r.chargeback.to_pylist()]
    assert sum((row["cost"] for row in rows), Decimal(0)) == GPU_TOTAL
    assert {(row["bucket"], row["reason"]) for row in rows} == {("unallocated", "node_without_metrics")}
    assert {row["node"] for row in rows} == {n["name"] for n in nodes}
