"""Exact division: money by largest remainder, and byte-time at an instant.

Every part is a whole number and the parts add up to the whole. Ties go to the earlier row; a negative whole is the mirror image
of the positive one.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.compiled import inner, kernel

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
NARROW = 1 << 61
MANY = 8
"""Where more units than these are left, the largest remainders are found by a heap."""


@inner
def _scale_narrow(c: int, w: int, total: int) -> tuple[int, int]:
    """``divmod(c * w, total)`` for w <= total < 2**61, bit by bit in one word."""
    q, r = 0, 0
    for bit in range(62, -1, -1):
        one = (c >> bit) & 1
        if one == 0 and q == 0 and r == 0:
            continue
        q += q
        r += r
        if one:
            r += w
        while r >= total:
            r -= total
            q += 1
    return q, r


class Rests(NamedTuple):
    """Room for what rounding leaves of as many parts: wide remainders, and an order of parts."""

    high: Int64
    low: Int64
    order: Int64


@kernel
def make_rests(n: int) -> Rests:
    """Room for n parts."""
    return Rests(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))


@kernel
def largest_remainder(whole: int, high: Int64, low: Int64, parts: Int64) -> bool:
    """Divides whole nano-units over wide weights into ``parts``, exactly; False where all weights are 0.

    Source: Hamilton's method; each part is the floor of its ideal share or one more.
    """
    return divide(whole, len(low), high, low, make_rests(len(low)), parts)


@inner
def divide(whole: int, n: int, high: Int64, low: Int64, rests: Rests, parts: Int64) -> bool:
    """``largest_remainder`` over the first n weights, with room for the remainders."""
    th, tl = 0, 0
    for i in range(n):
        th, tl = wide.add(th, tl, high[i], low[i])
        parts[i] = 0
    if th == 0 and tl == 0:
        return False
    size = abs(whole)
    left = size
    for i in range(n):
        rests.high[i] = 0
        if th == 0 and tl < NARROW and size < wide.SMALL:
            parts[i], rests.low[i] = wide.scale_small(size, low[i], tl)
        elif th == 0 and tl < wide.FLOAT_EXACT:
            parts[i], rests.low[i] = wide.scale_word(size, low[i], tl)
        elif th == 0 and tl < NARROW:
            parts[i], rests.low[i] = _scale_narrow(size, low[i], tl)
        else:
            c, rest = size >> wide.BITS, size & wide.MASK
            qh, ql, rests.high[i], rests.low[i] = wide.scale(c, rest, high[i], low[i], th, tl)
            parts[i] = (qh << wide.BITS) + ql
        left -= parts[i]
    if left > MANY:
        _hand_out_many(left, n, rests, parts)
    else:
        _hand_out(left, n, rests, parts)
    if whole < 0:
        for i in range(n):
            parts[i] = -parts[i]
    return True


@inner
def _hand_out(left: int, n: int, rests: Rests, parts: Int64) -> None:
    """One more to the ``left`` parts with the largest remainders, the earlier first where they are equal."""
    for _ in range(left):
        best = 0
        for i in range(1, n):
            if wide.less(rests.high[best], rests.low[best], rests.high[i], rests.low[i]):
                best = i
        parts[best] += 1
        rests.high[best], rests.low[best] = -1, 0


@inner
def _hand_out_many(left: int, n: int, rests: Rests, parts: Int64) -> None:
    """The same where many are left: the order of the remainders is kept as a heap."""
    for i in range(n):
        rests.order[i] = i
    for i in range(n // 2 - 1, -1, -1):
        _sink(rests, n, i)
    for _ in range(left):
        parts[rests.order[0]] += 1
        n -= 1
        rests.order[0] = rests.order[n]
        _sink(rests, n, 0)


@inner
def _sink(rests: Rests, n: int, i: int) -> None:
    """Puts entry i of the heap of the first n where it belongs."""
    entry, child = rests.order[i], 2 * i + 1
    while child < n:
        if child + 1 < n and _before(rests, rests.order[child + 1], rests.order[child]):
            child += 1
        if not _before(rests, rests.order[child], entry):
            break
        rests.order[i] = rests.order[child]
        i, child = child, 2 * child + 1
    rests.order[i] = entry


@inner
def _before(rests: Rests, i: int, j: int) -> bool:
    """Whether part i has the larger remainder, or an equal one and is the earlier."""
    if rests.high[i] == rests.high[j] and rests.low[i] == rests.low[j]:
        return i < j
    return wide.less(rests.high[j], rests.low[j], rests.high[i], rests.low[i])


@kernel
def divide_groups(wholes: Int64, offsets: Int64, high: Int64, low: Int64) -> Int64:
    """Largest remainder in each group: group g divides ``wholes[g]`` over the rows ``offsets[g]:offsets[g+1]``."""
    parts = np.zeros(len(low), np.int64)
    for g in range(len(wholes)):
        a, b = offsets[g], offsets[g + 1]
        largest_remainder(wholes[g], high[a:b], low[a:b], parts[a:b])
    return parts


@inner
def settle(account: Int64, n: int, column: int, rests: Float64, whole: tuple[int, int]) -> None:
    """Makes n holders' wide sums add up to the wide ``whole``: the units left go to the largest rests, the earlier first.

    ``account[h, column:column + 2]`` is holder h's sum in whole units, ``rests[h]`` what it has below one. Rests are floats, so
    that rarely a unit is too much: the largest sum gives it back.
    """
    high, low = 0, 0
    for h in range(n):
        high, low = wide.add(high, low, account[h, column], account[h, column + 1])
    left = (whole[0] - high) * (1 << wide.BITS) + whole[1] - low
    while left < 0:
        most = 0
        for h in range(1, n):
            if wide.less(account[most, column], account[most, column + 1], account[h, column], account[h, column + 1]):
                most = h
        account[most, column], account[most, column + 1] = wide.subtract(account[most, column], account[most, column + 1], 0, 1)
        left += 1
    for _ in range(left):
        best = 0
        for h in range(1, n):
            if rests[h] > rests[best]:
                best = h
        credit(account, best, column, 0, 1)
        rests[best] -= 1.0


@inner
def credit(account: Int64, row: int, column: int, high: int, low: int) -> None:
    """Adds a wide number to the wide sum at ``account[row, column:column + 2]``."""
    account[row, column], account[row, column + 1] = wide.add(account[row, column], account[row, column + 1], high, low)
