"""Lines cut into clock hours against exact fractions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.hours import LONGEST_WHOLE_MS, cut
from allocation.times import HOUR_MS
from tests.oracle import DAY_MS
from tests.strategies import COSTS, NOON

MIDNIGHT = NOON - DAY_MS // 2
Part = tuple[int, int, int]


def clock_hours(start: int, end: int) -> list[tuple[int, int]]:
    marks = [start, *range((start // HOUR_MS + 1) * HOUR_MS, end, HOUR_MS), end]
    return list(pairwise(marks))


def reference(cost: int, start: int, end: int) -> list[Part]:
    """Every part of a line: whole up to 25 hours, else by length in whole nanos, largest remainder, the earlier first."""
    if end - start <= 25 * HOUR_MS:
        return [(start, end, cost)]
    spans, size = clock_hours(start, end), abs(cost)
    parts = [size * (b - a) // (end - start) for a, b in spans]
    ranked = sorted(range(len(spans)), key=lambda i: (-(size * (spans[i][1] - spans[i][0]) % (end - start)), i))
    for i in ranked[: size - sum(parts)]:
        parts[i] += 1
    return [(a, b, -p if cost < 0 else p) for (a, b), p in zip(spans, parts, strict=True)]


def parts_of(cost: list[int], start: list[int], end: list[int], window: tuple[int, int]) -> list[list[Part]]:
    costs, starts, stops = (np.array(column, np.int64) for column in (cost, start, end))
    line, begins, ends, nanos = cut(costs, starts, stops, window[0], window[1])
    rows = [(int(a), int(b), int(n)) for a, b, n in zip(begins, ends, nanos, strict=True)]
    assert sorted(line) == list(line)
    return [[r for k, r in zip(line, rows, strict=True) if k == number] for number in range(len(cost))]


LINES = st.tuples(
    COSTS,
    st.one_of(st.integers(-3 * DAY_MS, 2 * DAY_MS), st.integers(-72, 48).map(lambda h: h * HOUR_MS)),
    st.one_of(
        st.integers(1, 40 * DAY_MS),
        st.integers(1, 800).map(lambda h: h * HOUR_MS),
        st.sampled_from((LONGEST_WHOLE_MS - 1, LONGEST_WHOLE_MS, LONGEST_WHOLE_MS + 1)),
    ),
)


@settings(max_examples=150)
@given(st.lists(LINES, max_size=4))
def test_a_day_takes_the_parts_that_start_in_it(lines: list[tuple[int, int, int]]) -> None:
    cost = [c for c, _, _ in lines]
    start = [MIDNIGHT + s for _, s, _ in lines]
    end = [MIDNIGHT + s + length for _, s, length in lines]
    got = parts_of(cost, start, end, (MIDNIGHT, MIDNIGHT + DAY_MS))
    for k in range(len(lines)):
        assert got[k] == [p for p in reference(cost[k], start[k], end[k]) if MIDNIGHT <= p[0] < MIDNIGHT + DAY_MS]


@settings(max_examples=60)
@given(LINES)
def test_all_days_together_are_the_line(line: tuple[int, int, int]) -> None:
    cost, start, length = line
    start += MIDNIGHT
    first, last = start // DAY_MS, (start + length) // DAY_MS
    days = [parts_of([cost], [start], [start + length], (d * DAY_MS, (d + 1) * DAY_MS))[0] for d in range(first, last + 1)]
    parts = [p for day in days for p in day]
    assert parts == reference(cost, start, start + length)
    assert sum(p[2] for p in parts) == cost


@pytest.mark.parametrize(("length", "parts"), [(LONGEST_WHOLE_MS, 1), (LONGEST_WHOLE_MS + 1, 26)])
def test_the_autumn_day_stays_whole(length: int, parts: int) -> None:
    window = (MIDNIGHT, MIDNIGHT + 2 * DAY_MS)
    assert len(parts_of([10**9], [MIDNIGHT], [MIDNIGHT + length], window)[0]) == parts


def test_a_fee_of_two_days() -> None:
    start, end = MIDNIGHT, MIDNIGHT + 2 * DAY_MS
    nanos = [p[2] for p in parts_of([100 * 10**9], [start], [end], (start, end))[0]]
    assert nanos == [2_083_333_334] * 16 + [2_083_333_333] * 32


def test_partial_hours_at_both_ends() -> None:
    start = MIDNIGHT + HOUR_MS // 2
    end = start + 26 * HOUR_MS
    got = parts_of([-26 * 4], [start], [end], (MIDNIGHT, MIDNIGHT + 2 * DAY_MS))[0]
    assert got[0] == (start, MIDNIGHT + HOUR_MS, -2)
    assert got[-1] == (end - HOUR_MS // 2, end, -2)
    assert [p[2] for p in got[1:-1]] == [-4] * 25
