"""How fast money is divided, given owners and summed up on large tables.

    python -m benchmarks.money [--small]

The bars compare the largest remainder with the same rule in Python's whole numbers, in rounds one after the other; the least of
the rounds counts. Both get the same numbers, Python as lists. Python divides one group in ten, and its parts must equal ours;
ours must add up in every group. Seconds of other steps on as many rows are printed and held to nothing. ``--small``: 200,000
rows.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from allocation.apportion import apportion
from allocation.chargeback import team_model
from allocation.money import column_nanos
from allocation.owners import assign
from allocation.shares import divide_groups
from benchmarks.bars import Bar, show
from benchmarks.machine import machine
from benchmarks.money_data import FRAME, HELD, charges, frames, holders, inventory, owners_of

Int64 = npt.NDArray[np.int64]
Result = TypeVar("Result")
ROWS, A_GROUP, SAMPLE, ROUNDS = 10_000_000, 25, 10, 3
MOST_COST = 9 * 10**18
WORD = 1 << 62
KINDS = {"below 2^53": 2**53, "below 2^61": 2**61, "wide": 2**110}
"""What the weights of a group add up to at most."""


class Groups(NamedTuple):
    """What is divided, by group: the whole, where its rows begin, and their wide weights."""

    wholes: Int64
    offsets: Int64
    high: Int64
    low: Int64


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="Money on large tables.")
    parser.add_argument("--small", action="store_true", help="200,000 rows instead of ten million")
    small = parser.parse_args(arguments).small
    print(machine())
    bars = measure(small)
    show("largest remainder / Python's whole numbers, rows a second", bars)
    print(f"\n{'other steps':64}{'rows':>12}{'seconds':>12}")
    for name, rows, seconds in steps(ROWS // 50 if small else ROWS):
        print(f"{name:64}{rows:12}{seconds:12.2f}")
    return int(not all(bar.held for bar in bars))


def measure(small: bool) -> list[Bar]:
    """The bars, one a size of weights."""
    rows = ROWS // 50 if small else ROWS
    return [
        Bar(f"largest remainder / Python ints, weights of a group {kind}", _ratio(_groups(rows, total)), ">=", 10.0, number="P7")
        for kind, total in KINDS.items()
    ]


def _groups(rows: int, total: int) -> Groups:
    """Groups of about 25 rows, one to over 200; charges and credits up to 9e18."""
    rng = np.random.default_rng(7)
    count = rows // A_GROUP
    cuts = np.sort(rng.choice(rows - 1, count - 1, replace=False) + 1)
    offsets = np.concatenate(([0], cuts, [rows])).astype(np.int64)
    most = np.repeat(min(total, 2**61) // np.diff(offsets), np.diff(offsets))
    high = rng.integers(0, total // 2**70, rows) if total > WORD else np.zeros(rows, np.int64)
    return Groups(rng.integers(-MOST_COST, MOST_COST, count), offsets, high, rng.integers(1, most))


def _ratio(groups: Groups) -> float:
    """How many times more rows a second are divided than in Python's whole numbers."""
    asked = len(groups.wholes) // SAMPLE
    rows = int(groups.offsets[asked])
    words = zip(groups.high[:rows].tolist(), groups.low[:rows].tolist(), strict=True)
    weights = [high * WORD + low for high, low in words]
    wholes, offsets = groups.wholes[:asked].tolist(), groups.offsets[: asked + 1].tolist()
    divide_groups(groups.wholes[:1], groups.offsets[:2], groups.high, groups.low)
    ours, theirs = math.inf, math.inf
    for _ in range(ROUNDS):
        seconds, parts = _timed(lambda: divide_groups(*groups))
        ours = min(ours, seconds / len(groups.low))
        seconds, expected = _timed(lambda: in_python(wholes, offsets, weights))
        theirs = min(theirs, seconds / rows)
        if parts[:rows].tolist() != expected or (np.add.reduceat(parts, groups.offsets[:-1]) != groups.wholes).any():
            raise SystemExit("the parts differ or do not add up: the figures are worth nothing")
    return theirs / ours


def steps(rows: int) -> Iterator[tuple[str, int, float]]:
    """Other steps of money over tables: what is done, on how many rows, and its seconds."""
    yield "owners of distinct holders", rows // HELD, owners_seconds(rows // HELD)
    apportioned, summed = table_seconds(rows)
    yield "apportion: lines over GPUs, devices and rows", rows, apportioned
    yield "team_model: exact sums by team, model and bucket", rows, summed


def owners_seconds(count: int) -> float:
    """How long the owners of so many holders take, and of a fifth as many pods."""
    pods, rules = inventory(count // 5), owners_of()
    held = holders(pods, count)
    assign(held.iloc[:10], pods, rules)
    return min(_timed(lambda: assign(held, pods, rules))[0] for _ in range(ROUNDS))


def table_seconds(rows: int) -> tuple[float, float]:
    """How long lines over so many rows of usage take, and the sums of what comes out; every nano must be there."""
    usage, costs, first, last = frames(rows)
    apportion(costs[:1], first[:1], last[:1], usage.slice(0, FRAME))
    apportioned, (_, _, nanos) = _timed(lambda: apportion(costs, first, last, usage))
    charged = charges(nanos)
    summed, sums = _timed(lambda: team_model(charged, "run"))
    if int(column_nanos(sums["cost"]).sum()) != int(costs.sum()):
        raise SystemExit("money was lost: the figures are worth nothing")
    return apportioned, summed


def in_python(wholes: Sequence[int], offsets: Sequence[int], weights: Sequence[int]) -> list[int]:
    """The largest remainder with Python's whole numbers."""
    parts: list[int] = []
    for whole, begin, end in zip(wholes, offsets, offsets[1:], strict=False):
        mine = weights[begin:end]
        total, size = sum(mine), abs(whole)
        floors, rests = [], []
        for weight in mine:
            floor, rest = divmod(size * weight, total)
            floors.append(floor)
            rests.append(rest)
        left = size - sum(floors)
        for place in sorted(range(len(rests)), key=rests.__getitem__, reverse=True)[:left]:
            floors[place] += 1
        parts += [-floor for floor in floors] if whole < 0 else floors
    return parts


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
