"""What must hold for any shard and any line, whatever the figures are."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation import money
from allocation.apportion import apportion
from allocation.chargeback import Stamp, charge, team_model
from allocation.owners import Owners
from allocation.schemas import LINE_ITEMS
from allocation.sums import sums_of
from tests.oracle import DAY_MS, Period, Series
from tests.shards import Shard, answered, expected, frames_of, measured, moment, pods_table
from tests.strategies import COSTS, GAP, NOON, shards

MIDNIGHT = NOON + DAY_MS // 2
"""The end of the day in whose middle random shards lie."""


@settings(max_examples=40)
@given(shards(mig=True))
def test_used_overhead_and_idle_fill_every_device_for_its_known_time(shard: Shard) -> None:
    answer, wanted = answered(measured(shard).usage, shard.periods), expected(shard)
    for period, rows in wanted.items():
        for device in {(k.gpu, k.instance) for k in rows if k.bucket == "workload"}:
            sums = [
                sum((r.used + r.overhead + r.idle for k, r in of.items() if (k.gpu, k.instance) == device), Fraction(0))
                for of in (answer[period], rows)
            ]
            assert sums[0] == sums[1]


def moved(shard: Shard, by: int) -> Shard:
    """The same shard at another time."""
    series = tuple(replace(s, points=tuple((t + by, v) for t, v in s.points)) for s in shard.series)
    return replace(shard, series=series, lives={h: (a + by, b + by) for h, (a, b) in shard.lives.items()})


def read(series: tuple[Series, ...], start: int, end: int) -> tuple[Series, ...]:
    """What a run over a window reads: its margin is ``max_gap`` on both sides."""
    cut = (replace(s, points=tuple(p for p in s.points if start - GAP <= p[0] <= end + GAP)) for s in series)
    return tuple(s for s in cut if s.points)


@settings(max_examples=25)
@given(shards(mig=True), st.sampled_from((0, 90_000, 400_000, 1_000_000)))
def test_a_day_alone_equals_its_part_of_two_days(shard: Shard, before: int) -> None:
    both = moved(shard, MIDNIGHT - NOON - before)
    hour = 3_600_000
    nodes = [m.node for m in shard.machines]
    days = [[Period(MIDNIGHT - hour * (1 - day), MIDNIGHT + hour * day, hour, n) for n in nodes] for day in (0, 1)]
    together = answered(measured(replace(both, periods=(*days[0], *days[1]))).usage, (*days[0], *days[1]))
    for day in (0, 1):
        window = MIDNIGHT - DAY_MS * (1 - day), MIDNIGHT + DAY_MS * day
        alone = replace(both, series=read(both.series, *window), periods=tuple(days[day]))
        assert answered(measured(alone).usage, alone.periods) == {p: together[p] for p in days[day]}


@settings(max_examples=30)
@given(shards(mig=True), st.randoms(use_true_random=False))
def test_the_order_of_series_and_periods_does_not_matter(shard: Shard, chance: "st.RandomType") -> None:  # type: ignore[name-defined]
    series, periods = list(shard.series), list(shard.periods)
    chance.shuffle(series)
    chance.shuffle(periods)
    mixed = measured(replace(shard, series=tuple(series), periods=tuple(periods)))
    straight = measured(shard)
    assert mixed.usage.equals(straight.usage)
    assert mixed.findings == straight.findings


def lines_table(costs: list[int], starts: list[Period]) -> pa.Table:
    """Table ``line_items`` with nothing in it that matters here but cost and period."""
    defaults = {pa.string(): "x", pa.int64(): 1, pa.float64(): 1.0, pa.bool_(): False}
    rows = []
    for number, (cost, p) in enumerate(zip(costs, starts, strict=True)):
        row: dict[str, object] = {c.name: defaults.get(c.type) for c in LINE_ITEMS.columns}
        day = moment(p.start).date()
        row |= {"line_item_id": f"l{number}", "billing_period": day - timedelta(days=day.day - 1), "cost_nanos": cost}
        row |= {"charge_period_start": moment(p.start), "charge_period_end": moment(p.end), "cost_residue": 0}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=LINE_ITEMS.arrow())


def parts_of(costs: list[int], periods: list[Period]) -> pd.DataFrame:
    """One part a line, over its whole period."""
    return pd.DataFrame(
        {
            "line": np.arange(len(costs)),
            "node_key": [f"id-{p.node}" for p in periods],
            "start_ms": [p.start for p in periods],
            "end_ms": [p.end for p in periods],
            "nanos": np.array(costs, np.int64),
        }
    )


def divided(shard: Shard, usage: pa.Table, costs: list[int]) -> list[list[list[int]]]:
    """Used, overhead and idle nanos of every row of every line; line k is one of the k-th period."""
    periods = [shard.periods[k % len(shard.periods)] for k in range(len(costs))]
    line, row, nanos = apportion(np.array(costs, np.int64), *frames_of(usage, periods), usage)
    first, _ = frames_of(usage, periods)
    found = [[[int(n) for n in nanos[i]] for i in np.flatnonzero(line == k)] for k in range(len(costs))]
    assert all(row[np.flatnonzero(line == k)[0]] == first[k] for k in range(len(costs)))
    return found


SMALL: st.SearchStrategy[int] = st.integers(-(2**61), 2**61)


@settings(max_examples=40)
@given(shards(mig=True), st.lists(st.one_of(SMALL, COSTS.filter(lambda c: abs(c) < 2**62)), min_size=1, max_size=5))
def test_parts_add_up_to_the_line_and_credits_mirror(shard: Shard, costs: list[int]) -> None:
    usage = measured(shard).usage
    parts = divided(shard, usage, costs)
    assert [sum(map(sum, rows)) for rows in parts] == costs
    assert divided(shard, usage, [-c for c in costs]) == [[[-n for n in row] for row in rows] for rows in parts]


@settings(max_examples=30)
@given(shards(mig=True), SMALL)
def test_twice_the_cost_is_twice_each_part(shard: Shard, cost: int) -> None:
    usage = measured(shard).usage
    once, twice = divided(shard, usage, [cost])[0], divided(shard, usage, [2 * cost])[0]
    for a, b in zip(once, twice, strict=True):
        for x, y in zip(a, b, strict=True):
            assert abs(y - 2 * x) <= 8, "three divisions, each of them less than a nano off, before and after doubling"


@settings(max_examples=30)
@given(shards(mig=True), st.lists(COSTS.filter(lambda c: abs(c) < 2**62), min_size=1, max_size=4))
def test_chargeback_conserves_every_line(shard: Shard, costs: list[int]) -> None:
    periods = [shard.periods[k % len(shard.periods)] for k in range(len(costs))]
    lines, parts = lines_table(costs, periods), parts_of(costs, periods)
    rows, _ = charge(lines, parts, measured(shard).usage, pods_table(shard.lives), Owners(), Stamp("policy", "run"))
    table = rows.table
    of_line: dict[str, int] = dict.fromkeys(lines["line_item_id"].to_pylist(), 0)
    for row in table.to_pylist():
        assert row["used_cost"] + row["overhead_cost"] + row["idle_cost"] == row["cost"]
        of_line[row["line_item_id"]] += int(row["cost"].scaleb(9))
    assert list(of_line.values()) == costs
    assert int(money.exact_sum(team_model(sums_of(table).holders, "run")["cost"]).scaleb(9)) == sum(costs)
