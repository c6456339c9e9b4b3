"""Findings of one pod from several shards: one row, counts added, no money twice."""

from dataclasses import replace
from datetime import UTC, datetime

from allocation.findings import Code, Finding, Severity, of_shards


def at(hour: int) -> datetime:
    return datetime(2026, 10, 1, hour, tzinfo=UTC)


def told(subject: str, count: int, first: int, last: int) -> Finding:
    text = f"{count} samples in the {60 * count} s before its known start"
    return Finding(Code.SAMPLES_OUTSIDE_LIFE, Severity.WARNING, subject, text, (at(first), at(last)), count)


def test_a_pod_on_nodes_of_two_shards_is_told_of_once() -> None:
    (one,) = of_shards([told("ns/a", 11, 0, 4), told("ns/a", 12, 3, 9)])
    assert (one.count, one.period) == (23, (at(0), at(9)))
    assert one.evidence == "11 samples in the 660 s before its known start; 12 samples in the 720 s before its known start"


def test_equal_findings_of_two_shards_are_counted_together() -> None:
    (one,) = of_shards([told("ns/a", 2, 0, 4), told("ns/a", 2, 0, 4)])
    assert (one.count, one.evidence) == (4, told("ns/a", 2, 0, 4).evidence)


def test_others_stay_apart_in_their_order() -> None:
    why = replace(told("ns/a", 3, 0, 1), evidence="something else in 3 charge periods")
    kind = replace(told("ns/a", 3, 0, 1), code=Code.SKEWED_CLOCKS)
    all_of_them = [told("ns/b", 1, 0, 1), told("ns/a", 3, 0, 1), why, kind]
    assert of_shards(all_of_them) == all_of_them
