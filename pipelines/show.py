"""What a run shows on a terminal or hands to a machine; the tables themselves stand in the store."""

import json
import sys

import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from allocation.ledger import net
from allocation.summed import summed
from allocation.sums import COSTS
from pipelines.partition import Partition
from pipelines.plain import plain_row, plain_rows
from pipelines.results import RESULT_TABLES, Booked, Outcome, RunSummary
from pipelines.storage import TableStore

SHOWN_FINDINGS = 12
_IN_DOCUMENTS = {name: f"{name}_sum" for name in COSTS}


def summary(found: RunSummary, store: TableStore, console: Console, *, as_json: bool) -> None:
    """The run's money per team, model and bucket, its reconciliation and findings, and where the files are."""
    if as_json:
        sys.stdout.write(json.dumps(as_document(found, store), indent=1) + "\n")
        return
    totals = _totals(found)
    for (metric, currency), rows in totals.groupby(["cost_metric", "currency"], sort=True):
        console.print(_owners(str(metric), str(currency), rows))
    _tell_reconciliation(found, console)
    _tell_findings(found, console)
    for outcome in found.partitions:
        if outcome.booked is not None:
            console.print(booked_text(outcome.partition, outcome.booked), highlight=False, markup=False, soft_wrap=True)
    for name in RESULT_TABLES:
        console.print(f"[dim]{name:15}[/dim] {store.place(name)}", highlight=False, soft_wrap=True)


def _totals(found: RunSummary) -> pd.DataFrame:
    tables = [r.team_model for r in found.partitions]
    table = pa.concat_tables(tables) if tables else None
    if table is None:
        return pd.DataFrame(columns=["cost_metric", "currency"])
    keys = ["cost_metric", "currency", "team", "model", "bucket"]
    return summed(table, keys, COSTS).sort_by([("cost", "descending")]).to_pandas()


def _owners(metric: str, currency: str, rows: pd.DataFrame) -> Table:
    shown = Table(title=f"{metric} cost in {currency}", title_justify="left")
    for name in ("team", "model", "bucket"):
        shown.add_column(name)
    for name in ("used", "overhead", "idle", "cost"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in rows[["team", "model", "bucket", *COSTS]].itertuples(index=False):
        names = ["-" if pd.isna(v) else str(v) for v in row[:3]]
        shown.add_row(*names, *(f"{v:,.2f}" for v in row[3:6]), f"{row[6]:,.9f}")
    total = rows.cost.sum()
    shown.add_section()
    shown.add_row("total", "", "", "", "", "", f"{total:,.9f}", style="bold")
    return shown


def _reconciled(found: RunSummary) -> pa.Table:
    sums = pa.concat_tables([r.reconciled for r in found.partitions]).group_by(["cost_metric", "currency", "state", "rule"])
    table = sums.aggregate([("cost_in_sum", "sum"), ("cost_out_sum", "sum")])
    return table.rename_columns([name.replace("_sum_sum", "_sum") for name in table.column_names])


def _tell_reconciliation(found: RunSummary, console: Console) -> None:
    rows = _reconciled(found)
    for row in rows.sort_by(
        [("cost_metric", "ascending"), ("currency", "ascending"), ("state", "ascending"), ("rule", "ascending")]
    ).to_pylist():
        rule = f" ({row['rule']})" if row["rule"] else ""
        console.print(
            f"bill {row['state']}{rule}: {row['cost_in_sum']:f} {row['currency']} {row['cost_metric']}", highlight=False
        )


def _tell_findings(found: RunSummary, console: Console) -> None:
    rows = pa.concat_tables([r.findings for r in found.partitions])
    order = {"error": 0, "warning": 1, "info": 2}
    listed = sorted(rows.to_pylist(), key=lambda f: (order[f["severity"]], f["code"], f["subject"]))
    for f in listed[:SHOWN_FINDINGS]:
        risk = f"; {f['cost_at_risk']:f} {f['currency'] or ''} hang on it" if f["cost_at_risk"] is not None else ""
        console.print(
            f"{f['severity']} {f['code']} {f['subject']}: {f['evidence']}{risk}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if len(listed) > SHOWN_FINDINGS:
        console.print(f"... and {len(listed) - SHOWN_FINDINGS} more in the table findings", highlight=False)


def as_document(found: RunSummary, store: TableStore) -> dict[str, object]:
    """The summary for machines: money as text, so that no reader rounds it."""
    return {
        "tables": {name: store.place(name) for name in RESULT_TABLES},
        "partitions": [_partition(r) for r in found.partitions],
        "team_model": [plain_row(row) for row in _totals(found).rename(columns=_IN_DOCUMENTS).to_dict("records")],
        "reconciliation": plain_rows(_reconciled(found)),
        "findings": [row for r in found.partitions for row in plain_rows(r.findings)],
    }


def _partition(outcome: Outcome) -> dict[str, object]:
    return {
        "date": outcome.partition.day.isoformat(),
        "cluster": outcome.partition.cluster,
        "run_id": outcome.run_id,
        "rows": outcome.rows,
        "cost": outcome.cost,
        "lines": outcome.lines,
        "unallocated_rows": outcome.unallocated_rows,
        "booked": outcome.booked and _booked(outcome.booked),
    }


def booked_text(partition: Partition, booked: Booked) -> str:
    """What was booked of a partition of a closed month, in one line."""
    stays = "belongs to a closed month and stays as it is" if booked.stays else "was booked before, and is written again"
    if not len(booked.legs):
        return f"{partition} {stays}; nothing differs from what is charged and booked"
    sums = net(booked.legs).to_pylist()
    money = ", ".join(f"{row['cost']:+f} {row['currency']} {row['cost_metric']}" for row in sums)
    owners = len(booked.legs) // 2
    return f"{partition} {stays}; {owners} corrected by adjustments of {booked.day} ({booked.cause}): {money}"


def _booked(booked: Booked) -> dict[str, object]:
    told = {"date": booked.day.isoformat(), "cause": booked.cause, "legs": len(booked.legs), "stays": booked.stays}
    return {**told, "net": plain_rows(net(booked.legs))}
