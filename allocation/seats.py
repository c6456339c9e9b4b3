"""Who sits at the board in a period: the series of a device that have something to say in it, and the holders they name."""

import numpy as np
import numpy.typing as npt

from allocation.board import ASKED, FIRST, GROUP, KIND, LOCAL, ROLE, ROW, SEAT, STOP, TWIN, WORTH
from allocation.compiled import inner
from allocation.instant import ABSENT, DECLARED, POD
from allocation.intervals import Runs, first_above

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@inner
def seat_series(
    runs: Runs,
    ids: tuple[int, int],
    period: tuple[int, int],
    roles: Int64,
    levels: Int64,
    includes: Bool,
    local: Int64,
    series: Int64,
) -> int:
    """Writes the series of ``ids`` (a range, in order of role and holder) that have runs in the period; how many."""
    n = 0
    for s in range(ids[0], ids[1]):
        a, b = runs.offsets[s], runs.offsets[s + 1]
        if a == b or runs.end[b - 1] <= period[0] or runs.start[a] >= period[1]:
            continue
        place = first_above(runs.end, a, b, period[0])
        if runs.start[place] >= period[1]:
            continue
        series[n, ROLE], series[n, SEAT] = roles[s], local[s]
        series[n, KIND] = levels[s] if roles[s] == POD else includes[s]
        series[n, FIRST], series[n, STOP], series[n, GROUP] = place, b, n
        if n > 0 and series[n - 1, ROLE] == roles[s] and (roles[s] < POD or series[n - 1, SEAT] == local[s]):
            series[n, GROUP] = series[n - 1, GROUP]
        n += 1
    return n


@inner
def seat_holders(series: Int64, n: int, holders: Int64, rests: Float64, accounts: Int64) -> int:
    """Gives every pod that has a series a seat, in order; how many. What a pod without a series declared tells nothing."""
    seats, asked = 0, 0
    for j in range(n):
        if series[j, ROLE] == POD and series[j, GROUP] == j:
            holders[seats, :] = 0
            holders[seats, LOCAL] = series[j, SEAT]
            holders[seats, TWIN], holders[seats, ROW], holders[seats, ASKED] = ABSENT, ABSENT, ABSENT
            holders[seats, WORTH] = ABSENT
            rests[seats, :] = 0.0
            accounts[seats, :] = 0
            seats += 1
        if series[j, ROLE] == POD:
            series[j, SEAT] = seats - 1
        elif series[j, ROLE] == DECLARED:
            while asked < seats and holders[asked, LOCAL] < series[j, SEAT]:
                asked += 1
            found = asked < seats and holders[asked, LOCAL] == series[j, SEAT]
            series[j, SEAT] = asked if found else ABSENT
    return seats
