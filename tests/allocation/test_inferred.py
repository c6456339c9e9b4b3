"""Pods that were given a GPU while the exporter lost their labels."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inventories import GIB, HOUR, START, Pod, card, every, pods_of, row, taken, used_gib_seconds
from tests.oracle import Machine, Series

WHOLE = "nvidia_com_gpu"
TWO = Machine(gpus=2, memory=80 * GIB)
A, B = Pod("a", gpus=1, resource=WHOLE), Pod("b", gpus=1, resource=WHOLE)
ROWS = (card("GPU-0", every(40 * GIB)), card("GPU-1", every(20 * GIB)))


def test_the_one_lost_pod_has_the_one_free_card() -> None:
    rows = (row("GPU-0", "a", every(40 * GIB)), ROWS[1])
    answer = taken(rows, pods_of(A, B), machine=TWO)
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 40 * 3600, ("GPU-1", "b"): 20 * 3600}


def test_a_pod_of_two_cards_has_both() -> None:
    pod = replace(A, gpus=2)
    assert used_gib_seconds(taken(ROWS, pods_of(pod), machine=TWO)) == {("GPU-0", "a"): 40 * 3600, ("GPU-1", "a"): 20 * 3600}


@pytest.mark.parametrize(
    ("pods", "machine"),
    [
        ((A, B), TWO),
        ((A,), TWO),
        ((replace(A, gpus=2),), Machine(gpus=3, memory=80 * GIB)),
        ((replace(A, gpus=2),), Machine()),
        ((replace(A, gpus=2, resource="nvidia_com_gpu_shared"),), TWO),
        ((replace(A, gpus=2, node="n2"),), TWO),
        ((replace(A, gpus=2, resource="nvidia_com_mig_1g_10gb"),), TWO),
        ((replace(A, gpus=2, pod="gpu-reservation-x", namespace="kai-resource-reservation"),), TWO),
    ],
)
def test_more_than_one_way_or_none_leaves_the_cards_idle(pods: tuple[Pod, ...], machine: Machine) -> None:
    assert used_gib_seconds(taken(ROWS, pods_of(*pods), machine=machine)) == {}


def test_shared_cards_leave_more_than_one_way() -> None:
    rows = (row("GPU-0", "a", every(40 * GIB)), ROWS[1])
    answer = taken(rows, pods_of(A, B), machine=TWO, sharing_strategy="time-slicing", gpu_replicas=4)
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 40 * 3600}


def test_all_lost_pods_share_the_only_card_by_what_they_declared() -> None:
    pods = pods_of(replace(A, memory=10 * GIB), replace(B, memory=30 * GIB))
    answer = taken(ROWS[:1], pods, machine=Machine(gpus=1, memory=80 * GIB), gpu_replicas=2)
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 10 * 3600, ("GPU-0", "b"): 30 * 3600}


def test_two_pods_cannot_have_the_only_card_whole() -> None:
    answer = taken(ROWS[:1], pods_of(A, B), machine=Machine(gpus=1, memory=80 * GIB), gpu_replicas=1)
    assert used_gib_seconds(answer) == {}


def test_only_for_the_times_without_labels() -> None:
    third = HOUR // 3
    rows = (
        row("GPU-0", "a", every(40 * GIB, 0, third)),
        card("GPU-0", every(40 * GIB, third, 2 * third)),
        row("GPU-0", "a", every(40 * GIB, 2 * third, HOUR)),
    )
    answer = taken(rows, pods_of(replace(A, start=HOUR // 6)), machine=Machine(gpus=1, memory=80 * GIB))
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 40 * 3000}


def test_a_card_without_use_is_held_with_nothing_used() -> None:
    rows = (card("GPU-0", every(79 * GIB), "free"),)
    answer = taken(rows, pods_of(A), machine=Machine(gpus=1, memory=80 * GIB))
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 0}


def instance(number: str, points: tuple[tuple[int, int], ...], pod: str = "") -> Series:
    return Series("pod_memory" if pod else "used", "GPU-0", points, instance=number, level="device", metric="fb_used",
                  holder=("ml" if pod else "", pod, ""))  # fmt: skip


def test_instances_by_their_profile() -> None:
    rows = (card("GPU-0", every(80 * GIB), "total"), instance("1", every(3 * GIB)), instance("2", every(5 * GIB), "a"))
    pods = pods_of(replace(A, resource="nvidia_com_mig_1g_10gb"), replace(B, resource="nvidia_com_mig_1g_10gb"))
    assert used_gib_seconds(taken(rows, pods)) == {("GPU-0", "a"): 5 * 3600}, "the profile of an instance is not known"
    alike = pods_of(A, B)
    assert used_gib_seconds(taken(rows, alike, mig_strategy="single")) == {("GPU-0", "a"): 5 * 3600, ("GPU-0", "b"): 3 * 3600}
    assert used_gib_seconds(taken(rows, alike)) == {("GPU-0", "a"): 5 * 3600}, "a partitioned card is no whole card"


@st.composite
def lost_days(draw: st.DrawFn) -> tuple[tuple[Series, ...], tuple[Pod, ...]]:
    """Two days of two cards, whose labels come and go, with holes; pods that start and end at any time."""
    moments = st.integers(0, 48 * 4).map(lambda quarter: quarter * HOUR // 4 + 7_000)
    rows: list[Series] = []
    for gpu in ("GPU-0", "GPU-1"):
        marks = sorted({0, 48 * HOUR, *draw(st.lists(moments, max_size=5))})
        for start, end in pairwise(marks):
            what = draw(st.sampled_from(("a", "b", "", "", None)))
            points = every(draw(st.sampled_from((0, 8 * GIB, 60 * GIB))), start, end, 300_000)
            if what is not None and points:
                rows.append(row(gpu, what, points) if what else card(gpu, points))
    merged: dict[tuple[str, str, str], tuple[tuple[int, int], ...]] = {}
    for s in rows:
        merged[s.role, s.gpu, s.holder[1]] = merged.get((s.role, s.gpu, s.holder[1]), ()) + s.points
    series = tuple(row(g, p, pts) if p else card(g, pts) for (_, g, p), pts in merged.items())
    lives = [sorted(draw(st.tuples(moments, moments))) for _ in range(3)]
    pods = tuple(
        Pod(name, start=a, end=b, gpus=draw(st.sampled_from((1, 2))), resource=WHOLE)
        for name, (a, b) in zip("abc", lives, strict=True)
        if a < b
    )
    return series, pods


def by_hour(series: tuple[Series, ...], pods: tuple[Pod, ...], hours: tuple[int, int]) -> list[dict[str, object]]:
    """The rows without their places in the division, which count from the first GPU that a run sees."""
    rows = taken(series, pods_of(*pods), machine=TWO, hours=hours).usage.drop_columns(["gpu_ordinal", "device_ordinal"])
    return list(rows.to_pylist())


@settings(max_examples=40)
@given(lost_days())
def test_two_days_alone_equal_two_days_together(given: tuple[tuple[Series, ...], tuple[Pod, ...]]) -> None:
    series, pods = given
    together = by_hour(series, pods, (0, 48))
    alone: list[dict[str, object]] = []
    for day in (0, 24):
        first, last = START + day * HOUR - 900_000, START + (day + 24) * HOUR + 900_000
        read = tuple(replace(s, points=tuple(p for p in s.points if first <= p[0] <= last)) for s in series)
        alone += by_hour(tuple(s for s in read if s.points), pods, (day, day + 24))
    assert alone == together


@settings(max_examples=20)
@given(lost_days(), st.randoms(use_true_random=False))
def test_the_order_of_series_and_pods_changes_nothing(
    given: tuple[tuple[Series, ...], tuple[Pod, ...]],
    chance: "st.RandomType",  # type: ignore[name-defined]
) -> None:
    series, pods = list(given[0]), list(given[1])
    straight = by_hour(tuple(series), tuple(pods), (0, 48))
    chance.shuffle(series)
    chance.shuffle(pods)
    assert by_hour(tuple(series), tuple(pods), (0, 48)) == straight
