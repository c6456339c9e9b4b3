"""The bill's lines behind a day's rows: what the reconciliation and the kept lines say of each, once a line."""

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.schemas import LINE_ITEMS, RECONCILIATION
from pipelines.bills import kept_lines
from pipelines.focus_export.ready import Asked
from pipelines.partition import Partition
from pipelines.settings import day_start

OF_RECONCILIATION = ("charge_period_start", "charge_period_end", "line_cost", "resource_id", "service")
OF_LINE = (
    "is_correction",
    "service_category",
    "usage_type",
    "usage_quantity",
    "usage_unit",
    "capacity_reservation",
    "invoice_id",
)


def split_lines(asked: Asked, day: date) -> pa.Table:
    """The day's lines that are split somewhere, as the reconciliation has them, each once."""
    tables = [RECONCILIATION.empty().select(["line_item_id", *OF_RECONCILIATION])]
    for partition in asked.partitions(day):
        table = asked.store.read("reconciliation", partition)
        if table is None:
            raise ChargebackError(f"{asked.store.place('reconciliation')}: {partition} is not there; run the day again")
        split = pc.and_(pc.equal(table["cost_metric"], asked.cost_metric), pc.not_equal(table["state"], "out_of_scope"))
        tables.append(table.filter(split).select(tables[0].column_names))
    return _first_of_each(pa.concat_tables(tables))


def beyond(lines: pa.Table, day: date) -> pa.Array:
    """The names of lines that are longer than their day."""
    start = pa.scalar(day_start(day), lines["charge_period_start"].type)
    end = pa.scalar(day_start(day + timedelta(days=1)), start.type)
    long = pc.or_(pc.less(lines["charge_period_start"], start), pc.greater(lines["charge_period_end"], end))
    return lines.filter(long)["line_item_id"].combine_chunks()


def origins(asked: Asked, day: date) -> pa.Table:
    """``split_lines`` with what the kept lines of the bill say; null for lines that are made anew each day (rate cards)."""
    lines = split_lines(asked, day)
    start = day_start(day)
    kept = kept_lines(asked.settings, _deliveries(asked, day), asked.store, start, start + timedelta(days=1))
    kept = _first_of_each(kept.filter(pc.equal(kept["cost_metric"], asked.cost_metric)).select(["line_item_id", *OF_LINE]))
    found = pc.index_in(lines["line_item_id"], value_set=kept["line_item_id"].combine_chunks())
    for name in OF_LINE:
        column = kept[name].combine_chunks() if len(kept) else LINE_ITEMS.arrow().field(name).type
        values = column.take(found) if len(kept) else pa.nulls(len(lines), column)
        lines = lines.append_column(name, values)
    return lines.combine_chunks()


def _deliveries(asked: Asked, day: date) -> Sequence[str]:
    told: set[str] = set()
    for partition in asked.partitions(day):
        told |= set(_told(asked, partition))
    return sorted(told)


def _told(asked: Asked, partition: Partition) -> Sequence[str]:
    commit = asked.store.commit("chargeback", partition)
    deliveries = commit.detail.get("deliveries") if commit else None
    return deliveries if isinstance(deliveries, list) else []


def _first_of_each(table: pa.Table) -> pa.Table:
    """The first row of each line."""
    repeated = table["line_item_id"].to_pandas().duplicated().to_numpy()
    return table.take(pa.array(np.flatnonzero(~repeated)))
