"""The sweep over one device: the method at an instant, integrated over a period into whole byte-ms.

On every device, used + overhead + idle = K x known time, to the last byte-ms. Drawbacks that ``basis`` tells: repeated device
values are shared by declared memory or evenly, which is an estimate; all else is what the source measured.

The sweep goes from change to change. What the device holds is booked at each; what a holder has of it is booked when its weight
changes, from meters (see ``meters``).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import board, instant, meters, wide
from allocation.agenda import PLACE_BITS, PLACE_MASK, next_change
from allocation.board import Board
from allocation.compiled import inner, woven
from allocation.instant import ABSENT, Parts, Split
from allocation.intervals import Runs
from allocation.meters import HEAD_METER, IDLE_METER, METERS, OVERHEAD_METER, USED_METER
from allocation.shares import credit, settle

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

PROPORTIONAL, EVEN, SEPARATE, HOLDER = range(4)
"""Policies for overhead and idle."""
USED_AT, OVERHEAD_AT, IDLE_AT, OBSERVED_AT, IMPUTED_AT, BASIS_AT = 0, 2, 4, 6, 7, 8
"""Columns of an account: three wide sums, two times in ms, the weakest basis."""
ACCOUNT_COLUMNS = 9
(
    BUCKET_IDLE, _, BUCKET_OVERHEAD, _, EXCESS, _, OBSERVED_MS, IMPUTED_MS, FIRST_MS, LAST_MS, MOST, OVER_MS, OVER_BYTES,
    REPEATED_MS, UNMAPPED_MS, SUM_COLUMNS,
) = range(16)  # fmt: skip
"""The sums of a device. Wide: idle and overhead that no holder of the device bears, and what a naive sum of repeated values
would charge. Known time, and its first and last instant, ms; the most ever claimed, bytes; evidence for findings."""
WHOLE = METERS
"""Where the rests of the three sums stand in a holder's rests, after the parts of the meters."""


class Choice(NamedTuple):
    """The policy as the sweep reads it."""

    overhead: int
    idle: int


class State(NamedTuple):
    """A device between two changes: U, R, how the memory in use is split, and K in its parts (bytes)."""

    used: int
    reserved: int
    split: Split
    parts: Parts


@inner
def read_meter(
    holders: Int64, rests: Float64, accounts: Int64, whole: Int64, part: Float64, h: int, meter: int, weight: int
) -> None:
    """Books what a meter moved since it was last read for holder h, by its weight."""
    at = board.READ + 2 * meter
    high, low = wide.subtract(whole[meter, 0], whole[meter, 1], holders[h, at], holders[h, at + 1])
    moved = part[meter] - rests[h, meter]
    if high == 0 and low == 0 and moved == 0.0:
        return
    holders[h, at], holders[h, at + 1], rests[h, meter] = whole[meter, 0], whole[meter, 1], part[meter]
    if weight > 0:
        kind = IDLE_METER if meter == HEAD_METER else meter
        high, low, rests[h, WHOLE + kind] = meters.share(weight, high, low, moved, rests[h, WHOLE + kind])
        credit(accounts, h, 2 * kind, high, low)


@inner
def book_holder(
    holders: Int64, rests: Float64, accounts: Int64, whole: Int64, part: Float64, h: int, t: int, evenly: bool
) -> None:
    """Books a holder's byte-time and time up to t under the weight that it had (R27). ``evenly``: overhead is per holder."""
    weight, present = holders[h, board.WEIGHT], holders[h, board.HELD]
    read_meter(holders, rests, accounts, whole, part, h, USED_METER, weight)
    read_meter(holders, rests, accounts, whole, part, h, OVERHEAD_METER, present if evenly else weight)
    read_meter(holders, rests, accounts, whole, part, h, IDLE_METER, weight)
    read_meter(holders, rests, accounts, whole, part, h, HEAD_METER, present)
    if holders[h, board.SEEN] == board.OBSERVED:
        accounts[h, OBSERVED_AT] += t - holders[h, board.SINCE]
    elif holders[h, board.SEEN] == board.IMPUTED:
        accounts[h, IMPUTED_AT] += t - holders[h, board.SINCE]
    holders[h, board.SINCE] = t


