"""Which lines of AWS CUR are a machine's running time, and what its types of line mean in FOCUS' words (R14, R16)."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.lines import first_rule, machine_milliseconds, one_of, renamed, sure
from billing_adapters.row_batches import RowBatch
from billing_adapters.units import plain_hours

USAGE_LINES = ("Usage", "SavingsPlanCoveredUsage", "DiscountedUsage")
COMMITTED_LINES = USAGE_LINES[1:]
USAGE_TYPES = r"(?:^|-)(?:BoxUsage|SpotUsage|DedicatedUsage)"
_UNUSED_TYPES = r"(^|-)(UnusedBox|UnusedDed)(:|$)"
_SPLIT_OPERATIONS = ("EKSPod-EC2", "ECSTask-EC2")
_CATEGORIES = {
    **{name.lower(): "Usage" for name in USAGE_LINES},
    "tax": "Tax",
    "credit": "Credit",
    "fee": "Purchase",
    "rifee": "Purchase",
    "savingsplanupfrontfee": "Purchase",
    "savingsplanrecurringfee": "Purchase",
}


def charge_categories(line_type: pa.Array) -> pa.Array:
    """FOCUS' word for a type of line; refunds, discounts, negations and what is not known adjust other lines."""
    return pc.coalesce(renamed(line_type, _CATEGORIES), "Adjustment")


def pricing_categories(batch: RowBatch) -> pa.Array:
    """How a usage line was priced; null for other lines."""
    line_type = batch.text("line_item_line_item_type")
    spot = sure(pc.match_substring_regex(batch.text("line_item_usage_type"), r"(^|-)SpotUsage(:|$)"))
    usage = one_of(line_type, ["Usage"])
    rules = [(one_of(line_type, COMMITTED_LINES), "committed"), (pc.and_(usage, spot), "spot"), (usage, "on-demand")]
    return first_rule(batch.rows, rules)


def is_split_copy(batch: RowBatch) -> pa.Array:
    """Rows that repeat a part of an instance's row for a pod or task (split cost allocation data)."""
    parent = pc.is_valid(batch.text("split_line_item_parent_resource_id"))
    return pc.or_(parent, one_of(batch.text("line_item_operation"), _SPLIT_OPERATIONS))


def scope_rules(batch: RowBatch) -> pa.Array:
    """Why a row is not split even if its resource is a node; null where it may be."""
    usage = one_of(batch.text("line_item_line_item_type"), USAGE_LINES)
    usage_type = batch.text("line_item_usage_type")
    runs = sure(pc.match_substring_regex(usage_type, USAGE_TYPES + "(:|$)"))
    instance = pc.and_(runs, one_of(batch.text("line_item_product_code"), ["AmazonEC2"]))
    return first_rule(
        batch.rows,
        [
            (pc.is_null(batch.text("line_item_resource_id")), "no_resource"),
            (is_split_copy(batch), "split_copy"),
            (sure(pc.match_substring_regex(usage_type, _UNUSED_TYPES)), "reserved_unused"),
            (pc.and_(usage, pc.invert(instance)), "usage_not_instance"),
        ],
    )


def machine_time(columns: Mapping[str, pa.Array]) -> pa.Array:
    """How long the instance ran by each line, in ms: the usage amount of instance lines that count hours."""
    instance = pc.and_(one_of(columns["line_type"], USAGE_LINES), pc.is_null(columns["scope_rule"]))
    states_machine = pc.and_(instance, plain_hours(columns["usage_unit"]))
    return machine_milliseconds(columns["usage_quantity"], states_machine, columns)
