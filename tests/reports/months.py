"""Made-up months in a store, written as tables of the project's own shapes: figures are whatever a test says."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from allocation.schemas import ADJUSTMENTS, DAILY_MART, FINDINGS, RECONCILIATION, Table
from pipelines.partition import Partition
from pipelines.storage import TableStore

OCTOBER, FIRST = date(2026, 10, 1), date(2026, 10, 1)
Row = dict[str, object]


def charge(cost: str, team: object = "red", **more: object) -> Row:
    """A row of ``daily_mart``: a pod's, all of it memory in use."""
    figures: Row = {c.name: Decimal(0) for c in DAILY_MART.columns if pa.types.is_decimal(c.type)}
    named: Row = {
        "cost_metric": "billed",
        "currency": "USD",
        "team": team,
        "model": "llm",
        "bucket": "workload",
        "basis": "exclusive",
    }
    named |= {"billing_period": OCTOBER, "booked_period": OCTOBER, "run_id": "r", "gpu_model": "A"}
    return {**figures, **named, "cost": Decimal(cost), "used_cost": Decimal(cost), **more}


def line(cost: str, **more: object) -> Row:
    """A row of ``reconciliation``: a line of the first day, charged as a whole."""
    start = datetime(2026, 10, 1, tzinfo=UTC)
    named: Row = {
        "provider": "aws",
        "billing_account": "1",
        "billing_period": OCTOBER,
        "line_item_id": f"line {cost}",
        "run_id": "r",
    }
    named |= {
        "charge_period_start": start,
        "charge_period_end": start + timedelta(days=1),
        "source_file": "b.csv",
        "source_row": 1,
    }
    named |= {"cost_metric": "billed", "currency": "USD", "state": "allocated", "rounding": Decimal(0), "difference": Decimal(0)}
    return {**named, "line_cost": Decimal(cost), "cost_in": Decimal(cost), "cost_out": Decimal(cost), **more}


def finding(code: str, severity: str = "warning", risk: str | None = None, **more: object) -> Row:
    """A row of ``findings``."""
    named: Row = {"code": code, "severity": severity, "subject": "gpu-a", "evidence": "seen", "count": 1, "run_id": "r"}
    return {**named, "cost_at_risk": None if risk is None else Decimal(risk), "currency": "USD" if risk else None, **more}


def write_day(
    folder: Path,
    charges: Sequence[Row],
    lines: Sequence[Row] = (),
    findings: Sequence[Row] = (),
    day: date = FIRST,
    cluster: str = "prod",
) -> None:
    """A day of a cluster as a run leaves it."""
    store, partition = TableStore(str(folder)), Partition(day, cluster)
    for table, rows in ((DAILY_MART, charges), (RECONCILIATION, lines), (FINDINGS, findings)):
        store.write(table.name, partition, _table(table, rows))


def write_adjustments(folder: Path, rows: Sequence[Row], booked: date) -> None:
    """Corrections that were booked on a day."""
    named: Row = {"closed_run_id": "a", "run_id": "b", "cause": "bill_restated", "leg": "restated"}
    TableStore(str(folder)).write(
        ADJUSTMENTS.name, Partition(booked, "prod"), _table(ADJUSTMENTS, [{**named, **r} for r in rows])
    )


def _table(shape: Table, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), shape.arrow())


def write_config(folder: Path, clusters: Sequence[str] = ("prod",)) -> Path:
    """A configuration whose tables are in ``out``."""
    text = "version: 1\noutput: out\nclusters:\n"
    for name in clusters:
        text += f"  - {{name: {name}, metrics: [{{kind: openmetrics, path: m.om, profile: dcgm}}]}}\n"
    path = folder / "chargeback.yaml"
    path.write_text(text + "billing:\n  - {kind: focus, path: bill.csv, cost: billed}\n", encoding="utf-8")
    return path
