"""Which part of its line a row is: exact over many batches, days, signs and sizes, against fractions worked out here."""

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from pipelines.focus_export.ratios import Lines, added_up, sums_of

STEP = Fraction(1, 10**12)
Row = tuple[str, int, float]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    names, nanos, memory = zip(*rows, strict=True)
    costs = pa.array([Decimal(n).scaleb(-9) for n in nanos], pa.decimal128(38, 9))
    zero = pa.array([0.0] * len(rows))
    columns = ("line_item_id", "cost", "used_gib_seconds", "overhead_gib_seconds", "idle_gib_seconds")
    return pa.RecordBatch.from_arrays([pa.array(names), costs, pa.array(memory), zero, zero], names=columns)


def parts_of(rows: list[Row], size: int) -> list[Decimal]:
    batches = [batch_of(rows[n : n + size]) for n in range(0, len(rows), size)]
    lines = Lines(sums_of(batches))
    return [part for batch in batches for part in lines.parts(batch).to_pylist()]


def test_thirds_close_the_line() -> None:
    third = Decimal("0.333333333333")
    assert parts_of([("a", 1, 0.0)] * 3, 2) == [third, third, third + Decimal("0.000000000001")]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_many_lines_over_many_batches(size: int) -> None:
    random = np.random.default_rng(7)
    rows = [(f"l{random.integers(40)}", int(random.integers(0, 10**10)), 1.0) for _ in range(1000)]
    totals: dict[str, int] = defaultdict(int)
    for name, nanos, _ in rows:
        totals[name] += nanos
    sums: dict[str, Fraction] = defaultdict(Fraction)
    for (name, nanos, _), part in zip(rows, parts_of(rows, size), strict=True):
        sums[name] += Fraction(part)
        assert abs(Fraction(part) - Fraction(nanos, totals[name])) < STEP
    assert set(sums.values()) == {1}


def test_a_credit_and_the_largest_line_there_is() -> None:
    assert parts_of([("credit", -3, 0.0), ("credit", -1, 0.0)], 1) == [Decimal("0.75"), Decimal("0.25")]
    most = 2**63 - 1
    parts = parts_of([("most", most - 1, 0.0), ("most", 1, 0.0)], 2)
    assert parts == [Decimal("0.999999999999"), Decimal("0.000000000001")]


def test_a_line_at_no_cost_goes_by_memory_and_one_without_memory_by_rows() -> None:
    rows = [("free", 0, 3.0), ("nothing", 0, 0.0), ("free", 0, 1.0), ("nothing", 0, 0.0)]
    assert parts_of(rows, 3) == [Decimal(text) for text in ("0.75", "0.5", "0.25", "0.5")]


def test_a_line_of_several_days_goes_on_where_it_was_left() -> None:
    days = [batch_of([("fee", 1, 0.0), ("hour", 5, 0.0)]), batch_of([("fee", 2, 0.0)])]
    fee = added_up(sums_of([day]).loc[["fee"]] for day in days)
    carried, first, second = Lines(fee), Lines(added_up([sums_of(days[:1]).drop("fee"), fee])), Lines(fee)
    assert first.parts(days[0]).to_pylist() == [Decimal("0.333333333333"), Decimal(1)]
    carried.carry(first)
    second.carry(carried)
    assert second.parts(days[1]).to_pylist() == [Decimal("0.666666666667")]
