"""Deliveries of all configured bills: found, parsed once, kept by fingerprint, read by day."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import SettingsError
from allocation.findings import Code, Finding, Severity
from allocation.money import NO_RESIDUE, sum_nanos
from allocation.schemas import LINE_ITEMS, TIME
from allocation.spread import NEGATION
from billing_adapters.base import BillOptions, BillSource, CapacityBlock, Delivery, Identity, PriceOptions, Warehouse
from billing_adapters.parsed import LINE_NUMBER, NO_ROW, Ordinals, line_items
from billing_adapters.rate_files import RateCardBill
from billing_adapters.registry import load_bill_source
from pipelines.billing_entries import BillingEntry, CapacityBlockEntry
from pipelines.kept_bills import KeptBills
from pipelines.prices import price_options
from pipelines.settings import Settings, day_start
from pipelines.storage import TableStore
from pipelines.version import VERSION

CAPACITY_BLOCK = "capacity_block"
_COLUMNS = tuple(column.name for column in LINE_ITEMS.columns)


@dataclass(frozen=True)
class Bill:
    """One delivery of one entry, not yet read."""

    source: BillSource
    delivery: Delivery
    key: str
    costs: tuple[str, ...]
    number: int
    """The entry's place in the configuration."""


def options_of(entry: BillingEntry, number: int, since: date | None = None, prices: PriceOptions | None = None) -> BillOptions:
    """What an adapter is told of a billing entry; without a name the entry is named by kind and place.

    ``since`` is the first day of which anything is computed, ``prices`` where list prices are kept.
    """
    name = entry.name or f"{entry.kind}-{number}"
    return BillOptions(
        name,
        entry.path,
        entry.costs,
        entry.currency,
        entry.endpoint_url,
        entry.region,
        Identity(entry.profile, entry.role_arn, entry.external_id),
        tuple(map(_block, entry.capacity_blocks)),
        since,
        Warehouse(entry.query_project, entry.max_bytes_billed),
        entry.include_promotions,
        entry.date_order,
        prices,
    )


def _block(entry: CapacityBlockEntry) -> CapacityBlock:
    machines = tuple(node.lower() for node in entry.nodes)
    return CapacityBlock(entry.id.lower(), entry.start, entry.until, entry.instances or len(machines), machines)


def discover(settings: Settings) -> list[Bill]:
    """The deliveries that stand now, of every entry."""
    found = []
    told: dict[str, str] = {}
    for number, entry in enumerate(settings.billing):
        options = options_of(entry, number, settings.start, price_options(settings))
        source = load_bill_source(entry.kind, options)
        for delivery in source.discover():
            for cost in entry.costs:
                other = told.setdefault(f"{delivery.delivery_id} {cost}", options.source_id)
                if other != options.source_id:
                    raise SettingsError(
                        f"billing: the entries {other!r} and {options.source_id!r} hold the same delivery under cost {cost!r}; "
                        "it would be charged twice. Take one out"
                    )
            key = _key(entry, options.source_id, delivery.delivery_id)
            found.append(Bill(source, delivery, key, entry.costs, number))
    return found


def _key(entry: BillingEntry, source_id: str, delivery_id: str) -> str:
    """Under which the parsed lines of a delivery are kept."""
    blocks = [block.model_dump_json() for block in entry.capacity_blocks]
    own = [str(entry.include_promotions), entry.date_order]
    text = "\0".join((entry.kind, source_id, *entry.costs, entry.currency or "", delivery_id, VERSION, *_COLUMNS, *own, *blocks))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def kept_lines(settings: Settings, deliveries: Sequence[str], store: TableStore, start: datetime, end: datetime) -> pa.Table:
    """The lines of these deliveries that touch ``[start, end)`` as they are kept; no bill is looked for and none is parsed."""
    tables = [LINE_ITEMS.empty()]
    first, until = pa.scalar(start, TIME), pa.scalar(end, TIME)
    for number, entry in enumerate(settings.billing):
        for delivery_id in sorted(set(deliveries)):
            kept = kept_delivery(store, _key(entry, options_of(entry, number).source_id, delivery_id), entry.costs, first, until)
            if kept is not None:
                tables.append(kept)
    return _with_distinct_ids(pa.concat_tables(tables))


def read_lines(bills: Sequence[Bill], store: TableStore, day: date) -> tuple[pa.Table, list[Finding]]:
    """The lines of all deliveries that touch the UTC day. A delivery is parsed where the store does not have it yet.

    Rate cards have none here: theirs need the nodes (``cards``).
    """
    start = day_start(day)
    tables = [LINE_ITEMS.empty()]
    end = start + timedelta(days=1)
    first, until = pa.scalar(start, TIME), pa.scalar(end, TIME)
    for bill in bills:
        if isinstance(bill.source, RateCardBill) or not bill.delivery.may_touch(day):
            continue
        lines = kept_delivery(store, bill.key, bill.costs, first, until)
        if lines is None:
            keep(bill, store)
            lines = kept_delivery(store, bill.key, bill.costs, first, until)
        tables.append(lines)
    table = _with_distinct_ids(pa.concat_tables(tables))
    return table, _notices(table, start, end)


