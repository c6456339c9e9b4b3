"""The inventory by metric: where the series of each stand in the table, found once for all who read them.

Here does not belong how a series' labels are read (`stretches`) or what they mean.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa

from pipelines.inventory.stretches import LATEST_MS, Int64, Stretches, inventory_table
from pipelines.metric_sources.base import InfoSeries

Made = TypeVar("Made")


class Sections:
    """The stretches of each metric, without what cannot be: times before the epoch, a last sight before the first.

    ``table`` is the table ``inventory``; where a metric's rows stand together they are not copied.
    """

    def __init__(self, table: pa.Table) -> None:
        first, last = (table[name].to_numpy() for name in ("first_ms", "last_ms"))
        possible = (first >= 0) & (last >= first) & (last < LATEST_MS)
        self._table = table if possible.all() else table.filter(pa.array(possible))
        column = self._table["metric"].combine_chunks().dictionary_encode()
        self._number = {name: number for number, name in enumerate(column.dictionary.to_pylist())}
        self._rows = _places(column.indices.to_numpy(), len(self._number))
        self._made: dict[Any, Any] = {}

    def of(self, metric: str) -> Stretches:
        """The stretches of one metric."""
        if metric not in self._made:
            rows = self._rows[self._number[metric]] if metric in self._number else slice(0, 0)
            table = self._table[rows] if isinstance(rows, slice) else self._table.take(pa.array(rows))
            self._made[metric] = Stretches(table, metric)
        return cast("Stretches", self._made[metric])

    def once(self, make: "Callable[[Sections], Made]") -> Made:
        """What is worked out of it, the first time that it is asked for."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("Made", self._made[make])


Inventory: TypeAlias = pa.Table | Sequence[InfoSeries] | Sections
"""The table ``inventory``, the series that it holds, or its sections, from which what was read once is not read again."""


def sections_of(inventory: Inventory) -> Sections:
    """The inventory by metric."""
    if isinstance(inventory, Sections):
        return inventory
    return Sections(inventory if isinstance(inventory, pa.Table) else inventory_table(inventory))


def _places(number: Int64, count: int) -> list[slice | Int64]:
    """The rows of each number, as a slice where they stand together."""
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(begins[1:], len(number))[: len(begins)]
    if len(begins) == count:
        return [slice(int(a), int(b)) for a, b in zip(begins, ends, strict=True)]
    order = np.argsort(number, kind="stable")
    until = np.cumsum(np.bincount(number, minlength=count))
    return [order[a:b] for a, b in zip(np.append([0], until[:-1]), until, strict=True)]
