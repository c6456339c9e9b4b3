"""Quotient and remainder of ``whole * weight / total`` for compiled code, exactly and without numbers wider than a word.

A quotient is estimated by floats, from the part of the whole that keeps the estimate off by no more than a few; what is left over
then is small, so that it comes out right although the products wrap, and puts the estimate right. Here does not belong who gets
the units that rounding leaves (``shares``).
"""

from allocation import wide
from allocation.compiled import inner

NARROW = 1 << 61
_SHIFT = float(1 << wide.HALF)
_WORD = float(1 << wide.BITS)


@inner
def to_float(high: int, low: int) -> float:
    """A wide number as a float."""
    return float(high) * _WORD + float(low)


@inner
def in_one(c: int, w: int, total: int, inverse: float) -> tuple[int, int]:
    """``divmod(c * w, total)`` for w <= total < 2**61, 0 <= c < 2**53, and c < 2**50 or total < 2**53.

    ``inverse`` is ``1 / total``; with it the estimate is off by less than 5.
    """
    q, r = wide.correct(int(float(c) * float(w) * inverse), c, w, total)
    return q, r


@inner
def in_halves(c: int, w: int, total: int, inverse: float) -> tuple[int, int]:
    """``divmod(c * w, total)`` for w <= total < 2**61 and 0 <= c < 2**61, by halves of c: each estimate is off by one at most."""
    upper, lower = c >> wide.HALF, c & wide.HALF_MASK
    q, r = wide.correct(int(float(upper) * float(w) * inverse), upper, w, total)
    digit = int((float(r) * _SHIFT + float(lower) * float(w)) * inverse)
    r = (r << wide.HALF) + lower * w - digit * total
    while r < 0:
        r += total
        digit -= 1
    while r >= total:
        r -= total
        digit += 1
    return (q << wide.HALF) + digit, r


@inner
def of_wide(c: int, wh: int, wl: int, th: int, tl: int, inverse: float) -> tuple[int, int, int]:
    """The same for 0 <= c < 2**63, and a wide weight that is no more than the total < 2**122; the remainder is wide too."""
    weight = to_float(wh, wl)
    q, rh, rl = _digit(c >> wide.HALF, weight, wh, wl, 0, 0, th, tl, inverse)
    digit, rh, rl = _digit(c & wide.HALF_MASK, weight, wh, wl, rh, rl, th, tl, inverse)
    return (q << wide.HALF) + digit, rh, rl


@inner
def _digit(c: int, weight: float, wh: int, wl: int, rh: int, rl: int, th: int, tl: int, inverse: float) -> tuple[int, int, int]:
    """``divmod(r * 2**31 + c * w, total)`` for c < 2**32 and a wide remainder r below the total.

    The lower limbs have 31 bits. With c and the estimate at most 2**32 their differences, carry included, stay in a word; the
    upper limb may wrap, as what is left over in the end is less than twice the total.
    """
    q = int((to_float(rh, rl) * _SHIFT + float(c) * weight) * inverse)
    first = (wl & wide.HALF_MASK) * c - (tl & wide.HALF_MASK) * q
    second = (wl >> wide.HALF) * c - (tl >> wide.HALF) * q + (rl & wide.HALF_MASK) + (first >> wide.HALF)
    rh = wh * c - th * q + (rh << wide.HALF) + (rl >> wide.HALF) + (second >> wide.HALF)
    rl = ((second & wide.HALF_MASK) << wide.HALF) | (first & wide.HALF_MASK)
    while rh < 0:
        rh, rl = wide.add(rh, rl, th, tl)
        q -= 1
    while not wide.less(rh, rl, th, tl):
        rh, rl = wide.subtract(rh, rl, th, tl)
        q += 1
    return q, rh, rl
