"""Whether the bills of a month are final, and what they say in all: what closing a month asks of the bills.

Here does not belong what is charged of them (``months``), nor what closing does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import NO_RESIDUE, nanos_column, nanos_to_decimal, sum_nanos
from allocation.schemas import MONEY
from allocation.summed import summed
from billing_adapters.base import TellsInvoices
from billing_adapters.rate_files import RateCardBill
from pipelines.billing_entries import RATE_CARD, BillingEntry
from pipelines.bills import Bill, discover, month_batches, options_of
from pipelines.months import BACK, Month
from pipelines.settings import Settings, day_start
from pipelines.storage import TableStore

Sign = Literal["invoice", "age", "none"]
TOTALS = pa.schema(
    [
        pa.field("date", pa.date32(), False),
        pa.field("source_id", pa.string(), False),
        pa.field("cost_metric", pa.string(), False),
        pa.field("currency", pa.string(), False),
        pa.field("cost", MONEY, False),
        pa.field("lines", pa.int64(), False),
    ]
)
"""What the bills say: ``date`` is the UTC date on which a line starts."""


@dataclass(frozen=True)
class Finality:
    """Whether one billing entry's month is final, by which sign, and what was seen."""

    entry: str
    sign: Sign
    final: bool
    evidence: str


@dataclass
class _Seen:
    """What was counted of an entry's lines of a month. ``lacking`` is money without an invoice by metric and currency."""

    charged: int = 0
    without_invoice: int = 0
    tells: bool = False
    lacking: dict[tuple[str, str], int] = field(default_factory=dict)


def finality(
    settings: Settings, store: TableStore, month: Month, now: datetime, bills: Sequence[Bill] | None = None
) -> list[Finality]:
    """Of each configured billing entry whether its bill of the month is final at ``now``.

    ``bills`` are the deliveries that stand, where they are known already. What is not kept yet is parsed.
    """
    bills = discover(settings) if bills is None else bills
    found = []
    for number, entry in enumerate(settings.billing):
        name = options_of(entry, number).source_id
        if entry.kind == RATE_CARD:
            found.append(_of_card(name, month, now))
        else:
            mine = [bill for bill in _deliveries(bills, month) if bill.number == number]
            found.append(_of_bill(name, entry, _seen(mine, store, month), month, now))
    return found


def delivered_totals(settings: Settings, store: TableStore, month: Month, bills: Sequence[Bill] | None = None) -> pa.Table:
    """What the bills say now for the billing period, by day, entry, metric and currency (``TOTALS``), in this order.

    Rate cards have no delivery and are left out. ``bills`` is as for ``finality``. What lies beyond nine decimals is not in
    ``cost``, as in ``line_items``.
    """
    bills = discover(settings) if bills is None else bills
    tables = [TOTALS.empty_table()]
    for bill in _deliveries(bills, month):
        name = options_of(settings.billing[bill.number], bill.number).source_id
        tables += _totals(bill, store, month, name)
    keys = ["date", "source_id", "cost_metric", "currency"]
    found = summed(pa.concat_tables(tables), keys, ["cost", "lines"])
    return found.select(TOTALS.names).cast(TOTALS).sort_by([(key, "ascending") for key in keys])


def _deliveries(bills: Sequence[Bill], month: Month) -> list[Bill]:
    """Those that may have lines of the billing period: none says so for certain but by days, and a line may come late."""
    reach = month.first - BACK, month.next.next.first
    bills = [bill for bill in bills if not isinstance(bill.source, RateCardBill)]
    told = [(bill, bill.delivery.days) for bill in bills]
    return [bill for bill, days in told if days is None or (days[0] < reach[1] and reach[0] < days[1])]


def _of_card(name: str, month: Month, now: datetime) -> Finality:
    over = now >= day_start(month.next.first)
    return Finality(name, "age", over, f"a rate card is final once the month is over; {month} is {'over' if over else 'not'}")


def _of_bill(name: str, entry: BillingEntry, seen: _Seen, month: Month, now: datetime) -> Finality:
    """By invoices where all that costs something stands on one, else by age where the entry sets one."""
    end = day_start(month.next.first)
    if seen.tells and seen.charged and not seen.without_invoice:
        told = f"all {seen.charged} lines that cost something have an invoice id"
        return Finality(name, "invoice", now >= end, told if now >= end else f"{told}, but {month} is not over")
    told = _lack(seen)
    if entry.final_after is None:
        todo = "set billing[].final_after" if not seen.tells else "wait for the invoice, set billing[].final_after"
        return Finality(name, "invoice" if seen.tells else "none", False, f"{told}; {todo}, or close with --accept-open")
    due = end + timedelta(milliseconds=entry.final_after)
    if now >= due:
        return Finality(name, "age", True, f"{told}; final by age: final_after was over at {due:%Y-%m-%dT%H:%M:%SZ}")
    told = f"{told}; final by age from {due:%Y-%m-%dT%H:%M:%SZ} on (final_after), or close with --accept-open"
    return Finality(name, "invoice" if seen.tells else "age", False, told)


