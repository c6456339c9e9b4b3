"""What a materialisation shows: how many rows, how much money in each currency, and the first rows. Display only."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import exact_sum
from allocation.schemas import TABLES
from pipelines.partition import Partition
from pipelines.storage import TableStore

PREVIEW_ROWS = 8
_MONEY = {"line_items": "day_cost", "chargeback": "cost", "team_model": "cost", "reconciliation": "cost_in", "daily_mart": "cost"}
_SHOWN = {
    "line_items": "line_item_id resource_id charge_period_start node rule currency day_cost",
    "samples": "role node gpu_uuid gpu_instance namespace pod",
    "nodes": "node node_id instance_type gpus",
    "pods": "namespace pod node workload_kind workload_name",
    "usage": "node period_start gpu_uuid gpu_instance bucket namespace pod coverage basis",
    "chargeback": "charge_period_start node gpu_uuid bucket pod team model currency cost basis",
    "team_model": "cost_metric currency team model bucket cost",
    "reconciliation": "line_item_id node currency cost_in cost_out difference state rule",
    "findings": "code severity subject evidence cost_at_risk currency",
    "daily_mart": "booked_period cost_metric currency team model namespace gpu_model bucket cost gpu_hours",
}


def describe(
    name: str, table: pa.Table, *, rows: int | None = None, sums: pa.Table | None = None
) -> dict[str, dg.MetadataValue[Any]]:
    """The metadata of a table.

    Args:
        name: the table's name.
        table: its rows, or the first of them.
        rows: how many rows there are, where ``table`` holds only the first.
        sums: rows that add up to the table's money, where ``table`` holds only the first.
    """
    count = len(table) if rows is None else rows
    told: dict[str, dg.MetadataValue[Any]] = {"dagster/row_count": dg.MetadataValue.int(count)}
    of_money = totals(name, table if sums is None else sums)
    told |= {f"total_{money}": dg.MetadataValue.text(total) for money, total in of_money.items()}
    return told | {"preview": dg.MetadataValue.md(preview(name, table))}


def first_rows(store: TableStore, name: str, partition: Partition) -> tuple[pa.Table, int]:
    """The first rows of a kept partition, and how many it has."""
    first, rows = TABLES[name].empty(), 0
    for place in store.part_files(name, partition):
        if not rows:
            first = store.first_rows(place, PREVIEW_ROWS)
        rows += store.rows_of(place)
    return first, rows


def totals(name: str, table: pa.Table) -> dict[str, str]:
    """The table's money by cost metric and currency (``billed_USD``), as exact text; nothing is added across them."""
    column = _MONEY.get(name)
    return {} if column is None else {money: f"{exact_sum(rows[column]):f}" for money, rows in by_money(table)}


def by_money(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each cost metric and currency, named like ``billed_USD``."""
    pairs = table.select(["cost_metric", "currency"]).group_by(["cost_metric", "currency"]).aggregate([]).to_pydict()
    for metric, currency in sorted(zip(pairs["cost_metric"], pairs["currency"], strict=True)):
        mine = pc.and_(pc.equal(table["cost_metric"], metric), pc.equal(table["currency"], currency))
        yield f"{metric}_{currency}", table.filter(mine)


def preview(name: str, table: pa.Table) -> str:
    """The first rows as Markdown, with the columns that tell most."""
    columns = [column for column in _SHOWN[name].split() if column in table.column_names]
    frame = table.select(columns).slice(0, PREVIEW_ROWS).to_pandas().astype("object")
    if frame.empty:
        return "no rows"
    text = frame.where(frame.notna(), "").astype("str").map(lambda value: value.replace("|", "\\|").replace("\n", " "))
    return str(text.to_markdown(index=False, disable_numparse=True))
