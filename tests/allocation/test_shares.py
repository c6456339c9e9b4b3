"""Exact division against whole Python numbers."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from allocation.shares import divide_groups, largest_remainder, share_out
from tests.strategies import COSTS

WEIGHTS = st.one_of(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.lists(st.integers(0, 2**53), min_size=1, max_size=12),
    st.lists(st.integers(0, 2**61), min_size=1, max_size=12),
    st.lists(st.integers(0, 2**116), min_size=1, max_size=12),
    st.lists(st.sampled_from((0, 2**62, 2**62 + 1, 3 * 2**70)), min_size=1, max_size=30),
)


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
    assume(sum(weights) < 2**61 or abs(whole) < 2**62)
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


@given(st.integers(-(10**15), 10**15), st.lists(st.integers(0, 2**80), min_size=1, max_size=9).filter(any))
def test_negative_is_the_mirror_image(whole: int, weights: list[int]) -> None:
    assert divide(-whole, weights) == [-p for p in divide(whole, weights) or []]


@given(st.lists(st.tuples(COSTS, st.lists(st.integers(1, 2**40), min_size=1, max_size=4)), min_size=1, max_size=5))
def test_groups_are_divided_each_on_its_own(groups: list[tuple[int, list[int]]]) -> None:
    low = np.array([w for _, weights in groups for w in weights])
    offsets = np.cumsum([0, *(len(weights) for _, weights in groups)])
    got = divide_groups(np.array([c for c, _ in groups]), offsets, np.zeros_like(low), low)
    assert got.tolist() == [p for cost, weights in groups for p in reference(cost, weights)]


@given(st.integers(0, 2**50), st.integers(1, 90_000_000), st.lists(st.integers(1, 2**50), min_size=1, max_size=6), st.booleans())
def test_byte_time_at_an_instant_is_shared_whole(size: int, dt: int, weights: list[int], even: bool) -> None:
    account = np.zeros((len(weights), 4), np.int64)
    total = 0 if even else sum(weights)
    share_out(size, dt, np.array(weights), np.arange(len(weights)), total, account, 2)
    got = [int(h) * 2**62 + int(n) for h, n in account[:, 2:]]
    assert sum(got) == size * dt
    wanted = [1] * len(weights) if even else weights
    for part, weight in zip(got, wanted, strict=True):
        assert abs(part * sum(wanted) - size * dt * weight) < 2 * sum(wanted)
    assert not account[:, :2].any()
