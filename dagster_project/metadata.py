"""What a materialisation shows: how many rows, how much money in each currency, and the first rows. Display only."""

from collections.abc import Mapping

import dagster as dg
import pyarrow as pa

from allocation.money import exact_sum
from allocation.schemas import TABLES

PREVIEW_ROWS = 8
_MONEY = {"line_items": "day_cost", "chargeback": "cost", "team_model": "cost", "reconciliation": "cost_in"}
_SHOWN = {
    "line_items": ("line_item_id", "resource_id", "charge_period_start", "cluster", "node", "rule", "cost_metric", "currency", "day_cost"),
    "samples": ("role", "node", "gpu_uuid", "gpu_instance", "namespace", "pod"),
    "nodes": ("node", "node_id", "instance_type", "gpus"),
    "pods": ("namespace", "pod", "node", "workload_kind", "workload_name"),
    "usage": ("node", "period_start", "gpu_uuid", "gpu_instance", "bucket", "namespace", "pod", "coverage", "basis"),
    "chargeback": ("charge_period_start", "node", "gpu_uuid", "gpu_instance", "bucket", "pod", "team", "model", "currency", "cost", "basis"),
    "team_model": ("cost_metric", "currency", "team", "model", "bucket", "cost"),
    "reconciliation": ("line_item_id", "node", "currency", "cost_in", "cost_out", "difference", "state", "rule"),
    "findings": ("code", "severity", "subject", "evidence", "cost_at_risk", "currency"),
}  # fmt: skip


def describe(name: str, table: pa.Table, *, rows: int | None = None) -> dict[str, dg.MetadataValue[object]]:
    """The metadata of a table.

    Args:
        name: the table's name.
        table: its rows, or the first of them.
        rows: how many rows there are, where ``table`` holds only the first.
    """
    told: dict[str, dg.MetadataValue[object]] = {"dagster/row_count": dg.MetadataValue.int(len(table) if rows is None else rows)}
    told |= {
        f"total_{metric}_{currency}": dg.MetadataValue.text(total) for (metric, currency), total in totals(name, table).items()
    }
    told["preview"] = dg.MetadataValue.md(preview(name, table))
    return told


def totals(name: str, table: pa.Table) -> Mapping[tuple[str, str], str]:
    """The table's money by cost metric and currency, as exact text; nothing is added across them."""
    column = _MONEY.get(name)
    if column is None or not len(table):
        return {}
    pairs = table.select(["cost_metric", "currency"]).group_by(["cost_metric", "currency"]).aggregate([]).to_pylist()
    return {(p["cost_metric"], p["currency"]): _total(table, column, p) for p in sorted(pairs, key=str)}


def _total(table: pa.Table, column: str, pair: Mapping[str, str]) -> str:
    mine = pa.compute.and_(
        pa.compute.equal(table["cost_metric"], pair["cost_metric"]), pa.compute.equal(table["currency"], pair["currency"])
    )
    return f"{exact_sum(table[column].filter(mine)):f}"


def preview(name: str, table: pa.Table) -> str:
    """The first rows as Markdown, with the columns that tell most."""
    known = TABLES[name].names if name in TABLES else table.column_names
    columns = [c for c in _SHOWN.get(name, tuple(known)) if c in table.column_names]
    frame = table.select(columns).slice(0, PREVIEW_ROWS).to_pandas().astype("object")
    if frame.empty:
        return "no rows"
    text = frame.where(frame.notna(), "").astype("str").map(lambda value: value.replace("|", "\\|").replace("\n", " "))
    return str(text.to_markdown(index=False, disable_numparse=True))
