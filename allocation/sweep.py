"""The sweep over one device: the method at an instant, integrated over a period into whole byte-ms.

On every device, used + overhead + idle = K x known time, to the last byte-ms. Drawbacks that ``basis`` tells: repeated device
values are shared by declared memory or evenly, which is an estimate; all else is what the source measured.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import instant, wide
from allocation.compiled import kernel
from allocation.instant import ABSENT, Series
from allocation.intervals import Runs
from allocation.shares import credit, share_out

Int64 = npt.NDArray[np.int64]

PROPORTIONAL, EVEN, SEPARATE, HOLDER = range(4)
"""Policies for overhead and idle."""
USED_AT, OVERHEAD_AT, IDLE_AT, OBSERVED_AT, IMPUTED_AT, BASIS_AT = 0, 2, 4, 6, 7, 8
"""Columns of a holder's account: three wide sums, two times in ms, the weakest basis."""
ACCOUNT_COLUMNS = 9


class Choice(NamedTuple):
    """The policy as the sweep reads it."""

    overhead: int
    idle: int


class Limits(NamedTuple):
    """What is configured or known of the device's size: bytes, or ABSENT. An instance has no configured size of its own."""

    configured: int
    nameplate: int
    reserved: int
    is_instance: bool


class DeviceResult(NamedTuple):
    """Accounts of the holders and of the device itself in one period.

    ``accounts[h]`` for the holders; ``accounts[-1]`` is the device: its overhead and idle that no holder bears, its known time.
    ``pooled_*``: idle that the node's holders will share. Evidence: ms and bytes of what findings tell.
    """

    accounts: Int64
    pooled_high: int
    pooled_low: int
    first: int
    last: int
    over_ms: int
    over_bytes: int
    repeated_ms: int
    naive_high: int
    naive_low: int
    unmapped_ms: int


@kernel
def open_series(runs: Runs, ids: Int64, start: int, end: int) -> tuple[Int64, Int64]:
    """Which of the series have runs in the period, and the run at which each begins there."""
    kept, first = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    n = 0
    for s in ids:
        a, b = runs.offsets[s], runs.offsets[s + 1]
        p = a + np.searchsorted(runs.end[a:b], start, side="right")
        if p < b and runs.start[p] < end:
            kept[n], first[n] = s, p
            n += 1
    return kept[:n], first[:n]


@kernel
def step(runs: Runs, ids: Int64, place: Int64, t: int, end: int, series: Series) -> int:
    """Sets what every series shows at t; returns when that changes next, at most ``end``."""
    after = end
    for j in range(len(ids)):
        p, stop = place[j], runs.offsets[ids[j] + 1]
        while p < stop and runs.end[p] <= t:
            p += 1
        place[j] = p
        series.active[j] = p < stop and runs.start[p] <= t
        if series.active[j]:
            series.value[j], series.imputed[j] = runs.value[p], runs.imputed[p]
            after = min(after, runs.end[p])
        elif p < stop:
            after = min(after, runs.start[p])
    return after


@kernel
def _largest_total(runs: Runs, ids: Int64, place: Int64, end: int, series: Series) -> int:
    """The largest value of the device's ``total`` series in the period, or ABSENT."""
    total = ABSENT
    for j in range(len(ids)):
        if series.role[j] == instant.TOTAL:
            p = place[j]
            while p < runs.offsets[ids[j] + 1] and runs.start[p] < end:
                total = max(total, runs.value[p])
                p += 1
    return total


@kernel
def _sizes_now(series: Series, holders: int, reserve: int) -> tuple[int, int, int]:
    """What the device shows of its size at an instant: used + free + reserved, used + free (or ABSENT), and the most in use."""
    device = instant.device_values(series)
    used = device.used if device.used != ABSENT else device.rows
    reserved = device.reserved if device.reserved != ABSENT else max(reserve, 0)
    own = instant.used_now(device, reserved)
    pods = instant.holders_now(series, holders, own if device.used != ABSENT else ABSENT)
    least = max(own, instant.split_now(pods, device, own).size) + reserved
    if used == ABSENT or device.free == ABSENT:
        return ABSENT, ABSENT, least
    visible = used + device.free
    if device.includes_reserved:
        return visible, visible, least
    return (visible + device.reserved if device.reserved != ABSENT else ABSENT), visible, least


@kernel
def capacity(
    runs: Runs, ids: Int64, place: Int64, start: int, end: int, series: Series, limits: Limits, holders: int
) -> tuple[int, bool]:
    """K of a device in a period, by the first rung of R6 that holds at any instant; and whether it is only a guess."""
    total = _largest_total(runs, ids, place, end, series)
    if total > 0:
        return total, False
    place = place.copy()
    whole, visible, least = ABSENT, ABSENT, 0
    t = start
    while t < end:
        after = step(runs, ids, place, t, end, series)
        now = _sizes_now(series, holders, limits.reserved)
        whole, visible, least = max(whole, now[0]), max(visible, now[1]), max(least, now[2])
        t = after
    if whole > 0:
        return whole, False
    for size in (limits.configured, limits.nameplate):
        if size > 0 and not limits.is_instance:
            return size, False
    return (visible, False) if visible > 0 else (max(least, 1), True)


