"""How long a sample holds: samples into runs of constant value, held or imputed.

A run is ``[start, end)`` with a value and whether it was observed (held by a sample) or imputed (bridged over a gap).
Neighbouring runs of one value are one run. Rules R1, R20, R29.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation.compiled import inner, kernel, woven

Int64 = npt.NDArray[np.int64]
NEVER = (1 << 62) - 1


class Runs(NamedTuple):
    """Runs of all series, flat: series s has ``offsets[s]:offsets[s+1]``. Times in ms, values in bytes."""

    offsets: Int64
    start: Int64
    end: Int64
    value: Int64
    imputed: npt.NDArray[np.bool_]


class Reports(NamedTuple):
    """Which series report a device together: series s is in family f = ``family[s]``.

    The members of f are ``members[offsets[f]:offsets[f+1]]``. ``yields[s]``: a device's own row that
    ends where pods' rows take its place.
    """

    family: Int64
    offsets: Int64
    members: Int64
    yields: npt.NDArray[np.bool_]
    is_pod: npt.NDArray[np.bool_]


@inner
def first_above(sorted_times: Int64, a: int, b: int, t: int) -> int:
    """The first place in ``a:b`` whose time is above t, or b."""
    while a < b:
        middle = (a + b) >> 1
        if sorted_times[middle] > t:
            b = middle
        else:
            a = middle + 1
    return a


@inner
def _next_report(offsets: Int64, ts: Int64, reports: Reports, s: int, t: int, pods_only: bool) -> int:
    """When the metric next reports the device without series s, after t."""
    f = reports.family[s]
    first = NEVER
    for k in range(reports.offsets[f], reports.offsets[f + 1]):
        m = reports.members[k]
        if m != s and (reports.is_pod[m] or not pods_only):
            place = first_above(ts, offsets[m], offsets[m + 1], t)
            if place < offsets[m + 1]:
                first = min(first, ts[place])
    return first


@woven
def _goes_on(ts: Int64, values: Int64, i: int, max_hold: int) -> bool:
    """Whether the sample after i has its value and follows within ``max_hold``."""
    return bool((values[i + 1] == values[i]) & (ts[i + 1] - ts[i] <= max_hold))


@woven
def _last_of_level(ts: Int64, values: Int64, i: int, stop: int, max_hold: int) -> int:
    """The last sample up to which the value of sample i goes on; four at a time while all of them do."""
    while i + 4 < stop and (
        _goes_on(ts, values, i, max_hold)
        & _goes_on(ts, values, i + 1, max_hold)
        & _goes_on(ts, values, i + 2, max_hold)
        & _goes_on(ts, values, i + 3, max_hold)
    ):
        i += 4
    while i + 1 < stop and _goes_on(ts, values, i, max_hold):
        i += 1
    return i


@kernel
def hold(offsets: Int64, ts: Int64, values: Int64, reports: Reports, alive: Int64, max_hold: int, max_gap: int) -> Runs:
    """The runs of every series.

    Args:
        offsets: series s has samples ``offsets[s]:offsets[s+1]``, ascending strictly in time.
        ts: times, ms.
        values: bytes.
        reports: which series report a device together.
        alive: known start and end of each series' holder and machine, ms, shape (series, 2); runs are clipped to it.
        max_hold: how long a sample holds by itself, ms.
        max_gap: how long a gap is bridged, ms.
    """
    size = 2 * len(ts)
    start, end, value = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    imputed = np.empty(size, np.bool_)
    run_offsets = np.zeros(len(offsets), np.int64)
    n = 0
    for s in range(len(offsets) - 1):
        low, high = alive[s, 0], alive[s, 1]
        i, stop = offsets[s], offsets[s + 1]
        while i < stop:
            last = _last_of_level(ts, values, i, stop, max_hold)
            after = ts[last + 1] if last + 1 < stop else NEVER
            held, bridged = after, after
            if after - ts[last] > max_hold:
                held, bridged = _reach(offsets, ts, reports, s, ts[last], after, max_hold, max_gap)
            for a, b, guessed in ((ts[i], held, False), (held, bridged, True)):
                if max(a, low) < min(b, high):
                    start[n], end[n], value[n], imputed[n] = max(a, low), min(b, high), values[i], guessed
                    n += 1
            i = last + 1
        run_offsets[s + 1] = n
    return Runs(run_offsets, start[:n].copy(), end[:n].copy(), value[:n].copy(), imputed[:n].copy())


@inner
def _reach(
    offsets: Int64, ts: Int64, reports: Reports, s: int, t: int, after: int, max_hold: int, max_gap: int
) -> tuple[int, int]:
    """Until when the sample at t, which the next one does not follow in time, holds, and until when its gap is bridged."""
    if reports.yields[s]:
        pods = _next_report(offsets, ts, reports, s, t, True)
        if pods < after:
            held = min(t + max_hold, pods)
            return held, held
    if after - t <= max_gap:
        return t + max_hold, after
    held = min(t + max_hold, _next_report(offsets, ts, reports, s, t, False))
    return held, held
