"""Look-ups in rows that are sorted by group and time, all at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
_FITS = 2**62


def in_order(values: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.intp] | slice:
    """The order by the last of the values, then the one before it (see ``numpy.lexsort``); all of them where they lie so."""
    later = np.zeros(max(len(values[0]) - 1, 0), np.bool_)
    equal = ~later
    for value in reversed(values):
        later |= equal & (value[1:] > value[:-1])
        equal &= value[1:] == value[:-1]
    return slice(None) if (later | equal).all() else np.lexsort(tuple(values))


def rows_before(groups: Int64, times: Int64, group: Int64, time: Int64) -> Int64:
    """How many of the sorted rows (group, time) lie before each (group, time) that is asked for; equal times do not.

    >>> rows_before(np.array([0, 0, 1]), np.array([5, 9, 5]), np.array([0, 1]), np.array([9, 9])).tolist()
    [1, 3]
    """
    if not len(groups) or not len(group):
        return np.zeros(len(group), np.int64)
    low, high = min(times.min(), time.min()), max(times.max(), time.max())
    span = int(high) - int(low) + 1
    if span * (max(int(groups.max()), int(group.max())) + 1) < _FITS:
        found: Int64 = np.searchsorted(groups * span + (times - low), group * span + (time - low))
        return found
    count = len(groups)
    whose, when = np.concatenate((groups, group)), np.concatenate((times, time))
    known = np.concatenate((np.ones(count, np.int64), np.zeros(len(group), np.int64)))
    order = np.lexsort((known, when, whose))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(known[order])
    return before[count:]
