"""Exact division: money by largest remainder, and byte-time at an instant.

Every part is a whole number and the parts add up to the whole. Ties go to the earlier row; a negative whole is the mirror image
of the positive one.
"""

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.compiled import kernel

Int64 = npt.NDArray[np.int64]
NARROW = 1 << 61


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
    if left <= 8:
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
def share_out(size: int, dt: int, weights: Int64, who: Int64, total: int, account: Int64, column: int) -> None:
    """Adds ``size * dt`` byte-ms to the accounts of ``who`` by weight, evenly where all weights are 0.

    ``account[h, column:column + 2]`` is holder h's wide sum. Each gets the floor of its share, the few units left go one each
    to the first that have weight.
    """
    n = len(who)
    wh, wl = wide.multiply(size, dt)
    lh, ll = wh, wl
    for i in range(n):
        w = weights[i] if total > 0 else 1
        t = total if total > 0 else n
        qh, ql = 0, 0
        if n == 1:
            qh, ql = wh, wl
        elif wh == 0 and t < wide.FLOAT_EXACT:
            ql, _ = wide.scale_word(wl, w, t)
        else:
            qh, ql, _, _ = wide.scale(wh, wl, 0, w, 0, t)
        lh, ll = wide.subtract(lh, ll, qh, ql)
        credit(account, who[i], column, qh, ql)
    for i in range(n):
        if ll > 0 and (total == 0 or weights[i] > 0):
            credit(account, who[i], column, 0, 1)
            ll -= 1


@kernel
def credit(account: Int64, row: int, column: int, high: int, low: int) -> None:
    """Adds a wide number to the wide sum at ``account[row, column:column + 2]``."""
    account[row, column], account[row, column + 1] = wide.add(account[row, column], account[row, column + 1], high, low)
