"""Double entry over marts: what was charged and what would be charged now, per owner.

Here does not belong which rows are closed, or why figures changed.
"""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.marts import FIGURES, KEYS
from allocation.schemas import DAILY_MART
from allocation.summed import summed

CHARGED, RESTATED = "charged", "restated"
OWNER = tuple(name for name in KEYS if name != "booked_period")
"""By what figures are compared: all but the month in which they happen to be booked."""


def legs(before: Sequence[pa.Table], now: pa.Table) -> pa.Table:
    """The two legs of each owner whose figures differ.

    Args:
        before: tables with the columns of ``daily_mart``: closed rows, and legs that were booked earlier.
        now: rows of ``daily_mart`` as they would be written.

    Returns:
        ``leg``, OWNER and FIGURES, in order of owners: first what was charged, its sign turned, then what is right. Their sum
        over all rows is ``now`` minus ``before``, exactly.
    """
    sides = pa.concat_tables([_side(table, 0) for table in before] + [_side(now, 1)])
    names = [f"{name}_{side}" for side in (0, 1) for name in FIGURES]
    both = summed(sides, OWNER, names)
    changed = both.filter(_differs(both)).sort_by([(name, "ascending") for name in OWNER])
    pairs = [_leg(changed, CHARGED, 0), _leg(changed, RESTATED, 1)]
    order = pa.array(np.arange(2 * len(changed)).reshape(2, -1).T.ravel())
    return pa.concat_tables(pairs).take(order).combine_chunks()


def turned(booked: pa.Table) -> pa.Table:
    """Legs with their sign turned: what takes them back."""
    kept = booked.select([*OWNER])
    for name in FIGURES:
        kept = kept.append_column(name, pc.negate(booked[name]))
    return kept


def net(legs_of: pa.Table) -> pa.Table:
    """What legs come to, by billing period, cost metric and currency: ``cost``."""
    return summed(legs_of, ["billing_period", "cost_metric", "currency"], ["cost"])


def booked_in(billing_period: pa.ChunkedArray, closed: Sequence[date], month: date) -> pa.Array | pa.ChunkedArray:
    """The month in whose figures a correction stands: the invoice month while it is open, else the given one."""
    over = pc.is_in(billing_period, value_set=pa.array(sorted(closed), pa.date32()))
    return pc.if_else(over, pa.scalar(month), billing_period)


def _side(table: pa.Table, side: int) -> pa.Table:
    columns = {name: table[name] for name in OWNER}
    for name in FIGURES:
        values = pc.fill_null(table[name], 0) if name == "tokens" else table[name]
        columns[f"{name}_{side}"] = values
        columns[f"{name}_{1 - side}"] = pa.repeat(pa.scalar(0).cast(values.type), len(table))
    order = [*OWNER, *(f"{name}_{s}" for s in (0, 1) for name in FIGURES)]
    return pa.table({name: columns[name] for name in order})


def _differs(both: pa.Table) -> pa.ChunkedArray:
    found = None
    for name in FIGURES:
        differs = pc.not_equal(both[f"{name}_0"], both[f"{name}_1"])
        found = differs if found is None else pc.or_(found, differs)
    return found


def _leg(changed: pa.Table, leg: str, side: int) -> pa.Table:
    columns = {"leg": pa.repeat(leg, len(changed))} | {name: changed[name] for name in OWNER}
    for name in FIGURES:
        values = changed[f"{name}_{side}"]
        wanted = DAILY_MART.arrow().field(name).type
        columns[name] = (values if side else pc.negate(values)).cast(wanted)
    return pa.table(columns)
