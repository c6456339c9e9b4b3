"""Exact division: money by largest remainder, and byte-time at an instant.

Every part is a whole number and the parts add up to the whole. Ties go to the earlier row; a negative whole is the mirror image
of the positive one.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import quotients, wide
from allocation.compiled import inner, kernel

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
FEW = 40
"""Units left times parts: up to here each unit looks through all parts for the largest remainder."""


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
    if th == 0 and tl == 0:
        for i in range(n):
            parts[i] = 0
        return False
    size = abs(whole)
    inverse = 1.0 / quotients.to_float(th, tl)
    if th == 0 and tl < quotients.NARROW:
        left = _floors(size, n, low, tl, inverse, rests, parts)
    else:
        left = size
        for i in range(n):
            parts[i], rests.high[i], rests.low[i] = quotients.of_wide(size, high[i], low[i], th, tl, inverse)
            left -= parts[i]
    if left * n > FEW:
        _hand_out_many(left, n, th, inverse, rests, parts)
    else:
        _hand_out(left, n, rests, parts)
    if whole < 0:
        for i in range(n):
            parts[i] = -parts[i]
    return True


@inner
def _floors(size: int, n: int, weight: Int64, total: int, inverse: float, rests: Rests, parts: Int64) -> int:
    """The floor of each part and its remainder, for a total below 2**61; how many units are left."""
    each = size // total
    rest = size - each * total
    left = size
    short = total < wide.FLOAT_EXACT or rest < wide.SMALL
    for i in range(n):
        if short:
            part, remainder = quotients.in_one(rest, weight[i], total, inverse)
        else:
            part, remainder = quotients.in_halves(rest, weight[i], total, inverse)
        rests.high[i], rests.low[i] = 0, remainder
        parts[i] = part + each * weight[i]
        left -= parts[i]
    return left


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
def _hand_out_many(left: int, n: int, th: int, inverse: float, rests: Rests, parts: Int64) -> None:
    """The same where many are left: the parts are counted by bins of their remainders, so that only one bin is in question."""
    exact, bins = th < wide.FLOAT_EXACT, n * inverse
    for k in range(n):
        rests.order[k] = 0
    for i in range(n):
        rests.order[_bin(rests.high[i], rests.low[i], exact, bins, n)] += 1
    edge = n - 1
    while rests.order[edge] <= left:
        left -= rests.order[edge]
        edge -= 1
    asked = 0
    for i in range(n):
        k = _bin(rests.high[i], rests.low[i], exact, bins, n)
        parts[i] += k > edge
        rests.order[asked] = i
        asked += k == edge
    if left > 0:
        _hand_out_heap(left, asked, rests, parts)


@inner
def _bin(high: int, low: int, exact: bool, bins: float, n: int) -> int:
    """In which of n bins a remainder lies: a larger one never in a lower bin, also where floats do not tell them apart."""
    size = quotients.to_float(high, low if exact else 0)
    return min(int(size * bins), n - 1)


@inner
def _hand_out_heap(left: int, n: int, rests: Rests, parts: Int64) -> None:
    """One more to the ``left`` parts with the largest remainders among the n in ``rests.order``, which is kept as a heap."""
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
    """Largest remainder in each group: group g divides ``wholes[g]`` over the rows ``offsets[g]:offsets[g+1]``.

    A group whose weights are all 0 has parts of 0.
    """
    parts = np.zeros(len(low), np.int64)
    longest = 0
    for g in range(len(wholes)):
        longest = max(longest, offsets[g + 1] - offsets[g])
    rests = make_rests(longest)
    for g in range(len(wholes)):
        a, b = offsets[g], offsets[g + 1]
        divide(wholes[g], b - a, high[a:b], low[a:b], rests, parts[a:b])
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
