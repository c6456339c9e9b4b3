"""What a row of Google's bill and each of its credits cost by each metric.

``billed`` is the invoice: the row's cost, and each credit as it stands. ``effective`` is the same with the fees of commitments on
the usage that they paid for (``gcp_commitments``), and without promotions, which pay for usage and do not make it cheaper.
``list`` and ``contracted`` are prices of usage: credits, taxes and corrections have none and are 0.
Where the rows have no ``cost_at_list``, the price list says it (``gcp_list_costs``).
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.base import BillOptions
from billing_adapters.gcp_columns import CONTRACTED, COST, LIST
from billing_adapters.gcp_commitments import Commitments, Money
from billing_adapters.gcp_list_costs import COLUMNS as LISTED
from billing_adapters.gcp_list_costs import kept_prices, list_amounts
from billing_adapters.lines import Cost, money, one_of
from billing_adapters.row_batches import RowBatch

PROMOTION = "PROMOTION"
_PRICES = {"list": (LIST,), "contracted": CONTRACTED}


def row_costs(rows: Money, batch: RowBatch, options: BillOptions, commitments: Commitments) -> dict[str, Cost]:
    """What each row costs under each metric that is asked for. ``rows`` is what they cost on the invoice."""
    costs = {"billed": rows.cost}
    for metric in options.costs:
        if metric in _PRICES:
            costs[metric] = _price(batch, rows, metric, options)
        elif metric == "effective":
            costs[metric] = commitments.fees(rows)
    return {metric: costs[metric] for metric in options.costs}


def credit_costs(given: Money, types: pa.Array, options: BillOptions, commitments: Commitments) -> dict[str, Cost]:
    """What each credit is under each metric. ``given`` is what they take off the invoice."""
    costs = {"billed": given.cost}
    for metric in options.costs:
        if metric in _PRICES:
            costs[metric] = _kept(given.cost, pa.repeat(False, len(types)))
        elif metric == "effective":
            left_out = one_of(types, [] if options.include_promotions else [PROMOTION])
            costs[metric] = _kept(commitments.credits(given), pc.invert(left_out))
    return {metric: costs[metric] for metric in options.costs}


def _price(batch: RowBatch, rows: Money, metric: str, options: BillOptions) -> Cost:
    """The price of usage; 0 for other rows. Usage that somebody paid for has a price, or the run ends."""
    usage = pc.equal(pc.cast(rows.known["charge_category"], pa.string()), "Usage")
    amounts = _told(batch, _PRICES[metric])
    lacking = pc.and_(pc.is_null(amounts), pc.and_(usage, pc.not_equal(rows.cost.nanos, 0)))
    if metric == "list" and options.prices is not None and pc.any(lacking).as_py():
        chosen = batch.chosen(pc.indices_nonzero(lacking), LISTED)
        listed = list_amounts(chosen, kept_prices(options.prices))
        amounts = pc.replace_with_mask(pc.cast(amounts, pa.string()), lacking, listed)
        lacking = pc.and_(pc.is_null(amounts), lacking)
    if pc.any(lacking).as_py():
        index = pc.index(lacking, True).as_py()
        problem = (
            f"{_PRICES[metric][0]} is empty although the row costs {batch.text(COST)[index].as_py()}, and no list price is known"
        )
        raise batch.error(index, problem, "Choose another cost (billed or effective).")
    zero = pa.scalar(0.0) if pa.types.is_floating(amounts.type) else pa.scalar("0")
    return _kept(money(batch, pc.fill_null(amounts, zero), _PRICES[metric][0]), usage)


def _told(batch: RowBatch, names: Sequence[str]) -> pa.Array:
    """What each row's first filled column of these says: all doubles, or texts."""
    columns = [batch.amounts(name)[name] for name in names if name in batch.columns]
    if len({column.type for column in columns}) > 1:
        columns = [pc.cast(column, pa.string()) for column in columns]
    return pc.coalesce(*columns) if columns else pa.nulls(batch.rows, pa.string())


def _kept(cost: Cost, mask: pa.Array) -> Cost:
    """The costs where the mask holds, else 0."""
    nothing = pa.scalar("0").cast(cost.residue.type)
    return Cost(pc.if_else(mask, cost.nanos, 0), pc.if_else(mask, cost.residue, nothing))
