"""The inventory by metric: where the series of each stand in the table, found once for all who read them.

Here does not belong how a series' labels are read (`stretches`) or what they mean.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa

from pipelines.inventory.stretches import LATEST_MS, Stretches, inventory_table
from pipelines.metric_sources.base import InfoSeries

Made = TypeVar("Made")
_MANY = 100
"""Where a metric's rows stand in more places than these, they are copied."""


class Sections:
    """The stretches of each metric, without what cannot be: times before the epoch, a last sight before the first.

    ``table`` is the table ``inventory``; where a metric's rows stand in few places they are not copied.
    """

    def __init__(self, table: pa.Table) -> None:
        first, last = (table[name].to_numpy() for name in ("first_ms", "last_ms"))
        possible = (first >= 0) & (last >= first) & (last < LATEST_MS)
        self._table = table if possible.all() else table.filter(pa.array(possible))
        column = self._table["metric"].combine_chunks().dictionary_encode()
        self._number = {name: number for number, name in enumerate(column.dictionary.to_pylist())}
        number = column.indices.to_numpy()
        self._begins = np.flatnonzero(np.diff(number, prepend=-1))
        self._ends = np.append(self._begins[1:], len(number))[: len(self._begins)]
        self._of_run = number[self._begins]
        self._made: dict[Any, Any] = {}

    def of(self, metric: str) -> Stretches:
        """The stretches of one metric."""
        if metric not in self._made:
            self._made[metric] = Stretches(self._rows_of(metric), metric)
        return cast("Stretches", self._made[metric])

    def _rows_of(self, metric: str) -> pa.Table:
        begins, ends = (moment[self._of_run == self._number.get(metric, -1)] for moment in (self._begins, self._ends))
        if len(begins) > _MANY:
            spans = ends - begins
            rows = np.repeat(begins - np.cumsum(spans) + spans, spans) + np.arange(spans.sum())
            return self._table.take(pa.array(rows))
        return pa.concat_tables([self._table[:0], *(self._table[a:b] for a, b in zip(begins, ends, strict=True))])

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
