"""What a line of an AWS bill costs by each metric: one rule per type of line, row by row.

``billed`` is unblended, net of private discounts where the row says so. ``effective`` spreads commitments over the
usage that they cover: negations, upfront fees and reservation fees become 0, recurring fees what was left unused.
``list`` is the public on-demand price of usage.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import AdapterError
from billing_adapters.aws_columns import (
    COMMITTED_SO_FAR,
    LIST,
    NET_PLAN,
    NET_RESERVED,
    NET_UNBLENDED,
    NET_UNUSED_RECURRING,
    NET_UNUSED_UPFRONT,
    PLAN,
    RESERVATION,
    RESERVED,
    UNBLENDED,
    UNUSED_RECURRING,
    UNUSED_UPFRONT,
    USED_SO_FAR,
)
from billing_adapters.aws_resources import BLOCK, IN_RESERVATION, KIND
from billing_adapters.aws_scope import COMMITTED_LINES, is_split_copy, is_usage, line_types
from billing_adapters.lines import Cost, money, one_of, rounded
from billing_adapters.row_batches import RowBatch

METRICS = ("billed", "effective", "list")
_USAGE, _COPY, _EFFECTIVE = "is_usage", "is_split_copy", "effective_by"
_UNBLENDED, _ZERO, _PLAN, _RESERVED, _PLAN_FEE, _RESERVATION_FEE = range(6)


def kinds_of_cost(batch: RowBatch) -> dict[str, pa.Array]:
    """By which rule each row's cost is found, by its repeated values."""
    line_type = line_types(batch)
    plan, reserved = ([name] for name in COMMITTED_LINES)
    rules = [
        (_is_spread(batch), _ZERO),
        (one_of(line_type, plan), _PLAN),
        (one_of(line_type, reserved), _RESERVED),
        (one_of(line_type, ["SavingsPlanRecurringFee"]), _PLAN_FEE),
        (one_of(line_type, ["RIFee"]), _RESERVATION_FEE),
    ]
    effective = pa.repeat(pa.scalar(_UNBLENDED, pa.int8()), batch.rows)
    for mask, rule in rules:
        effective = pc.if_else(mask, pa.scalar(rule, pa.int8()), effective)
    return {_USAGE: is_usage(batch), _COPY: is_split_copy(batch), _EFFECTIVE: effective}


def _is_spread(batch: RowBatch) -> pa.Array:
    """Lines whose money stands, spread, on the usage that it paid for."""
    line_type = line_types(batch)
    of_capacity = one_of(batch.text(KIND), [BLOCK, IN_RESERVATION])
    reservation = pc.and_(pc.is_valid(batch.text(RESERVATION)), pc.invert(of_capacity))
    plan_product = one_of(batch.text("line_item_product_code"), ["ComputeSavingsPlans"])
    always = one_of(line_type, ["SavingsPlanNegation", "SavingsPlanUpfrontFee"])
    bought = pc.and_(one_of(line_type, ["Fee"]), reservation)
    returned = pc.and_(one_of(line_type, ["Refund"]), plan_product)
    return pc.or_(pc.or_(always, bought), returned)


def line_costs(batch: RowBatch, kinds: Mapping[str, pa.Array], metric: str) -> Cost:
    """What each row costs under one metric; a row that does not say its cost ends the run.

    Args:
        batch: all rows.
        kinds: what ``kinds_of_cost`` says of each.
        metric: billed, effective or list.
    """
    if metric == "billed":
        net, unblended = batch.amounts(NET_UNBLENDED, UNBLENDED).values()
        return _money(batch, kinds, pc.coalesce(net, unblended), UNBLENDED)
    return _list(batch, kinds) if metric == "list" else _effective(batch, kinds)


def _zero(amounts: pa.Array) -> pa.Scalar:
    return pa.scalar(0.0) if amounts.type == pa.float64() else pa.scalar("0")


def _money(batch: RowBatch, kinds: Mapping[str, pa.Array], amounts: pa.Array, column: str) -> Cost:
    """A split copy repeats another row's cost in columns of its own; where it has none here, that is 0 and no gap."""
    if amounts.null_count:
        amounts = pc.if_else(pc.and_(pc.is_null(amounts), kinds[_COPY]), _zero(amounts), amounts)
    return money(batch, amounts, column)


