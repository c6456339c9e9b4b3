"""When series hold anything at all: runs that touch are one stretch, whatever their values. And times clipped to windows.

Here belongs what the passes over runs in ``inferred`` and ``noticed`` share.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation.compiled import kernel, read_only
from allocation.intervals import Runs

Int64 = npt.NDArray[np.int64]


class Stretches(NamedTuple):
    """Series s holds a value during the stretches ``offsets[s]:offsets[s+1]``; times in ms, half-open."""

    offsets: Int64
    start: Int64
    end: Int64


class Windows(NamedTuple):
    """The union of each machine's periods: machine m has ``offsets[m]:offsets[m+1]``, in time order; ms."""

    offsets: Int64
    start: Int64
    end: Int64


@kernel
def stretches_of(runs: Runs) -> Stretches:
    """The stretches of every series."""
    n = 0
    for s in range(len(runs.offsets) - 1):
        for p in range(runs.offsets[s], runs.offsets[s + 1]):
            n += p == runs.offsets[s] or runs.start[p] > runs.end[p - 1]
    offsets, start, end = np.zeros(len(runs.offsets), np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n = 0
    for s in range(len(runs.offsets) - 1):
        for p in range(runs.offsets[s], runs.offsets[s + 1]):
            if p == runs.offsets[s] or runs.start[p] > runs.end[p - 1]:
                start[n] = runs.start[p]
                n += 1
            end[n - 1] = runs.end[p]
        offsets[s + 1] = n
    return Stretches(offsets, start, end)


@kernel
def union_of(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The union of intervals, in time order, those that touch joined."""
    order = np.argsort(start, kind="mergesort")
    a, b = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    n = 0
    for i in order:
        if n > 0 and start[i] <= b[n - 1]:
            b[n - 1] = max(b[n - 1], end[i])
        else:
            a[n], b[n] = start[i], end[i]
            n += 1
    return a[:n].copy(), b[:n].copy()


@kernel
def time_within(windows: Windows, machine: int, start: int, end: int) -> int:
    """How much of ``[start, end)`` lies in the machine's windows, ms."""
    total = 0
    a, b = windows.offsets[machine], windows.offsets[machine + 1]
    w = a + np.searchsorted(windows.end[a:b], start, side="right")
    while w < b and windows.start[w] < end:
        total += min(end, windows.end[w]) - max(start, windows.start[w])
        w += 1
    return total


@kernel
def times_within(windows: Windows, spans: Int64) -> Int64:
    """How much of each span (machine, start, end) lies in its machine's windows, ms."""
    found = np.empty(len(spans), np.int64)
    for k in range(len(spans)):
        found[k] = time_within(windows, spans[k, 0], spans[k, 1], spans[k, 2])
    return found


def windows_of(periods: pd.DataFrame, machines: int) -> Windows:
    """The union of the periods of each machine; ``periods`` has ``machine``, ``start_ms``, ``end_ms``."""
    rows = periods.sort_values(["machine", "start_ms", "end_ms"])
    reach = rows.groupby("machine").end_ms.cummax()
    fresh = rows.start_ms > reach.groupby(rows.machine).shift(fill_value=np.iinfo(np.int64).min)
    stretch = fresh.cumsum()
    joined = rows.assign(reach=reach).groupby(stretch).agg({"machine": "first", "start_ms": "first", "reach": "last"})
    offsets = np.searchsorted(joined.machine.to_numpy(np.int64), np.arange(machines + 1)).astype(np.int64)
    return Windows(*map(read_only, (offsets, joined.start_ms.to_numpy(np.int64), joined.reach.to_numpy(np.int64))))
