"""Which series of a device changes next, and when: the order in which a sweep meets the changes of many series.

Here belongs time only; what a change means stands in ``board`` and ``sweep``. An entry is one whole number, the ms since the
period's start above the place of the series, so that the least number is the next change and equal times have one order.
"""

import numpy as np
import numpy.typing as npt

from allocation.compiled import inner

Int64 = npt.NDArray[np.int64]
PLACE_BITS = 32
PLACE_MASK = (1 << PLACE_BITS) - 1


@inner
def enter(agenda: Int64, count: int, since_start: int, place: int) -> int:
    """Adds a change; the new count."""
    entry = (since_start << PLACE_BITS) | place
    i = count
    while i > 0 and agenda[(i - 1) >> 1] > entry:
        agenda[i] = agenda[(i - 1) >> 1]
        i = (i - 1) >> 1
    agenda[i] = entry
    return count + 1


@inner
def _sink(agenda: Int64, count: int, entry: int) -> None:
    """Puts an entry in the first one's stead, where it belongs."""
    i, child = 0, 1
    while child < count:
        if child + 1 < count and agenda[child + 1] < agenda[child]:
            child += 1
        if agenda[child] >= entry:
            break
        agenda[i] = agenda[child]
        i, child = child, 2 * child + 1
    agenda[i] = entry


@inner
def postpone(agenda: Int64, count: int, since_start: int) -> int:
    """The series that changed first changes again later; the count stays."""
    _sink(agenda, count, (since_start << PLACE_BITS) | (agenda[0] & PLACE_MASK))
    return count


@inner
def leave(agenda: Int64, count: int) -> int:
    """The series that changed first does not change any more; the new count."""
    if count > 1:
        _sink(agenda, count - 1, agenda[count - 1])
    return count - 1


@inner
def next_change(agenda: Int64, count: int, start: int, end: int) -> int:
    """When anything changes next, or the end of the period."""
    return start + (agenda[0] >> PLACE_BITS) if count > 0 else end
