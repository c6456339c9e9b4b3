"""What the rows of AWS bills say by their repeated values alone: computed once for each combination of these.

Line ids, resource ids, costs and quantities, which differ from row to row, stay outside: of the resource only its kind
comes in.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters import aws_costs, aws_scope
from billing_adapters.aws_columns import PARENT, REPEATED, RESERVATION, RESOURCE
from billing_adapters.aws_resources import KIND, NONE, OWN_ID
from billing_adapters.base import BillOptions, CapacityBlock
from billing_adapters.lines import currencies, one_of
from billing_adapters.row_batches import RowBatch

STATES_MACHINE = "states_machine"
_IN_PRODUCT = ("region", "instance_type")


def facts(batch: RowBatch, resources: Mapping[str, pa.Array], options: BillOptions) -> dict[str, pa.Array]:
    """Columns of ``line_items`` by name, and what ``aws_costs`` and the machine's time need beside."""
    columns = {name: batch.columns[name] for name in REPEATED if name in batch.columns}
    columns |= {name: resources[name] for name in (KIND, OWN_ID)} | _of_product(batch)
    columns |= {name: _whether_filled(batch, name) for name in (PARENT, RESERVATION)}
    known = RowBatch(batch.file, batch.first_row, batch.rows, columns, batch.places)
    return known.by_distinct(columns, lambda few: _of_each(few, options))


def _of_product(batch: RowBatch) -> dict[str, pa.Array]:
    """Two keys of the column ``product``: JSON text, a map or a struct."""
    column = batch.columns.get("product")
    if column is None:
        return {}
    if pa.types.is_nested(column.type):
        return {f"product/{key}": batch.nested("product", key) for key in _IN_PRODUCT}
    return batch.by_distinct(("product",), lambda few: {f"product/{key}": few.nested("product", key) for key in _IN_PRODUCT})


def _whether_filled(batch: RowBatch, name: str) -> pa.Array:
    """Of a column of ids only whether it has one, as a word or null: ids would make every row another combination."""
    return pc.if_else(pc.is_valid(batch.text(name)), pa.scalar("filled"), pa.scalar(None, TEXT))


def _of_each(batch: RowBatch, options: BillOptions) -> dict[str, pa.Array]:
    named = pc.if_else(one_of(batch.text(KIND), [NONE]), pa.scalar(None, TEXT), batch.text(KIND))
    batch = RowBatch(batch.file, batch.first_row, batch.rows, {**batch.columns, RESOURCE: named}, batch.places)
    return {
        **_descriptions(batch, options),
        **_scope(batch, options.capacity_blocks),
        **aws_costs.kinds_of_cost(batch),
    }


def _scope(batch: RowBatch, blocks: Sequence[CapacityBlock]) -> dict[str, pa.Array]:
    return {
        "scope_rule": aws_scope.scope_rules(batch),
        "pool": aws_scope.pools(batch),
        "pool_size": aws_scope.pool_sizes(batch, blocks),
        STATES_MACHINE: aws_scope.states_machine(batch),
    }


def _descriptions(batch: RowBatch, options: BillOptions) -> dict[str, pa.Array]:
    """The columns that are passed on as they stand, or by a small list of words."""
    zone_region = pc.replace_substring_regex(batch.text("line_item_availability_zone"), r"[a-z]$", "")
    told_regions = [batch.text(name) for name in ("product_region_code", "product_region", "product/region")]
    told_type = pc.coalesce(batch.text("product_instance_type"), batch.text("product/instance_type"))
    return {
        "currency": currencies(batch, "line_item_currency_code", options.currency),
        "line_type": batch.required("line_item_line_item_type"),
        "charge_category": aws_scope.charge_categories(batch),
        "pricing_category": aws_scope.pricing_categories(batch),
        "provider": pa.repeat(pa.scalar("aws", TEXT), batch.rows),
        "billing_account": batch.required("bill_payer_account_id"),
        "sub_account": batch.text("line_item_usage_account_id"),
        "region": pc.coalesce(*told_regions, zone_region),
        "is_correction": pa.repeat(False, batch.rows),
        "service": batch.text("line_item_product_code"),
        "usage_type": batch.text("line_item_usage_type"),
        "instance_type": aws_scope.instance_types(batch, told_type),
        "usage_unit": batch.text("pricing_unit"),
    }
