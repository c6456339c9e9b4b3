"""Which part of a line belongs to a run: short lines whole, long ones by UTC clock hours (R15)."""

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.compiled import kernel
from allocation.times import HOUR_MS

Int64 = npt.NDArray[np.int64]
LONGEST_WHOLE_MS = 25 * HOUR_MS
"""A line of up to 25 hours (a local day in autumn) is split by its own period."""


@kernel
def _hour_cost(size: int, start: int, end: int, number: int) -> int:
    """The cost of one clock hour of a line: by length, largest remainder, the earlier hour first.

    An hour is one of at most three lengths (first, full, last), so its place among the remainders is known without the others.
    """
    length = end - start
    first = min(end, (start // HOUR_MS + 1) * HOUR_MS) - start
    full = (end - start - first) // HOUR_MS
    rest = end - start - first - full * HOUR_MS
    lengths = (first, HOUR_MS, rest)
    counts = (1, full, 1 if rest > 0 else 0)
    kind = 0 if number == 0 else (1 if number <= full else 2)
    left = size
    rests = np.zeros(3, np.int64)
    floors = np.zeros(3, np.int64)
    for k in range(3):
        if counts[k]:
            floors[k], rests[k] = wide.scale_word(size, lengths[k], length)
            left -= floors[k] * counts[k]
    before = number - 1 if kind == 1 else 0
    for k in range(3):
        if rests[k] > rests[kind] or (rests[k] == rests[kind] and k < kind):
            before += counts[k]
    return floors[kind] + (1 if before < left else 0)


@kernel
def _count(start: int, end: int, from_ms: int, until_ms: int) -> tuple[int, int]:
    """The first clock hour of a line that starts in the window, and how many do."""
    hour0 = start // HOUR_MS
    a = 0 if start >= from_ms else max(0, -(-from_ms // HOUR_MS) - hour0)
    b = 0 if start >= until_ms else max(0, -(-min(until_ms, end) // HOUR_MS) - hour0)
    return a, max(0, b - a)


@kernel
def cut(
    cost: Int64, start: Int64, end: Int64, from_ms: int, until_ms: int, longest_ms: int = LONGEST_WHOLE_MS
) -> tuple[Int64, Int64, Int64, Int64]:
    """The parts of lines that start in ``[from_ms, until_ms)``.

    Args:
        cost: nanos of each line.
        start: its start, ms.
        end: its end, ms.
        from_ms: start of the run's window, ms.
        until_ms: end of the run's window, ms.
        longest_ms: how long a line may be to stay whole; 0 cuts each at every clock hour.

    Returns:
        Number of the line, start and end (ms) and nanos of each part, in order of lines and time. A line of at most 25 hours (or
        what ``longest_ms`` says) is one part; a longer one is a part for each clock hour.
    """
    size = 0
    for k in range(len(cost)):
        whole = end[k] - start[k] <= longest_ms
        size += (1 if from_ms <= start[k] < until_ms else 0) if whole else _count(start[k], end[k], from_ms, until_ms)[1]
    line, begins, ends, nanos = (
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    n = 0
    for k in range(len(cost)):
        if end[k] - start[k] <= longest_ms:
            if from_ms <= start[k] < until_ms:
                line[n], begins[n], ends[n], nanos[n] = k, start[k], end[k], cost[k]
                n += 1
            continue
        first, count = _count(start[k], end[k], from_ms, until_ms)
        for number in range(first, first + count):
            clock = (start[k] // HOUR_MS + number) * HOUR_MS
            part = _hour_cost(abs(cost[k]), start[k], end[k], number)
            line[n], begins[n], ends[n] = k, max(clock, start[k]), min(clock + HOUR_MS, end[k])
            nanos[n] = -part if cost[k] < 0 else part
            n += 1
    return line, begins, ends, nanos
