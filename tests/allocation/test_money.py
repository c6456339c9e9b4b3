"""The door for money against exact fractions of the same texts."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocation import money

PARTS = st.tuples(
    st.sampled_from(("", "-", "+")),
    st.integers(0, 9_223_372_035).map(str),
    st.text("0123456789", max_size=24),
    st.sampled_from(("", "", "", "e0", "E-3", "e-6")),
)


def text_of(parts: tuple[str, str, str, str]) -> str:
    sign, units, decimals, exponent = parts
    return f"{sign}{units}{'.' + decimals if decimals else ''}{exponent}"


TEXTS = st.one_of(
    PARTS.map(text_of),
    st.sampled_from(
        ("1.0000000005", "1.0000000015", "-1.0000000015", "-0.0000000005", "0.0000000015", ".5", "5.", "007", " 1 ", "1E-10")
    ),
)


def half_even(text: str) -> tuple[int, Fraction]:
    """Whole nanos nearest to the text's value, the even one in the middle, and what that cuts."""
    amount = Fraction(text.strip()) * 10**9
    low = amount.numerator // amount.denominator
    rest = amount - low
    nanos = low + (1 if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2) else 0)
    return nanos, (amount - nanos) / 10**9


@given(TEXTS)
def test_one_text(text: str) -> None:
    nanos, residue = money.parse_cost(text)
    assert (nanos, Fraction(residue)) == half_even(text)


@given(st.lists(TEXTS, max_size=80), st.integers(0, 2))
def test_columns(texts: list[str], skipped: int) -> None:
    nanos, residues = money.to_nanos(pa.array(texts, pa.string())[skipped:])
    wanted = [half_even(t) for t in texts[skipped:]]
    assert [(n, Fraction(r)) for n, r in zip(nanos.to_pylist(), residues.to_pylist(), strict=True)] == wanted


DOUBLES = st.one_of(
    st.floats(-9e9, 9e9, allow_nan=False),
    st.decimals(-10_000, 10_000, places=10).map(float),
    st.decimals(-1, 1, places=14).map(float),
    st.integers(-(10**15), 10**15).map(lambda n: n / 10**9),
    st.sampled_from((0.1 + 0.2, -0.0, 5e-10, 1.5e-9, 1e-7, 0.30000000000000004, 8999999999.123457, 1e-30)),
)


@given(st.lists(DOUBLES.filter(lambda v: v == 0 or abs(v) > 1e-13), max_size=40))
def test_a_double_means_the_shortest_decimal_that_reads_as_it(values: list[float]) -> None:
    nanos, residues = money.to_nanos(pa.array(values, pa.float64()))
    wanted = [half_even(repr(v)) for v in values]
    assert [(n, Fraction(r)) for n, r in zip(nanos.to_pylist(), residues.to_pylist(), strict=True)] == wanted


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e10, -9.3e9])
def test_a_double_that_is_no_cost_is_refused_with_its_place(value: float) -> None:
    with pytest.raises(money.CostError) as error:
        money.to_nanos(pa.array([1.5, value, value]))
    assert error.value.index == 1


@pytest.mark.parametrize("values", [pa.array([None, "1"]), pa.array(["  ", "1"]), pa.array([None, 1.0])])
def test_a_null_or_blank_is_no_cost(values: pa.Array) -> None:
    with pytest.raises(money.CostError, match="the cost is empty") as error:
        money.to_nanos(values)
    assert error.value.index == 0


def test_many_distinct_odd_texts() -> None:
    texts = [f"{n}.00000000{n:03d}" for n in range(200)]
    nanos, residues = money.to_nanos(pa.array(texts))
    assert [(n, Fraction(r)) for n, r in zip(nanos.to_pylist(), residues.to_pylist(), strict=True)] == [
        half_even(t) for t in texts
    ]


def test_the_largest_lines_fit() -> None:
    nanos, _ = money.to_nanos(pa.array(["9223372036.854775807", "-9223372036.854775807"]))
    assert nanos.to_pylist() == [2**63 - 1, -(2**63) + 1]


@pytest.mark.parametrize(
    "text",
    ["9223372036.854775808", "-9223372036.854775808", "1e10", "abc", "nan", "inf", "1,5", "1e400", "0x10", "1 2", "--1"],
)
def test_a_text_that_is_no_cost_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(money.CostError) as error:
        money.to_nanos(pa.array(["1.5", "2e0", text, "abc"]))
    assert error.value.index == 2
    assert text in str(error.value)


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_an_empty_cost_is_refused(empty: str | None) -> None:
    with pytest.raises(money.CostError, match="empty") as error:
        money.to_nanos(pa.array(["1", empty, ""]))
    assert error.value.index == 1


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=9), st.integers(0, 3))
def test_nanos_at_rest_and_back(values: list[int], skipped: int) -> None:
    column = money.nanos_column(np.array(values, np.int64))
    assert column.type == pa.decimal128(38, 9)
    assert [int(v.scaleb(9)) for v in column.to_pylist()] == values
    assert money.column_nanos(column[skipped:]).tolist() == values[skipped:]
    assert money.column_nanos(pa.chunked_array([column, column[:1]])).tolist() == values + values[:1]
    assert money.exact_sum(column).scaleb(9) == sum(values)


def test_sums_do_not_wrap() -> None:
    assert money.exact_sum(money.nanos_column(np.array([2**63 - 1] * 3))) == Decimal(3 * (2**63 - 1)).scaleb(-9)


FACTORS = st.decimals(-(10**5), 10**5, places=9) | st.decimals(0, 10, places=18) | st.sampled_from([Decimal("1e-7"), Decimal(0)])


@given(st.lists(st.tuples(FACTORS, st.decimals(0, 10**4, places=12)), min_size=1, max_size=20))
def test_a_product_is_exact_and_rounded_once(factors: list[tuple[Decimal, Decimal]]) -> None:
    quantities, prices = (pa.array([str(f) for f in column]) for column in zip(*factors, strict=True))
    nanos, residues = (column.to_pylist() for column in money.products_to_nanos(quantities, prices))
    for (quantity, price), whole, cut in zip(factors, nanos, residues, strict=True):
        assert whole == round(Fraction(quantity) * Fraction(price) * 10**9)  # half to even
        assert Fraction(whole, 10**9) + Fraction(cut) == Fraction(quantity) * Fraction(price)


@pytest.mark.parametrize(
    ("quantity", "price", "problem"),
    [
        ("", "1", "no number"),
        (None, "1", "empty"),
        ("x", "1", "'x' is no number"),
        ("NaN", "1", "no number"),
        ("1e-19", "1", "too many digits"),
        ("1e18", "1", "too many digits"),
        ("10000000000", "1", "does not fit"),
    ],
)
def test_a_factor_that_cannot_be_multiplied_is_refused(quantity: str | None, price: str, problem: str) -> None:
    with pytest.raises(money.CostError, match=problem) as caught:
        money.products_to_nanos(pa.array(["2", quantity], pa.string()), pa.array(["0.5", price]))
    assert caught.value.index == 1
