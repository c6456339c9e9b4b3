"""What a line of AWS CUR costs by each metric: one rule per type of line, row by row.

``billed`` is unblended, net of private discounts where the row says so. ``effective`` spreads commitments over the
usage that they cover: negations, upfront fees and reservation fees become 0, recurring fees what was left unused.
``list`` is the public on-demand price of usage.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.aws_scope import COMMITTED_LINES, USAGE_LINES, is_split_copy
from billing_adapters.lines import Cost, money, one_of
from billing_adapters.row_batches import RowBatch

METRICS = ("billed", "effective", "list")
UNBLENDED = "line_item_unblended_cost"
_NET_UNBLENDED = "line_item_net_unblended_cost"
_LIST = "pricing_public_on_demand_cost"
_PLAN = "savings_plan_savings_plan_effective_cost"
_NET_PLAN = "savings_plan_net_savings_plan_effective_cost"
_RESERVED = "reservation_effective_cost"
_NET_RESERVED = "reservation_net_effective_cost"
_COMMITTED_SO_FAR = "savings_plan_total_commitment_to_date"
_USED_SO_FAR = "savings_plan_used_commitment"
_UNUSED_UPFRONT = "reservation_unused_amortized_upfront_fee_for_billing_period"
_NET_UNUSED_UPFRONT = "reservation_net_unused_amortized_upfront_fee_for_billing_period"
_UNUSED_RECURRING = "reservation_unused_recurring_fee"
_NET_UNUSED_RECURRING = "reservation_net_unused_recurring_fee"
_RESERVATION = ("reservation_reservation_a_r_n", "reservation_reservation_arn")
COST_COLUMNS = (
    UNBLENDED, _NET_UNBLENDED, _LIST, _PLAN, _NET_PLAN, _RESERVED, _NET_RESERVED, _COMMITTED_SO_FAR, _USED_SO_FAR,
    _UNUSED_UPFRONT, _NET_UNUSED_UPFRONT, _UNUSED_RECURRING, _NET_UNUSED_RECURRING, *_RESERVATION,
)  # fmt: skip

_HALF_NANO = pa.scalar("0.0000000005").cast(pa.decimal128(37, 30))
_NANO = pa.scalar("0.000000001").cast(pa.decimal128(37, 30))


def line_costs(batch: RowBatch, metric: str) -> Cost:
    """What each row costs under one metric; a row that does not say its cost ends the run."""
    if metric == "billed":
        return money(batch, _or_zero(batch, _unblended(batch)), UNBLENDED)
    if metric == "list":
        usage = one_of(_line_type(batch), USAGE_LINES)
        return money(batch, _or_zero(batch, pc.if_else(usage, batch.text(_LIST), "0")), _LIST)
    return _effective(batch)


def _line_type(batch: RowBatch) -> pa.Array:
    return batch.text("line_item_line_item_type")


def _unblended(batch: RowBatch) -> pa.Array:
    return pc.coalesce(batch.text(_NET_UNBLENDED), batch.text(UNBLENDED))


def _or_zero(batch: RowBatch, texts: pa.Array) -> pa.Array:
    """A split copy repeats another row's cost in columns of its own; where it has none here, that is 0 and no gap."""
    return pc.if_else(pc.and_(pc.is_null(texts), is_split_copy(batch)), "0", texts)


def _effective(batch: RowBatch) -> Cost:
    """The amortised cost by type of line; the waste of fees is a sum or a difference of two columns."""
    line_type = _line_type(batch)
    plan = pc.coalesce(batch.text(_NET_PLAN), batch.text(_PLAN))
    reserved = pc.coalesce(batch.text(_NET_RESERVED), batch.text(_RESERVED))
    _ensure_covered(batch, plan, reserved)
    first = _waste_terms(batch)[0]
    texts = pc.if_else(_is_spread(batch), "0", _unblended(batch))
    texts = pc.if_else(one_of(line_type, COMMITTED_LINES[:1]), plan, texts)
    texts = pc.if_else(one_of(line_type, COMMITTED_LINES[1:]), reserved, texts)
    texts = pc.if_else(_is_fee(batch), first, texts)
    costs = money(batch, _or_zero(batch, texts), f"effective cost ({UNBLENDED} for this type of line)")
    return _with_second_term(batch, costs) if pc.any(_is_fee(batch)).as_py() else costs


