"""What a line of Azure's cost exports costs by each metric, and which dataset says it.

``billed`` is the cost of the actual dataset and ``effective`` that of the amortized one: they stand in one column, and one file
has one of them. ``list`` and ``contracted`` are exact products of a price and the quantity.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import AdapterError
from allocation.money import CostError, products_to_nanos
from billing_adapters.azure_columns import (
    COST,
    CURRENCY,
    EFFECTIVE_PRICE,
    LIST_COST,
    LIST_PRICE,
    PRICING_CURRENCY,
    QUANTITY,
)
from billing_adapters.lines import Cost, money, sure
from billing_adapters.row_batches import RowBatch

ACTUAL, AMORTIZED, FOCUS = "ActualCost", "AmortizedCost", "FocusCost"
DATASETS = {"billed": ACTUAL, "effective": AMORTIZED}
IS_USAGE, ONLY_ACTUAL, ONLY_AMORTIZED = "is_usage", "only_actual", "only_amortized"
_NOT_ZERO = r"^[+-]?[0.]*[1-9]"
_PRICES = {"list": LIST_PRICE, "contracted": EFFECTIVE_PRICE}


def ensure_dataset(dataset: str | None, costs: Sequence[str], file: str) -> None:
    """Refuses an export whose type is another than the costs ask for, or costs that no one type has.

    Args:
        dataset: the export's type where its manifest says it, else None.
        costs: the metrics that are asked for.
        file: what the message names.
    """
    asked = {DATASETS[cost]: cost for cost in costs if cost in DATASETS}
    if len(asked) > 1:
        problem = "cost: billed is read from an export of type ActualCost, effective from one of type AmortizedCost; one has one"
        remedy = "Give each export a billing entry of its own, or use one of type FocusCost, which has both."
        raise AdapterError(problem, file=file, remedy=remedy)
    known = {kind.lower(): kind for kind in (ACTUAL, AMORTIZED)}
    there = known.get((dataset or "").lower())
    wanted, cost = next(iter(asked.items()), (there or f"{ACTUAL} or {AMORTIZED}", costs[0]))
    if dataset is not None and there != wanted:
        other = next((c for c, kind in DATASETS.items() if kind == there), None)
        change = f", or set `cost: {other}`" if other else ""
        problem = f"the export is of type {dataset}, but cost: {cost} is read from one of type {wanted}"
        raise AdapterError(problem, file=file, remedy=f"Point billing.path at an export of type {wanted}{change}.")


def ensure_rows_of_dataset(batch: RowBatch, known: Mapping[str, pa.Array], costs: Sequence[str]) -> None:
    """Refuses a row that only the other dataset has."""
    for cost, mark in (("billed", ONLY_AMORTIZED), ("effective", ONLY_ACTUAL)):
        if cost in costs and pc.any(known[mark]).as_py():
            other = next(c for c in DATASETS if c != cost)
            kind = pc.cast(known["line_type"], pa.string())[pc.index(known[mark], True).as_py()].as_py()
            problem = f"a line of type {kind} stands only in an export of type {DATASETS[other]}, but cost is {cost}"
            remedy = f"Point billing.path at an export of type {DATASETS[cost]}, or set `cost: {other}`."
            raise batch.error(pc.index(known[mark], True).as_py(), problem, remedy)


def line_costs(batch: RowBatch, known: Mapping[str, pa.Array], metric: str) -> Cost:
    """What each row costs under one metric; a row that does not say its cost ends the run.

    Args:
        batch: all rows.
        known: ``scope_rule`` and ``is_usage`` of each.
        metric: billed, effective, contracted or list.
    """
    if metric in DATASETS:
        return money(batch, batch.amounts(COST)[COST], COST)
    cost = _list(batch, known) if metric == "list" else _product(batch, known, EFFECTIVE_PRICE, pc.is_null(known["scope_rule"]))
    _ensure_priced(batch, metric, cost, known)
    return cost


def _list(batch: RowBatch, known: Mapping[str, pa.Array]) -> Cost:
    """The cost at public prices of usage as the export gives it, else price times quantity; 0 for other lines."""
    usage = known[IS_USAGE]
    told = pc.if_else(usage, batch.text(LIST_COST), "0")
    if not told.null_count:
        return money(batch, told, LIST_COST)
    given = money(batch, pc.coalesce(told, "0"), LIST_COST)
    made = _product(batch, known, LIST_PRICE, pc.and_(pc.is_null(told), pc.is_null(known["scope_rule"])))
    chosen = pc.is_valid(told)
    return Cost(pc.if_else(chosen, given.nanos, made.nanos), pc.if_else(chosen, given.residue, made.residue))


def _product(batch: RowBatch, known: Mapping[str, pa.Array], column: str, needed: pa.Array) -> Cost:
    """Price times quantity. Usage that needs it must have both; other lines without them have no price, which is 0."""
    price, quantity = batch.text(column), batch.text(QUANTITY)
    told = pc.and_(pc.is_valid(price), pc.is_valid(quantity))
    made = pc.or_(told, pc.and_(known[IS_USAGE], needed))
    _ensure_currency(batch, column, pc.and_(made, needed))
    try:
        return Cost(*products_to_nanos(pc.if_else(made, quantity, "0"), pc.if_else(made, price, "0")))
    except CostError as error:
        problem = f"{QUANTITY} x {column}: {error.problem}"
        raise batch.error(error.index, problem, "Correct the export or choose another cost.") from error


def _ensure_currency(batch: RowBatch, column: str, needed: pa.Array) -> None:
    """Refuses prices in another currency than the bill's: nothing is exchanged."""
    pricing, billing = batch.text(PRICING_CURRENCY), batch.text(CURRENCY)
    other = pc.and_(sure(pc.not_equal(pricing, billing)), needed)
    if pc.any(other).as_py():
        index = pc.index(other, True).as_py()
        problem = f"{column} is in {pricing[index].as_py()}, but the bill is in {billing[index].as_py()}"
        raise batch.error(index, problem, "Choose cost: billed or effective, or export PaygCostInBillingCurrency for list.")


def _ensure_priced(batch: RowBatch, metric: str, cost: Cost, known: Mapping[str, pa.Array]) -> None:
    """Refuses usage that may be split and costs nothing by a price although somebody paid for it."""
    nothing = pc.and_(pc.equal(cost.nanos, 0), pc.equal(cost.residue, pa.scalar("0").cast(cost.residue.type)))
    paid = sure(pc.match_substring_regex(batch.text(COST), _NOT_ZERO))
    split = pc.and_(known[IS_USAGE], pc.is_null(known["scope_rule"]))
    unpriced = pc.and_(pc.and_(nothing, paid), split)
    if pc.any(unpriced).as_py():
        index = pc.index(unpriced, True).as_py()
        problem = f"{_PRICES[metric]} is 0 although the row was paid for ({COST} {batch.text(COST)[index].as_py()})"
        raise batch.error(index, problem, "Azure has no such price here: choose another cost (cost: billed or effective).")
