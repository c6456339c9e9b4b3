"""Many random clusters: the compiled method against the brute-force one, in money.

    python -m tests.oracle_many 2000

draws that many clusters of all shapes and an hour's bill line for each period, and ends with 1 at the first that differs: by more
than a nano in any column of any row, or at all in sum. The suite draws a smaller number (``allocation/test_oracle_money.py``).
"""

import sys
from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocation.apportion import apportion
from tests.oracle import Key, Period
from tests.oracle_money import Nanos, nanos_of
from tests.shards import Shard, expected, frames_of, keys_of, measured
from tests.strategies import large_shards

LARGEST_NANOS = 10**11
"""A hundred units an hour; weights are whole byte-ms, so that much larger lines on tiny cards may differ by more."""
LINES = st.lists(st.integers(-LARGEST_NANOS, LARGEST_NANOS), min_size=1, max_size=3)


def charged(shard: Shard, costs: list[int]) -> list[tuple[Period, int, Nanos]]:
    """The method's nanos for every line; line k is one of the k-th period."""
    periods = [shard.periods[k % len(shard.periods)] for k in range(len(costs))]
    usage = measured(shard).usage
    first, last = frames_of(usage, periods)
    line, row, nanos = apportion(np.array(costs, np.int64), first, last, usage)
    keys = keys_of(usage)
    found: list[tuple[Period, int, Nanos]] = [(p, c, {}) for p, c in zip(periods, costs, strict=True)]
    for k, r, cells in zip(line.tolist(), row.tolist(), nanos.tolist(), strict=True):
        found[k][2][keys[r]] = tuple(cells)
    return found


def check_money(shard: Shard, costs: list[int]) -> None:
    """Every cell within a nano, every line exactly."""
    wanted = expected(shard)
    for period, cost, got in charged(shard, costs):
        its = nanos_of(wanted[period], cost)
        assert sum(map(sum, got.values())) == cost == sum(map(sum, its.values()))
        for key in got.keys() | its.keys():
            off = _off(got, its, key)
            assert off <= 1, f"{key} of {period} at {cost}: {got.get(key)} for {its.get(key)}"


def _off(got: Nanos, its: Nanos, key: Key) -> int:
    nothing = (0, 0, 0)
    return max(abs(a - b) for a, b in zip(got.get(key, nothing), its.get(key, nothing), strict=True))


def many(examples: int) -> Callable[[], None]:
    """The comparison on that many clusters."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(large_shards(), LINES)
    def compare(shard: Shard, costs: list[int]) -> None:
        check_money(shard, costs)

    return compare


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    many(count)()
    sys.stdout.write(f"{count} clusters: every cell within a nano, every line exact\n")
