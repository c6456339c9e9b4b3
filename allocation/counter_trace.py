"""The growth of a counter shown stretch by stretch: from which sample to which it rose, and where it began anew.

Here belongs the way back from a growth to the samples behind it. Where a counter goes on and where it begins anew is decided in
``counters``; no rule is stated a second time.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.counters import FIRST, GROUP, HOLE, ON, RESET, of_periods, steps
from allocation.lookup import rows_before

BEGAN = {ON: "before", FIRST: "first", HOLE: "hole", RESET: "reset"}
"""How a stretch begins: with the last sample before the period, the series' first, one after a hole, or from 0."""
COLUMNS = ("period", "server", "model", "kind", "pod_uid", "instance", "copies", "began", "from_ms", "from_value", "until_ms",
           "until_value", "samples", "grown")  # fmt: skip


def stretches(counters: pa.Table, periods: pd.DataFrame, max_gap_ms: int) -> pd.DataFrame:
    """Between which samples each counter of each pod grew in each period that is asked for.

    Args:
        counters: table ``counters``.
        periods: ``namespace``, ``pod``, ``pod_uid`` (empty where unknown), ``start_ms``, ``end_ms``.
        max_gap_ms: beyond it nothing is known of what happened between two samples.

    Returns:
        COLUMNS: one row a stretch without a reset or a hole, in order of period, server, model, kind, series and time. ``copies``
        of the series are read as one. ``until_value`` less ``from_value`` is ``grown``; of a ``reset`` ``from_value`` is 0 and
        ``from_ms`` the first sample of the new life. ``samples`` lie in the period. The ``grown`` of a counter's stretches add up
        to what ``counters.increases`` tells.
    """
    names, samples = steps(counters, max_gap_ms)
    known = names.groupby("series", as_index=False).agg({**dict.fromkeys([*GROUP, "instance"], "first"), "replica": "nunique"})
    pairs = of_periods(known, periods).drop(columns="pod_uid").rename(columns={"replica": "copies", "of_uid": "pod_uid"})
    series, times = samples.series.to_numpy(), samples.ms.to_numpy()
    first, until = (rows_before(series, times, pairs.series.to_numpy(), pairs[c].to_numpy()) for c in ("start_ms", "end_ms"))
    row, pair = _ranges(first, until)
    ends = _ends(samples, row, pair)
    keys = ["period", "server", "model", "kind", "pod_uid", "instance"]
    told = pd.concat([pairs.iloc[ends.pair].reset_index(drop=True), ends.drop(columns="pair")], axis=1)
    return told.sort_values([*keys, "series", "until_ms"], ignore_index=True, kind="stable")[list(COLUMNS)]


def _ranges(first: npt.NDArray[np.int64], until: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Every number of each range, and the number of its range."""
    lengths = np.maximum(until - first, 0)
    pair = np.repeat(np.arange(len(first)), lengths)
    return first[pair] + np.arange(len(pair)) - (np.cumsum(lengths) - lengths)[pair], pair


def _ends(samples: pd.DataFrame, row: npt.NDArray[np.int64], pair: npt.NDArray[np.int64]) -> pd.DataFrame:
    """The ends of each stretch of the rows of each pair."""
    number = np.cumsum(samples.began.to_numpy() != ON)
    there = pd.DataFrame({"pair": pair, "stretch": number[row], "row": row})
    ends = there.groupby(["pair", "stretch"], as_index=False).row.agg(["min", "max", "size"])
    ms, stands, began = (samples[name].to_numpy() for name in ("ms", "stands", "began"))
    begins, last = ends["min"].to_numpy(np.int64), ends["max"].to_numpy(np.int64)
    how = began[begins]
    origin = begins - (how == ON)
    base = np.where(how == RESET, 0, stands[origin])
    return pd.DataFrame(
        {
            "pair": ends.pair.to_numpy(np.int64),
            "began": [BEGAN[int(h)] for h in how],
            "from_ms": ms[origin],
            "from_value": base,
            "until_ms": ms[last],
            "until_value": stands[last],
            "samples": ends["size"].to_numpy(np.int64),
            "grown": stands[last] - base,
        }
    )
