"""Exact division against whole Python numbers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.meters import advance, share
from allocation.shares import divide_groups, largest_remainder, settle
from tests.strategies import COSTS

WEIGHTS = st.one_of(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.lists(st.integers(0, 2**53), min_size=1, max_size=12),
    st.lists(st.integers(0, 2**61), min_size=1, max_size=12),
    st.lists(st.integers(0, 2**116), min_size=1, max_size=12),
    st.lists(st.integers(0, 2**121), min_size=1, max_size=2),
    st.lists(st.sampled_from((0, 2**62, 2**62 + 1, 3 * 2**70)), min_size=1, max_size=30),
    st.lists(st.sampled_from((1, 2**47, 2**53 - 1, 2**56 + 1)), min_size=20, max_size=60),
    st.lists(st.sampled_from((2**115, 2**115 + 1, 2**114 + 2**62, 7)), min_size=20, max_size=60),
)
"""Small and large, few and many, equal and nearly equal; with totals on both sides of 2**53, 2**61 and 2**62, below 2**122."""


def reference(whole: int, weights: list[int]) -> list[int]:
    """Floors of the ideal parts, and one more for the largest remainders, the earlier first; a negative whole mirrored."""
    total, size = sum(weights), abs(whole)
    parts = [size * w // total for w in weights]
    ranked = sorted(range(len(weights)), key=lambda i: (-(size * weights[i] % total), i))
    for i in ranked[: size - sum(parts)]:
        parts[i] += 1
    return [-p if whole < 0 else p for p in parts]


def divide(whole: int, weights: list[int]) -> list[int] | None:
    high, low = np.array([w >> 62 for w in weights]), np.array([w & (2**62 - 1) for w in weights])
    parts = np.full(len(weights), 77, np.int64)
    return [int(p) for p in parts] if largest_remainder(whole, high, low, parts) else None


@settings(max_examples=300)
@given(COSTS, WEIGHTS)
def test_largest_remainder(whole: int, weights: list[int]) -> None:
    got = divide(whole, weights)
    if not any(weights):
        assert got is None
        return
    assert got == reference(whole, weights)
    assert sum(got or []) == whole


def test_ties_go_to_the_earlier() -> None:
    assert divide(1, [5, 5, 5]) == [1, 0, 0]
    assert divide(-2, [5, 5, 5]) == [-1, -1, 0]
    assert divide(19, [2**70] * 20) == [1] * 19 + [0]
    assert divide(30, [2**120, *[7] * 20]) == [30] + [0] * 20
    assert divide(7, [*[1] * 20, 2**121]) == [0] * 20 + [7]


@given(st.integers(-(10**15), 10**15), st.lists(st.integers(0, 2**80), min_size=1, max_size=9).filter(any))
def test_negative_is_the_mirror_image(whole: int, weights: list[int]) -> None:
    assert divide(-whole, weights) == [-p for p in divide(whole, weights) or []]


@given(st.lists(st.tuples(COSTS, st.lists(st.integers(1, 2**40), min_size=1, max_size=4)), min_size=1, max_size=5))
def test_groups_are_divided_each_on_its_own(groups: list[tuple[int, list[int]]]) -> None:
    low = np.array([w for _, weights in groups for w in weights])
    offsets = np.cumsum([0, *(len(weights) for _, weights in groups)])
    got = divide_groups(np.array([c for c, _ in groups]), offsets, np.zeros_like(low), low)
    assert got.tolist() == [p for cost, weights in groups for p in reference(cost, weights)]


STRETCHES = st.lists(st.tuples(st.integers(0, 2**50), st.integers(1, 90_000_000)), min_size=1, max_size=6)


@given(STRETCHES, st.lists(st.integers(1, 2**50), min_size=1, max_size=6), st.booleans())
def test_byte_time_of_stretches_is_shared_whole(stretches: list[tuple[int, int]], weights: list[int], even: bool) -> None:
    wanted = [1] * len(weights) if even else weights
    whole, part = np.zeros((1, 2), np.int64), np.zeros(1)
    for size, dt in stretches:
        advance(whole, part, 0, size, dt, sum(wanted))
    account, rests = np.zeros((len(weights), 4), np.int64), np.zeros(len(weights))
    for h, weight in enumerate(wanted):
        account[h, 2], account[h, 3], rests[h] = share(weight, int(whole[0, 0]), int(whole[0, 1]), float(part[0]), 0.0)
    everything = sum(size * dt for size, dt in stretches)
    settle(account, len(weights), 2, rests, (everything >> 62, everything & (2**62 - 1)))
    got = [int(h) * 2**62 + int(n) for h, n in account[:, 2:]]
    assert sum(got) == everything
    for part_of, weight in zip(got, wanted, strict=True):
        assert abs(part_of * sum(wanted) - everything * weight) < 2 * sum(wanted)
    assert not account[:, :2].any()
