"""Whole numbers of 124 bits for compiled code, as two int64 words: ``value = high * 2**62 + low``, ``0 <= low < 2**62``.

Byte-time of one interval fits 62 bits; a card's day or a node's sum does not. Only non-negative numbers occur here.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from allocation.compiled import inner

BITS = 62
MASK = (1 << BITS) - 1
HALF = 31
HALF_MASK = (1 << HALF) - 1
FLOAT_EXACT = 1 << 53
SMALL = 1 << 50

Int64 = npt.NDArray[np.int64]


@inner
def add(ah: int, al: int, bh: int, bl: int) -> tuple[int, int]:
    """The sum of two wide numbers."""
    low = al + bl
    return ah + bh + (low >> BITS), low & MASK


@inner
def subtract(ah: int, al: int, bh: int, bl: int) -> tuple[int, int]:
    """The difference a - b for a >= b."""
    low = al - bl
    return ah - bh + (low >> BITS), low & MASK


@inner
def less(ah: int, al: int, bh: int, bl: int) -> bool:
    """Whether a < b."""
    return ah < bh or (ah == bh and al < bl)


@inner
def multiply(a: int, b: int) -> tuple[int, int]:
    """The product of a < 2**62 and b < 2**31, for example bytes and milliseconds."""
    upper = (a >> HALF) * b
    return add(upper >> HALF, (upper << HALF) & MASK, 0, (a & HALF_MASK) * b)


@inner
def times(high: int, low: int, b: int) -> tuple[int, int]:
    """A wide number below 2**90 times b < 2**31."""
    ph, pl = multiply(low, b)
    return high * b + ph, pl


@inner
def product(high: int, low: int, b: int) -> tuple[int, int]:
    """A wide number times b < 2**62, where the product is a wide number."""
    ph, pl = multiply(b, low & HALF_MASK)
    uh, ul = multiply(b, low >> HALF)
    ph, pl = add(ph, pl, (uh << HALF) | (ul >> HALF), (ul << HALF) & MASK)
    return ph + high * b, pl


@inner
def correct(q: int, c: int, w: int, total: int) -> tuple[int, int]:
    """``divmod(c * w, total)`` for total < 2**61 from an estimate q of the quotient that is off by less than 4.

    The residual of the wrapped product is the true one, because it is small.
    """
    r = c * w - q * total
    while r < 0:
        r += total
        q -= 1
    while r >= total:
        r -= total
        q += 1
    return q, r


@inner
def scale_word(c: int, w: int, total: int) -> tuple[int, int]:
    """``divmod(c * w, total)`` for 0 <= w <= total < 2**53 and 0 <= c < 2**63.

    The estimate by floats is off by less than 4 for the part of c below ``total``.
    """
    whole = c // total
    rest = c - whole * total
    q, r = correct(int(float(rest) * float(w) / float(total)), rest, w, total)
    return whole * w + q, r


@inner
def scale(ch: int, cl: int, wh: int, wl: int, th: int, tl: int) -> tuple[int, int, int, int]:
    """Quotient and remainder of c * w / t for wide c, w <= t < 2**122, bit by bit."""
    qh, ql, rh, rl = 0, 0, 0, 0
    for bit in range(2 * BITS - 1, -1, -1):
        word = ch if bit >= BITS else cl
        one = (word >> (bit - BITS if bit >= BITS else bit)) & 1
        if one == 0 and qh == 0 and ql == 0 and rh == 0 and rl == 0:
            continue
        qh, ql = add(qh, ql, qh, ql)
        rh, rl = add(rh, rl, rh, rl)
        if one:
            rh, rl = add(rh, rl, wh, wl)
        while not less(rh, rl, th, tl):
            rh, rl = subtract(rh, rl, th, tl)
            qh, ql = add(qh, ql, 0, 1)
    return qh, ql, rh, rl


def to_decimal_column(high: Int64, low: Int64) -> pa.Array:
    """Wide numbers as ``decimal128(38, 0)``."""
    words = np.empty((len(low), 2), dtype=np.uint64)
    words[:, 0] = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(BITS))
    words[:, 1] = high.astype(np.uint64) >> np.uint64(2)
    return pa.Array.from_buffers(pa.decimal128(38, 0), len(low), [None, pa.py_buffer(words)])


def from_decimal_column(column: pa.Array | pa.ChunkedArray) -> tuple[Int64, Int64]:
    """``decimal128(38, 0)`` without nulls as wide numbers (high, low)."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    words = [
        np.frombuffer(c.buffers()[1], np.uint64)[2 * c.offset : 2 * (c.offset + len(c))].reshape(-1, 2) for c in chunks if len(c)
    ]
    pairs = np.concatenate(words) if words else np.empty((0, 2), np.uint64)
    low = (pairs[:, 0] & np.uint64(MASK)).astype(np.int64)
    high = ((pairs[:, 1] << np.uint64(2)) | (pairs[:, 0] >> np.uint64(BITS))).astype(np.int64)
    return high, low


def to_float(high: Int64, low: Int64) -> npt.NDArray[np.float64]:
    """Wide numbers as floats, for figures that are shown and never added to money."""
    return high.astype(np.float64) * float(1 << BITS) + low.astype(np.float64)
