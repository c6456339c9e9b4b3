"""A machine of Google Cloud that was deleted and made again under its name within an hour."""

from datetime import date
from pathlib import Path

import pyarrow as pa

from allocation.findings import Code
from allocation.schemas import BILL_CLUSTER
from pipelines.reused_names import reused_names
from tests.billing_adapters.bills import parse_all, write
from tests.billing_adapters.gcp_files import VM, credit, json_bytes

DAY = date(2026, 10, 1)
OTHER = VM.replace("4711471147114711", "815")
NEXT = {"usage_start_time": "2026-10-01 01:00:00 UTC", "usage_end_time": "2026-10-01 02:00:00 UTC"}


def scoped(folder: Path, rows: list[dict[str, object]], cluster: str = "prod") -> pa.Table:
    """The lines of rows, all of them on machines of a cluster."""
    lines = parse_all("gcp", write(folder / "b.jsonl", json_bytes(rows)))
    return lines.append_column("cluster", pa.repeat(cluster, len(lines))).append_column("rule", lines["scope_rule"])


def test_two_machines_of_one_name_in_an_hour(tmp_path: Path) -> None:
    """The hour costs 2 + 1 - 0.5; the next one, of the new machine alone, 3; traffic is not split, so it does not count."""
    rows: list[dict[str, object]] = [
        {"resource.global_name": VM, "cost": 2, "credits": [credit("DISCOUNT", "-0.5")]},
        {"resource.global_name": OTHER, "cost": 1},
        {"resource.global_name": OTHER, "cost": 9, "usage.unit": "bytes", "usage.pricing_unit": "gibibyte"},
        {"resource.global_name": OTHER, "cost": 3, **NEXT},
    ]
    (found,) = reused_names(scoped(tmp_path, rows), DAY)
    assert (found.code, found.subject) == (Code.VM_NAME_REUSED, "gce:gpu-proj/us-central1-a/gpu-a")
    assert (found.cost_at_risk_nanos, found.currency, found.count) == (2_500_000_000, "USD", 3)
    assert "4711471147114711, 815 bore this name in the same hour (1 in all, the first at 00:00 UTC" in found.evidence


def test_names_that_are_not_shared_within_an_hour_are_none(tmp_path: Path) -> None:
    apart: list[dict[str, object]] = [{"resource.global_name": VM}, {"resource.global_name": OTHER, **NEXT}]
    assert reused_names(scoped(tmp_path, apart), DAY) == []
    both: list[dict[str, object]] = [{"resource.global_name": VM}, {"resource.global_name": OTHER}]
    assert reused_names(scoped(tmp_path, both, BILL_CLUSTER), DAY) == []
    assert reused_names(scoped(tmp_path, [{}, {}]), DAY) == []
