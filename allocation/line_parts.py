"""Lines that several machines pay for: into clock hours, and each hour over machines by whole weights, exactly.

Here does not belong who these machines are (``pooled``, ``spread``). A *cut* is a line's part in one clock hour: ``line`` (row of
``line_items``), ``start_ms``, ``end_ms``, ``nanos``. A *share* is what one machine has of a cut: ``cut`` (its row), ``node_key``
(null: nobody's), ``cluster``, ``rule`` (null: split), ``weight`` and, above 2**62, ``weight_high`` (see ``wide``).
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation import hours, times
from allocation.compiled import read_only
from allocation.schemas import BILL_CLUSTER
from allocation.shares import divide_groups

Int64 = npt.NDArray[np.int64]
PARTS = ("line", "start_ms", "end_ms", "nanos", "node_key", "cluster", "rule")
"""Columns of the parts of lines; those of a share and of its cut."""


def cut_lines(
    lines: pa.Table, rows: Int64, from_ms: int, until_ms: int, longest_ms: int = hours.LONGEST_WHOLE_MS
) -> pd.DataFrame:
    """The cuts of some rows of ``lines`` that start in ``[from_ms, until_ms)``; with ``longest_ms`` 0 at every clock hour."""
    start, end = times.milliseconds(lines["charge_period_start"])[rows], times.milliseconds(lines["charge_period_end"])[rows]
    cost = lines["cost_nanos"].to_numpy()[rows]
    number, begins, ends, nanos = hours.cut(*map(read_only, (cost, start, end)), from_ms, until_ms, longest_ms)
    return pd.DataFrame({"line": rows[number], "start_ms": begins, "end_ms": ends, "nanos": nanos})


def divide_cuts(cuts: pd.DataFrame, shares: pd.DataFrame, rule: str) -> pd.DataFrame:
    """The parts of cuts (columns ``PARTS``), by largest remainder in order of ``node_key``'s bytes, nobody's last.

    A cut without any share, or with weights of 0 only, is one part of no cluster by ``rule``.
    """
    high = shares.weight_high if "weight_high" in shares else pd.Series(0, shares.index)
    shares = shares.assign(weight_high=high, nobody=shares.node_key.isna())
    shares = shares[(shares.weight > 0) | (shares.weight_high > 0)]
    left = np.setdiff1d(np.arange(len(cuts)), shares["cut"].to_numpy(np.int64))
    shares = shares.sort_values(["cut", "nobody", "node_key"], kind="stable")
    cut = shares["cut"].to_numpy(np.int64)
    begins = np.flatnonzero(np.diff(cut, prepend=-1))
    wholes, offsets = cuts.nanos.to_numpy(np.int64)[cut[begins]], np.append(begins, len(cut))
    high, low = (shares[name].to_numpy(np.int64) for name in ("weight_high", "weight"))
    divided = cuts.iloc[cut][["line", "start_ms", "end_ms"]].reset_index(drop=True)
    divided = divided.assign(nanos=divide_groups(*map(read_only, (wholes, offsets, high, low))))
    divided = divided.assign(**{name: shares[name].astype("object").to_numpy() for name in PARTS[-3:]})
    whole = cuts.iloc[left].assign(node_key=None, cluster=BILL_CLUSTER, rule=rule)
    both = pd.concat([divided, whole.astype(dict.fromkeys(PARTS[-3:], "object"))])
    return both[list(PARTS)].sort_values(["line", "start_ms"], kind="stable", ignore_index=True)


def overlap_ms(
    start: "pd.Series[int]", end: "pd.Series[int]", other_start: "pd.Series[int]", other_end: "pd.Series[int]"
) -> "pd.Series[int]":
    """For how many ms two half-open periods are both there, row by row."""
    return (np.minimum(end, other_end) - np.maximum(start, other_start)).clip(lower=0)
