"""FOCUS files (1.0 to 1.2, and the renamed provider columns of 1.3) into line items.

A delivery is one file, or all files of a folder or prefix; where these lie in the layout of AWS Data Exports, its
manifests say which files count.
"""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import AdapterError
from billing_adapters.base import COST_METRICS, BillOptions, Delivery
from billing_adapters.data_exports import exported_deliveries, has_manifests
from billing_adapters.files import DATA_SUFFIXES, ensure_distinct, fingerprint, is_data, open_bill
from billing_adapters.focus_scope import machine_time, scope_rules
from billing_adapters.lines import Origin, currencies, money, periods, quantities, renamed
from billing_adapters.parsed import parsed_lines
from billing_adapters.readers import read_batches
from billing_adapters.row_batches import RowBatch
from billing_adapters.row_ids import content_hashes

COST_COLUMNS = {metric: f"{metric.capitalize()}Cost" for metric in COST_METRICS}
_MANDATORY = (
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ResourceId",
)
_PROVIDER_COLUMNS = ("ServiceProviderName", "ProviderName")
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
)
_HASHED = tuple(sorted((*_MANDATORY, *_PROVIDER_COLUMNS, *_OPTIONAL, *COST_COLUMNS.values())))
_DETAILS = ("SkuPriceDetails", "x_SkuDetails")
_WANTED = (*_HASHED, *_DETAILS)
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


class FocusBill:
    """A bill in FOCUS: one file, a folder or a prefix of a bucket."""

    def __init__(self, options: BillOptions) -> None:
        self._options = options
        self._store = open_bill(options)

    def discover(self) -> Sequence[Delivery]:
        """All files as one delivery, or one delivery per billing period where manifests name the files."""
        found = self._store.list_files()
        if has_manifests(found):
            return exported_deliveries(self._store)
        names = tuple(f.name for f in found if is_data(f))
        if not names:
            wanted = ", ".join(DATA_SUFFIXES)
            raise AdapterError(
                f"no bill is there (a file that ends in {wanted})", file=self._store.url, remedy="Check billing.path."
            )
        ensure_distinct(self._store, names)
        return [Delivery(fingerprint(self._store, names), names)]

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """See ``base.BillSource``."""
        origin = Origin(self._options, delivery.delivery_id)
        for name in delivery.files:
            for batch in read_batches(self._store, name, _WANTED, self._check_header):
                yield _lines(batch, origin)

    def _check_header(self, file: str, columns: Collection[str]) -> None:
        known = {name.lower() for name in columns}
        missing = [name for name in _MANDATORY if name.lower() not in known]
        if not any(name.lower() in known for name in _PROVIDER_COLUMNS):
            missing.append(_PROVIDER_COLUMNS[1])
        there = ", ".join(sorted(columns))
        for metric in self._options.costs:
            cost = COST_COLUMNS[metric]
            if cost.lower() in known:
                continue
            possible = [m for m in COST_METRICS if COST_COLUMNS[m].lower() in known]
            says = f"it can say {', '.join(possible)}" if possible else "it has no cost column of FOCUS"
            raise AdapterError(f"the column {cost} (cost: {metric}) is missing; {says}; columns: {there}", file=file)
        if missing:
            problem = f"mandatory columns are missing: {', '.join(missing)}; columns: {there}"
            raise AdapterError(problem, file=file, remedy="Switch them on in the export (FOCUS, with resource ids).")


def _lines(batch: RowBatch, origin: Origin) -> pa.Table:
    """One batch as lines."""
    hashes = content_hashes(batch, _HASHED)
    period = periods(batch, "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart")
    columns = {
        **origin.columns(batch),
        **period,
        "line_item_id": hashes.texts(),
        "currency": currencies(batch, "BillingCurrency", origin.options.currency),
        "charge_category": _charge_categories(batch),
        "provider": _providers(batch),
        **_descriptions(batch),
    }
    columns["scope_rule"] = scope_rules(batch, columns["charge_category"])
    columns["machine_ms"] = machine_time(batch, columns)
    named = {metric: COST_COLUMNS[metric] for metric in origin.options.costs}
    return parsed_lines(columns, hashes, {metric: money(batch, batch.text(name), name) for metric, name in named.items()})


def _descriptions(batch: RowBatch) -> dict[str, pa.Array]:
    """The columns that are passed on as they stand, or by a small list of words."""
    correction = pc.fill_null(pc.equal(pc.utf8_lower(batch.text("ChargeClass")), "correction"), False)
    details = [batch.nested(name, "InstanceType") for name in _DETAILS]
    consumed = pc.is_valid(batch.text("ConsumedUnit"))
    return {
        "billing_account": batch.required("BillingAccountId"),
        "sub_account": batch.text("SubAccountId"),
        "region": batch.text("RegionId"),
        "pricing_category": renamed(batch.text("PricingCategory"), _PRICING),
        "is_correction": correction,
        "line_type": batch.text("ChargeCategory"),
        "service_category": batch.text("ServiceCategory"),
        "service": batch.text("ServiceName"),
        "usage_type": pc.coalesce(batch.text("SkuMeter"), batch.text("SkuId")),
        "resource_id": batch.text("ResourceId"),
        "instance_type": pc.coalesce(batch.text("x_InstanceType"), *details),
        "usage_quantity": quantities(pc.if_else(consumed, batch.text("ConsumedQuantity"), batch.text("PricingQuantity"))),
        "usage_unit": pc.coalesce(batch.text("ConsumedUnit"), batch.text("PricingUnit")),
    }


def _charge_categories(batch: RowBatch) -> pa.Array:
    given = batch.required("ChargeCategory")
    known = renamed(given, _CATEGORIES)
    if known.null_count:
        index = pc.index(pc.is_null(known), True).as_py()
        problem = f"ChargeCategory: {given[index].as_py()!r} is none of {', '.join(_CATEGORIES.values())}"
        raise batch.error(index, problem, "Correct the export.")
    return known


def _providers(batch: RowBatch) -> pa.Array:
    given = pc.coalesce(*[batch.text(name) for name in _PROVIDER_COLUMNS])
    if given.null_count:
        index = pc.index(pc.is_null(given), True).as_py()
        raise batch.error(index, f"{' and '.join(_PROVIDER_COLUMNS)} are empty", "Correct the export.")
    return pc.coalesce(renamed(given, _PROVIDERS), pc.utf8_lower(given))
