"""Numbers of two words against Python's own."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from allocation import wide

WIDE = st.one_of(st.integers(0, 2**120), st.integers(0, 2**62 + 2), st.sampled_from((0, 1, 2**62 - 1, 2**62, 2**62 + 1, 2**120)))


def words(value: int) -> tuple[int, int]:
    return value >> 62, value & (2**62 - 1)


def whole(high: int, low: int) -> int:
    assert 0 <= low < 2**62
    return int(high) * 2**62 + int(low)


@given(WIDE, WIDE)
def test_sum_difference_and_order(a: int, b: int) -> None:
    assert whole(*wide.add(*words(a), *words(b))) == a + b
    assert whole(*wide.subtract(*words(max(a, b)), *words(min(a, b)))) == abs(a - b)
    assert wide.less(*words(a), *words(b)) == (a < b)


@given(st.integers(0, 2**62 - 1), st.integers(0, 2**31 - 1))
def test_product_of_bytes_and_ms(a: int, b: int) -> None:
    assert whole(*wide.multiply(a, b)) == a * b


@given(st.integers(0, 2**63 - 1), st.integers(1, 2**53 - 1), st.data())
def test_scale_by_one_word(c: int, total: int, data: st.DataObject) -> None:
    w = data.draw(st.integers(0, total))
    assert wide.scale_word(c, w, total) == divmod(c * w, total)


@given(st.integers(0, 2**122 - 1), st.integers(1, 2**122 - 1), st.data())
def test_scale_by_two_words(c: int, total: int, data: st.DataObject) -> None:
    w = data.draw(st.integers(0, total))
    got = wide.scale(*words(c), *words(w), *words(total))
    assert (whole(*got[:2]), whole(*got[2:])) == divmod(c * w, total)


@given(st.lists(WIDE, max_size=8), st.integers(0, 3))
def test_columns_keep_every_bit(values: list[int], skipped: int) -> None:
    pairs = np.array([words(v) for v in values], np.int64).reshape(-1, 2)
    column = wide.to_decimal_column(pairs[:, 0].copy(), pairs[:, 1].copy())
    assert column.to_pylist() == [Decimal(v) for v in values]
    halves = pa.chunked_array([column[skipped:], column[:skipped]])
    high, low = wide.from_decimal_column(halves)
    assert [whole(h, n) for h, n in zip(high, low, strict=True)] == [*values[skipped:], *values[:skipped]]


def test_float_of_a_wide_number() -> None:
    assert wide.to_float(np.array([0, 3]), np.array([7, 0])).tolist() == [7.0, 3.0 * 2**62]
