"""Findings from series and inventory: each raised where it must be and silent just beside."""

from dataclasses import replace

import pytest

from allocation.findings import Code, Finding, Severity
from tests.inventories import GIB, HOUR, POLICY, START, Pod, card, every, found, pods_of, row, taken
from tests.oracle import Machine, Series
from tests.shards import moment

WHOLE = "nvidia_com_gpu"
MIB = 2**20
A = Pod("a", gpus=1, resource=WHOLE)
TWO = Machine(gpus=2, memory=80 * GIB)


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_use_without_any_pod_longer_than_the_gap() -> None:
    held = row("GPU-0", "a", every(GIB, 0, HOUR // 2))
    rows = (held, card("GPU-0", every(5 * GIB, HOUR // 2)), card("GPU-1", every(100 * MIB)))
    finding = only(found(taken(rows, pods_of(), machine=TWO), Code.DEVICE_WITHOUT_PODS))
    assert (finding.subject, finding.severity) == ("n1/GPU-0", Severity.WARNING)
    assert "1800 s" in finding.evidence
    assert "5.000 GiB" in finding.evidence
    assert finding.period == (moment(START), moment(START + HOUR))


def test_use_without_a_pod_that_is_no_longer_than_the_gap_is_a_change_of_pods() -> None:
    gap = POLICY.max_gap_ms
    rows = (row("GPU-0", "a", every(GIB, 0, HOUR - gap)), card("GPU-0", every(5 * GIB, HOUR - gap, HOUR, SCRAPE_OF_GAP)))
    assert not found(taken((*rows, row("GPU-0", "b", every(GIB, HOUR, HOUR + gap))), pods_of()), Code.DEVICE_WITHOUT_PODS)


SCRAPE_OF_GAP = 60_000


def test_a_used_value_that_includes_the_reserve_is_not_use() -> None:
    rows = (card("GPU-0", every(600 * MIB), includes_reserved=True),)
    assert not found(taken(rows, pods_of()), Code.DEVICE_WITHOUT_PODS)


def test_lost_labels_name_pod_time_and_device() -> None:
    answer = taken((card("GPU-0", every(5 * GIB)),), pods_of(replace(A, start=HOUR // 4)))
    finding = only(found(answer, Code.LABELS_LOST))
    assert finding.subject == "ml/a"
    assert "2700 s while GPU-0" in finding.evidence
    assert not found(answer, Code.DEVICE_WITHOUT_PODS), "900 s are no longer than the gap"


def test_a_reservation_that_nobody_stands_behind() -> None:
    keeper = Pod("runai-reservation-gpu-x", namespace="runai-reservation", gpus=1, resource=WHOLE)
    rows = (row("GPU-0", keeper.pod, every(GIB), namespace=keeper.namespace),)
    finding = only(found(taken(rows, pods_of(keeper)), Code.RESERVATION_UNRESOLVED))
    assert finding.subject == "runai-reservation/runai-reservation-gpu-x"
    assert "GPU-0 for 3600 s" in finding.evidence
    assert only(found(taken(rows, pods_of()), Code.RESERVATION_UNRESOLVED)) == finding
    assert not found(taken(rows, pods_of(keeper, Pod("a", fraction=0.5))), Code.RESERVATION_UNRESOLVED)


@pytest.mark.parametrize(
    ("pod", "raised"),
    [
        (A, True),
        (replace(A, gpus=2), False),
        (replace(A, resource="nvidia_com_gpu_shared"), False),
        (replace(A, claim=True), False),
        (replace(A, gpus=float("nan")), False),
    ],
)
def test_a_pod_on_more_devices_than_it_asked_for(pod: Pod, raised: bool) -> None:
    rows = (row("GPU-0", "a", every(GIB)), row("GPU-1", "a", every(GIB, HOUR // 2)))
    findings = found(taken(rows, pods_of(pod), machine=TWO), Code.POD_ON_MORE_DEVICES)
    assert [f.subject for f in findings] == (["ml/a"] if raised else [])
    assert all("up to 2 devices at once for 1800 s and asked for 1" in f.evidence for f in findings)


def test_devices_one_after_the_other_are_not_more() -> None:
    rows = (row("GPU-0", "a", every(GIB, 0, HOUR // 2)), row("GPU-1", "a", every(GIB, HOUR // 2)))
    assert not found(taken(rows, pods_of(A), machine=TWO), Code.POD_ON_MORE_DEVICES)


@pytest.mark.parametrize(
    ("pod", "raised"),
    [
        (Pod("b"), True),
        (Pod("b", claim=True), False),
        (Pod("b", fraction=0.5), False),
        (Pod("b", gpus=1), False),
        (Pod("other"), False),
    ],
)
def test_memory_of_a_pod_that_asked_for_no_gpu(pod: Pod, raised: bool) -> None:
    rows = (row("GPU-0", "b", every(GIB)), row("GPU-0", "a", every(2 * GIB)), card("GPU-0", every(3 * GIB)))
    findings = found(taken(rows, pods_of(A, pod)), Code.MEMORY_WITHOUT_REQUEST)
    assert [f.subject for f in findings] == (["ml/b"] if raised else [])
    assert all("1.000 GiB of GPU-0 for 3600 s" in f.evidence for f in findings)


def test_an_inventory_without_requests_says_nothing_of_requests() -> None:
    assert not found(taken((row("GPU-0", "b", every(GIB)),), pods_of(Pod("b"))), Code.MEMORY_WITHOUT_REQUEST)


@pytest.mark.parametrize(("start", "raised"), [(600_000, True), (POLICY.max_hold_ms, False)])
def test_samples_before_the_pods_own_start(start: int, raised: bool) -> None:
    own = Series("pod_memory", "GPU-0", every(GIB), holder=("ml", "a", "uid-a"), metric="pods")
    findings = found(taken((own,), pods_of(replace(A, start=start))), Code.SKEWED_CLOCKS)
    assert [f.subject for f in findings] == (["ml/a"] if raised else [])
    assert all("600 s before its start" in f.evidence for f in findings)
    loose = replace(own, holder=("ml", "a", ""))
    assert not found(taken((loose,), pods_of(replace(A, start=start))), Code.SKEWED_CLOCKS), "an earlier pod of that name"


@pytest.mark.parametrize(
    ("sizes", "raised"),
    [
        ({"total": 40}, True),
        ({"total": 76}, False),
        ({"used": 30, "free": 44, "reserved": 1}, True),
        ({"used": 30, "free": 49, "reserved": 1}, False),
        ({"used": 30, "free": 44}, False),
        ({"used": 30, "free": 55}, True),
    ],
)
def test_a_size_that_the_nameplate_denies(sizes: dict[str, int], raised: bool) -> None:
    rows = tuple(card("GPU-0", every(size * GIB), role) for role, size in sizes.items())
    findings = found(taken(rows, pods_of()), Code.CAPACITY_DISAGREES)
    seen = sum(sizes.values())
    assert [f.subject for f in findings] == (["n1/GPU-0"] if raised else [])
    assert all(f"say {seen}.000 GiB" in f.evidence and "80.000 GiB" in f.evidence for f in findings)


def test_a_minute_between_two_pods_makes_no_larger_card() -> None:
    """From :30 to :32 the card says 0 used and 79 free; the rows of the pods, whose gap is bridged, say 40 through it."""
    minute = 60_000
    away = (30 * minute, 32 * minute)
    held = (*every(40 * GIB, 0, away[0], minute), *every(40 * GIB, away[1], HOUR, minute))
    none = every(0, *away, minute)
    free = (*every(39 * GIB, 0, away[0], minute), *every(79 * GIB, *away, minute), *every(39 * GIB, away[1], HOUR, minute))
    rows = (
        row("GPU-0", "a", held),
        card("GPU-0", none),
        card("GPU-0", free, "free"),
    )
    assert not found(taken(rows, pods_of(A)), Code.CAPACITY_DISAGREES)


@pytest.mark.parametrize(("after", "raised"), [(1000, False), (1430, True), (1400, False)])
def test_a_reserve_that_jumps(after: int, raised: bool) -> None:
    """0.5 % of 80 GiB are 409.6 MiB."""
    points = every(1000 * MIB, 0, HOUR // 2) + every(after * MIB, HOUR // 2)
    findings = found(taken((card("GPU-0", points, "reserved"),), pods_of()), Code.RESERVE_JUMPS)
    assert [f.subject for f in findings] == (["n1/GPU-0"] if raised else [])


@pytest.mark.parametrize(
    ("sizes", "raised"), [((70, 70.5), True), ((70, 71), False), ((68, 68), False), ((69, 69), True), ((75, 0), False)]
)
def test_memory_that_stood_flat_above_85_percent(sizes: tuple[float, float], raised: bool) -> None:
    points = every(sizes[0] * GIB, 0, 6 * HOUR) + every(sizes[1] * GIB, 6 * HOUR, 12 * HOUR)
    findings = found(taken((row("GPU-0", "a", points),), pods_of(A), hours=HALF_A_DAY), Code.PREALLOCATED_MEMORY)
    assert [(f.subject, f.severity) for f in findings] == ([("n1/GPU-0", Severity.INFO)] if raised else [])


HALF_A_DAY = (0, 12)


def test_flat_memory_of_a_part_of_the_day_or_of_two_sharers_is_not_preallocated() -> None:
    part = (row("GPU-0", "a", every(75 * GIB, 0, 12 * HOUR)),)
    assert found(taken(part, pods_of(A), hours=HALF_A_DAY), Code.PREALLOCATED_MEMORY)
    assert not found(taken(part, pods_of(A), hours=(0, 13)), Code.PREALLOCATED_MEMORY), "12 hours of 13"
    assert not found(taken(part, pods_of(A), hours=(0, 11)), Code.PREALLOCATED_MEMORY), "11 hours are no day"
    two = (row("GPU-0", "a", every(75 * GIB, 0, 12 * HOUR)), row("GPU-0", "b", every(75 * GIB, 0, 12 * HOUR)))
    assert not found(taken(two, pods_of(A), hours=HALF_A_DAY), Code.PREALLOCATED_MEMORY)


def test_a_pod_on_a_card_that_is_partitioned_in_that_hour() -> None:
    instance = Series("used", "GPU-0", every(GIB, 0, HOUR - 130_000), instance="1", level="device", metric="fb_used")
    rows = (row("GPU-0", "a", every(GIB, 0, 2 * HOUR)), instance)
    finding = only(found(taken(rows, pods_of(A), hours=(0, 2)), Code.POD_ON_PARTITIONED_GPU))
    assert finding.subject == "ml/a"
    assert "GPU-0 for 3600 s" in finding.evidence
    assert finding.money_of == ("n1/GPU-0",)


def test_a_partition_later_in_the_hour_takes_the_card_from_the_pod_for_all_of_it() -> None:
    """The pod shows the card for 1800 s and 120 s of hold, the instance comes after it, both in one charge period."""
    instance = Series("used", "GPU-0", every(GIB, HOUR - 600_000), instance="1", level="device", metric="fb_used")
    rows = (row("GPU-0", "a", every(GIB, 0, HOUR // 2)), instance)
    answer = taken(rows, pods_of(A))
    finding = only(found(answer, Code.POD_ON_PARTITIONED_GPU))
    assert "1 charge periods in which that card has instances at some time" in finding.evidence
    assert "while that card is partitioned" not in finding.evidence
    assert "before the partition" in finding.evidence
    assert not any(r["pod"] for r in answer.usage.to_pylist())


def test_samples_beyond_a_known_life_are_counted() -> None:
    """Scrapes of 30 s: 20 in the 600 s before the start, 40 in the 1200 s from the end on, the last of them 1170 s after it."""
    pods = pods_of(replace(A, start=600_000, end=HOUR - 1_200_000))
    answer = taken((row("GPU-0", "a", every(GIB)),), pods)
    finding = only(found(answer, Code.SAMPLES_OUTSIDE_LIFE))
    assert (finding.subject, finding.severity, finding.count) == ("ml/a", Severity.WARNING, 60)
    assert "20 samples in the 600 s before its known start" in finding.evidence
    assert "40 samples in the 1170 s after its known end" in finding.evidence
    assert not found(answer, Code.SKEWED_CLOCKS)
    own = Series("pod_memory", "GPU-0", every(GIB), holder=("ml", "a", "uid-a"), metric="pods")
    answer = taken((own,), pods)
    assert only(found(answer, Code.SAMPLES_OUTSIDE_LIFE)).count == 40, "the early ones are a clock"
    assert "20 samples" in only(found(answer, Code.SKEWED_CLOCKS)).evidence


def test_of_series_that_begin_together_before_the_start_the_longest_is_told_in_any_order() -> None:
    """Of two containers the one scraped each 30 s shows 20 samples in the 600 s before the start, the other 10."""
    often, seldom = (
        Series("pod_memory", "GPU-0", every(GIB, step=step), holder=("ml", "a", "uid-a"), metric="pods", container=name)
        for name, step in (("main", 30_000), ("side", 60_000))
    )
    for series in ((often, seldom), (seldom, often)):
        told = only(found(taken(series, pods_of(replace(A, start=600_000))), Code.SKEWED_CLOCKS))
        assert "600 s before its start, 20 samples are not used" in told.evidence


@pytest.mark.parametrize(
    ("start", "end"), [(POLICY.max_hold_ms, None), (0, HOUR - POLICY.max_hold_ms), (-HOUR, 2 * HOUR), (0, None)]
)
def test_samples_within_the_hold_of_a_life_are_no_news(start: int, end: int | None) -> None:
    pods = pods_of(replace(A, start=start, end=end))
    assert not found(taken((row("GPU-0", "a", every(GIB)),), pods), Code.SAMPLES_OUTSIDE_LIFE)


def test_samples_beyond_a_life_on_another_day_are_that_days() -> None:
    pods = pods_of(replace(A, start=HOUR + 600_000))
    rows = (row("GPU-0", "a", every(GIB, 0, 3 * HOUR)),)
    assert not found(taken(rows, pods, hours=(2, 3)), Code.SAMPLES_OUTSIDE_LIFE)
    assert only(found(taken(rows, pods, hours=(1, 3)), Code.SAMPLES_OUTSIDE_LIFE)).count == 20


def test_a_plain_day_says_nothing() -> None:
    rows = (row("GPU-0", "a", every(30 * GIB)), card("GPU-0", every(49 * GIB), "free"), card("GPU-0", every(GIB), "reserved"))
    assert taken(rows, pods_of(A)).findings == ()
