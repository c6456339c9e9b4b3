"""What the bills say of a month now: whether they are final, and what their lines come to day by day.

A line of a final bill names the invoice that it stands on; where a format has no such sign, or no line of a bill does, a bill is
final some days after the month (``final_after``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import NO_MONEY, nanos_column
from allocation.schemas import MONEY
from billing_adapters.rate_files import RateCardBill
from pipelines.billing_entries import AWS_REPORTS, RATE_CARD, BillingEntry
from pipelines.bills import Bill, discover, keep, options_of
from pipelines.months import Month
from pipelines.settings import Settings
from pipelines.storage import TableStore

_TOTALS = pa.schema(
    [
        ("date", pa.date32()), ("source_id", pa.string()), ("cost_metric", pa.string()), ("currency", pa.string()),
        ("has_invoice", pa.bool_()), ("cost", MONEY), ("lines", pa.int64()),
    ]
)  # fmt: skip
_KEYS = _TOTALS.names[:5]


@dataclass(frozen=True)
class Finality:
    """Whether one billing entry is final for a month: by ``invoice``, by ``age``, or by nothing (``none``), and why."""

    entry: str
    sign: str
    final: bool
    evidence: str


@dataclass(frozen=True)
class Delivered:
    """What the bills' lines of one billing period come to.

    ``totals``: ``date`` (on which lines begin), ``source_id``, ``cost_metric``, ``currency``, ``has_invoice``, ``cost``,
    ``lines``.
    """

    totals: pa.Table

    @property
    def by_day(self) -> pa.Table:
        """``date``, ``cost_metric``, ``currency``, ``cost`` and ``lines``."""
        return _summed(self.totals, ["date", "cost_metric", "currency"])


def delivered(settings: Settings, store: TableStore, month: Month) -> Delivered:
    """The month by all deliveries that stand now; those that the store does not keep yet are parsed. Rate cards have none."""
    tables = [_TOTALS.empty_table()]
    for bill in discover(settings):
        tables += _of_bill(bill, store, month)
    return Delivered(_summed(pa.concat_tables(tables), _KEYS))


def _of_bill(bill: Bill, store: TableStore, month: Month) -> Iterator[pa.Table]:
    """The month's lines of one delivery, batch by batch."""
    if isinstance(bill.source, RateCardBill) or bill.delivery.billing_period not in (None, month.first):
        return
    if not store.has_bill(bill.key):
        keep(bill, store)
    columns = ["billing_period", "charge_period_start", "source_id", "invoice_id", "currency"]
    for batch in store.bill_batches(bill.key, [*columns, *(f"{metric}_nanos" for metric in bill.costs)]):
        rows = pa.Table.from_batches([batch])
        rows = rows.filter(pc.equal(rows["billing_period"], pa.scalar(month.first)))
        for metric in bill.costs:
            yield _of_metric(rows, metric)


def _of_metric(rows: pa.Table, metric: str) -> pa.Table:
    columns = {
        "date": rows["charge_period_start"].cast(pa.date32()),
        "source_id": rows["source_id"].cast(pa.string()),
        "cost_metric": pa.repeat(metric, len(rows)),
        "currency": rows["currency"].cast(pa.string()),
        "has_invoice": pc.is_valid(rows["invoice_id"]),
        "cost": nanos_column(rows[f"{metric}_nanos"].to_numpy()),
        "lines": pa.repeat(1, len(rows)).cast(pa.int64()),
    }
    return _summed(pa.table(columns), _KEYS)


def finality(settings: Settings, found: Delivered, month: Month, now: datetime) -> list[Finality]:
    """Each billing entry's state, in the configured order."""
    return [_of_entry(entry, options_of(entry, n).source_id, found, month, now) for n, entry in enumerate(settings.billing)]


def _of_entry(entry: BillingEntry, name: str, found: Delivered, month: Month, now: datetime) -> Finality:
    end = datetime.combine(month.next.first, time(), UTC)
    if entry.kind == RATE_CARD:
        return Finality(name, "age", now >= end, f"a rate card is final when {month} is over")
    lines = found.totals.filter(pc.equal(found.totals["source_id"], name))
    with_cost = lines.filter(pc.not_equal(lines["cost"], NO_MONEY))
    lacking = with_cost.filter(pc.invert(with_cost["has_invoice"]))
    if len(with_cost) and not len(lacking):
        return Finality(name, "invoice", True, f"all its {pc.sum(lines['lines']).as_py()} lines of {month} stand on an invoice")
    named = bool(len(with_cost) - len(lacking)) or entry.kind in AWS_REPORTS
    why = f"{_lacking(lacking)} of {month} stand on no invoice" if len(lacking) else f"it has no line of {month}"
    if entry.final_after is None:
        advice = "wait for the invoice" if named else "its format has no sign of that; say `final_after` (5d, for example) for it"
        return Finality(name, "invoice" if named else "none", False, f"{why}; {advice}")
    until = end + timedelta(milliseconds=entry.final_after)
    state = "is past" if now >= until else "is not reached"
    return Finality(name, "age", now >= until, f"{why}; its `final_after`, {until:%Y-%m-%dT%H:%MZ}, {state}")


def _lacking(lines: pa.Table) -> str:
    sums = _summed(lines, ["cost_metric", "currency"]).to_pylist()
    money = ", ".join(f"{row['cost']:f} {row['currency']} {row['cost_metric']}" for row in sums)
    return f"{pc.sum(lines['lines']).as_py()} lines ({money})"


def _summed(table: pa.Table, keys: list[str]) -> pa.Table:
    sums = table.group_by(keys, use_threads=False).aggregate([("cost", "sum"), ("lines", "sum")])
    names = [*keys, "cost", "lines"]
    schema = pa.schema([_TOTALS.field(name) for name in names])
    return sums.rename_columns(names).cast(schema).sort_by([(key, "ascending") for key in keys])
