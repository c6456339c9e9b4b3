"""How a report ties to the bill: from the bill lines' total down to what the report charges, every step with its money."""

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.reports.columns import money, nanos_of, sums, total_nanos
from pipelines.reports.gather import Gathered

BILL, CHARGED, OUTSIDE, ELSEWHERE, DIFFERENCE, LATE, CORRECTIONS, REPORT = (
    "bill lines of the month",
    "charged",
    "out of scope",
    "on other days",
    "difference",
    "of other days or bills",
    "corrections",
    "this report",
)


def tie(of: Gathered, rows: pa.Table, cost_metric: str, currency: str) -> pa.Table:
    """The steps: ``side`` (bill or report), what, rule and exact cost. Each side's parts come before its total.

    Bill: charged, out of scope by rule and what lies on days that are not here add up to the lines that were delivered; the
    ``difference`` is what is left of them. Report: charged, what is booked here of other days or bills, corrections.
    """
    mine = [t.filter(pc.and_(pc.equal(t["cost_metric"], cost_metric), pc.equal(t["currency"], currency)))
            for t in (of.bill.parts, of.bill.lines)]  # fmt: skip
    states, lines = mine[0], total_nanos(mine[1]["cost"])
    charged = total_nanos(states["cost_out"])
    outside = sums(states.filter(pc.equal(states["state"], "out_of_scope")), ["rule"], ["cost_in"]).sort_by("rule")
    by_rule = list(zip(outside["rule"].to_pylist(), nanos_of(outside["cost_in"]), strict=True))
    elsewhere = lines - total_nanos(states["cost_in"])
    steps: list[tuple[str, str, str | None, int]] = [("bill", CHARGED, None, charged)]
    steps += [("bill", OUTSIDE, rule, cost) for rule, cost in by_rule]
    steps += [("bill", ELSEWHERE, None, elsewhere), ("bill", BILL, None, lines)]
    steps += [("bill", DIFFERENCE, None, lines - charged - sum(cost for _, cost in by_rule) - elsewhere)]
    steps += _report(of, rows, charged)
    side, what, rule, cost = zip(*steps, strict=True)
    return pa.table({"side": side, "what": what, "rule": pa.array(rule, pa.string()), "cost": money(cost)})


def _report(of: Gathered, rows: pa.Table, charged: int) -> list[tuple[str, str, str | None, int]]:
    day, first, following = rows["date"], pa.scalar(of.month.first), pa.scalar(of.month.next.first)
    charge = pc.equal(rows["entry"], "charge")
    inside = pc.and_(pc.and_(pc.greater_equal(day, first), pc.less(day, following)), pc.equal(rows["billing_period"], first))
    late = total_nanos(rows.filter(pc.and_(charge, pc.invert(inside)))["cost"])
    corrected = total_nanos(rows.filter(pc.invert(charge))["cost"])
    total = total_nanos(rows["cost"])
    steps: list[tuple[str, str, str | None, int]] = [("report", CHARGED, None, charged)]
    steps += [("report", what, None, cost) for what, cost in ((LATE, late), (CORRECTIONS, corrected)) if cost]
    return [*steps, ("report", REPORT, None, total), ("report", DIFFERENCE, None, total - charged - late - corrected)]
