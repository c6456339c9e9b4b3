"""What the rows of AWS bills say by their repeated values alone: computed once for each combination of these.

Line ids, resource ids, costs and quantities, which differ from row to row, stay outside: of the resource only its kind
comes in.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters import aws_costs, aws_scope
from billing_adapters.aws_columns import ACCOUNTING, PARENT, PLACING, RESERVATION, RESOURCE, RULING
from billing_adapters.aws_resources import KIND, NONE, OWN_ID
from billing_adapters.base import BillOptions
from billing_adapters.lines import currencies, one_of, one_text
from billing_adapters.row_batches import RowBatch

STATES_MACHINE = "states_machine"
_IN_PRODUCT = ("region", "instance_type")


def facts(batch: RowBatch, resources: Mapping[str, pa.Array], options: BillOptions) -> dict[str, pa.Array]:
    """Columns of ``line_items`` by name, and what ``aws_costs`` and the machine's time need beside.

    What does not depend on each other is found apart, so that accounts times places times usages are no combinations.
    """
    ruling = {name: batch.columns[name] for name in RULING if name in batch.columns}
    ruling |= {name: resources[name] for name in (KIND, OWN_ID)}
    ruling |= {name: _whether_filled(batch, name) for name in (PARENT, RESERVATION)}
    placing = {name: batch.columns[name] for name in PLACING if name in batch.columns} | _of_product(batch)
    known = RowBatch(batch.file, batch.first_row, batch.rows, {**batch.columns, **placing, **ruling}, batch.places)
    return {
        **known.by_distinct(ACCOUNTING, lambda few: _accounts(few, options)),
        **known.by_distinct(placing, _places),
        **known.by_distinct(ruling, lambda few: _rules(few, options)),
        "provider": one_text("aws", batch.rows),
        "is_correction": pa.repeat(False, batch.rows),
    }


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


def _rules(batch: RowBatch, options: BillOptions) -> dict[str, pa.Array]:
    """What is ruled by a row's types and the kind of its resource."""
    named = pc.if_else(one_of(batch.text(KIND), [NONE]), pa.scalar(None, TEXT), batch.text(KIND))
    batch = RowBatch(batch.file, batch.first_row, batch.rows, {**batch.columns, RESOURCE: named}, batch.places)
    return {
        "line_type": batch.required("line_item_line_item_type"),
        "charge_category": aws_scope.charge_categories(batch),
        "pricing_category": aws_scope.pricing_categories(batch),
        "service": batch.text("line_item_product_code"),
        "usage_unit": batch.text("pricing_unit"),
        "scope_rule": aws_scope.scope_rules(batch),
        "pool": aws_scope.pools(batch),
        "pool_size": aws_scope.pool_sizes(batch, options.capacity_blocks),
        STATES_MACHINE: aws_scope.states_machine(batch),
        **aws_costs.kinds_of_cost(batch),
    }


def _accounts(batch: RowBatch, options: BillOptions) -> dict[str, pa.Array]:
    return {
        "currency": currencies(batch, "line_item_currency_code", options.currency),
        "billing_account": batch.required("bill_payer_account_id"),
        "sub_account": batch.text("line_item_usage_account_id"),
    }


def _places(batch: RowBatch) -> dict[str, pa.Array]:
    """Region, usage type and machine type."""
    zone_region = pc.replace_substring_regex(batch.text("line_item_availability_zone"), r"[a-z]$", "")
    told_regions = [batch.text(name) for name in ("product_region_code", "product_region", "product/region")]
    told_type = pc.coalesce(batch.text("product_instance_type"), batch.text("product/instance_type"))
    return {
        "region": pc.coalesce(*told_regions, zone_region),
        "usage_type": batch.text("line_item_usage_type"),
        "instance_type": aws_scope.instance_types(batch, told_type),
    }
