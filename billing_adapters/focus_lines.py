"""FOCUS files (1.0 to 1.4) into line items: one reader for every kind that may deliver them.

Which version a file is, and whether it is one at all, is decided in ``focus_versions``, what its rows cost in
``focus_costs``, which of them are split in ``focus_scope``.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.aws_scope import INSTANCE_TYPE
from billing_adapters.azure_resources import VM_NAMES, machine_keys
from billing_adapters.base import BillOptions, Delivery
from billing_adapters.files import FileStore
from billing_adapters.focus_costs import line_costs
from billing_adapters.focus_scope import SCOPE_COLUMNS, machine_time, scope_rules, split_rules
from billing_adapters.focus_versions import COST_COLUMNS, MANDATORY, PROVIDER_COLUMNS, check_header
from billing_adapters.lines import Origin, currencies, one_of, periods, quantities, renamed, sure
from billing_adapters.parsed import parsed_lines
from billing_adapters.readers import has_column, read_batches
from billing_adapters.row_batches import RowBatch
from billing_adapters.row_ids import content_hashes, text_hashes

_OPTIONAL = (
    "AllocatedMethodId",
    "AllocatedResourceId",
    "AvailabilityZone",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "CommitmentDiscountId",
    "CommitmentDiscountStatus",
    "ConsumedQuantity",
    "ConsumedUnit",
    "InvoiceDetailId",
    "InvoiceId",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "RegionId",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SkuMeter",
    "SkuPriceId",
    "SubAccountId",
    "x_InstanceType",
    "x_Operation",
    "x_ServiceCode",
    "x_UsageType",
)
_HASHED = tuple(sorted((*MANDATORY, *PROVIDER_COLUMNS, *_OPTIONAL, *COST_COLUMNS.values())))
_DETAILS = ("SkuPriceDetails", "x_SkuDetails")
_NAMING = (*_DETAILS, "AdditionalInfo")
"""Columns in which Azure names the machine of a scale set."""
_INVOICES = ("InvoiceId", "x_InvoiceId")
"""Azure's FOCUS 1.0 has the second, before the specification had the first."""
_WANTED = (*_HASHED, *_NAMING, "x_InvoiceId")
_FEW_VALUES = (
    *SCOPE_COLUMNS,
    *PROVIDER_COLUMNS,
    "BillingAccountId",
    "BillingCurrency",
    "CapacityReservationId",
    "ChargeClass",
    "PricingCategory",
    "RegionId",
    "SkuId",
    "SubAccountId",
    "x_InstanceType",
    "x_UsageType",
)
"""Columns of which a bill repeats few combinations: what they say is computed once for each."""
_MACHINE_TYPES = ("InstanceType", "ServiceType", "x_ServiceType")
_USAGE_KINDS = ("UsageType", "x_UsageType")
_CATEGORIES = {c.lower(): c for c in ("Usage", "Purchase", "Tax", "Credit", "Adjustment")}
_PRICING = {"standard": "on-demand", "dynamic": "spot", "committed": "committed"}
_PROVIDERS = {
    "aws": "aws",
    "amazon": "aws",
    "amazon web services": "aws",
    "amazon web services, inc.": "aws",
    "azure": "azure",
    "microsoft": "azure",
    "microsoft azure": "azure",
    "microsoft corporation": "azure",
    "gcp": "gcp",
    "google": "gcp",
    "google cloud": "gcp",
    "google cloud platform": "gcp",
}


def focus_lines(store: FileStore, options: BillOptions, delivery: Delivery, name: str) -> Iterator[pa.Table]:
    """All lines of one file of a delivery, batch by batch (see ``parsed``)."""
    origin = Origin(options, delivery.delivery_id)

    def check(file: str, columns: Collection[str]) -> None:
        check_header(file, columns, options.costs)

    for batch in read_batches(store, name, _WANTED, check):
        yield _lines(batch, origin)


def tells_invoices(store: FileStore, delivery: Delivery) -> bool:
    """Whether a file of the delivery has a column of invoices; one is enough."""
    return has_column(store, delivery.files, _INVOICES)


def _lines(batch: RowBatch, origin: Origin) -> pa.Table:
    """One batch as lines."""
    hashes = content_hashes(batch, _HASHED)
    told = batch.by_distinct(_FEW_VALUES, lambda few: _repeated(few, origin.options.currency))
    states_machine, counted, own_type = (told.pop(name) for name in ("states_machine", "counted", "own_type"))
    resources = batch.text("ResourceId")
    columns = {
        **origin.columns(batch),
        **periods(batch, "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart"),
        **told,
        "line_item_id": hashes.texts(),
        "invoice_id": _invoices(batch),
        "resource_id": resources,
        "instance_type": _instance_types(batch, own_type, told["instance_type"]),
        "scope_rule": split_rules(batch, told["scope_rule"], resources),
        "usage_quantity": _quantities(batch, counted),
    }
    if "azure" in told["provider"].dictionary.to_pylist():
        columns |= _of_scale_sets(batch, columns)
    columns["machine_ms"] = machine_time(states_machine, columns)
    return parsed_lines(columns, hashes, line_costs(batch, columns, origin.options.costs))


def _invoices(batch: RowBatch) -> pa.Array:
    """The invoice of each row, encoded by dictionary."""
    if "x_invoiceid" not in batch.columns:
        return batch.encoded("InvoiceId")
    return pc.coalesce(*[batch.text(name) for name in _INVOICES]).dictionary_encode()


