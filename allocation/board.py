"""What every series of a device shows now, and who holds the device by that: what a sweep carries from change to change.

Only what changed is looked at again. Here belongs the bookkeeping of state; the rules for an instant stand in ``instant``, what
is booked over time in ``sweep``. The arrays are made once and used again for every device and period.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation.agenda import PLACE_MASK, enter, leave, postpone
from allocation.compiled import inner, kernel
from allocation.instant import (
    ABSENT,
    BY_DECLARED,
    CONTAINER,
    DECLARED,
    EVENLY,
    INFERRED,
    INFERRED_LEVEL,
    REPEATED_WITHIN,
    ROWS,
    USED,
    Crowd,
    Device,
    memory_of,
)
from allocation.intervals import Runs
from allocation.meters import METERS

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

NEVER = (1 << 62) - 1
ROLE, KIND, SEAT, GROUP, FIRST, PLACE, STOP, VALUE, SIGHT, SERIES_COLUMNS = range(10)
"""Columns of a series: role; its level, or whether a used value includes the reserve; its holder's seat; the first series that
tells of the same thing; its first run in the period, the present or next one, the one after the last; the value shown now; how it
is seen."""
UNSEEN, IMPUTED, OBSERVED = range(3)
"""How a series or a holder is seen at an instant."""
(
    LOCAL, PRESENT, CONTAINERS, OWN, TWIN, ROW, ASKED, MEMORY, SEEN, HELD, WEIGHT, WORTH, SINCE, READ,
) = range(14)  # fmt: skip
"""Columns of a holder: its place on the device; whether it holds the device now; how many containers show it and their sum, the
value that they repeat, its device-level row, what it declared (each or ABSENT); its memory; how it is seen. Then what is booked:
whether it holds, its weight in the split, and the weakest basis so far; since when time is not booked, and what the meters showed
when they were last read for it."""
HOLDER_COLUMNS = READ + 2 * METERS
(
    INCLUDES, KNOWN, FRESH, HOLDERS, MEASURED, NAMED, DECLARING, MEMORY_SUM, OWN_SUM, TWINS, DECLARED_SUM, BY_CONTAINER, FITS, BY,
    BASIS, TALLY_COLUMNS,
) = range(5, 21)  # fmt: skip
"""The tally of a device after the values of its five roles: what the sums over its series and holders are, and the rule in force:
whether a used value includes the reserve; how many series make the device known, and how many of them observe it; what ``Crowd``
has; the sum over containers; how many holders' containers repeat a value; R25 and R3 as they are now; the split's ``by`` and
``basis``."""


class Board(NamedTuple):
    """Room for the state of one device: rows are series, holders, and accounts; ``turned`` lists holders that changed.

    ``accounts`` and ``sums`` are the sweep's; the last account is the sum over all holders.
    """

    series: Int64
    agenda: Int64
    holders: Int64
    rests: Float64
    accounts: Int64
    turned: Int64
    tally: Int64
    meters: Int64
    parts: Float64
    sums: Int64


@kernel
def make_board(series: int, holders: int, account_columns: int, sum_columns: int) -> Board:
    """Room for devices of up to so many series and holders."""
    return Board(
        np.zeros((series, SERIES_COLUMNS), np.int64),
        np.zeros(series, np.int64),
        np.zeros((holders + 1, HOLDER_COLUMNS), np.int64),
        np.zeros((holders + 1, METERS + 3), np.float64),
        np.zeros((holders + 1, account_columns), np.int64),
        np.zeros(series + holders, np.int64),
        np.zeros(TALLY_COLUMNS, np.int64),
        np.zeros((METERS, 2), np.int64),
        np.zeros(METERS, np.float64),
        np.zeros(sum_columns, np.int64),
    )


@inner
def clear(desk: Board) -> None:
    """Nothing is shown, held or booked."""
    desk.tally[:] = 0
    desk.tally[: ROWS + 1] = ABSENT
    desk.tally[FITS], desk.tally[BY], desk.tally[BASIS] = 1, ABSENT, ABSENT
    desk.meters[:] = 0
    desk.parts[:] = 0.0
    desk.sums[:] = 0
    desk.accounts[len(desk.accounts) - 1, :] = 0


@inner
def start_agenda(run_start: Int64, series: Int64, n: int, start: int, agenda: Int64) -> int:
    """Sets the first n series to their first runs, not shown yet, and enters when each begins; how many."""
    for j in range(n):
        series[j, PLACE], series[j, SIGHT] = series[j, FIRST], UNSEEN
        enter(agenda, j, max(run_start[series[j, FIRST]] - start, 0), j)
    return n


@inner
def show(runs: Runs, series: Int64, j: int, t: int) -> int:
    """Sets what series j shows at t, when it changes; returns when it changes next."""
    place = series[j, PLACE]
    if series[j, SIGHT] != UNSEEN:
        place += 1
        series[j, PLACE] = place
        series[j, SIGHT] = UNSEEN
    if place == series[j, STOP]:
        return NEVER
    start, end = runs.start[place], runs.end[place]
    if start > t:
        return int(start)
    series[j, VALUE] = runs.value[place]
    series[j, SIGHT] = IMPUTED if runs.imputed[place] else OBSERVED
    return int(end)


@inner
def turn_first(runs: Runs, series: Int64, agenda: Int64, count: int, t: int, period: tuple[int, int]) -> int:
    """Shows the change at t that stands first on the agenda; how many are still to come."""
    after: int = show(runs, series, agenda[0] & PLACE_MASK, t)
    left: int = postpone(agenda, count, after - period[0]) if after < period[1] else leave(agenda, count)
    return left


@inner
def count_sight(tally: Int64, role: int, before: int, now: int) -> None:
    """Counts a series under how it is seen now, if it makes the device known (R9)."""
    if role in (ROWS, DECLARED):
        return
    tally[KNOWN] += (now != UNSEEN) - (before != UNSEEN)
    tally[FRESH] += (now == OBSERVED) - (before == OBSERVED)


@inner
def retell_device(series: Int64, n: int, j: int, tally: Int64) -> None:
    """The device's value of series j's role: the largest of its series, which may all include the reserve."""
    role, value, includes = series[j, ROLE], ABSENT, 0
    k = series[j, GROUP]
    while k < n and series[k, ROLE] == role:
        if series[k, SIGHT] != UNSEEN:
            value = max(value, series[k, VALUE])
            includes = max(includes, series[k, KIND])
        k += 1
    tally[role] = value
    if role == USED:
        tally[INCLUDES] = includes


@inner
def device_now(tally: Int64) -> Device:
    """What the device says of itself."""
    return Device(tally[0], tally[1], tally[3], tally[ROWS], tally[INCLUDES] != 0)


@inner
def retell_pod(series: Int64, n: int, j: int, holders: Int64, tally: Int64) -> None:
    """A holder's facts from all series that tell of it as series j does; its memory is still to be judged."""
    h, first = series[j, SEAT], series[j, GROUP]
    containers, own, smallest, largest, row, inferred, seen = 0, 0, NEVER, ABSENT, ABSENT, False, UNSEEN
    k = first
    while k < n and series[k, GROUP] == first:
        if series[k, SIGHT] != UNSEEN:
            value = series[k, VALUE]
            seen = max(seen, series[k, SIGHT])
            if series[k, KIND] == CONTAINER:
                containers += 1
                own += value
                smallest, largest = min(smallest, value), max(largest, value)
            elif series[k, KIND] == INFERRED_LEVEL:
                inferred = True
            else:
                row = max(row, value)
        k += 1
    twin = largest if containers > 1 and smallest == largest else ABSENT
    _count_pod(holders, h, tally, -1)
    holders[h, CONTAINERS], holders[h, OWN], holders[h, TWIN], holders[h, ROW] = containers, own, twin, row
    holders[h, PRESENT], holders[h, SEEN] = containers > 0 or row != ABSENT or inferred, seen
    _count_pod(holders, h, tally, 1)