def _lack(seen: _Seen) -> str:
    """What speaks against a final bill, or does not speak at all."""
    if not seen.charged:
        return "no line of the month costs anything"
    if not seen.tells:
        return f"the bill has no invoice ids ({seen.charged} lines cost something)"
    money = ", ".join(f"{_plain(nanos)} {currency} ({metric})" for (metric, currency), nanos in sorted(seen.lacking.items()))
    return f"{seen.without_invoice} of {seen.charged} lines that cost something have no invoice id: {money}"


def _plain(nanos: int) -> str:
    """An amount with two decimals, or as many more as it has.

    >>> _plain(1_500_000_000), _plain(-1)
    ('1.50', '-0.000000001')
    """
    whole, _, rest = f"{nanos_to_decimal(nanos):f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def _seen(bills: Sequence[Bill], store: TableStore, month: Month) -> _Seen:
    """What the lines of these deliveries say; headers are asked where no line has an invoice."""
    seen = _Seen()
    silent = []
    for bill in bills:
        before = seen.charged
        filled = False
        columns = ["currency", "invoice_id", *_of_metrics(bill, "nanos"), *_of_metrics(bill, "residue")]
        for batch in month_batches(bill, store, month.first, columns):
            filled |= _count(batch, bill.costs, seen)
        seen.tells |= filled
        if not filled and seen.charged > before:
            silent.append(bill)
    seen.tells = seen.tells or any(_tells_invoices(bill) for bill in silent)
    return seen


def _tells_invoices(bill: Bill) -> bool:
    return isinstance(bill.source, TellsInvoices) and bill.source.tells_invoices(bill.delivery)


def _of_metrics(bill: Bill, what: str) -> list[str]:
    return [f"{metric}_{what}" for metric in bill.costs]


def _count(batch: pa.RecordBatch, metrics: Sequence[str], seen: _Seen) -> bool:
    """Adds a batch's lines to what was seen; whether any line has an invoice."""
    invoiced = pc.is_valid(batch["invoice_id"]).to_numpy(zero_copy_only=False)
    costs = {metric: batch[f"{metric}_nanos"].to_numpy() for metric in metrics}
    charged = np.zeros(len(batch), bool)
    for metric, nanos in costs.items():
        cut = pc.not_equal(batch[f"{metric}_residue"], NO_RESIDUE)
        charged |= (nanos != 0) | cut.to_numpy(zero_copy_only=False)
    without = charged & ~invoiced
    seen.charged += int(charged.sum())
    seen.without_invoice += int(without.sum())
    if without.any():
        currencies = pc.cast(batch["currency"], pa.string()).dictionary_encode()
        codes = currencies.indices.to_numpy()
        for code, currency in enumerate(currencies.dictionary.to_pylist()):
            mine = without & (codes == code)
            for metric, nanos in costs.items() if mine.any() else ():
                seen.lacking[metric, currency] = seen.lacking.get((metric, currency), 0) + sum_nanos(nanos[mine])
    return bool(invoiced.any())


def _totals(bill: Bill, store: TableStore, month: Month, source_id: str) -> Iterator[pa.Table]:
    """A delivery's rows of ``TOTALS``, a table a metric."""
    columns = ["charge_period_start", "currency", *_of_metrics(bill, "nanos")]
    sums = [*bill.costs, "lines"]
    parts = [_by_day(batch, bill.costs) for batch in month_batches(bill, store, month.first, columns)]
    if not parts:
        return
    whole = summed(pa.concat_tables(parts), ["date", "currency"], sums)
    for metric in bill.costs:
        texts = {name: pa.repeat(text, len(whole)) for name, text in (("source_id", source_id), ("cost_metric", metric))}
        rows = {**{name: whole[name] for name in ("date", "currency", "lines")}, **texts, "cost": whole[metric]}
        yield pa.table({name: rows[name] for name in TOTALS.names}).cast(TOTALS)


def _by_day(batch: pa.RecordBatch, metrics: Sequence[str]) -> pa.Table:
    """One batch, summed: int64 would wrap, decimals do not."""
    columns = {
        "date": pc.cast(pc.floor_temporal(batch["charge_period_start"], unit="day"), pa.date32()),
        "currency": pc.cast(batch["currency"], pa.string()),
        "lines": pa.array(np.ones(len(batch), np.int64)),
        **{metric: nanos_column(batch[f"{metric}_nanos"].to_numpy()) for metric in metrics},
    }
    return summed(pa.table(columns), ["date", "currency"], [*metrics, "lines"])
