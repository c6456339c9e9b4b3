"""Reservation pods of KAI and Run:ai, and memory that only the inventory declares."""

import pytest

from tests.inventories import GIB, HOUR, Pod, bases, card, every, pods_of, row, taken, used_gib_seconds
from tests.oracle import Machine

SPACE = "kai-resource-reservation"
KEEPER = Pod("gpu-reservation-n1-abc", namespace=SPACE, gpus=1, resource="nvidia_com_gpu", group="g1", reserves="GPU-0")
KEPT = row("GPU-0", KEEPER.pod, every(60 * GIB), namespace=SPACE)


def test_sharers_of_a_group_split_by_fraction() -> None:
    other = Pod("c", fraction=0.5, group="g2")
    pods = pods_of(KEEPER, Pod("a", fraction=0.5, group="g1"), Pod("b", fraction=0.25, group="g1"), other)
    answer = taken((KEPT,), pods)
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 40 * 3600, ("GPU-0", "b"): 20 * 3600}
    assert bases(answer) == {"a": {"estimated_requests"}, "b": {"estimated_requests"}}


def test_memory_and_fraction_are_weighed_in_bytes() -> None:
    pods = pods_of(KEEPER, Pod("a", fraction=0.5, group="g1"), Pod("b", memory=20 * GIB, group="g1"))
    assert used_gib_seconds(taken((KEPT,), pods)) == {("GPU-0", "a"): 40 * 3600, ("GPU-0", "b"): 20 * 3600}


def test_fractions_are_the_weights_where_nobody_knows_the_memory() -> None:
    pods = pods_of(KEEPER, Pod("a", fraction=0.5, group="g1"), Pod("b", fraction=0.25, group="g1"))
    answer = taken((KEPT,), pods, machine=Machine())
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 40 * 3600, ("GPU-0", "b"): 20 * 3600}


def test_memory_beside_a_fraction_of_unknown_memory_is_split_evenly() -> None:
    pods = pods_of(KEEPER, Pod("a", fraction=0.5, group="g1"), Pod("b", memory=20 * GIB, group="g1"))
    answer = taken((KEPT,), pods, machine=Machine())
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 30 * 3600, ("GPU-0", "b"): 30 * 3600}
    assert bases(answer)["a"] == {"estimated_even"}


def test_a_lone_workload_has_the_device_for_its_life_and_the_reservation_the_rest() -> None:
    pods = pods_of(KEEPER, Pod("a", fraction=0.5, group="g1", start=HOUR // 4, end=HOUR // 2))
    answer = taken((KEPT,), pods)
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 60 * 900, ("GPU-0", KEEPER.pod): 60 * 2700}
    assert bases(answer)["a"] == {"exclusive"}


def test_a_handover_inside_the_group() -> None:
    pods = pods_of(KEEPER, Pod("a", fraction=0.5, group="g1", end=HOUR // 2), Pod("b", fraction=0.5, group="g1", start=HOUR // 4))
    answer = taken((KEPT,), pods)
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 60 * 900 + 30 * 900, ("GPU-0", "b"): 30 * 900 + 60 * 1800}


def test_without_groups_one_reservation_stands_for_the_fractions_of_its_node() -> None:
    keeper = Pod(KEEPER.pod, namespace=SPACE, gpus=1, resource="nvidia_com_gpu")
    whole = Pod("whole", gpus=1, resource="nvidia_com_gpu", memory=GIB)
    pods = pods_of(keeper, Pod("a", fraction=0.5), Pod("elsewhere", fraction=0.5, node="n2"), whole)
    assert used_gib_seconds(taken((KEPT,), pods)) == {("GPU-0", "a"): 60 * 3600}


def test_without_groups_two_reservations_stay_the_holders_while_both_live() -> None:
    keeper = Pod(KEEPER.pod, namespace=SPACE)
    other = Pod("gpu-reservation-n1-def", namespace=SPACE, start=HOUR // 2)
    answer = taken((KEPT,), pods_of(keeper, other, Pod("a", fraction=0.5)))
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 60 * 1800, ("GPU-0", KEEPER.pod): 60 * 1800}


def test_a_pod_on_two_shared_cards_stands_behind_both_reservations() -> None:
    second = Pod("gpu-reservation-n1-def", namespace=SPACE, group="g2")
    rows = (KEPT, row("GPU-1", second.pod, every(10 * GIB), namespace=SPACE))
    answer = taken(rows, pods_of(KEEPER, second, Pod("a", fraction=0.5, group="g1,g2")), machine=Machine(gpus=2, memory=80 * GIB))
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 60 * 3600, ("GPU-1", "a"): 10 * 3600}


def test_a_reservation_without_memory_of_its_own_shares_the_device_row() -> None:
    rows = (row("GPU-0", KEEPER.pod, every(0), namespace=SPACE), card("GPU-0", every(60 * GIB)))
    answer = taken(rows, pods_of(KEEPER, Pod("a", fraction=0.5, group="g1"), Pod("b", fraction=0.25, group="g1")))
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 40 * 3600, ("GPU-0", "b"): 20 * 3600}


@pytest.mark.parametrize(("given", "wanted"), [((30, 10), (45, 15)), ((30, None), (30, 30))])
def test_time_sliced_pods_split_by_what_they_declared(given: tuple[int, int | None], wanted: tuple[int, int]) -> None:
    pods = [Pod(name, memory=float("nan") if size is None else size * GIB) for name, size in zip("ab", given, strict=True)]
    rows = tuple(row("GPU-0", name, every(60 * GIB)) for name in "ab")
    answer = taken(rows, pods_of(*pods))
    assert used_gib_seconds(answer) == {("GPU-0", "a"): wanted[0] * 3600, ("GPU-0", "b"): wanted[1] * 3600}


def test_measured_pods_do_not_care_what_they_declared() -> None:
    pods = pods_of(Pod("a", memory=70 * GIB), Pod("b", memory=10 * GIB))
    rows = (card("GPU-0", every(52 * GIB)), row("GPU-0", "a", every(30 * GIB)), row("GPU-0", "b", every(20 * GIB)))
    answer = taken(rows, pods)
    assert used_gib_seconds(answer) == {("GPU-0", "a"): 30 * 3600, ("GPU-0", "b"): 20 * 3600}
    assert bases(answer)["a"] == {"measured"}


def test_a_vgpu_guest_sees_its_slice_as_its_card() -> None:
    rows = (row("GPU-0", "a", every(6 * GIB)), card("GPU-0", every(16 * GIB), "total"))
    answer = taken(rows, pods_of(Pod("a", gpus=1, resource="nvidia_com_gpu")), machine=Machine(gpus=1))
    (only,) = answer.usage.to_pylist()
    assert (only["used_byte_ms"], only["idle_byte_ms"]) == (6 * GIB * HOUR, 10 * GIB * HOUR)
    assert only["basis"] == "exclusive"
