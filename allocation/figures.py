"""Compiled passes over the runs of a shard that ``noticed`` draws its findings from. All times count within the windows only."""

import numpy as np
import numpy.typing as npt

from allocation import instant
from allocation.compiled import kernel
from allocation.intervals import Runs
from allocation.stretches import Stretches, Windows, time_within, union_of

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
COVERED, POSITIVE, SMALLEST, LARGEST = range(4)
"""Figures of a series: ms with a value, ms with a value above 0, the extremes in bytes (ABSENT where there is no value)."""
TOTAL, WHOLE, VISIBLE = range(3)
"""What a device's series say of its size: total; used + free + reserved; used + free. Bytes or ABSENT."""


@kernel
def series_figures(runs: Runs, machine: Int64, windows: Windows) -> Int64:
    """The figures of every series; ``machine`` is each series' own."""
    found = np.zeros((len(machine), 4), np.int64)
    found[:, SMALLEST], found[:, LARGEST] = instant.ABSENT, instant.ABSENT
    for s in range(len(machine)):
        w, last = windows.offsets[machine[s]], windows.offsets[machine[s] + 1]
        for p in range(runs.offsets[s], runs.offsets[s + 1]):
            while w < last and windows.end[w] <= runs.start[p]:
                w += 1
            ms, value, v = 0, runs.value[p], w
            while v < last and windows.start[v] < runs.end[p]:
                ms += min(runs.end[p], windows.end[v]) - max(runs.start[p], windows.start[v])
                v += 1
            if ms == 0:
                continue
            found[s, COVERED] += ms
            found[s, POSITIVE] += ms if value > 0 else 0
            found[s, SMALLEST] = value if found[s, SMALLEST] == instant.ABSENT else min(found[s, SMALLEST], value)
            found[s, LARGEST] = max(found[s, LARGEST], value)
    return found


@kernel
def _held_throughout(runs: Runs, ids: Int64, start: int, end: int) -> bool:
    """Whether one of the series holds a value from start to end."""
    for s in ids:
        reach, k = start, runs.offsets[s]
        k += np.searchsorted(runs.end[k : runs.offsets[s + 1]], start, side="right")
        while k < runs.offsets[s + 1] and runs.start[k] <= reach < end:
            reach, k = runs.end[k], k + 1
        if reach >= end:
            return True
    return False


@kernel
def _largest_sum(runs: Runs, a: int, b: int, c: int, unless: Int64, machine: int, windows: Windows) -> int:
    """The largest sum of the series a, b and c (none where c is ABSENT) at any instant without those in ``unless``, or ABSENT."""
    p, q, r = runs.offsets[a], runs.offsets[b], runs.offsets[max(c, 0)]
    largest = instant.ABSENT
    while p < runs.offsets[a + 1] and q < runs.offsets[b + 1] and (c < 0 or r < runs.offsets[c + 1]):
        start, end = max(runs.start[p], runs.start[q]), min(runs.end[p], runs.end[q])
        value = runs.value[p] + runs.value[q]
        if c >= 0:
            start, end, value = max(start, runs.start[r]), min(end, runs.end[r]), value + runs.value[r]
        seen = start < end and value > largest and time_within(windows, machine, start, end) > 0
        if seen and not _held_throughout(runs, unless, start, end):
            largest = value
        if c >= 0 and runs.end[r] <= min(runs.end[p], runs.end[q]):
            r += 1
        elif runs.end[p] <= runs.end[q]:
            p += 1
        else:
            q += 1
    return largest


@kernel
def sizes_by_series(
    runs: Runs, figures: Int64, role: Int64, includes: Bool, series_offsets: Int64, machine: Int64, windows: Windows,
) -> Int64:  # fmt: skip
    """What each device's series say of its size; ``machine`` is each series' own. Pods' rows tell use where no other does."""
    found = np.full((len(series_offsets) - 1, 3), instant.ABSENT, np.int64)
    for d in range(len(found)):
        first, last = series_offsets[d], series_offsets[d + 1]
        for s in range(first, last):
            if role[s] == instant.TOTAL:
                found[d, TOTAL] = max(found[d, TOTAL], figures[s, LARGEST])
        used = first + np.flatnonzero(role[first:last] == instant.USED)
        for u in range(first, last):
            unless = used if role[u] == instant.ROWS else used[:0]
            for f in range(first, last):
                if role[u] not in (instant.USED, instant.ROWS) or role[f] != instant.FREE:
                    continue
                sum_of_two = _largest_sum(runs, u, f, instant.ABSENT, unless, machine[u], windows)
                found[d, VISIBLE] = max(found[d, VISIBLE], sum_of_two)
                if includes[u]:
                    found[d, WHOLE] = max(found[d, WHOLE], sum_of_two)
                    continue
                for r in range(first, last):
                    if role[r] == instant.RESERVED:
                        found[d, WHOLE] = max(found[d, WHOLE], _largest_sum(runs, u, f, r, unless, machine[u], windows))
    return found


