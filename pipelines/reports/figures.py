"""The figures of a month's report under one cost metric in one currency, as small tables: exact money beside what is shown.

A column ``x`` of shown money has its exact value in ``x_exact``. Here does not belong how a figure looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from allocation.shown import Coin, minor_places
from pipelines.months import Month
from pipelines.reports import rounded
from pipelines.reports.changes import EFFECTS, changes
from pipelines.reports.columns import nanos_of, sums, total_nanos
from pipelines.reports.gather import Gathered
from pipelines.reports.tie import tie

KINDS = ("in use", "overhead", "free, held", "idle", "stranded", "host", "unallocated")
"""Where money went: memory in use, overhead, free memory of GPUs that somebody held, and the buckets."""
SURE = {
    "measured": ("exclusive", "measured", "mig"),
    "estimated": ("estimated_requests", "estimated_even"),
    "inferred": ("inferred",),
    "not measured": ("none",),
}
LATE_LINES = "lines_of_another_bill"
"""The cause of charges that are booked here though they are on another month's bill: parts of fees, and late lines."""
_CORRECTED = ("original_month", "billing_period", "cause")
_COSTS = ("used_cost", "overhead_cost", "idle_cost")


@dataclass(frozen=True)
class MonthFigures:
    """One report's figures. ``total`` and ``before`` are exact nanos, of the month and of the one before."""

    month: Month
    cost_metric: str
    currency: str
    closed: bool
    missing: Sequence[tuple[date, str]]
    days_before: int
    total: int
    before: int
    tie: pa.Table
    teams: pa.Table
    models: pa.Table
    days: pa.Table
    kinds: pa.Table
    buckets: pa.Table
    sure: pa.Table
    findings: pa.Table
    changes: pa.Table
    adjustments: pa.Table

    @property
    def coin(self) -> Coin:
        """The currency's smallest coin."""
        return Coin(minor_places(self.currency))

    @property
    def shown(self) -> int:
        """The total in coins."""
        return self.coin.of(self.total)


def pairs(of: Gathered) -> list[tuple[str, str]]:
    """Cost metrics and currencies under which the month has money or bill lines."""
    known = [table.select(["cost_metric", "currency"]) for table in (of.rows, of.bill.parts)]
    found = pa.concat_tables([t.cast(pa.schema([("cost_metric", pa.string()), ("currency", pa.string())])) for t in known])
    return sorted((row["cost_metric"], row["currency"]) for row in found.group_by(found.column_names).aggregate([]).to_pylist())


def month_figures(of: Gathered, cost_metric: str, currency: str) -> MonthFigures:
    """All figures of one report."""
    coin = Coin(minor_places(currency))
    now, before = (_under(rows, cost_metric, currency) for rows in (of.rows, of.before))
    total = total_nanos(now["cost"])
    teams = rounded.teams(now, coin)
    kinds = by_kind(now)
    return MonthFigures(
        of.month,
        cost_metric,
        currency,
        of.closed,
        of.missing,
        of.days_before,
        total,
        total_nanos(before["cost"]),
        rounded.alone(tie(of, now, cost_metric, currency), coin),
        teams,
        rounded.models(now, teams, coin),
        rounded.within(sums(_in_month(kinds, of.month), ["day", "kind"], ["cost"]), coin, ["day", "kind"]),
        rounded.within(sums(kinds, ["kind"], ["cost"]), coin, ["kind"]),
        rounded.within(sums(now, ["bucket", "reason"], ["cost"]), coin, ["cost"]),
        rounded.within(sums(_sure(now), ["sure", "basis"], ["cost"]), coin, ["cost"]),
        findings(of.findings, currency, coin),
        rounded.effects(changes(now, before), EFFECTS, coin)
        if len(before)
        else rounded.effects(changes(now, now), EFFECTS, coin).slice(0, 0),
        rounded.within(sums(_corrections(now, of.month), list(_CORRECTED), ["cost"]), coin, list(_CORRECTED)),
    )


