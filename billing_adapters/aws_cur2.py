"""AWS CUR 2.0 (Data Exports, or one file of it) into line items.

A line's cost by metric is decided in ``aws_costs``, its scope in ``aws_scope``; here are the columns and the delivery.
"""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import AdapterError
from allocation.schemas import TEXT
from billing_adapters.aws_costs import COST_COLUMNS, METRICS, UNBLENDED, line_costs
from billing_adapters.aws_scope import USAGE_TYPES, charge_categories, machine_time, pricing_categories, scope_rules
from billing_adapters.base import BillOptions, Delivery, ensure_sayable
from billing_adapters.data_exports import exported_deliveries
from billing_adapters.files import fingerprint, is_data, open_files
from billing_adapters.lines import Origin, currencies, periods, quantities
from billing_adapters.parsed import parsed_lines
from billing_adapters.readers import read_batches
from billing_adapters.row_batches import RowBatch
from billing_adapters.row_ids import content_hashes

_MANDATORY = (
    "bill_billing_period_start_date",
    "bill_payer_account_id",
    "line_item_currency_code",
    "line_item_line_item_type",
    "line_item_product_code",
    "line_item_resource_id",
    UNBLENDED,
    "line_item_usage_end_date",
    "line_item_usage_start_date",
    "line_item_usage_type",
)
_OPTIONAL = (
    "identity_line_item_id",
    "line_item_availability_zone",
    "line_item_line_item_description",
    "line_item_operation",
    "line_item_usage_account_id",
    "line_item_usage_amount",
    "pricing_unit",
    "product_instance_type",
    "product_region_code",
    "split_line_item_parent_resource_id",
)
_HASHED = tuple(sorted({*_MANDATORY, *_OPTIONAL, *COST_COLUMNS}))
_WANTED = (*_HASHED, "product")


class AwsCur2Bill:
    """A CUR 2.0 export: its folder or prefix (with ``data/`` and ``metadata/``), or one file."""

    def __init__(self, options: BillOptions) -> None:
        ensure_sayable("aws-cur2", options, METRICS)
        self._options = options
        self._store = open_files(options.path, endpoint_url=options.endpoint_url, region=options.region)

    def discover(self) -> Sequence[Delivery]:
        """The newest delivery of each billing period by its manifest; a path that is one file is one delivery."""
        found = self._store.list_files()
        if len(found) == 1 and is_data(found[0]):
            names = (found[0].name,)
            return [Delivery(fingerprint(self._store, names), names)]
        return exported_deliveries(self._store)

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """See ``base.BillSource``."""
        origin = Origin(self._options, delivery.delivery_id)
        for name in delivery.files:
            for batch in read_batches(self._store, name, _WANTED, _check_header):
                yield _lines(batch, origin)


def _check_header(file: str, columns: Collection[str]) -> None:
    known = {name.lower() for name in columns}
    missing = [name for name in _MANDATORY if name not in known]
    if missing:
        there = ", ".join(sorted(columns))
        hint = (
            "Switch it on in the export (INCLUDE_RESOURCES)."
            if "line_item_resource_id" in missing
            else "Add them to the export's query."
        )
        raise AdapterError(f"mandatory columns are missing: {', '.join(missing)}; columns: {there}", file=file, remedy=hint)


def _lines(batch: RowBatch, origin: Origin) -> pa.Table:
    """One batch as lines."""
    hashes = content_hashes(batch, _HASHED)
    period = periods(batch, "line_item_usage_start_date", "line_item_usage_end_date", "bill_billing_period_start_date")
    line_type = batch.required("line_item_line_item_type")
    columns = {
        **origin.columns(batch),
        **period,
        "line_item_id": pc.coalesce(batch.text("identity_line_item_id"), hashes.texts()),
        "currency": currencies(batch, "line_item_currency_code", origin.options.currency),
        "line_type": line_type,
        "charge_category": charge_categories(line_type),
        "pricing_category": pricing_categories(batch),
        "scope_rule": scope_rules(batch),
        **_descriptions(batch),
    }
    columns["machine_ms"] = machine_time(columns)
    return parsed_lines(columns, hashes, {metric: line_costs(batch, metric) for metric in origin.options.costs})


def _descriptions(batch: RowBatch) -> dict[str, pa.Array]:
    """The columns that are passed on as they stand."""
    zone_region = pc.replace_substring_regex(batch.text("line_item_availability_zone"), r"[a-z]$", "")
    tail = pc.struct_field(pc.extract_regex(batch.text("line_item_usage_type"), USAGE_TYPES + r":(?P<type>[a-z0-9.-]+)$"), "type")
    nothing = pa.nulls(batch.rows, TEXT)
    return {
        "provider": pa.repeat(pa.scalar("aws", TEXT), batch.rows),
        "billing_account": batch.required("bill_payer_account_id"),
        "sub_account": batch.text("line_item_usage_account_id"),
        "region": pc.coalesce(batch.text("product_region_code"), batch.nested("product", "region"), zone_region),
        "is_correction": pa.repeat(False, batch.rows),
        "service_category": nothing,
        "service": batch.text("line_item_product_code"),
        "usage_type": batch.text("line_item_usage_type"),
        "resource_id": batch.text("line_item_resource_id"),
        "instance_type": pc.coalesce(batch.text("product_instance_type"), batch.nested("product", "instance_type"), tail),
        "usage_quantity": quantities(batch.text("line_item_usage_amount")),
        "usage_unit": batch.text("pricing_unit"),
    }
