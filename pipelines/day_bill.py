"""The bill of one UTC day: the lines that touch it, from every configured bill.

Here does not belong whose a line is (``allocation.scope``) or how bills are parsed (``bills``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import pandas as pd
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.hours import LONGEST_WHOLE_MS
from allocation.times import milliseconds, to_ms
from pipelines.bills import Bill, discover, mixed_currencies, read_lines
from pipelines.cards import cards_of, lines_of_cards
from pipelines.overruled import idle_rules, overruled
from pipelines.settings import day_start
from pipelines.walk import Walk

DAY = timedelta(days=1)


@dataclass(frozen=True)
class DayBill:
    """The lines of one UTC day, before anybody knows whose they are."""

    day: date
    lines: pa.Table
    deliveries: tuple[str, ...]
    """Those whose lines touch the day."""
    discovered: tuple[str, ...] = ()
    """All that stood then: a later one that is not among them may change the day."""
    findings: tuple[Finding, ...] = ()
    cards: tuple[Bill, ...] = ()
    """Rate cards whose lines are not among ``lines`` yet: they need the nodes."""

    @property
    def until(self) -> datetime:
        """The end of the last line that is split whole: series are read up to there."""
        midnight = day_start(self.day) + DAY
        start, end = milliseconds(self.lines["charge_period_start"]), milliseconds(self.lines["charge_period_end"])
        own = (start >= to_ms(day_start(self.day))) & (end - start <= LONGEST_WHOLE_MS)
        latest = int(end[own].max()) if own.any() else 0
        return midnight + DAY if latest > to_ms(midnight) else midnight


def read_day(walk: Walk, day: date, bills: Sequence[Bill] | None = None) -> DayBill:
    """All lines that touch the day, from every configured bill."""
    bills = discover(walk.settings) if bills is None else bills
    delivered, noticed = read_lines(bills, walk.store, day)
    scoped = overruled(walk.settings, delivered)
    lines, noticed = scoped.lines, [*noticed, *idle_rules(scoped, day)]
    touching = tuple(sorted(lines["delivery_id"].unique().to_pylist()))
    return DayBill(day, lines, touching, tuple(sorted(b.delivery.delivery_id for b in bills)), tuple(noticed), cards_of(bills))


def with_cards(bill: DayBill, nodes: Mapping[str, pd.DataFrame]) -> DayBill:
    """The same day with the lines of its rate cards. Each card counts among the deliveries, as it may charge any day."""
    if not bill.cards:
        return bill
    own = lines_of_cards(bill.cards, nodes, bill.day)
    lines = pa.concat_tables([bill.lines, own.lines])
    period = (day_start(bill.day), day_start(bill.day) + DAY)
    told = [f for f in bill.findings if f.code is not Code.MIXED_CURRENCIES]
    told += [*mixed_currencies(lines, period), *own.findings]
    deliveries = {*bill.deliveries, *(card.delivery.delivery_id for card in bill.cards)}
    return replace(bill, lines=lines, deliveries=tuple(sorted(deliveries)), findings=tuple(told), cards=())


def without_lines(bill: DayBill) -> tuple[Finding, ...]:
    """A finding where no line touches the day."""
    if len(bill.lines):
        return ()
    period = (day_start(bill.day), day_start(bill.day) + DAY)
    evidence = "no line of any configured bill touches the day; it is open until a delivery covers it"
    return (Finding(Code.NO_LINES, Severity.WARNING, "bill", evidence, period),)
