"""Decimal amounts to whole nano-units, compiled: from the bytes of texts, and from doubles that mean short decimals.

What is too long or unusual is marked odd and left to ``money``, which reads one text at a time. An amount is
``mantissa * 10**exponent``; nanos are rounded half to even, and what that cut is kept in units of 10^-30, in two words.
"""

import numpy as np
import numpy.typing as npt

from allocation.compiled import inner, kernel

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
_POWERS = tuple(10**n for n in range(19))
_LONGEST = 10**17
_DIGITS = 10**15
_MASK = 0xFFFFFFFF


@inner
def _halves_to_even(size: int, unit: int) -> int:
    """Size / unit, rounded half to even."""
    whole = size // unit
    rest = size - whole * unit
    over = rest > unit - rest or (rest == unit - rest and whole & 1 == 1)
    return whole + 1 if over else whole


@inner
def _product(a: int, b: int) -> tuple[int, int]:
    """A * b for a, b < 2**63 as the two words of 128 bits."""
    x, y = np.uint64(a), np.uint64(b)
    mask, half = np.uint64(_MASK), np.uint64(32)
    low = (x & mask) * (y & mask)
    one = (x >> half) * (y & mask)
    two = (x & mask) * (y >> half)
    middle = (low >> half) + (one & mask) + (two & mask)
    high = (x >> half) * (y >> half) + (one >> half) + (two >> half) + (middle >> half)
    return np.int64(high), np.int64((middle << half) | (low & mask))


@inner
def _put(negative: bool, mantissa: int, exponent: int, i: int, nanos: Int64, words: Int64) -> bool:
    """Writes one amount; whether it could be told: it fits and has at most 30 decimals."""
    if mantissa == 0:
        nanos[i] = 0
        return True
    shift = exponent + 9
    if shift > 18 or exponent < -30:
        return False
    if shift >= 0:
        high, low = _product(mantissa, _POWERS[shift])
        if high != 0 or low < 0:
            return False
        nanos[i] = -low if negative else low
        return True
    if shift < -18:
        whole, rest = 0, mantissa
    else:
        whole = _halves_to_even(mantissa, _POWERS[-shift])
        rest = mantissa - whole * _POWERS[-shift]
    nanos[i] = -whole if negative else whole
    down = negative != (rest < 0)
    finer = exponent + 30
    high, low = _product(abs(rest) * _POWERS[max(0, finer - 18)], _POWERS[min(18, finer)])
    words[i, 0] = -low if down else low
    words[i, 1] = (~high if low != 0 else -high) if down else high
    return True


@inner
def _digit(byte: int) -> bool:
    return 48 <= byte <= 57


@kernel
def of_texts(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], nanos: Int64, words: Int64, odd: Bool) -> None:
    """Texts as ``[+-]digits[.digits][e[+-]digits]``.

    Args:
        offsets: where each text begins in ``data``, and where the last ends.
        data: their bytes.
        nanos: room for whole nanos.
        words: zeros, shape (texts, 2): room for what rounding cut, low word first.
        odd: room for whether a text was not read; its nanos mean nothing then.
    """
    for i in range(len(nanos)):
        at, end = offsets[i], offsets[i + 1]
        negative = at < end and data[at] == 45
        if at < end and (data[at] == 45 or data[at] == 43):
            at += 1
        mantissa, digits, exponent, fine = 0, 0, 0, True
        while at < end and _digit(data[at]) and mantissa < _LONGEST:
            mantissa = mantissa * 10 + np.int64(data[at]) - 48
            digits += 1
            at += 1
        if at < end and data[at] == 46:
            at += 1
            while at < end and _digit(data[at]) and mantissa < _LONGEST:
                mantissa = mantissa * 10 + np.int64(data[at]) - 48
                digits += 1
                exponent -= 1
                at += 1
        if at < end and (data[at] | 32) == 101:
            at += 1
            down = at < end and data[at] == 45
            if at < end and (data[at] == 45 or data[at] == 43):
                at += 1
            power, first = 0, at
            while at < end and _digit(data[at]) and at - first < 3:
                power = power * 10 + np.int64(data[at]) - 48
                at += 1
            fine = at > first
            exponent += -power if down else power
        odd[i] = not (fine and at == end and digits > 0 and _put(negative, mantissa, exponent, i, nanos, words))


@kernel
def of_doubles(values: npt.NDArray[np.float64], nanos: Int64, words: Int64, odd: Bool) -> None:
    """Doubles as the shortest decimals that mean them, where these have at most 15 digits and 15 decimals.

    A double has at most one such decimal: ``k / 10**n`` is rounded correctly, and two decimals of 15 digits are two doubles.
    """
    for i in range(len(values)):
        size = abs(values[i])
        odd[i] = True
        if not size < 1e10:
            continue
        for decimals in (9, 12, 15):
            scaled = np.rint(size * _POWERS[decimals])
            if scaled < _DIGITS and scaled / _POWERS[decimals] == size:
                odd[i] = not _put(values[i] < 0, np.int64(scaled), -decimals, i, nanos, words)
                break
