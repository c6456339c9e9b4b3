"""Rows of Azure's cost exports, in any of their spellings, into lines: one reader for actual and amortized costs.

What the rows say by their repeated values is computed once for each combination of these.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters import azure_scope
from billing_adapters.azure_columns import (
    ACCOUNT,
    BENEFIT,
    CATEGORY,
    CHARGE,
    CURRENCY,
    HASHED,
    INVOICE,
    LOCATION,
    METER,
    PRICING,
    QUANTITY,
    REGION,
    RESERVATION,
    RESOURCE,
    SERVICE,
    SUBSCRIPTION,
    UNIT,
    WANTED,
    ensure_readable,
    one_word,
)
from billing_adapters.azure_costs import IS_USAGE, ONLY_ACTUAL, ONLY_AMORTIZED, ensure_rows_of_dataset, line_costs
from billing_adapters.azure_dates import Dates
from billing_adapters.azure_resources import MACHINE_TYPE, NODE_KEY, RAN_IN, USAGE_KIND, own_ids, resources
from billing_adapters.base import BillOptions, Delivery
from billing_adapters.files import FileStore
from billing_adapters.lines import Origin, currencies, machine_milliseconds, one_text, quantities
from billing_adapters.parsed import parsed_lines
from billing_adapters.readers import has_column, read_batches
from billing_adapters.row_batches import RowBatch
from billing_adapters.row_ids import content_hashes

_STATES_MACHINE = "states_machine"
_ACCOUNTING = (ACCOUNT, SUBSCRIPTION, CURRENCY)
_PLACING = (REGION, LOCATION, METER)
_RULING = (CHARGE, CATEGORY, SERVICE, UNIT, PRICING)
_WHETHER = (RESOURCE, RESERVATION, BENEFIT)


def azure_lines(store: FileStore, options: BillOptions, delivery: Delivery, name: str) -> Iterator[pa.Table]:
    """All lines of one file of a delivery, batch by batch (see ``parsed``)."""
    origin, dates = Origin(options, delivery.delivery_id), Dates(options.date_order)

    def check(file: str, header: Collection[str]) -> None:
        ensure_readable(file, header, options.costs, options.currency)

    for batch in read_batches(store, name, WANTED, check, one_word):
        yield _lines(batch, origin, dates, delivery)


def tells_invoices(store: FileStore, delivery: Delivery) -> bool:
    """Whether a file of the delivery has the column of invoices; one is enough."""
    return has_column(store, delivery.files, [INVOICE], one_word)


def _lines(batch: RowBatch, origin: Origin, dates: Dates, delivery: Delivery) -> pa.Table:
    """One batch as lines."""
    options = origin.options
    hashes = content_hashes(batch, HASHED)
    known = _facts(batch, resources(batch), options)
    ensure_rows_of_dataset(batch, known, options.costs)
    period = dates.periods(batch)
    first_days = pc.cast(pc.floor_temporal(period["charge_period_start"], unit="month"), pa.date32())
    of_folder = pa.repeat(pa.scalar(delivery.billing_period, pa.date32()), batch.rows)
    columns = {
        **origin.columns(batch),
        **known,
        **period,
        "billing_period": pc.coalesce(period["billing_period"], of_folder, first_days),
        "line_item_id": hashes.texts(),
        "invoice_id": batch.encoded(INVOICE),
        "resource_id": batch.encoded(RESOURCE),
        "usage_quantity": quantities(batch.amounts(QUANTITY)[QUANTITY]),
    }
    columns["machine_ms"] = machine_milliseconds(columns["usage_quantity"], known[_STATES_MACHINE], columns)
    return parsed_lines(columns, hashes, {metric: line_costs(batch, known, metric) for metric in options.costs})


def _facts(batch: RowBatch, resource: dict[str, pa.Array], options: BillOptions) -> dict[str, pa.Array]:
    """Columns of ``line_items`` by name, and what costs and the machine's time need beside."""
    ruling = {name.lower(): batch.columns[name.lower()] for name in _RULING if name.lower() in batch.columns}
    ruling |= {METER.lower(): _spot_alone(batch), USAGE_KIND: resource[USAGE_KIND]}
    ruling |= {name.lower(): _whether_filled(batch, name) for name in _WHETHER}
    known = RowBatch(batch.file, batch.first_row, batch.rows, {**batch.columns, **ruling}, batch.places)
    facts = {
        **batch.by_distinct(_ACCOUNTING, lambda few: _accounts(few, options)),
        **batch.by_distinct(_PLACING, _places),
        **known.by_distinct(ruling, _rules),
        NODE_KEY: resource[NODE_KEY],
        "capacity_reservation": resource[RAN_IN],
        "provider": one_text("azure", batch.rows),
        "is_correction": pa.repeat(False, batch.rows),
    }
    kind = pc.cast(resource[MACHINE_TYPE], TEXT)
    facts["instance_type"] = pc.if_else(facts.pop("is_machine"), kind, pa.scalar(None, TEXT))
    return facts


def _spot_alone(batch: RowBatch) -> pa.Array:
    """Of a meter's name only whether it is spot: names would make every meter another combination."""
    found = batch.by_distinct((METER,), lambda few: {"spot": azure_scope.spot_words(few.text(METER))})
    return found["spot"]


def _whether_filled(batch: RowBatch, name: str) -> pa.Array:
    """Of a column of ids only whether it has one, as a word or null."""
    ids = batch.encoded(name)
    words = pc.if_else(pc.is_valid(own_ids(ids.dictionary)), pa.scalar("filled"), pa.scalar(None, TEXT))
    return words.take(ids.indices)


def _accounts(few: RowBatch, options: BillOptions) -> dict[str, pa.Array]:
    """Payer, subscription and currency; who pays as he goes is billed by subscription."""
    subscription = own_ids(few.text(SUBSCRIPTION))
    account = pc.coalesce(own_ids(few.text(ACCOUNT)), subscription)
    if account.null_count:
        index = pc.index(pc.is_null(account), True).as_py()
        raise few.error(index, f"{ACCOUNT} and {SUBSCRIPTION} are empty", "Correct the export.")
    return {"billing_account": account, "sub_account": subscription, "currency": _currencies(few, options.currency)}


def _currencies(few: RowBatch, expected: str | None) -> pa.Array:
    if CURRENCY.lower() in few.columns:
        return currencies(few, CURRENCY, expected)
    return pa.repeat(pa.scalar(expected, TEXT), few.rows)  # the header was refused where the entry says none


def _places(few: RowBatch) -> dict[str, pa.Array]:
    return {
        "region": pc.coalesce(few.text(REGION), few.text(LOCATION)),
        "usage_type": few.text(METER),
    }


def _rules(few: RowBatch) -> dict[str, pa.Array]:
    """What is ruled by a row's types and by which ids it has."""
    return {
        "line_type": few.text(CHARGE),
        "charge_category": azure_scope.charge_categories(few),
        "pricing_category": azure_scope.pricing_categories(few),
        "service": few.text(CATEGORY),
        "usage_unit": few.text(UNIT),
        "scope_rule": azure_scope.scope_rules(few),
        "is_machine": azure_scope.is_machine(few),
        _STATES_MACHINE: azure_scope.states_machine(few),
        IS_USAGE: azure_scope.is_usage(few),
        ONLY_ACTUAL: azure_scope.only_actual(few),
        ONLY_AMORTIZED: azure_scope.only_amortized(few),
    }
