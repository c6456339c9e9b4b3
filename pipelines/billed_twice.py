"""A machine that two of the configured bills charge in the same hours: two exports of one account, a card beside a bill."""

from collections.abc import Collection
from datetime import date, timedelta

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.findings import Code, Finding, Severity
from allocation.schemas import BILL_CLUSTER
from allocation.times import milliseconds
from pipelines.settings import day_start

_LINE = ["node_key", "cost_metric", "source_id", "currency"]
_FOUND = ["node_key", "cost_metric", "pair", "currency"]
_REMEDY = "take one out, narrow the card's `match`, or exclude the lines of one"


def billed_twice(lines: pa.Table, cards: Collection[str], day: date) -> list[Finding]:
    """A finding for each machine, metric, pair of bills and currency; its money is the smaller of the two bills'.

    Bills under different cost metrics do not add up, but a card's price is the same money under any.

    Args:
        lines: the day's lines with their ``cluster`` and ``rule``; only usage that is split on a machine counts.
        cards: the entries that are rate cards.
        day: the UTC day.
    """
    usage = _of_several_bills(lines)
    if not len(usage):
        return []
    pairs = usage.reset_index().merge(usage, on="node_key", suffixes=("", "_other"))
    pairs = pairs[(pairs.source_id != pairs.source_id_other) & (pairs.start < pairs.end_other) & (pairs.end > pairs.start_other)]
    pairs = pairs.assign(pair=[" and ".join(sorted(p)) for p in zip(pairs.source_id, pairs.source_id_other, strict=True)])
    same = pairs.cost_metric == pairs.cost_metric_other
    carded = pairs.source_id.isin(cards) & ~pairs.pair.isin(pairs.pair[same])
    once = pairs[same | carded].drop_duplicates(["index", "pair"])
    sums = once.groupby([*_FOUND, "source_id"], as_index=False).agg(nanos=("nanos", "sum"), lines=("nanos", "size"))
    period = (day_start(day), day_start(day) + timedelta(days=1))
    found = []
    for one in sums.sort_values("nanos", kind="stable").drop_duplicates(_FOUND).sort_index().itertuples():
        evidence = f"the bills {one.pair} both charge this machine in the same hours (cost {one.cost_metric}); {_REMEDY}"
        money = (int(one.lines), int(one.nanos), str(one.currency))
        found.append(Finding(Code.BILLED_TWICE, Severity.WARNING, str(one.node_key), evidence, period, *money))
    return found


def _of_several_bills(lines: pa.Table) -> pd.DataFrame:
    """The usage of machines that more than one bill charges, times in ms."""
    split = pc.and_(pc.not_equal(lines["cluster"], BILL_CLUSTER), pc.is_null(lines["rule"]))
    usage = lines.filter(pc.and_(split, pc.equal(lines["charge_category"], "Usage")))
    told = usage.group_by("node_key").aggregate([("source_id", "count_distinct")])
    several = told.filter(pc.greater(told["source_id_count_distinct"], 1))["node_key"].combine_chunks()
    usage = usage.filter(pc.is_in(usage["node_key"], value_set=several, skip_nulls=True))
    start, end = milliseconds(usage["charge_period_start"]), milliseconds(usage["charge_period_end"])
    return usage.select(_LINE).to_pandas().assign(start=start, end=end, nanos=usage["cost_nanos"].to_numpy())