def _list(batch: RowBatch, kinds: Mapping[str, pa.Array]) -> Cost:
    wanted = pc.and_(kinds[_USAGE], pc.invert(kinds[_COPY]))
    if LIST not in batch.columns and pc.any(wanted).as_py():
        problem = f"the column {LIST} (cost: list) is missing; the file can say {', '.join(_sayable(batch))}"
        raise AdapterError(problem, file=batch.file, remedy="Add it to the export, or change billing.cost.")
    (amounts,) = batch.amounts(LIST).values()
    return _money(batch, kinds, pc.if_else(kinds[_USAGE], amounts, _zero(amounts)), LIST)


def _sayable(batch: RowBatch) -> list[str]:
    """The metrics for whose usage lines the file has a column."""
    effective = any(name in batch.columns for name in (PLAN, NET_PLAN, RESERVED, NET_RESERVED))
    return ["billed", *(["effective"] if effective else []), *(["list"] if LIST in batch.columns else [])]


def _effective(batch: RowBatch, kinds: Mapping[str, pa.Array]) -> Cost:
    """The amortised cost by type of line; the waste of fees is a sum or a difference of two columns."""
    names = (NET_UNBLENDED, UNBLENDED, NET_PLAN, PLAN, NET_RESERVED, RESERVED)
    net, unblended, net_plan, plan, net_reserved, reserved = batch.amounts(*names).values()
    rule = kinds[_EFFECTIVE]
    amounts = pc.coalesce(net, unblended)
    amounts = pc.if_else(pc.equal(rule, _ZERO), _zero(amounts), amounts)
    for number, name, cost in (
        (_PLAN, PLAN, pc.coalesce(net_plan, plan)),
        (_RESERVED, RESERVED, pc.coalesce(net_reserved, reserved)),
    ):
        covered = pc.equal(rule, number)
        _ensure_told(batch, kinds, covered, cost, name)
        amounts = pc.if_else(covered, cost, amounts)
    column = f"effective cost ({UNBLENDED} for this type of line)"
    fee = pc.greater_equal(rule, _PLAN_FEE)
    if not pc.any(fee).as_py():
        return _money(batch, kinds, amounts, column)
    first, second = _waste_terms(batch, pc.equal(rule, _PLAN_FEE))
    costs = _money(batch, kinds, pc.if_else(fee, first, pc.cast(amounts, pa.string())), column)
    wasted = money(batch, pc.if_else(fee, second, "0"), "unused commitment")
    return _with_second_term(batch, costs, wasted, pc.equal(rule, _PLAN_FEE))


def _ensure_told(batch: RowBatch, kinds: Mapping[str, pa.Array], covered: pa.Array, cost: pa.Array, column: str) -> None:
    if not cost.null_count:
        return
    lacking = pc.and_(pc.and_(covered, pc.is_null(cost)), pc.invert(kinds[_COPY]))
    if pc.any(lacking).as_py():
        index = pc.index(lacking, True).as_py()
        line_type = batch.text("line_item_line_item_type")[index].as_py()
        problem = f"a {line_type} line has no effective cost ({column})"
        raise batch.error(index, problem, "Export that column, or use `cost: billed`.")


def _waste_terms(batch: RowBatch, plan: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The two terms of what a fee's commitment left unused: both 0 where the export does not say."""
    committed, used = batch.text(COMMITTED_SO_FAR), batch.text(USED_SO_FAR)
    told = pc.and_(pc.is_valid(committed), pc.is_valid(used))
    upfront = pc.coalesce(batch.text(NET_UNUSED_UPFRONT), batch.text(UNUSED_UPFRONT), "0")
    recurring = pc.coalesce(batch.text(NET_UNUSED_RECURRING), batch.text(UNUSED_RECURRING), "0")
    first = pc.if_else(plan, pc.if_else(told, committed, "0"), upfront)
    second = pc.if_else(plan, pc.if_else(told, used, "0"), recurring)
    return first, second


def _with_second_term(batch: RowBatch, costs: Cost, second: Cost, plan: pa.Array) -> Cost:
    """Fees plus (reservations) or minus (plans) their second term, rounded once more to whole nanos, exactly."""
    sign = np.where(plan.to_numpy(zero_copy_only=False), -1, 1)
    try:
        nanos = pc.add_checked(costs.nanos, pc.multiply_checked(second.nanos, pa.array(sign)))
    except pa.ArrowInvalid as error:
        raise batch.error(0, "the unused part of a commitment does not fit into a line", None) from error
    narrow = pa.decimal128(37, 30)
    here, other = (pc.cast(c.residue, narrow) for c in (costs, second))
    residue = pc.cast(pc.if_else(plan, pc.subtract(here, other), pc.add(here, other)), narrow)
    return rounded(nanos, residue)
