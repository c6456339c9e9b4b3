"""Sums of a table's columns by keys, exact for decimals and whole numbers."""

from collections.abc import Sequence

import pyarrow as pa


def summed(table: pa.Table, keys: Sequence[str], figures: Sequence[str], *, in_order: bool = False) -> pa.Table:
    """The sums of the figures under their own names, a row a combination of keys; nulls are no part of a sum.

    Rows stand as their keys first come, or in the order of keys.

    >>> summed(pa.table({"team": ["a", "a"], "cost": [1, 2]}), ["team"], ["cost"]).to_pylist()
    [{'team': 'a', 'cost': 3}]
    """
    found = table.group_by([*keys], use_threads=False).aggregate([(name, "sum") for name in figures])
    found = found.select([*keys, *(f"{name}_sum" for name in figures)]).rename_columns([*keys, *figures])
    return found.sort_by([(key, "ascending") for key in keys]) if in_order else found
