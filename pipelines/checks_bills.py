"""Doctor's look at one billing entry: its newest delivery, and the days that its lines reach.

Nothing is written. Lines that the store keeps of a delivery are used; else the delivery is read.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.hours import LONGEST_WHOLE_MS
from allocation.schemas import LINE_ITEMS, TIME
from allocation.times import DAY_MS, milliseconds
from billing_adapters.base import EstimatesScan, TellsFormat, gib
from pipelines.bills import Bill, discover, kept_delivery, options_of
from pipelines.cards import cards_of, summaries_of
from pipelines.checks import Check, Status, count, failed
from pipelines.inventory import EARLIEST, LATEST
from pipelines.settings import Settings
from pipelines.storage import TableStore

_READ_DELIVERIES = 2
_NEEDED = ["charge_period_start", "charge_period_end", "charge_category", "scope_rule", "node_key", "instance_type"]


@dataclass(frozen=True)
class BillDays:
    """What an entry's newest lines tell: the newest day with usage, the last complete one, and the last instant.

    ``newest`` and ``complete`` are None where lines are too coarse to tell.
    """

    lines: pa.Table
    newest: date | None = None
    complete: date | None = None
    reaches: datetime | None = None
    cards: tuple[Bill, ...] = ()
    """The entry itself where it is a rate card: its lines follow from the nodes."""


def check_bill(settings: Settings, number: int, today: date, store: TableStore | None) -> tuple[list[Check], BillDays | None]:
    """The checks of one billing entry; None where its lines could not be read."""
    entry = settings.billing[number]
    name = options_of(entry, number).source_id
    where = f"billing[{number}] {entry.path}"
    alone = settings.model_copy(update={"billing": [entry.model_copy(update={"name": name})]})
    try:
        bills = discover(alone)
    except ChargebackError as error:
        return [failed(f"bill {name}", where, error)], None
    if cards_of(bills):
        return _card(name, where, bills)
    checks = [_delivery(name, where, bills), *_scan(name, where, bills)]
    try:
        days = _days(bills, today, store)
    except ChargebackError as error:
        return [*checks, failed(f"bill days {name}", where, error)], None
    return [*checks, _open_days(f"bill days {name}", where, days, settings.start, today)], days


def _card(name: str, where: str, bills: Sequence[Bill]) -> tuple[list[Check], BillDays | None]:
    """A rate card has neither deliveries to come nor days; it can be read, or it cannot."""
    try:
        told = summaries_of(bills)
    except ChargebackError as error:
        return [failed(f"bill {name}", where, error)], None
    days = BillDays(LINE_ITEMS.empty().select(_NEEDED), cards=tuple(bills))
    return [Check(f"bill {name}", Status.OK, told, where)], days


def _delivery(name: str, where: str, bills: Sequence[Bill]) -> Check:
    if not bills:
        return Check(f"bill {name}", Status.OPEN, "no delivery yet", where, "Run again when the export has delivered.")
    bill = _newest_first(bills)[0]
    newest = bill.delivery
    told = ""
    if isinstance(bill.source, TellsFormat):
        with suppress(ChargebackError):  # what is wrong with the header, the next check says
            told = f", {bill.source.format_of(newest)}"
    period = f" of {newest.billing_period:%Y-%m}" if newest.billing_period else ""
    what = f"{count(len(bills), 'delivery', 'deliveries')}; the newest{period} has {count(len(newest.files), 'file', 'files')}"
    return Check(f"bill {name}", Status.OK, f"{what} ({newest.delivery_id[:12]}){told}", where)


def _scan(name: str, where: str, bills: Sequence[Bill]) -> list[Check]:
    """What a first run is billed for scanning; nothing where the bill lies in no warehouse."""
    sources = [bill.source for bill in bills[:1] if isinstance(bill.source, EstimatesScan)]
    if not sources:
        return []
    try:
        scanned, limit = sources[0].first_run_bytes()
    except ChargebackError as error:
        return [failed(f"bill scan {name}", where, error)]
    told = f"a first run scans {gib(scanned)}, limit {gib(limit)}"
    if scanned <= limit:
        return [Check(f"bill scan {name}", Status.OK, told, where)]
    todo = "Raise billing.max_bytes_billed, or set a later `start`."
    return [Check(f"bill scan {name}", Status.WARN, told, where, todo)]


def _newest_first(bills: Sequence[Bill]) -> list[Bill]:
    def newest(bill: Bill) -> date:
        days = bill.delivery.days
        return bill.delivery.billing_period or (days[1] if days else date.max)

    return sorted(bills, key=newest, reverse=True)


def _days(bills: Sequence[Bill], today: date, store: TableStore | None) -> BillDays:
    """From the newest delivery, and from the one before it where the newest has no complete day yet."""
    lines = LINE_ITEMS.empty().select(_NEEDED)
    days = BillDays(lines)
    for bill in _newest_first(bills)[:_READ_DELIVERIES]:
        lines = pa.concat_tables([lines, _read(bill, store).select(_NEEDED).cast(lines.schema)])
        days = days_of(lines, today)
        if days.complete is not None:
            break
    return days


def _read(bill: Bill, store: TableStore | None) -> pa.Table:
    kept = None
    if store is not None:
        with suppress(ChargebackError):
            kept = kept_delivery(store, bill.key, bill.costs, pa.scalar(EARLIEST, TIME), pa.scalar(LATEST, TIME))
    if kept is not None:
        return kept
    batches = [batch.select(_NEEDED) for batch in bill.source.parse(bill.delivery)]
    return pa.concat_tables(batches) if batches else LINE_ITEMS.empty()


def days_of(lines: pa.Table, today: date) -> BillDays:
    """The days that usage of at most 25 hours a line reaches; a day before today is complete where a line reaches its end."""
    usage = pc.equal(lines["charge_category"], "Usage").to_numpy()
    start, end = milliseconds(lines["charge_period_start"]), milliseconds(lines["charge_period_end"])
    own = usage & (end - start <= LONGEST_WHOLE_MS)
    if not own.any():
        return BillDays(lines, reaches=_moment(end.max()) if len(end) else None)
    start, end = start[own], end[own]
    midnight = end // DAY_MS
    ended = midnight[start < midnight * DAY_MS] - 1
    ended = ended[ended < _number(today)]
    complete = _day(ended.max()) if len(ended) else None
    return BillDays(lines, _day(start.max() // DAY_MS), complete, _moment(end.max()))


def _moment(ms: np.int64) -> datetime:
    return datetime.fromtimestamp(int(ms) / 1000, UTC)


def _number(day: date) -> int:
    return (day - date(1970, 1, 1)).days


def _day(number: np.int64) -> date:
    return date(1970, 1, 1) + timedelta(days=int(number))


def _open_days(name: str, where: str, days: BillDays, start: date | None, today: date) -> Check:
    if days.newest is None and len(days.lines):
        todo = "Let the export deliver by the hour: coarser lines can only be cut evenly."
        return Check(name, Status.WARN, "no usage line is shorter than 25 hours, so no day can be told complete", where, todo)
    if days.newest is None:
        return Check(name, Status.OPEN, "no lines yet", where, "Run again when the export has delivered.")
    told = f"newest day with lines {days.newest}, " + (
        f"complete to the end of {days.complete}" if days.complete else "no day complete yet"
    )
    yesterday = today - timedelta(days=1)
    first = days.complete + timedelta(days=1) if days.complete else days.newest
    first = max(first, start or first)
    if first > yesterday:
        return Check(name, Status.OK, told, where)
    open_days = f"{first} is open" if first == yesterday else f"{first} to {yesterday} are open"
    todo = "Nothing, if the export is on its way: run these days when it has delivered them."
    return Check(name, Status.OPEN, f"{told}; {open_days}", where, todo)