def keep(bill: Bill, store: TableStore) -> None:
    """Parses a delivery into the store, batch by batch."""
    ordinals = Ordinals()
    KeptBills(store).write(bill.key, map(ordinals.numbered, bill.source.parse(bill.delivery)), ordinals.table)


def month_batches(bill: Bill, store: TableStore, month: date, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a delivery's lines of one billing period, as they are kept; it is parsed where it is not yet.

    A line stands once, with its money under every metric (see ``parsed``).
    """
    if not KeptBills(store).has(bill.key):
        keep(bill, store)
    yield from KeptBills(store).batches(bill.key, month, columns)


def kept_delivery(store: TableStore, key: str, costs: Sequence[str], first: pa.Scalar, until: pa.Scalar) -> pa.Table | None:
    """The kept lines that touch ``[first, until)``, in the delivery's order; None where the delivery was never parsed.

    Those of a place that keeps no order (``NO_ROW``) stand by their ids.
    """
    kept = KeptBills(store).read(key, first, until)
    if kept is None:
        return None
    lines, ordinals = kept
    if not len(lines):
        return LINE_ITEMS.empty()
    table = line_items(lines.sort_by(LINE_NUMBER), ordinals, costs, source="store")
    ordered = pc.max(table["source_row"]).as_py() != NO_ROW
    return table if ordered else table.sort_by([("cost_metric", "ascending"), ("line_item_id", "ascending")])


def _with_distinct_ids(lines: pa.Table) -> pa.Table:
    """Ids are unique within a delivery only; where two deliveries share one, each gets its entry's and delivery's name."""
    ids = lines.select(["line_item_id", "cost_metric"]).to_pandas()
    shared = pa.array(ids.duplicated(keep=False).to_numpy())
    if not pc.any(shared).as_py():
        return lines
    delivery = pc.utf8_slice_codeunits(lines["delivery_id"], 0, 8)
    longer = pc.binary_join_element_wise(lines["line_item_id"], lines["source_id"], delivery, "@")
    place = lines.schema.get_field_index("line_item_id")
    return lines.set_column(place, lines.schema.field(place), pc.if_else(shared, longer, lines["line_item_id"]))


def _notices(lines: pa.Table, start: datetime, end: datetime) -> list[Finding]:
    """What the day's lines themselves tell: cut decimals, several currencies, negations outside."""
    found = []
    period = (start, end)
    cut = lines.filter(pc.not_equal(lines["cost_residue"], NO_RESIDUE)).group_by(["currency", "cost_metric"])
    sums = cut.aggregate([("cost_residue", "sum"), ("cost_residue", "count")])
    for row in sums.sort_by([("currency", "ascending"), ("cost_metric", "ascending")]).to_pylist():
        lost, count = row["cost_residue_sum"], row["cost_residue_count"]
        evidence = (
            f"{count} lines have more than nine decimals; {lost} {row['currency']} in all was cut ({row['cost_metric']} cost) "
            "and stands in reconciliation.rounding"
        )
        found.append(Finding(Code.SUB_NANO_COST, Severity.INFO, "bill", evidence, period, count))
    negations = lines.filter(pc.and_(pc.equal(lines["line_type"], NEGATION), pc.equal(lines["cost_metric"], "billed")))
    for currency in sorted(negations["currency"].unique().to_pylist()):
        mine = negations.filter(pc.equal(negations["currency"], currency))["cost_nanos"]
        cost = sum_nanos(mine.to_numpy())
        evidence = (
            "savings-plan negations name no resource, so covered nodes stand at the on-demand price; choose `cost: effective`"
        )
        code = Code.NEGATION_OUT_OF_SCOPE
        found.append(Finding(code, Severity.WARNING, "bill", evidence, period, len(mine), cost, currency))
    found += _unknown_blocks(lines, period)
    return found + mixed_currencies(lines, period)


def mixed_currencies(lines: pa.Table, period: tuple[datetime, datetime]) -> list[Finding]:
    """A finding where the lines are in several currencies."""
    currencies = sorted(lines["currency"].unique().to_pylist())
    if len(currencies) < 2:
        return []
    evidence = "lines of one day are in several currencies; nothing is added across them"
    return [Finding(Code.MIXED_CURRENCIES, Severity.WARNING, ", ".join(currencies), evidence, period, len(currencies))]


def _unknown_blocks(lines: pa.Table, period: tuple[datetime, datetime]) -> list[Finding]:
    """What was paid at once for a capacity reservation of which the configuration says no time; a finding each."""
    paid = lines.filter(pc.equal(lines["scope_rule"], CAPACITY_BLOCK))
    found = []
    for (name, currency, metric), mine in paid.to_pandas().groupby(["capacity_reservation", "currency", "cost_metric"]):
        evidence = (
            f"a fee of the capacity reservation {name} (cost {metric}) is paid at once and not split; say its time and its "
            "machines in billing[].capacity_blocks"
        )
        cost = sum_nanos(mine.cost_nanos.to_numpy())
        found.append(Finding(Code.CAPACITY_BLOCK, Severity.WARNING, str(name), evidence, period, len(mine), cost, currency))
    return found