@inner
def _count_pod(holders: Int64, h: int, tally: Int64, sign: int) -> None:
    """Adds a holder's facts to the tally (sign 1), or takes them away (-1)."""
    if holders[h, PRESENT] == 0:
        return
    tally[HOLDERS] += sign
    tally[OWN_SUM] += sign * holders[h, OWN]
    tally[MEASURED] += sign * (holders[h, CONTAINERS] > 0)
    tally[NAMED] += sign * (holders[h, CONTAINERS] > 0 or holders[h, ROW] != ABSENT)
    tally[TWINS] += sign * (holders[h, TWIN] != ABSENT)
    _count_declared(holders, h, tally, sign)


@inner
def retell_declared(series: Int64, n: int, j: int, holders: Int64, tally: Int64) -> None:
    """What a holder declared: the sum over its series."""
    h, first, asked = series[j, SEAT], series[j, GROUP], ABSENT
    k = first
    while k < n and series[k, GROUP] == first:
        if series[k, SIGHT] != UNSEEN:
            asked = max(asked, 0) + series[k, VALUE]
        k += 1
    _count_declared(holders, h, tally, -1)
    holders[h, ASKED] = asked
    _count_declared(holders, h, tally, 1)


@inner
def _count_declared(holders: Int64, h: int, tally: Int64, sign: int) -> None:
    """Adds what a holder declared to the tally (sign 1), or takes it away (-1)."""
    if holders[h, PRESENT] and holders[h, ASKED] != ABSENT:
        tally[DECLARING] += sign
        tally[DECLARED_SUM] += sign * holders[h, ASKED]


