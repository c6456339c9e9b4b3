"""How long a sample holds: the edges by hand, and random series against the brute-force rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocation.intervals import NEVER, Reports, hold
from allocation.policy import Policy
from tests.oracle import Holder, Series
from tests.oracle import hold as reference
from tests.strategies import GAP, HOLD, PODS, STEPS

Run = tuple[int, int, int, bool]
"""Start, end, value, imputed."""
POLICY = Policy(HOLD, GAP)
ALWAYS = (-NEVER, NEVER)


def runs_of(series: list[list[tuple[int, int]]], lives: list[tuple[int, int]], own_row: int | None = None) -> list[list[Run]]:
    """The runs of series of one metric on one device; ``own_row`` is the number of the device's own."""
    count = len(series)
    offsets = np.cumsum([0, *map(len, series)])
    flat = [p for points in series for p in points]
    ts, values = np.array([t for t, _ in flat], np.int64), np.array([v for _, v in flat], np.int64)
    own = np.arange(count) == (-1 if own_row is None else own_row)
    reports = Reports(np.zeros(count, np.int64), np.array([0, count]), np.arange(count), own, ~own)
    runs = hold(offsets, ts, values, reports, np.array(lives, np.int64).reshape(-1, 2), HOLD, GAP)
    rows = [(int(a), int(b), int(v), bool(i)) for a, b, v, i in zip(runs.start, runs.end, runs.value, runs.imputed, strict=True)]
    return [rows[runs.offsets[s] : runs.offsets[s + 1]] for s in range(count)]


@pytest.mark.parametrize(
    ("gap", "wanted"),
    [
        (HOLD - 1, [(0, HOLD - 1, 5, False), (HOLD - 1, 2 * HOLD - 1, 6, False)]),
        (HOLD, [(0, HOLD, 5, False), (HOLD, 2 * HOLD, 6, False)]),
        (HOLD + 1, [(0, HOLD, 5, False), (HOLD, HOLD + 1, 5, True), (HOLD + 1, 2 * HOLD + 1, 6, False)]),
        (GAP, [(0, HOLD, 5, False), (HOLD, GAP, 5, True), (GAP, GAP + HOLD, 6, False)]),
        (GAP + 1, [(0, HOLD, 5, False), (GAP + 1, GAP + 1 + HOLD, 6, False)]),
    ],
)
def test_edges_of_hold_and_gap(gap: int, wanted: list[Run]) -> None:
    assert runs_of([[(0, 5), (gap, 6)]], [ALWAYS]) == [wanted]


def test_equal_neighbours_are_one_run() -> None:
    assert runs_of([[(0, 5), (30_000, 5), (60_000, 5)]], [ALWAYS]) == [[(0, 60_000 + HOLD, 5, False)]]


def test_the_last_sample_ends_at_the_next_report_without_it() -> None:
    got = runs_of([[(0, 5)], [(0, 7), (30_000, 7)]], [ALWAYS, ALWAYS])
    assert got[0] == [(0, 30_000, 5, False)]
    assert got[1] == [(0, 30_000 + HOLD, 7, False)]


def test_a_hole_is_bridged_although_others_report() -> None:
    assert runs_of([[(0, 5), (GAP, 5)], [(30_000, 7)]], [ALWAYS, ALWAYS])[0] == [
        (0, HOLD, 5, False), (HOLD, GAP, 5, True), (GAP, GAP + HOLD, 5, False),
    ]  # fmt: skip


def test_the_devices_own_row_yields_to_pods_rows() -> None:
    assert runs_of([[(0, 5), (GAP, 5)], [(30_000, 7)]], [ALWAYS, ALWAYS], own_row=0)[0] == [
        (0, 30_000, 5, False), (GAP, GAP + HOLD, 5, False),
    ]  # fmt: skip


def test_known_start_and_end_clip() -> None:
    assert runs_of([[(0, 5), (HOLD, 6)]], [(10_000, HOLD + 5_000)]) == [
        [(10_000, HOLD, 5, False), (HOLD, HOLD + 5_000, 6, False)]
    ]
    assert runs_of([[(0, 5), (GAP, 6)]], [(0, HOLD + 5)]) == [[(0, HOLD, 5, False), (HOLD, HOLD + 5, 5, True)]]
    assert runs_of([[(0, 5)]], [(HOLD, NEVER)]) == [[]]


def test_no_series() -> None:
    assert runs_of([], []) == []


@st.composite
def several(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        times = np.cumsum([draw(st.sampled_from((0, 7_000, HOLD))), *draw(st.lists(st.sampled_from(STEPS), max_size=6))]).tolist()
        found.append([(t, draw(st.integers(0, 2))) for t in times])
    return found


def seconds_of(runs: list[Run]) -> list[Run]:
    """The same time with equal neighbours joined."""
    joined: list[Run] = []
    for a, b, v, imputed in runs:
        if joined and joined[-1][1:] == (a, v, imputed):
            joined[-1] = (joined[-1][0], b, v, imputed)
        else:
            joined.append((a, b, v, imputed))
    return joined


LIVES = st.tuples(st.sampled_from((0, 20_000, HOLD)), st.sampled_from((90_000, GAP + 7, 2**61)))


@given(several(), st.booleans(), st.lists(LIVES, min_size=4, max_size=4))
def test_random_series(points: list[list[tuple[int, int]]], with_own_row: bool, lives: list[tuple[int, int]]) -> None:
    nobody: Holder = ("", "", "")
    series = [
        Series("used", "g", tuple(p), level="device", metric="fb", holder=nobody)
        if with_own_row and n == 0
        else Series("pod_memory", "g", tuple(p), holder=PODS[n], level="device", metric="fb")
        for n, p in enumerate(points)
    ]
    got = runs_of(points, lives[: len(points)], 0 if with_own_row else None)
    for mine, one, life in zip(got, series, lives, strict=False):
        pieces = [
            (a, b, int(h.value), imputed)
            for h in reference(one, series, life, POLICY)
            for a, b, imputed in ((h.start, h.observed_until, False), (h.observed_until, h.end, True))
            if a < b
        ]
        assert seconds_of(mine) == seconds_of(pieces)