def _repeated(batch: RowBatch, currency: str | None) -> dict[str, pa.Array]:
    """What is the same for all rows of equal descriptions: passed on as it stands, or by a small list of words."""
    category, own_type = _charge_categories(batch), batch.text("x_InstanceType")
    aws_type = pc.struct_field(pc.extract_regex(batch.text("x_UsageType"), INSTANCE_TYPE), "type")
    columns = {
        "billing_account": batch.required("BillingAccountId"),
        "sub_account": batch.text("SubAccountId"),
        "currency": currencies(batch, "BillingCurrency", currency),
        "charge_category": category,
        "provider": _providers(batch),
        "region": batch.text("RegionId"),
        "pricing_category": renamed(batch.text("PricingCategory"), _PRICING),
        "is_correction": pc.fill_null(pc.equal(pc.utf8_lower(batch.text("ChargeClass")), "correction"), False),
        "line_type": batch.text("ChargeCategory"),
        "service_category": batch.text("ServiceCategory"),
        "service": batch.text("ServiceName"),
        "usage_type": pc.coalesce(*[batch.text(name) for name in ("x_UsageType", "SkuMeter", "SkuId")]),
        "instance_type": pc.coalesce(own_type, aws_type),
        "own_type": own_type,
        "capacity_reservation": pc.utf8_lower(batch.text("CapacityReservationId")),
        "counted": pc.is_valid(batch.text("ConsumedUnit")),
        "usage_unit": pc.coalesce(batch.text("ConsumedUnit"), batch.text("PricingUnit")),
    }
    return {**columns, **scope_rules(batch, category, columns["provider"], columns["usage_unit"])}


def _instance_types(batch: RowBatch, own: pa.Array, known: pa.Array) -> pa.Array:
    """By a column of its own, by the details of the SKU, or by the usage type that AWS adds (in ``known``)."""
    details = [_detail(batch, name) for name in _DETAILS if name.lower() in batch.columns]
    return pc.coalesce(pc.cast(own, pa.string()), *details, pc.cast(known, pa.string())) if details else known


def _detail(batch: RowBatch, column: str) -> pa.Array:
    """The instance type in a column of details, which may be JSON text, a map or a struct."""
    return _told_in(batch, column, _MACHINE_TYPES)


def _told_in(batch: RowBatch, column: str, keys: Sequence[str]) -> pa.Array:
    """The first of these keys that a column of details has."""
    if pa.types.is_nested(batch.columns[column.lower()].type):
        return pc.coalesce(*[batch.nested(column, key) for key in keys])
    found = batch.by_distinct([column], lambda few: {"told": pc.coalesce(*[few.nested(column, key) for key in keys])})
    return pc.cast(found["told"], pa.string())


def _of_scale_sets(batch: RowBatch, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """What Azure says of machines in the details alone: which one of its scale set, and that nobody used a reservation.

    Equal rows of two machines are told apart by their ids.
    """
    there = [name for name in _NAMING if name.lower() in batch.columns]
    if not there:
        return {}
    resources = columns["resource_id"]
    names, kinds = (pc.coalesce(*[_told_in(batch, name, keys) for name in there]) for keys in (VM_NAMES, _USAGE_KINDS))
    pair = RowBatch(batch.file, batch.first_row, batch.rows, {"resource": resources, "name": names}, batch.places)
    found = pair.by_distinct(pair.columns, lambda few: {"key": machine_keys(few.text("resource"), few.text("name"))})
    keys, ids = pc.cast(found["key"], pa.string()), columns["line_item_id"]
    named = sure(pc.match_substring(resources, "/virtualmachinescalesets/", ignore_case=True))
    own = text_hashes(pc.binary_join_element_wise(ids, pc.fill_null(keys, ""), "\x1f")).texts()
    unused = pc.and_(one_of(kinds, ["ComputeCR"]), pc.is_null(columns["scope_rule"]))
    return {
        "node_key": keys,
        "line_item_id": pc.if_else(pc.and_(named, pc.is_valid(names)), own, ids),
        "scope_rule": pc.if_else(unused, "reserved_unused", pc.cast(columns["scope_rule"], pa.string())),
    }


def _quantities(batch: RowBatch, counted: pa.Array) -> pa.Array:
    """What was consumed, where that has a unit, else what was priced."""
    consumed = quantities(batch.text("ConsumedQuantity"))
    if pc.all(counted).as_py():
        return consumed
    return pc.if_else(counted, consumed, quantities(batch.text("PricingQuantity")))


def _charge_categories(batch: RowBatch) -> pa.Array:
    given = batch.required("ChargeCategory")
    known = renamed(given, _CATEGORIES)
    if known.null_count:
        index = pc.index(pc.is_null(known), True).as_py()
        problem = f"ChargeCategory: {given[index].as_py()!r} is none of {', '.join(_CATEGORIES.values())}"
        raise batch.error(index, problem, "Correct the export.")
    return known


def _providers(batch: RowBatch) -> pa.Array:
    given = pc.coalesce(*[batch.text(name) for name in PROVIDER_COLUMNS])
    if given.null_count:
        index = pc.index(pc.is_null(given), True).as_py()
        raise batch.error(index, f"{' and '.join(PROVIDER_COLUMNS)} are empty", "Correct the export.")
    return pc.coalesce(renamed(given, _PROVIDERS), pc.utf8_lower(given))
