"""What a FOCUS row costs by each metric: the column that the metric is named after, and no silent zero."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.focus_versions import COST_COLUMNS
from billing_adapters.lines import Cost, money, sure
from billing_adapters.row_batches import RowBatch

_PRICES = ("list", "contracted")
"""Metrics of a price times a quantity: nothing that somebody paid for is without a price."""
_PAID = ("billed", "effective")
_NOT_ZERO = r"^[+-]?[0.]*[1-9]"


def line_costs(batch: RowBatch, columns: Mapping[str, pa.Array], metrics: Sequence[str]) -> dict[str, Cost]:
    """What each row costs under each metric; a row that does not say its cost ends the run."""
    amounts = batch.amounts(*(COST_COLUMNS[metric] for metric in metrics))
    costs = {metric: money(batch, amounts[COST_COLUMNS[metric]], COST_COLUMNS[metric]) for metric in metrics}
    for metric in metrics:
        if metric in _PRICES:
            _ensure_priced(batch, metric, costs[metric], columns)
    return costs


def _ensure_priced(batch: RowBatch, metric: str, cost: Cost, columns: Mapping[str, pa.Array]) -> None:
    """Refuses usage that may be split and costs nothing by a price although somebody paid for it."""
    nothing = pc.and_(pc.equal(cost.nanos, 0), pc.equal(cost.residue, pa.scalar("0").cast(cost.residue.type)))
    paid = [sure(pc.match_substring_regex(batch.text(COST_COLUMNS[name]), _NOT_ZERO)) for name in _PAID]
    usage = pc.and_(pc.equal(pc.cast(columns["charge_category"], pa.string()), "Usage"), pc.is_null(columns["scope_rule"]))
    unpriced = pc.and_(pc.and_(nothing, usage), pc.or_(*paid))
    if not pc.any(unpriced).as_py():
        return
    index = pc.index(unpriced, True).as_py()
    said = ", ".join(f"{COST_COLUMNS[name]} {batch.text(COST_COLUMNS[name])[index].as_py()}" for name in _PAID)
    problem = f"{COST_COLUMNS[metric]} is 0 although the row was paid for ({said})"
    raise batch.error(index, problem, "Correct the export or choose another cost (cost: billed or effective).")
