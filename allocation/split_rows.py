"""Lines that a provider split itself (FOCUS' allocated charges): each origin's money counts once.

By FOCUS 1.3 the parts keep the origin's dimensions, resource included, and add up to it, and the origin's own row stays with
nothing or not at all. Then the parts carry the machine's money. Where a provider leaves the money on the origin as well, its
row is split and the parts are copies of it.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.money import nanos_to_decimal

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
PROVIDER_SPLIT = "provider_split"
"""The scope rule of a line that a provider split, as adapters give it; it stays where the line is a copy."""
_SAME = (
    "source_id", "delivery_id", "cost_metric", "currency", "billing_account", "sub_account", "region", "billing_period",
    "charge_period_start", "charge_period_end", "charge_category", "pricing_category", "is_correction", "service_category",
    "service", "usage_type", "node_key", "capacity_reservation",
)  # fmt: skip
_LIKENESS = 1e-3
"""Parts that a provider rounded may miss their origin by this share of it."""


def settled(lines: pa.Table) -> pa.Table:
    """The same lines (``line_items``); the rule ``provider_split`` stays on copies only.

    Raises:
        ChargebackError: an origin has more money than its parts, so that nobody can tell a rest from a copy.
    """
    allocated = pc.fill_null(pc.equal(lines["scope_rule"], PROVIDER_SPLIT), False).to_numpy()
    if not allocated.any():
        return lines
    resources = pc.unique(lines["node_key"].filter(pa.array(allocated)))
    near = pc.is_in(lines["node_key"], value_set=resources).to_numpy()
    own = pc.is_null(lines["scope_rule"]).to_numpy()
    rows = np.flatnonzero(near & (own | allocated))
    few = lines.take(pa.array(rows))
    group = few.select(_SAME).to_pandas().groupby(list(_SAME), dropna=False, sort=False, observed=True).ngroup()
    sums = _sums(few, group.to_numpy(), allocated[rows])
    _refuse_unclear(few, sums, group.to_numpy())
    copies = np.zeros(len(lines), np.bool_)
    copies[rows] = allocated[rows] & sums.is_copy.to_numpy()[group.to_numpy()]
    rule = pc.if_else(pa.array(allocated & ~copies), None, pc.cast(lines["scope_rule"], pa.string()))
    place = lines.schema.get_field_index("scope_rule")
    return lines.set_column(place, lines.schema.field(place), pc.cast(rule, lines.schema.field(place).type))


def _sums(few: pa.Table, group: Int64, allocated: Bools) -> pd.DataFrame:
    """By group: the parts' sum, the origin's, and whether the parts are copies or cannot be told from a rest."""
    nanos = few["cost_nanos"].to_numpy().astype(np.float64)
    table = pd.DataFrame({"parts": np.where(allocated, nanos, 0.0), "origin": np.where(allocated, 0.0, nanos)})
    table = table.assign(rows=1, allocated=allocated).groupby(group, sort=True).agg(
        parts=("parts", "sum"), origin=("origin", "sum"), rows=("rows", "sum"), allocated=("allocated", "any")
    )  # fmt: skip
    slack = table.origin.abs() * _LIKENESS + table.rows
    kept = table.allocated & (table.origin != 0)
    is_copy = kept & ((table.parts - table.origin).abs() <= slack)
    more = (np.sign(table.parts) == np.sign(table.origin)) & (table.origin.abs() > table.parts.abs())
    return table.assign(is_copy=is_copy, unclear=kept & ~is_copy & more)


def _refuse_unclear(few: pa.Table, sums: pd.DataFrame, group: Int64) -> None:
    if not sums.unclear.any():
        return
    number = int(sums.index[sums.unclear][0])
    line = few.slice(int(np.flatnonzero(group == number)[0]), 1).to_pylist()[0]
    parts, origin = (nanos_to_decimal(int(sums[name][number])).normalize() for name in ("parts", "origin"))
    raise ChargebackError(
        f"{line['source_file']}, row {line['source_row']}: the provider's split of {line['resource_id']} adds up to {parts:f}, "
        f"but its origin has {origin:f} beside it; which of them counts cannot be told. Have the provider correct the export "
        "(the parts must add up to the origin), or leave one of the two out of the file"
    )