@inner
def remember_memory(holders: Int64, h: int, tally: Int64) -> None:
    """A holder's memory by the rules in force."""
    memory = 0
    if holders[h, PRESENT]:
        by_container, fits = tally[BY_CONTAINER] != 0, tally[FITS] != 0
        own, twin, row = holders[h, OWN], holders[h, TWIN], holders[h, ROW]
        memory = memory_of(holders[h, CONTAINERS], own, twin, row, by_container, fits)
    tally[MEMORY_SUM] += memory - holders[h, MEMORY]
    holders[h, MEMORY] = memory


@inner
def reweigh(holders: Int64, h: int, by: int, basis: int) -> None:
    """A holder's weight in the split, and the weakest basis so far; who is only inferred has the weakest of all (R28)."""
    held = holders[h, PRESENT]
    holders[h, HELD], holders[h, WEIGHT] = held, 0
    if held:
        weight = 1 if by == EVENLY else holders[h, ASKED] if by == BY_DECLARED else holders[h, MEMORY]
        named = holders[h, CONTAINERS] > 0 or holders[h, ROW] != ABSENT
        holders[h, WEIGHT], holders[h, WORTH] = weight, max(holders[h, WORTH], basis if named else INFERRED)


@inner
def crowd_now(holders: Int64, seats: int, tally: Int64, device: Device, used: int) -> Crowd:
    """What the holders are together; one value of all, and the largest, are looked for only where they can matter."""
    n, memory = tally[HOLDERS], tally[MEMORY_SUM]
    one_value, largest = ABSENT, ABSENT
    repeated = float(n) * used
    alike = device.used != ABSENT and n > 1 and abs(memory - repeated) * (REPEATED_WITHIN - 1) <= repeated
    unknown = device.used == ABSENT and device.rows == ABSENT and tally[MEASURED] == 0
    if alike or unknown:
        smallest = NEVER
        for h in range(seats):
            if holders[h, PRESENT]:
                smallest, largest = min(smallest, holders[h, MEMORY]), max(largest, holders[h, MEMORY])
        one_value = largest if smallest == largest else ABSENT
    return Crowd(n, tally[MEASURED], tally[NAMED], tally[DECLARING], memory, one_value, largest, tally[DECLARED_SUM])
