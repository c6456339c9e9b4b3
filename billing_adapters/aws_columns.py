"""The columns of AWS bills that are read, and the one name that each has whatever its spelling.

A column is spelt ``lineItem/ResourceId`` in the legacy report, ``line_item_resource_id`` in its Athena tables and in
CUR 2.0, and the case of its part after ``/`` differs by month. Without ``/``, ``_`` and case all spellings are one word.
"""

from collections.abc import Collection

from allocation.errors import AdapterError

UNBLENDED = "line_item_unblended_cost"
NET_UNBLENDED = "line_item_net_unblended_cost"
LIST = "pricing_public_on_demand_cost"
PLAN = "savings_plan_savings_plan_effective_cost"
NET_PLAN = "savings_plan_net_savings_plan_effective_cost"
RESERVED = "reservation_effective_cost"
NET_RESERVED = "reservation_net_effective_cost"
COMMITTED_SO_FAR = "savings_plan_total_commitment_to_date"
USED_SO_FAR = "savings_plan_used_commitment"
UNUSED_UPFRONT = "reservation_unused_amortized_upfront_fee_for_billing_period"
NET_UNUSED_UPFRONT = "reservation_net_unused_amortized_upfront_fee_for_billing_period"
UNUSED_RECURRING = "reservation_unused_recurring_fee"
NET_UNUSED_RECURRING = "reservation_net_unused_recurring_fee"
RESERVATION = "reservation_reservation_a_r_n"
RESOURCE = "line_item_resource_id"
AMOUNT = "line_item_usage_amount"
LINE_ID = "identity_line_item_id"
PARENT = "split_line_item_parent_resource_id"
INVOICE = "bill_invoice_id"
"""No part of ``HASHED``: a line keeps its id when its invoice is issued."""
RAN_IN = "capacity_reservation_capacity_reservation_arn"

_MANDATORY = (
    "bill_billing_period_start_date",
    "bill_payer_account_id",
    "line_item_currency_code",
    "line_item_line_item_type",
    "line_item_product_code",
    RESOURCE,
    UNBLENDED,
    "line_item_usage_end_date",
    "line_item_usage_start_date",
    "line_item_usage_type",
)
_OPTIONAL = (
    RAN_IN,
    "capacity_reservation_capacity_reservation_status",
    LINE_ID,
    "line_item_availability_zone",
    "line_item_operation",
    "line_item_usage_account_id",
    AMOUNT,
    "pricing_unit",
    "product_instance_type",
    "product_region",
    "product_region_code",
    PARENT,
)
_COSTS = (
    UNBLENDED, NET_UNBLENDED, LIST, PLAN, NET_PLAN, RESERVED, NET_RESERVED, COMMITTED_SO_FAR, USED_SO_FAR,
    UNUSED_UPFRONT, NET_UNUSED_UPFRONT, UNUSED_RECURRING, NET_UNUSED_RECURRING, RESERVATION,
)  # fmt: skip
HASHED = tuple(sorted({*_MANDATORY, *_OPTIONAL, *_COSTS} - {LINE_ID}))
"""The columns whose content makes the id of a line without one of its own, and the order of lines that share one."""
WANTED = (*HASHED, LINE_ID, INVOICE, "product")
ACCOUNTING = ("bill_payer_account_id", "line_item_usage_account_id", "line_item_currency_code")
PLACING = (
    "line_item_availability_zone", "line_item_product_code", "line_item_usage_type", "product_instance_type", "product_region",
    "product_region_code",
)  # fmt: skip
RULING = (
    "capacity_reservation_capacity_reservation_status", "line_item_line_item_type", "line_item_operation",
    "line_item_product_code", "line_item_usage_type", "pricing_unit",
)  # fmt: skip
"""Columns of which a bill has few different texts together, whatever its length."""


def one_word(name: str) -> str:
    """A column's name without case and separators: equal for all its spellings.

    >>> {one_word(n) for n in ("reservation/ReservationARN", "reservation_reservation_a_r_n", "reservation_reservation_arn")}
    {'reservationreservationarn'}
    """
    return name.strip().lower().replace("/", "").replace("_", "")


def ensure_readable(file: str, header: Collection[str]) -> None:
    """Refuses a file whose header lacks a column without which no line can be read, naming what is there."""
    there = {one_word(name) for name in header}
    missing = [name for name in _MANDATORY if one_word(name) not in there]
    if not missing:
        return
    hint = "Add them to the export's query."
    if RESOURCE in missing:
        hint = "Switch resource ids on in the export (INCLUDE_RESOURCES, 'Include resource IDs')."
    problem = f"mandatory columns are missing: {', '.join(missing)}; columns: {', '.join(sorted(header)) or 'none'}"
    raise AdapterError(problem, file=file, remedy=hint)