@woven
def take_turns(runs: Runs, desk: Board, n: int, count: int, t: int, period: tuple[int, int], evenly: bool) -> tuple[int, int]:
    """Takes in every change at t; how many changes are still to come, and how many holders are on ``turned``."""
    series, tally, holders, turned = desk.series, desk.tally, desk.holders, 0
    while count > 0 and desk.agenda[0] >> PLACE_BITS == t - period[0]:
        j = desk.agenda[0] & PLACE_MASK
        role, h, before = series[j, board.ROLE], series[j, board.SEAT], series[j, board.SIGHT]
        count = board.turn_first(runs, series, desk.agenda, count, t, period)
        board.count_sight(tally, role, before, series[j, board.SIGHT])
        if role < instant.POD:
            board.retell_device(series, n, j, tally)
        elif h != ABSENT:
            book_holder(holders, desk.rests, desk.accounts, desk.meters, desk.parts, h, t, evenly)
            if role == instant.POD:
                board.retell_pod(series, n, j, holders, tally)
            else:
                board.retell_declared(series, n, j, holders, tally)
            desk.turned[turned] = h
            turned += 1
    return count, turned


@inner
def turn_all(desk: Board, seats: int, t: int, evenly: bool) -> int:
    """Books every holder up to t, because the rule changes for all of them; how many are on ``turned``."""
    for h in range(seats):
        book_holder(desk.holders, desk.rests, desk.accounts, desk.meters, desk.parts, h, t, evenly)
        desk.turned[h] = h
    return seats


@woven
def judge(desk: Board, seats: int, turned: int, t: int, k: int, reserve: int, evenly: bool) -> State:
    """The rules of an instant over what the board shows, and the weights by them."""
    tally, holders = desk.tally, desk.holders
    device = board.device_now(tally)
    reserved = instant.reserved_now(device, k, reserve)
    used = instant.used_now(device, reserved)
    by_container = tally[board.MEASURED] > 0
    fits = tally[board.TWINS] == 0 or (device.used != ABSENT and tally[board.OWN_SUM] <= used)
    if by_container != tally[board.BY_CONTAINER] or fits != tally[board.FITS]:
        tally[board.BY_CONTAINER], tally[board.FITS] = by_container, fits
        turned = turn_all(desk, seats, t, evenly)
    for i in range(turned):
        board.remember_memory(holders, desk.turned[i], tally)
    split = instant.split_now(board.crowd_now(holders, seats, tally, device, used), device, used)
    if split.by != tally[board.BY] or split.basis != tally[board.BASIS]:
        tally[board.BY], tally[board.BASIS] = split.by, split.basis
        turned = turn_all(desk, seats, t, evenly)
    for i in range(turned):
        board.reweigh(holders, desk.turned[i], split.by, split.basis)
    return State(used, reserved, split, instant.parts_now(split, used, reserved, k))


@woven
def give_used(desk: Board, state: State, heads: int, dt: int, choice: Choice) -> None:
    """Used and overhead of dt ms to the holders; overhead by memory, evenly, or to the device's bucket."""
    total, overhead, last = state.split.total, state.parts.overhead, len(desk.accounts) - 1
    meters.advance(desk.meters, desk.parts, USED_METER, state.parts.used, dt, total)
    high, low = wide.multiply(state.parts.used, dt)
    credit(desk.accounts, last, USED_AT, high, low)
    high, low = wide.multiply(overhead, dt)
    if choice.overhead == SEPARATE:
        add_wide(desk.sums, BUCKET_OVERHEAD, high, low)
    elif overhead > 0:
        meters.advance(desk.meters, desk.parts, OVERHEAD_METER, overhead, dt, heads if choice.overhead == EVEN else total)
        credit(desk.accounts, last, OVERHEAD_AT, high, low)