def _under(rows: pa.Table, cost_metric: str, currency: str) -> pa.Table:
    return rows.filter(pc.and_(pc.equal(rows["cost_metric"], cost_metric), pc.equal(rows["currency"], currency)))


def by_kind(rows: pa.Table) -> pa.Table:
    """The money of rows as (date, entry, kind, cost): a workload's in three kinds, a bucket's in one."""
    held = pc.equal(rows["bucket"], "workload")
    own, buckets = rows.filter(held), rows.filter(pc.invert(held))
    parts = [_kind(own, pa.repeat(kind, len(own)), own[name]) for kind, name in zip(KINDS[:3], _COSTS, strict=True)]
    found = pa.concat_tables([*parts, _kind(buckets, buckets["bucket"], buckets["cost"])])
    return found.filter(pc.not_equal(found["cost"], pa.scalar(0).cast(found["cost"].type)))


def _kind(rows: pa.Table, kind: pa.Array, cost: pa.ChunkedArray) -> pa.Table:
    return pa.table({"date": rows["date"], "entry": rows["entry"], "kind": kind, "cost": cost})


def _in_month(kinds: pa.Table, month: Month) -> pa.Table:
    """The day of each charge as a text; one row for what was charged on days of other months or corrects such."""
    inside = pc.and_(pc.greater_equal(kinds["date"], pa.scalar(month.first)), pc.less(kinds["date"], pa.scalar(month.next.first)))
    days = pc.if_else(inside, kinds["date"].cast(pa.string()), "other days")
    return kinds.append_column("day", pc.if_else(pc.equal(kinds["entry"], "charge"), days, "corrections"))


def _sure(rows: pa.Table) -> pa.Table:
    names = pa.array([sure for sure, of in SURE.items() for _ in of]), pa.array([basis for of in SURE.values() for basis in of])
    places = pc.index_in(rows["basis"], value_set=names[1])
    return rows.append_column("sure", pc.fill_null(names[0].take(places.combine_chunks()), "not measured"))


def _corrections(rows: pa.Table, month: Month) -> pa.Table:
    """Corrections with their cause, and what this month's figures hold of other months' bills."""
    foreign = rows.filter(
        pc.or_(pc.not_equal(rows["entry"], "charge"), pc.not_equal(rows["billing_period"], pa.scalar(month.first)))
    )
    foreign = foreign.set_column(foreign.column_names.index("cause"), "cause", pc.fill_null(foreign["cause"], LATE_LINES))
    return foreign.append_column("original_month", pc.strftime(foreign["date"], format="%Y-%m"))


def findings(found: pa.Table, currency: str, coin: Coin) -> pa.Table:
    """Findings by code: how often, the money at risk (findings may speak of the same money), and the largest."""
    mine = found.filter(pc.or_kleene(pc.is_null(found["currency"]), pc.equal(found["currency"], currency)))
    at_risk = pc.fill_null(mine["cost_at_risk"], pa.scalar(0).cast(mine["cost_at_risk"].type))
    mine = mine.set_column(mine.column_names.index("cost_at_risk"), "cost_at_risk", at_risk)
    mine = mine.sort_by([("cost_at_risk", "descending"), ("code", "ascending"), ("subject", "ascending")])
    keyed = mine.group_by(["code", "severity"], use_threads=False).aggregate(
        [("cost_at_risk", "sum"), ("code", "count"), ("subject", "first"), ("evidence", "first")]
    )
    table = pa.table(
        {
            "code": keyed["code"],
            "severity": keyed["severity"],
            "findings": keyed["code_count"],
            "at_risk": keyed["cost_at_risk_sum"].cast(pa.decimal128(38, 9)),
            "largest_subject": keyed["subject_first"],
            "largest_evidence": keyed["evidence_first"],
        }
    )
    return rounded.each(table.sort_by([("at_risk", "descending"), ("code", "ascending")]), ["at_risk"], coin)


def exact_total(table: pa.Table, name: str = "cost") -> int:
    """The exact sum of a shown column."""
    return sum(nanos_of(table[f"{name}_exact"]))