@kernel
def _mark_time(series: Series, dt: int, accounts: Int64) -> bool:
    """Books observed and imputed time of the device and of each holder; whether the device is known now (R9, R27)."""
    last = len(accounts) - 1
    known = np.zeros(len(accounts), np.int64)
    for j in range(len(series.role)):
        role = series.role[j]
        if not series.active[j] or role in (instant.ROWS, instant.DECLARED):
            continue
        how = 1 if series.imputed[j] else 2
        known[last] = max(known[last], how)
        if role == instant.POD:
            known[series.local[j]] = max(known[series.local[j]], how)
    for h in range(len(accounts)):
        if known[h] > 0:
            accounts[h, OBSERVED_AT if known[h] == 2 else IMPUTED_AT] += dt
    return known[last] > 0


@kernel
def _book_idle(
    idle: int, dt: int, in_use: bool, split: instant.Split, who: Int64, choice: Choice, accounts: Int64
) -> tuple[int, int]:
    """Idle to holders or to the device's bucket; what is pooled over the node is returned as a wide number."""
    n = len(who)
    if choice.idle == PROPORTIONAL:
        return wide.multiply(idle, dt)
    if choice.idle == SEPARATE or n == 0:
        high, low = wide.multiply(idle, dt)
        credit(accounts, len(accounts) - 1, IDLE_AT, high, low)
    elif choice.idle == EVEN or not in_use:
        share_out(idle, dt, split.weights, who, 0, accounts, IDLE_AT)
    else:
        share_out(idle, dt, split.weights, who, split.total, accounts, IDLE_AT)
    return 0, 0


@kernel
def _book_overhead(overhead: int, dt: int, split: instant.Split, who: Int64, choice: Choice, accounts: Int64) -> None:
    """Overhead by memory, evenly, or to the device's bucket."""
    if choice.overhead == SEPARATE:
        high, low = wide.multiply(overhead, dt)
        credit(accounts, len(accounts) - 1, OVERHEAD_AT, high, low)
    else:
        share_out(overhead, dt, split.weights, who, 0 if choice.overhead == EVEN else split.total, accounts, OVERHEAD_AT)


@kernel
def sweep_device(
    runs: Runs,
    ids: Int64,
    place: Int64,
    period: tuple[int, int],
    series: Series,
    holders: int,
    k: int,
    reserve: int,
    choice: Choice,
) -> DeviceResult:
    """Integrates one device over ``period`` (ms). ``k`` is its capacity, ``reserve`` the configured reserve or ABSENT, bytes."""
    start, end = period
    accounts = np.zeros((holders + 1, ACCOUNT_COLUMNS), np.int64)
    accounts[:, BASIS_AT] = ABSENT
    pooled, naive = (0, 0), (0, 0)
    first, last, over_ms, over_bytes, repeated_ms, unmapped_ms = ABSENT, ABSENT, 0, 0, 0, 0
    t = start
    while t < end:
        after = step(runs, ids, place, t, end, series)
        dt = after - t
        if _mark_time(series, dt, accounts):
            first, last = (t if first == ABSENT else first), after
            device = instant.device_values(series)
            reserved = instant.reserved_now(device, k, reserve)
            used = instant.used_now(device, reserved)
            pods = instant.holders_now(series, holders, used if device.used != ABSENT else ABSENT)
            split = instant.split_now(pods, device, used)
            size = min(split.size, k - reserved)
            if split.size > size:
                over_ms, over_bytes = over_ms + dt, max(over_bytes, split.size)
            unexplained = min(max(used - size, 0), k - reserved - size) if used != ABSENT else 0
            overhead = reserved + unexplained if size > 0 else 0
            idle = k - size - overhead
            if size > 0:
                share_out(size, dt, split.weights, pods.who, split.total, accounts, USED_AT)
                _book_overhead(overhead, dt, split, pods.who, choice, accounts)
            ph, pl = _book_idle(idle, dt, size > 0, split, pods.who, choice, accounts)
            pooled = wide.add(pooled[0], pooled[1], ph, pl)
            for h in pods.who:
                accounts[h, BASIS_AT] = max(accounts[h, BASIS_AT], split.basis)
            if split.repeated:
                nh, nl = wide.multiply(np.sum(pods.memory), dt)
                naive = wide.add(naive[0], naive[1], nh, nl)
                repeated_ms += dt
            unmapped_ms += dt if split.unmapped else 0
        t = after
    return DeviceResult(
        accounts, pooled[0], pooled[1], first, last, over_ms, over_bytes, repeated_ms, naive[0], naive[1], unmapped_ms
    )
