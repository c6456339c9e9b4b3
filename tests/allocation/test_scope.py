"""Which lines are split and which stand outside, over all clusters at once."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from allocation.errors import ChargebackError
from allocation.schemas import LINE_ITEMS
from allocation.scope import day_lines, expected_ms
from pipelines.inventory import build_nodes, nodes_frame
from pipelines.settings import NodeEntry

MIDNIGHT = datetime(2026, 10, 1, tzinfo=UTC)
FROM_MS = round(MIDNIGHT.timestamp() * 1000)
UNTIL_MS = FROM_MS + 86_400_000
HOUR_MS = 3_600_000


def line(number: int, node_key: str | None, hours: tuple[float, float] = (0, 1), **values: object) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(LINE_ITEMS.names)
    row |= {
        "source_id": "b", "delivery_id": "d", "source_file": "bill.csv", "source_row": number, "line_item_id": str(number),
        "provider": "aws", "billing_account": "1", "billing_period": date(2026, 10, 1), "charge_category": "Usage",
        "charge_period_start": MIDNIGHT + timedelta(hours=hours[0]), "charge_period_end": MIDNIGHT + timedelta(hours=hours[1]),
        "is_correction": False, "resource_id": node_key, "node_key": node_key, "currency": "USD", "cost_metric": "billed",
        "cost_nanos": 10**9, "cost_residue": Decimal(0),
    }  # fmt: skip
    return row | values


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=LINE_ITEMS.arrow())


def nodes(*entries: NodeEntry) -> pd.DataFrame:
    return nodes_frame(build_nodes([], entries, [], 120_000))


A = NodeEntry(name="gpu-a", provider_id="aws:///z/i-a", gpus=1)
B = NodeEntry(name="gpu-b", provider_id="aws:///z/i-b", gpus=1)


def test_each_line_is_somewhere_once() -> None:
    lines = table(
        line(1, "i-a"), line(2, "i-b"), line(3, "i-x"), line(4, None),
        line(5, "i-a", scope_rule="unit_not_time"), line(6, "i-a", (24, 25))
    )  # fmt: skip
    found = day_lines(lines, {"prod": nodes(A), "dev": nodes(B)}, FROM_MS, UNTIL_MS)
    where = [(r["line_item_id"], r["cluster"], r["rule"]) for r in found.lines.to_pylist()]
    assert where == [
        ("1", "prod", None), ("2", "dev", None), ("3", "_bill", "not_a_node"), ("4", "_bill", "no_resource"),
        ("5", "prod", "unit_not_time"),
    ]  # fmt: skip
    assert found.parts.cluster.tolist() == ["prod", "dev"]


def test_a_machine_of_two_clusters_is_an_error() -> None:
    with pytest.raises(ChargebackError, match=r"i-a.*dev and prod"):
        day_lines(table(line(1, "i-a")), {"prod": nodes(A), "dev": nodes(A)}, FROM_MS, UNTIL_MS)


def test_a_line_of_two_days_is_cut_into_clock_hours() -> None:
    found = day_lines(table(line(1, "i-a", (0, 48), cost_nanos=100 * 10**9)), {"prod": nodes(A)}, FROM_MS, UNTIL_MS)
    assert len(found.parts) == 24
    assert found.parts.nanos.tolist() == [2_083_333_334] * 16 + [2_083_333_333] * 8
    assert found.lines["day_nanos"].to_pylist() == [16 * 2_083_333_334 + 8 * 2_083_333_333]
    assert [f.code.value for f in found.findings] == ["coarse_line"]


def test_a_gpu_instance_outside_is_named_with_its_money() -> None:
    lines = table(
        line(1, "i-x", instance_type="p5.48xlarge"),
        line(2, "i-x", instance_type="p5.48xlarge"),
        line(3, "i-y", instance_type="m5.large"),
    )
    (finding,) = day_lines(lines, {"prod": nodes(A)}, FROM_MS, UNTIL_MS).findings
    assert (finding.code.value, finding.subject, finding.count, finding.cost_at_risk_nanos) == (
        "gpu_instance_outside_clusters", "i-x", 2, 2 * 10**9,
    )  # fmt: skip


def test_a_node_without_gpus_is_not_unallocated() -> None:
    cpu = nodes(A).assign(configured=False, gpu_resources=0, gpus=float("nan"))
    found = day_lines(table(line(1, "i-a", instance_type="m5.large")), {"prod": cpu}, FROM_MS, UNTIL_MS)
    assert found.lines["rule"].to_pylist() == ["node_without_gpu"]
    assert found.lines["cluster"].to_pylist() == ["prod"]


def test_expected_time_is_the_machines() -> None:
    lines = table(line(1, "i-a", machine_ms=900_000), line(2, "i-a"), line(3, "i-b"))
    found = day_lines(lines, {"prod": nodes(A, B)}, FROM_MS, UNTIL_MS)
    frames = expected_ms(found.parts, found.lines, nodes(A, B))
    assert dict(zip(frames.node_key, frames.expected_ms, strict=True)) == {"i-a": 900_000, "i-b": HOUR_MS}
