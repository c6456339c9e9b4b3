"""How large a device is in one period: the first rung of R6 that any instant of it tells.

K decides what is idle, so it is one figure for the whole period. Nothing is booked here.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import board, instant
from allocation.agenda import PLACE_MASK, next_change
from allocation.board import Board
from allocation.compiled import inner, woven
from allocation.instant import ABSENT
from allocation.intervals import Runs

Int64 = npt.NDArray[np.int64]


class Limits(NamedTuple):
    """What is configured or known of the device's size: bytes, or ABSENT. An instance has no configured size of its own."""

    configured: int
    nameplate: int
    reserved: int
    is_instance: bool


@inner
def _largest_total(runs: Runs, series: Int64, n: int, end: int) -> int:
    """The largest value of the device's ``total`` series in the period, or ABSENT."""
    total = ABSENT
    for j in range(n):
        if series[j, board.ROLE] == instant.TOTAL:
            place = series[j, board.FIRST]
            while place < series[j, board.STOP] and runs.start[place] < end:
                total = max(total, runs.value[place])
                place += 1
    return total


@inner
def _own_series(series: Int64, n: int) -> tuple[int, bool]:
    """How many of the series are the device's own (they come first), and whether they tell both used and free."""
    own, used, free = 0, False, False
    while own < n and series[own, board.ROLE] <= instant.ROWS:
        used = used or series[own, board.ROLE] in (instant.USED, instant.ROWS)
        free = free or series[own, board.ROLE] == instant.FREE
        own += 1
    return own, used and free


@inner
def _visible(runs: Runs, desk: Board, own: int, period: tuple[int, int]) -> tuple[int, int]:
    """The largest used + free + reserved of any instant, and the largest used + free; ABSENT where there is none."""
    board.clear(desk)
    series, whole, visible = desk.series, ABSENT, ABSENT
    count = board.start_agenda(runs.start, series, own, period[0], desk.agenda)
    while count > 0:
        t = next_change(desk.agenda, count, period[0], period[1])
        while next_change(desk.agenda, count, period[0], period[1]) == t:
            j = desk.agenda[0] & PLACE_MASK
            count = board.turn_first(runs, series, desk.agenda, count, t, period)
            board.retell_device(series, own, j, desk.tally)
        device = board.device_now(desk.tally)
        used = device.used if device.used != ABSENT else device.rows
        if used != ABSENT and device.free != ABSENT:
            visible = max(visible, used + device.free)
            if device.includes_reserved:
                whole = max(whole, used + device.free)
            elif device.reserved != ABSENT:
                whole = max(whole, used + device.free + device.reserved)
    return whole, visible


@woven
def told_size(runs: Runs, desk: Board, n: int, period: tuple[int, int], limits: Limits) -> int:
    """K of the device on the board in a period, or ABSENT where nothing tells it; what the board showed is lost."""
    total: int = _largest_total(runs, desk.series, n, period[1])
    if total > 0:
        return total
    own, tells = _own_series(desk.series, n)
    whole, visible = _visible(runs, desk, own, period) if tells else (ABSENT, ABSENT)
    if whole > 0:
        return whole
    for size in (limits.configured, limits.nameplate):
        if size > 0 and not limits.is_instance:
            return size
    return visible if visible > 0 else ABSENT