def _ensure_covered(batch: RowBatch, plan: pa.Array, reserved: pa.Array) -> None:
    line_type, kept = _line_type(batch), pc.invert(is_split_copy(batch))
    for name, cost, column in zip(COMMITTED_LINES, (plan, reserved), (_PLAN, _RESERVED), strict=True):
        lacking = pc.and_(pc.and_(one_of(line_type, [name]), pc.is_null(cost)), kept)
        if pc.any(lacking).as_py():
            index = pc.index(lacking, True).as_py()
            raise batch.error(
                index, f"a {name} line has no effective cost ({column})", "Export that column, or use `cost: billed`."
            )


def _is_fee(batch: RowBatch) -> pa.Array:
    return one_of(_line_type(batch), ["SavingsPlanRecurringFee", "RIFee"])


def _is_spread(batch: RowBatch) -> pa.Array:
    """Lines whose money stands, spread, on the usage that it paid for."""
    line_type = _line_type(batch)
    reservation = pc.is_valid(pc.coalesce(*[batch.text(name) for name in _RESERVATION]))
    plan_product = one_of(batch.text("line_item_product_code"), ["ComputeSavingsPlans"])
    always = one_of(line_type, ["SavingsPlanNegation", "SavingsPlanUpfrontFee"])
    bought = pc.and_(one_of(line_type, ["Fee"]), reservation)
    returned = pc.and_(one_of(line_type, ["Refund"]), plan_product)
    return pc.or_(pc.or_(always, bought), returned)


def _waste_terms(batch: RowBatch) -> tuple[pa.Array, pa.Array]:
    """The two terms of what a fee's commitment left unused: both 0 where the export does not say."""
    plan = one_of(_line_type(batch), ["SavingsPlanRecurringFee"])
    committed, used = batch.text(_COMMITTED_SO_FAR), batch.text(_USED_SO_FAR)
    told = pc.and_(pc.is_valid(committed), pc.is_valid(used))
    upfront = pc.coalesce(batch.text(_NET_UNUSED_UPFRONT), batch.text(_UNUSED_UPFRONT), "0")
    recurring = pc.coalesce(batch.text(_NET_UNUSED_RECURRING), batch.text(_UNUSED_RECURRING), "0")
    first = pc.if_else(plan, pc.if_else(told, committed, "0"), upfront)
    second = pc.if_else(plan, pc.if_else(told, used, "0"), recurring)
    return first, second


def _with_second_term(batch: RowBatch, costs: Cost) -> Cost:
    """Fees plus (reservations) or minus (plans) their second term, rounded once more to whole nanos, exactly."""
    fee, plan = _is_fee(batch), one_of(_line_type(batch), ["SavingsPlanRecurringFee"])
    second = money(batch, pc.if_else(fee, _waste_terms(batch)[1], "0"), "unused commitment")
    sign = np.where(plan.to_numpy(zero_copy_only=False), -1, 1)
    try:
        nanos = pc.add_checked(costs.nanos, pc.multiply_checked(second.nanos, pa.array(sign)))
    except pa.ArrowInvalid as error:
        raise batch.error(0, "the unused part of a commitment does not fit into a line", None) from error
    narrow = pa.decimal128(37, 30)
    here, other = (pc.cast(c.residue, narrow) for c in (costs, second))
    residue = pc.cast(pc.if_else(plan, pc.subtract(here, other), pc.add(here, other)), narrow)
    return _rounded(nanos, residue)


def _rounded(nanos: pa.Array, residue: pa.Array) -> Cost:
    """The same sums with a residue of at most half a nano-unit, half to even."""
    odd = pc.equal(pc.bit_wise_and(nanos, 1), 1)
    negative = pc.negate(_HALF_NANO)
    up = pc.or_(pc.greater(residue, _HALF_NANO), pc.and_(pc.equal(residue, _HALF_NANO), odd))
    down = pc.or_(pc.less(residue, negative), pc.and_(pc.equal(residue, negative), odd))
    step = pc.subtract(pc.cast(up, pa.int64()), pc.cast(down, pa.int64()))
    nothing = pc.subtract(_NANO, _NANO)
    moved = pc.if_else(up, _NANO, pc.if_else(down, pc.negate(_NANO), pc.cast(nothing, _NANO.type)))
    return Cost(pc.add_checked(nanos, step), pc.cast(pc.subtract(residue, moved), pa.decimal128(38, 30)))