@kernel
def _spans(stretches: Stretches, ids: Int64) -> tuple[Int64, Int64]:
    """The union of the stretches of some series."""
    n = 0
    for s in ids:
        n += stretches.offsets[s + 1] - stretches.offsets[s]
    start, end = np.empty(n, np.int64), np.empty(n, np.int64)
    n = 0
    for s in ids:
        for k in range(stretches.offsets[s], stretches.offsets[s + 1]):
            start[n], end[n] = stretches.start[k], stretches.end[k]
            n += 1
    joined: tuple[Int64, Int64] = union_of(start, end)
    return joined


@kernel
def _in_use(runs: Runs, ids: Int64, threshold: int) -> tuple[Int64, Int64]:
    """When any of the series shows more than the threshold."""
    n = 0
    for s in ids:
        n += runs.offsets[s + 1] - runs.offsets[s]
    start, end = np.empty(n, np.int64), np.empty(n, np.int64)
    n = 0
    for s in ids:
        for p in range(runs.offsets[s], runs.offsets[s + 1]):
            if runs.value[p] <= threshold:
                continue
            if n > 0 and end[n - 1] == runs.start[p]:
                end[n - 1] = runs.end[p]
            else:
                start[n], end[n] = runs.start[p], runs.end[p]
                n += 1
    joined: tuple[Int64, Int64] = union_of(start[:n], end[:n])
    return joined


@kernel
def _without(start: Int64, end: Int64, other_start: Int64, other_end: Int64) -> tuple[Int64, Int64]:
    """What is left of the first intervals outside the second; both are unions in time order."""
    a, b = np.empty(len(start) + len(other_start), np.int64), np.empty(len(start) + len(other_start), np.int64)
    n, k = 0, 0
    for i in range(len(start)):
        reach = start[i]
        while k < len(other_start) and other_end[k] <= reach:
            k += 1
        m = k
        while m < len(other_start) and other_start[m] < end[i]:
            if other_start[m] > reach:
                a[n], b[n] = reach, other_start[m]
                n += 1
            reach = max(reach, other_end[m])
            m += 1
        if reach < end[i]:
            a[n], b[n] = reach, end[i]
            n += 1
    return a[:n], b[:n]


@kernel
def unheld(
    runs: Runs, stretches: Stretches, role: Int64, series_offsets: Int64, machine: Int64, thresholds: Int64, max_gap: int,
    windows: Windows,
) -> Int64:  # fmt: skip
    """For every device: ms in use above its threshold without any holder, in stretches longer than ``max_gap``, and the peak.

    A threshold of ABSENT leaves the device out; ``machine`` is each device's own.
    """
    found = np.zeros((len(thresholds), 2), np.int64)
    for d in range(len(thresholds)):
        ids = np.arange(series_offsets[d], series_offsets[d + 1])
        used = ids[role[ids] == instant.USED]
        if thresholds[d] == instant.ABSENT or len(used) == 0:
            continue
        start, end = _in_use(runs, used, thresholds[d])
        held_start, held_end = _spans(stretches, ids[role[ids] == instant.POD])
        start, end = _without(start, end, held_start, held_end)
        for k in range(len(start)):
            ms = time_within(windows, machine[d], start[k], end[k])
            if end[k] - start[k] <= max_gap or ms == 0:
                continue
            found[d, 0] += ms
            for s in used:
                a, b = runs.offsets[s], runs.offsets[s + 1]
                p = a + np.searchsorted(runs.end[a:b], start[k], side="right")
                while p < b and runs.start[p] < end[k]:
                    found[d, 1] = max(found[d, 1], runs.value[p])
                    p += 1
    return found


@kernel
def above_limit(events: Int64, limit: Int64, machine: Int64, devices: int, windows: Windows) -> Int64:
    """For every holder: ms on more devices than its limit, and the most at once.

    Args:
        events: rows (holder, time, device, +1 or -1) in order of holder and time.
        limit: of each holder.
        machine: each holder's own.
        devices: how many devices there are.
        windows: of all machines.
    """
    found = np.zeros((len(limit), 2), np.int64)
    active = np.zeros(devices, np.int64)
    held = 0
    for i in range(len(events)):
        holder, t, device, change = events[i]
        held -= active[device] > 0
        active[device] += change
        held += active[device] > 0
        if i + 1 < len(events) and events[i + 1, 0] == holder and held > limit[holder]:
            ms = time_within(windows, machine[holder], t, events[i + 1, 1])
            found[holder, 0] += ms
            if ms > 0:
                found[holder, 1] = max(found[holder, 1], held)
    return found