@woven
def give_idle(desk: Board, state: State, heads: int, dt: int, choice: Choice) -> None:
    """Idle of dt ms by memory, evenly where that is 0, or to the device's bucket (from which the node's holders may take it)."""
    idle = state.parts.idle
    high, low = wide.multiply(idle, dt)
    if choice.idle == PROPORTIONAL or choice.idle == SEPARATE or heads == 0:
        add_wide(desk.sums, BUCKET_IDLE, high, low)
    elif idle > 0:
        by_head = choice.idle == EVEN or state.parts.used == 0
        meter, total = (HEAD_METER, heads) if by_head else (IDLE_METER, state.split.total)
        meters.advance(desk.meters, desk.parts, meter, idle, dt, total)
        credit(desk.accounts, len(desk.accounts) - 1, IDLE_AT, high, low)


@inner
def add_wide(sums: Int64, at: int, high: int, low: int) -> None:
    """Adds a wide number to the wide sum at ``sums[at:at + 2]``."""
    sums[at], sums[at + 1] = wide.add(sums[at], sums[at + 1], high, low)


@woven
def note_time(sums: Int64, tally: Int64, state: State, t: int, dt: int) -> None:
    """Known time (R9, R27), and what findings tell of dt ms."""
    sums[OBSERVED_MS if tally[board.FRESH] > 0 else IMPUTED_MS] += dt
    if sums[OBSERVED_MS] + sums[IMPUTED_MS] == dt:
        sums[FIRST_MS] = t
    sums[LAST_MS] = t + dt
    sums[MOST] = max(sums[MOST], max(state.used, state.split.size) + state.reserved)
    if state.parts.claimed > state.parts.used:
        sums[OVER_MS] += dt
        sums[OVER_BYTES] = max(sums[OVER_BYTES], state.parts.claimed)
    if state.split.repeated:
        sums[REPEATED_MS] += dt
        high, low = wide.multiply(max(tally[board.MEMORY_SUM] - state.parts.used, 0), dt)
        add_wide(sums, EXCESS, high, low)
    if state.split.unmapped:
        sums[UNMAPPED_MS] += dt


@inner
def sweep_device(
    runs: Runs, desk: Board, n: int, seats: int, period: tuple[int, int], k: int, reserve: int, choice: Choice
) -> State:
    """Integrates one device over ``period`` (ms) into the board's accounts and sums.

    Args:
        runs: the runs of all series.
        desk: the board with the device's series and holders seated.
        n: how many series.
        seats: how many holders.
        period: start and end.
        k: its capacity, bytes; UNSIZED where only ``sums[MOST]`` is asked for.
        reserve: the configured reserve in bytes, or ABSENT.
        choice: the policy.

    Returns:
        The last state that was known.
    """
    board.clear(desk)
    evenly = choice.overhead == EVEN
    count = board.start_agenda(runs.start, desk.series, n, period[0], desk.agenda)
    state = State(ABSENT, 0, Split(0, 0, 0, 0, False, False), Parts(0, 0, 0, 0))
    t = period[0]
    while t < period[1]:
        count, turned = take_turns(runs, desk, n, count, t, period, evenly)
        after = next_change(desk.agenda, count, period[0], period[1])
        now = judge(desk, seats, turned, t, k, reserve, evenly)
        if desk.tally[board.KNOWN] > 0:
            state = now
            note_time(desk.sums, desk.tally, state, t, after - t)
            if state.parts.used > 0:
                give_used(desk, state, desk.tally[board.HOLDERS], after - t, choice)
            give_idle(desk, state, desk.tally[board.HOLDERS], after - t, choice)
        t = after
    close(desk, seats, t, evenly)
    return state


@inner
def close(desk: Board, seats: int, t: int, evenly: bool) -> None:
    """Books everybody up to the end and makes the holders' sums the device's, to the last byte-ms."""
    turn_all(desk, seats, t, evenly)
    last = desk.accounts[len(desk.accounts) - 1]
    for h in range(seats):
        desk.accounts[h, BASIS_AT] = desk.holders[h, board.WORTH]
    for column in (USED_AT, OVERHEAD_AT, IDLE_AT):
        settle(desk.accounts, seats, column, desk.rests[:, WHOLE + column // 2], (last[column], last[column + 1]))
