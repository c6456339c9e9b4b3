"""The rows of a day added up over time and lines, shard by shard: what is left to know of them once they are written.

Every sum is of whole numbers, so shards may be added in any groups and give the same. Here does not belong what the sums are
used for (``chargeback``, ``pricing``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.summed import summed

KEYS = (
    "billing_period", "cost_metric", "currency", "team", "model", "cost_center", "bucket", "reason",
    "namespace", "pod", "node", "gpu_uuid", "gpu_instance", "gpu_model", "basis", "amortised",
)  # fmt: skip
COSTS = ("used_cost", "overhead_cost", "idle_cost", "cost")
MEASURES = ("used_gib_seconds", "overhead_gib_seconds", "idle_gib_seconds")
"""Memory over time as it stands on the rows of each line, so once a line."""
QUANTITIES = ("gpu_time", "held_time", "requested_time", "used_gib_time", "overhead_gib_time", "idle_gib_time", "tokens")
"""What counts once however many lines bill it: time in PARTS_OF_A_MS, memory over time in PARTS_OF_A_GIB_SECOND, tokens."""
_LINE = ("line_item_id", "cost_metric")
PARTS_OF_A_GIB_SECOND = 2**20
"""Byte-time is added in whole numbers of about a KiB-second."""
PARTS_OF_A_MS = 2**10
"""Times of GPUs are added in whole numbers of about a microsecond."""


@dataclass(frozen=True)
class DaySums:
    """The sums of some rows of ``chargeback``.

    ``holders`` has a row for each combination of KEYS: COSTS (money), MEASURES and QUANTITIES (int64; MEASURES in
    PARTS_OF_A_GIB_SECOND), ``size`` (cost without signs) and ``rows``. ``amortised``: its lines are longer than any that stays
    whole.
    ``lines`` has a row for each line and cost metric: ``cost`` and ``measured``, whether any part of it is not unallocated.
    """

    holders: pa.Table
    lines: pa.Table

    @property
    def rows(self) -> int:
        """How many rows were added up."""
        return int(pc.sum(self.holders["rows"]).as_py() or 0)


def sums_of(chargeback: pa.Table, beside: pa.Table | None = None) -> DaySums:
    """The sums of rows of ``chargeback``.

    Args:
        chargeback: the rows.
        beside: ``amortised`` and QUANTITIES of each; None: they are not known, and no line counts as long.
    """
    beside = _unknown(len(chargeback)) if beside is None else beside
    whole = {name: _whole(chargeback[name]) for name in MEASURES}
    kept = chargeback.select([name for name in (*KEYS, *COSTS) if name != "amortised"])
    for name in ("amortised", *QUANTITIES):
        kept = kept.append_column(name, beside[name])
    kept = kept.append_column("size", pc.abs(chargeback["cost"]))
    kept = kept.append_column("rows", pa.array(np.ones(len(chargeback), np.int64)))
    for name, values in whole.items():
        kept = kept.append_column(name, values)
    measured = pc.not_equal(chargeback["bucket"], "unallocated")
    return DaySums(_holders(kept), _lines(chargeback.select([*_LINE, "cost"]).append_column("measured", measured)))


def _unknown(rows: int) -> pa.Table:
    zeros = pa.array(np.zeros(rows, np.int64))
    columns = dict.fromkeys(QUANTITIES, zeros) | {"tokens": pa.nulls(rows, pa.int64())}
    return pa.table({"amortised": pa.array(np.zeros(rows, np.bool_)), **columns})


def added(parts: Sequence[DaySums]) -> DaySums:
    """The sums of all the rows behind some sums; at least one."""
    holders = pa.concat_tables([part.holders for part in parts])
    lines = _lines(pa.concat_tables([part.lines for part in parts]))
    return DaySums(holders if _apart(parts) else _holders(holders), lines)


def _apart(parts: Sequence[DaySums]) -> bool:
    """Whether no two parts have a node in common: then no row of one adds to a row of another."""
    nodes = [part.holders["node"].unique() for part in parts]
    return len(pa.chunked_array(nodes, pa.string()).unique()) == sum(map(len, nodes))


def gib_seconds(values: pa.ChunkedArray) -> pa.Array:
    """A column of MEASURES of ``holders`` in GiB-seconds."""
    return pa.array(values.to_numpy() / PARTS_OF_A_GIB_SECOND)


def _whole(values: pa.ChunkedArray) -> pa.Array:
    return pa.array(np.rint(values.to_numpy() * PARTS_OF_A_GIB_SECOND).astype(np.int64))


def _holders(rows: pa.Table) -> pa.Table:
    return summed(rows, KEYS, (*COSTS, *MEASURES, *QUANTITIES, "size", "rows"))


def _lines(rows: pa.Table) -> pa.Table:
    found = rows.group_by([*_LINE], use_threads=False).aggregate([("cost", "sum"), ("measured", "max")])
    return found.select([*_LINE, "cost_sum", "measured_max"]).rename_columns([*_LINE, "cost", "measured"])
