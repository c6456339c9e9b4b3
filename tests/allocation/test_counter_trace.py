"""Stretches of counters: which samples a growth lies between, and that they add up to it."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.counter_trace import stretches
from allocation.counters import increases
from tests.allocation.test_model_split import GAP, MINUTE, POINTS, counter, counters, periods

SHOWN = ["period", "began", "from_ms", "from_value", "until_ms", "until_value", "samples", "grown"]


def shown(told: pd.DataFrame) -> list[list[object]]:
    """The stretches with times in minutes."""
    whole = told.assign(from_ms=told.from_ms // MINUTE, until_ms=told.until_ms // MINUTE)
    return [list(row) for row in whole[SHOWN].itertuples(index=False, name=None)]


def test_each_way_in_which_a_stretch_begins() -> None:
    """First sample, a fall at 20, silence from 30 to 50 and a border at 60."""
    table = counters(counter([(0, 100), (10, 130), (20, 7), (30, 9), (50, 40), (59, 41), (65, 45)]))
    assert shown(stretches(table, periods((0, 60), (60, 120)), GAP)) == [
        [0, "first", 0, 100, 10, 130, 2, 30],
        [0, "reset", 20, 0, 30, 9, 2, 9],
        [0, "hole", 50, 40, 59, 41, 2, 1],
        [1, "before", 59, 41, 65, 45, 1, 4],
    ]


def test_a_period_without_a_sample_has_no_stretch() -> None:
    assert shown(stretches(counters(counter([(0, 1), (5, 9)])), periods((10, 60)), GAP)) == []


def test_copies_are_one_series_and_instances_are_two() -> None:
    """The copies show 100 at 0, 121 at 15 and 125 at 25; the copy that still shows 98 counts nothing."""
    copies = [counter([(0, 100), (10, 110)], replica="a"), counter([(1, 98), (15, 121), (25, 125)], replica="b")]
    told = stretches(counters(*copies, counter([(3, 5), (9, 8)], instance="other")), periods((0, 60)), GAP)
    assert told[["instance", "copies"]].to_numpy().tolist() == [["", 2], ["other", 1]]
    assert shown(told) == [[0, "first", 0, 100, 25, 125, 5, 25], [0, "first", 3, 5, 9, 8, 2, 3]]


@settings(max_examples=60, deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=4), st.integers(1, 299), st.sampled_from(["instance", "replica", "model"]))
def test_stretches_add_up_to_the_growth(series: list[list[tuple[int, int]]], cut: int, label: str) -> None:
    table = counters(*(counter(points, **{label: str(n)}) for n, points in enumerate(series) if points))
    asked = periods((0, cut), (cut, 301))
    told, grown = stretches(table, asked, GAP), increases(table, asked, GAP)
    sums = told.groupby(["period", "model"])[["grown", "samples"]].sum()
    assert (told.grown >= 0).all()
    assert (told.until_value - told.from_value == told.grown).all()
    for counted in grown.itertuples(index=False):
        got = sums.loc[(counted.period, counted.model)] if counted.samples else pd.Series({"grown": 0, "samples": 0})
        assert got.tolist() == [counted.grown, counted.samples]
    assert np.isin(told.began, ["before", "first", "hole", "reset"]).all()
