"""One server's row over its models: growth of counters, weights, division. Every expected figure is worked out by hand."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation import wide
from allocation.counters import increases
from allocation.model_split import NOBODY, ModelSplit, Served, Shares, divide, model_shares
from allocation.schemas import COUNTERS
from tests.allocation.test_owners import holders, hour, pods_table

HOUR = 3_600_000
MINUTE = 60_000
GAP = 15 * MINUTE
TOKENS = ModelSplit({"vllm": {"prompt": 10**6, "generation": 10**6}})


def counter(points: list[tuple[int, int]], **named: str) -> dict[str, object]:
    """A series with samples (minute, value)."""
    usual: dict[str, object] = {"server": "vllm", "kind": "prompt", "namespace": "ns", "pod": "p", "pod_uid": "", "model": "m"}
    times, values = [m * MINUTE for m, _ in points], [v for _, v in points]
    return usual | {"instance": "", "replica": "", "timestamps_ms": times, "values": values} | named


def counters(*series: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(series), schema=COUNTERS.arrow())


def periods(*minutes: tuple[int, int], **more: str) -> pd.DataFrame:
    return holders(*({"start_ms": a * MINUTE, "end_ms": b * MINUTE} | more for a, b in minutes))


def grown(table: pa.Table, *minutes: tuple[int, int]) -> list[int]:
    """The growth of the only counter in each period."""
    told = increases(table, periods(*minutes), GAP).set_index("period").grown
    return [int(told.get(n, 0)) for n in range(len(minutes))]


def test_growth_lies_where_the_later_sample_lies() -> None:
    table = counters(counter([(50, 5), (59, 15), (60, 18), (70, 30)]))
    assert grown(table, (0, 60), (60, 120), (0, 120), (51, 59)) == [10, 15, 25, 0]


def test_a_first_sample_counts_nothing() -> None:
    assert grown(counters(counter([(10, 900)])), (0, 60)) == [0]


def test_a_counter_that_falls_began_anew() -> None:
    assert grown(counters(counter([(0, 100), (10, 130), (20, 7), (30, 9)])), (0, 60)) == [30 + 7 + 2]


def test_after_a_hole_of_more_than_max_gap_a_counter_is_new() -> None:
    assert grown(counters(counter([(0, 100), (15, 130), (31, 900), (40, 901)])), (0, 60)) == [30 + 1]


def test_growth_in_a_hole_is_named_with_hole_and_pod() -> None:
    """130 to 900 in 16 minutes, and from 950 anew to 40 in 20: 770 + 40 prompt tokens are nowhere; 15 minutes are no hole."""
    table = counters(
        counter([(0, 100), (15, 130), (31, 900), (40, 950), (60, 40)]),
        counter([(0, 0), (10, 1), (20, 2), (30, 3), (40, 4), (50, 5)], kind="generation"),
        counter([(0, 0), (30, 9)], pod="other"),
    )
    shares = shares_of(table, periods((0, 60), (60, 120)))
    assert told(shares) == [(0, "m", (30 + 50 + 5) * 10**6)]
    (finding,) = (f for f in shares.findings if "grew while" in f.evidence)
    assert (finding.code.value, finding.subject, finding.count) == ("model_counters_missing", "ns/p", 2)
    assert finding.evidence.startswith(
        "vllm: 810 prompt tokens grew while a counter was silent for longer than max_gap (2 times,"
    )
    assert "longest from 1970-01-01T00:40:00+00:00 to 1970-01-01T01:00:00+00:00" in finding.evidence
    assert finding.period is not None
    assert [moment.timestamp() for moment in finding.period] == [15 * 60.0, 60 * 60.0]
    assert not shares_of(table, periods((0, 31))).findings, "the hole ends in the next period"


def test_a_hole_without_growth_is_no_finding() -> None:
    table = counters(
        counter([(0, 7), (1, 9), (40, 9), (41, 9)]), counter([(0, 0), (1, 5), (16, 5), (31, 5), (41, 5)], kind="generation")
    )
    assert shares_of(table, periods((0, 60))).findings == ()


def test_replicas_count_once_even_where_one_clock_is_behind() -> None:
    first = counter([(0, 100), (10, 110), (20, 120), (30, 4), (40, 14)], replica="a")
    behind = counter([(1, 98), (11, 108), (21, 118), (31, 2), (41, 12)], replica="b")
    assert grown(counters(first), (0, 60)) == [20 + 4 + 10]
    assert grown(counters(first, behind), (0, 60)) == [34]
    assert grown(counters(behind, first), (0, 60)) == [34]


def test_a_replica_goes_on_where_the_other_stops() -> None:
    first, second = counter([(0, 100), (10, 110)], replica="a"), counter([(5, 105), (15, 115), (25, 125)], replica="b")
    assert grown(counters(first, second), (0, 60)) == [25]


def test_a_replica_that_still_shows_the_time_before_counts_nothing() -> None:
    first, behind = (
        counter([(0, 100), (10, 110), (20, 3)], replica="a"),
        counter([(1, 101), (11, 111), (21, 119), (30, 8)], replica="b"),
    )
    assert grown(counters(first, behind), (0, 60)) == [11 + 3 + 5]


def test_instances_add_up() -> None:
    assert grown(counters(counter([(0, 0), (9, 3)], instance="0"), counter([(0, 5), (9, 9)], instance="1")), (0, 60)) == [7]


def test_equal_times_count_once_with_the_larger_value() -> None:
    assert grown(counters(counter([(0, 1), (5, 8), (5, 9)])), (0, 60)) == [8]


POINTS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 1000)), max_size=20, unique_by=lambda p: p[0]).map(sorted)


@settings(max_examples=60, deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=3), st.integers(0, 300), st.booleans())
def test_two_adjacent_periods_add_up_to_both(series: list[list[tuple[int, int]]], cut: int, replicas: bool) -> None:
    label = "replica" if replicas else "instance"
    table = counters(*(counter(points, **{label: str(n)}) for n, points in enumerate(series) if points))
    first, second, both = grown(table, (0, cut), (cut, 301), (0, 301))
    assert first + second == both


@settings(max_examples=60, deadline=None)
@given(POINTS, st.integers(0, 300))
def test_a_day_alone_equals_its_part_of_two_days(points: list[tuple[int, int]], midnight: int) -> None:
    whole = grown(counters(counter(points)), (0, midnight), (midnight, 301))
    days = ((0, midnight), (midnight, 301))
    read = [[p for p in points if a - 15 <= p[0] <= b + 15] for a, b in days]
    assert [grown(counters(counter(r)), day)[0] for r, day in zip(read, days, strict=True)] == whole


def told(shares: Shares) -> list[tuple[int, str, int]]:
    """Holder, model and weight of each share."""
    weights = [h * 2**62 + w for h, w in zip(shares.high.tolist(), shares.low.tolist(), strict=True)]
    return list(zip(shares.holder.tolist(), shares.model.tolist(), weights, strict=True))


def shares_of(table: pa.Table, rows: pd.DataFrame, split: ModelSplit = TOKENS, pods: pa.Table | None = None) -> Shares:
    return model_shares(rows, pods_table({}) if pods is None else pods, Served(table, split, GAP))


def both_kinds(model: str, prompt: int, generation: int, **named: str) -> list[dict[str, object]]:
    """Counters that grow by so much in the first hour."""
    return [
        counter([(0, 10), (10, 10 + n)], model=model, kind=kind, **named)
        for kind, n in (("prompt", prompt), ("generation", generation))
    ]


def test_weights_are_growth_times_what_a_token_counts_for() -> None:
    split = ModelSplit({"vllm": {"prompt": 250_000, "generation": 1_000_000}})
    table = counters(*both_kinds("b", 100, 10), *both_kinds("a", 4, 3))
    shares = shares_of(table, periods((0, 60)), split)
    assert told(shares) == [(0, "a", 4 * 250_000 + 3 * 1_000_000), (0, "b", 100 * 250_000 + 10 * 1_000_000)]
    assert list(shares.server) == ["vllm", "vllm"]


def test_weights_of_more_than_one_word() -> None:
    table = counters(counter([(0, 0), (10, 2**52)], kind="prompt"), counter([(0, 0), (10, 0)], kind="generation"))
    split = ModelSplit({"vllm": {"prompt": 10**9, "generation": 1}})
    assert told(shares_of(table, periods((0, 60)), split)) == [(0, "m", 2**52 * 10**9)]


def test_only_workloads_of_that_pod_are_split_each_in_its_own_period() -> None:
    table = counters(
        *both_kinds("a", 6, 0), *(counter([(65, 0), (70, n)], model="b", kind=k) for k, n in (("prompt", 1), ("generation", 1)))
    )
    rows = pd.concat([periods((0, 60), bucket="idle"), periods((0, 60), (60, 120)), periods((0, 60), pod="q")], ignore_index=True)
    assert told(shares_of(table, rows)) == [(1, "a", 6 * 10**6), (2, "b", 2 * 10**6)]


def test_without_growth_the_label_counts_and_nothing_is_told() -> None:
    shares = shares_of(counters(*both_kinds("a", 0, 0)), periods((0, 60)))
    assert told(shares) == []
    assert shares.findings == ()


def test_a_pod_without_counters_is_not_told() -> None:
    assert shares_of(counters(*both_kinds("a", 1, 1)), periods((0, 60), pod="other")) == NOBODY


def test_generation_that_is_not_counted_is_told_and_the_label_counts() -> None:
    table = counters(*both_kinds("a", 5, 5), counter([(0, 0), (10, 5)], model="b", kind="prompt"))
    shares = shares_of(table, periods((0, 30), (30, 60)))
    assert told(shares) == []
    (lacking, silent) = sorted(shares.findings, key=lambda f: f.evidence, reverse=True)
    assert (lacking.code, lacking.subject, lacking.count) == ("model_counters_missing", "ns/p", 1)
    assert lacking.evidence.startswith("vllm counts prompt of a model and needs prompt and generation")
    assert lacking.period == (hour(0), hour(0.5))
    assert (silent.subject, silent.period) == ("ns/p", (hour(0.5), hour(1)))


def test_a_kind_that_weighs_nothing_is_not_needed() -> None:
    split = ModelSplit({"vllm": {"prompt": 10**6, "generation": 0}})
    assert told(shares_of(counters(counter([(0, 0), (10, 5)])), periods((0, 60)), split)) == [(0, "m", 5 * 10**6)]


def test_a_counter_that_names_no_model_leaves_the_label() -> None:
    assert told(shares_of(counters(*both_kinds("", 5, 5)), periods((0, 60)))) == []
    mixed = counters(*both_kinds("", 5, 5), *both_kinds("a", 1, 1))
    assert told(shares_of(mixed, periods((0, 60)))) == [(0, "", 10 * 10**6), (0, "a", 2 * 10**6)]


def test_the_first_server_that_speaks_in_a_period_counts() -> None:
    split = ModelSplit({"vllm": {"prompt": 10**6}, "triton": {"compute_time": 10**6}})
    own = {"server": "triton", "kind": "compute_time", "model": "t"}
    table = counters(counter([(0, 0), (10, 5)]), counter([(0, 0), (10, 9), (70, 9), (80, 19)], **own))
    shares = shares_of(table, periods((0, 60), (60, 120)), split)
    assert told(shares) == [(0, "m", 5 * 10**6), (1, "t", 10 * 10**6)]
    assert list(shares.server) == ["vllm", "triton"]


def test_the_uid_tells_pods_of_one_name_apart() -> None:
    table = counters(*both_kinds("a", 1, 1, pod_uid="u1"), *both_kinds("b", 1, 1, pod_uid="u2"))
    rows = pd.concat([periods((0, 60), pod_uid=uid) for uid in ("u1", "u2", "")], ignore_index=True)
    two = 2 * 10**6
    assert told(shares_of(table, rows)) == [(0, "a", two), (1, "b", two), (2, "a", two), (2, "b", two)]


def test_without_a_uid_a_restarted_pod_has_what_grew_in_its_own_time() -> None:
    pods = pods_table(
        {"pod_uid": "u1", "seen_from": hour(0)},
        {"pod_uid": "u2", "seen_from": hour(0.6), "started_at": hour(0.5)},
    )
    split = ModelSplit({"vllm": {"prompt": 10**6}})
    table = counters(counter([(20, 0), (29, 4)], model="a"), counter([(29, 0), (30, 3), (40, 10)], model="b"))
    rows = pd.concat([periods((0, 60), pod_uid=uid) for uid in ("u1", "u2")], ignore_index=True)
    assert told(shares_of(table, rows, split, pods)) == [(0, "a", 4 * 10**6), (1, "b", 10 * 10**6)]


def by_hand(*weights: tuple[int, str, int]) -> Shares:
    """Shares of (holder, model, weight)."""
    holder, model, weight = zip(*weights, strict=True)
    low = np.array(weight, np.int64)
    return Shares(np.array(holder), np.array(model, object), np.full(len(low), "vllm", object), np.zeros_like(low), low)


def test_a_row_is_divided_by_largest_remainder_each_sort_of_money_alone() -> None:
    shares = by_hand((1, "a", 1), (1, "b", 1), (1, "c", 1))
    nanos = np.array([[7, 1, 0], [10, 1, 5], [-10, -1, -5]], np.int64)
    split = divide(np.array([0, 1, 1]), nanos, shares)
    assert split.row.tolist() == [0, 1, 1, 1, 2, 2, 2]
    assert split.share.tolist() == [-1, 0, 1, 2, 0, 1, 2]
    thirds = [[4, 1, 2], [3, 0, 2], [3, 0, 1]]
    assert split.columns.tolist() == [[7, 1, 0], *thirds, *[[-n for n in row] for row in thirds]]
    assert split.part.tolist() == [1.0, *[pytest.approx(1 / 3)] * 6]


MONEY = st.lists(st.tuples(*[st.integers(-(2**61), 2**61)] * 3), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(MONEY, st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2**50)), min_size=1, max_size=9), st.data())
def test_money_is_conserved_and_parts_are_fair(
    money: list[tuple[int, int, int]], weighed: list[tuple[int, int]], data: st.DataObject
) -> None:
    weights = [(h, f"m{n}", w) for n, (h, w) in enumerate(sorted(weighed))]
    holder = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(money), max_size=len(money))))
    nanos = np.array(money, np.int64)
    split = divide(holder, nanos, by_hand(*weights))
    mirrored = divide(holder, -nanos, by_hand(*weights))
    assert (mirrored.columns == -split.columns).all()
    for row, whole in enumerate(money):
        mine = np.flatnonzero(split.row == row)
        assert [sum(column) for column in zip(*split.columns[mine].tolist(), strict=True)] == list(whole)
        of_holder = [w for h, _, w in weights if h == holder[row]] or [1]
        assert sum(split.part[mine]) == pytest.approx(1)
        for part, weight in zip(split.columns[mine].tolist(), of_holder, strict=True):
            for got, all_of_it in zip(part, whole, strict=True):
                assert abs(got - Fraction(all_of_it * weight, sum(of_holder))) < 1


def test_no_rows_and_no_shares() -> None:
    assert divide(np.empty(0, np.int64), np.empty((0, 3), np.int64), NOBODY).row.tolist() == []
    assert divide(np.empty(0, np.int64), np.empty((0, 3), np.int64), by_hand((0, "a", 1))).row.tolist() == []
    assert wide.to_float(NOBODY.high, NOBODY.low).tolist() == []
