"""Which part of its line each row is, so that the parts of a line are exactly 1 over a whole export.

A part is what the line's running sum has grown by, in whole steps of 10^-12: the last row closes the line, and no row is off by
a step or more. Rows weigh by their cost; where the whole line costs nothing, by
memory over time; where there is none of that either, all the same.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import column_nanos
from pipelines.focus_export.versions import RATIO

WEIGHING = ("line_item_id", "cost_metric", "cost", "used_gib_seconds", "overhead_gib_seconds", "idle_gib_seconds")
"""What of a row its weight hangs on."""
_PLACES = RATIO.scale
_WHOLE = pa.decimal256(20, 0)
_KINDS = ("cost", "memory", "rows")

Int64 = npt.NDArray[np.int64]


class Lines:
    """Lines with the sums of their rows' weights, and how much of each has been handed out."""

    def __init__(self, sums: pd.DataFrame) -> None:
        self.names = pa.array(sums.index, pa.string())
        table = sums[list(_KINDS)].to_numpy(np.int64).reshape(-1, len(_KINDS))
        self._kind = (table != 0).argmax(axis=1)
        self._total = table[np.arange(len(table)), self._kind]
        self.done = np.zeros(len(table), np.int64)

    def parts(self, batch: pa.RecordBatch) -> pa.Array:
        """The part of each row, ``decimal128(38, 12)``."""
        line = pc.index_in(batch["line_item_id"], value_set=self.names).to_numpy()
        weight = np.stack(weights(batch), axis=1)[np.arange(len(line)), self._kind[line]]
        after = pd.Series(weight).groupby(line).cumsum().to_numpy(np.int64) + self.done[line]
        np.add.at(self.done, line, weight)
        total = self._total[line]
        return pc.subtract(_steps(after, total), _steps(after - weight, total)).cast(RATIO)

    def carry(self, other: "Lines") -> None:
        """Goes on where another left the lines that both have."""
        here = pc.fill_null(pc.index_in(other.names, value_set=self.names), -1).to_numpy()
        self.done[here[here >= 0]] = other.done[here >= 0]


def weights(batch: pa.RecordBatch | pa.Table) -> tuple[Int64, Int64, Int64]:
    """What each row weighs by cost, by memory over time and by being there."""
    memory = sum(batch[name].to_numpy(zero_copy_only=False) for name in WEIGHING[3:])
    return column_nanos(batch["cost"]), np.rint(memory * 1000).astype(np.int64), np.ones(len(batch), np.int64)


def sums_of(batches: Iterable[pa.RecordBatch]) -> pd.DataFrame:
    """The sums of weights by line."""
    return added_up(_weighed(batch) for batch in batches)


def added_up(sums: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Sums of sums."""
    empty = pd.DataFrame({kind: pd.Series(dtype=np.int64) for kind in _KINDS}, index=pd.Index([], dtype=object))
    total = empty
    for some in sums:
        total = some if total is empty else pd.concat([total, some]).groupby(level=0, sort=False).sum()
    return total


def _weighed(batch: pa.RecordBatch) -> pd.DataFrame:
    frame = pd.DataFrame(dict(zip(_KINDS, weights(batch), strict=True)), index=batch["line_item_id"].to_pandas())
    return frame.groupby(level=0, sort=False).sum()


def _steps(amount: Int64, total: Int64) -> pa.Array:
    """The quotient, cut to whole steps."""
    exact = pc.divide(pa.array(amount).cast(_WHOLE), pa.array(total).cast(_WHOLE))
    return pc.round(exact, _PLACES, "down")


def of_metric(batches: Iterator[pa.RecordBatch], metric: str) -> Iterator[pa.RecordBatch]:
    """Only the rows under one cost metric."""
    for batch in batches:
        chosen = batch.filter(pc.equal(batch["cost_metric"], metric))
        if len(chosen):
            yield chosen
