"""Exact division: money by largest remainder, and byte-time at an instant.

Every part is a whole number and the parts add up to the whole. Ties go to the earlier row; a negative whole is the mirror image
of the positive one.
"""

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.compiled import inner, kernel

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
NARROW = 1 << 61
MANY = 8
"""From here on the largest remainders are found by sorting."""


@kernel
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


@kernel
def largest_remainder(whole: int, high: Int64, low: Int64, parts: Int64) -> bool:
    """Divides whole nano-units over wide weights into ``parts``, exactly; False where all weights are 0.

    Source: Hamilton's method; each part is the floor of its ideal share or one more.
    """
    n = len(low)
    th, tl = 0, 0
    for i in range(n):
        th, tl = wide.add(th, tl, high[i], low[i])
    parts[:] = 0
    if th == 0 and tl == 0:
        return False
    size = abs(whole)
    left = size
    rest_high = np.zeros(n, np.int64)
    rest_low = np.zeros(n, np.int64)
    for i in range(n):
        if th == 0 and tl < wide.FLOAT_EXACT:
            parts[i], rest_low[i] = wide.scale_word(size, low[i], tl)
        elif th == 0 and tl < NARROW:
            parts[i], rest_low[i] = _scale_narrow(size, low[i], tl)
        else:
            c, rest = size >> wide.BITS, size & wide.MASK
            qh, ql, rest_high[i], rest_low[i] = wide.scale(c, rest, high[i], low[i], th, tl)
            parts[i] = (qh << wide.BITS) + ql
        left -= parts[i]
    _hand_out(left, rest_high, rest_low, parts)
    if whole < 0:
        for i in range(n):
            parts[i] = -parts[i]
    return True


@kernel
def _hand_out(left: int, rest_high: Int64, rest_low: Int64, parts: Int64) -> None:
    """One more to the ``left`` rows with the largest remainders, the earlier row first where they are equal."""
    n = len(parts)
    if left == 0:
        return
    if left <= MANY:
        for _ in range(left):
            best = 0
            for i in range(1, n):
                if wide.less(rest_high[best], rest_low[best], rest_high[i], rest_low[i]):
                    best = i
            parts[best] += 1
            rest_high[best], rest_low[best] = -1, 0
        return
    order = np.argsort(-rest_low, kind="mergesort")
    order = order[np.argsort(-rest_high[order], kind="mergesort")]
    for k in range(left):
        parts[order[k]] += 1


@kernel
def divide_groups(wholes: Int64, offsets: Int64, high: Int64, low: Int64) -> Int64:
    """Largest remainder in each group: group g divides ``wholes[g]`` over the rows ``offsets[g]:offsets[g+1]``."""
    parts = np.zeros(len(low), np.int64)
    for g in range(len(wholes)):
        a, b = offsets[g], offsets[g + 1]
        largest_remainder(wholes[g], high[a:b], low[a:b], parts[a:b])
    return parts


@kernel
def settle(account: Int64, n: int, column: int, rests: Float64, whole: tuple[int, int]) -> None:
    """Makes n holders' wide sums add up to the wide ``whole``: the units left go to the largest rests, the earlier first.

    ``account[h, column:column + 2]`` is holder h's sum in whole units, ``rests[h]`` what it has below one; these come from floats,
    so that rarely a unit is too much: the largest sum gives it back.
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
