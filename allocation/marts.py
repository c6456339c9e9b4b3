"""The sums of a day (``sums``) into the table ``daily_mart``, and the rows of a month into ``monthly_mart``.

Here belongs in which month money stands. Here does not belong where marts are kept or which rows a month has.
"""

from collections.abc import Collection
from datetime import date

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import nanos_column, per_unit
from allocation.schemas import DAILY_MART, MONTHLY_MART, conform
from allocation.summed import summed
from allocation.sums import COSTS, PARTS_OF_A_GIB_SECOND, PARTS_OF_A_MS, QUANTITIES

Int64 = npt.NDArray[np.int64]
KEYS = DAILY_MART.key
FIGURES = tuple(name for name in DAILY_MART.names if name not in (*KEYS, "run_id"))
_HOURS = {
    "gpu_hours": ("gpu_time", PARTS_OF_A_MS * 3_600_000),
    "held_gpu_hours": ("held_time", PARTS_OF_A_MS * 3_600_000),
    "requested_gpu_hours": ("requested_time", PARTS_OF_A_MS * 3_600_000),
    "used_gib_hours": ("used_gib_time", PARTS_OF_A_GIB_SECOND * 3600),
    "overhead_gib_hours": ("overhead_gib_time", PARTS_OF_A_GIB_SECOND * 3600),
    "idle_gib_hours": ("idle_gib_time", PARTS_OF_A_GIB_SECOND * 3600),
}
"""Each column of hours: the sum that it shows, and how many of its units an hour is."""
NANO = 10**9


def daily_mart(holders: pa.Table, day: date, closed: Collection[date], run_id: str) -> pa.Table:
    """The day's mart.

    Args:
        holders: as of ``DaySums``.
        day: the UTC day.
        closed: the billing periods that are closed.
        run_id: the id for every row.
    """
    booked = booked_periods(holders["billing_period"], holders["amortised"], day, closed)
    rows = holders.append_column("booked_period", booked)
    sums = summed(rows, KEYS, (*COSTS, *QUANTITIES), in_order=True)
    columns = {name: sums[name] for name in (*KEYS, *COSTS, "tokens")}
    for name, (source, units) in _HOURS.items():
        columns[name] = nanos_column(nano_hours(sums[source].to_numpy(), units))
    columns["run_id"] = pa.repeat(run_id, len(sums))
    return conform(pa.table({name: columns[name] for name in DAILY_MART.names}), DAILY_MART, source="daily_mart")


def monthly_mart(rows: pa.Table, days: Collection[date], final: bool) -> pa.Table:
    """What a cluster's month adds up to; ratios are those of the sums.

    Args:
        rows: of one cluster, KEYS, ``entry`` and FIGURES.
        days: the days of the month that are computed.
        final: whether the month is closed.
    """
    sums = summed(rows, MONTHLY_MART.key, FIGURES, in_order=True)
    columns = {name: sums[name] for name in sums.column_names} | ratios(sums)
    columns["days"] = pa.repeat(len(days), len(sums))
    columns["last_day"] = pa.repeat(pa.scalar(max(days, default=None), pa.date32()), len(sums))
    columns["final"] = pa.repeat(final, len(sums))
    return conform(pa.table({name: columns[name] for name in MONTHLY_MART.names}), MONTHLY_MART, source="monthly_mart")


def ratios(sums: pa.Table) -> dict[str, pa.ChunkedArray]:
    """What an hour of a GPU, one that is held, and a million tokens cost, of each row of sums."""
    return {
        "cost_per_gpu_hour": per_unit(sums["cost"], sums["gpu_hours"]),
        "cost_per_held_gpu_hour": per_unit(sums["cost"], sums["held_gpu_hours"]),
        "cost_per_million_tokens": per_unit(sums["cost"], sums["tokens"], 10**6),
    }


def booked_periods(
    billing_period: pa.ChunkedArray, amortised: pa.ChunkedArray, day: date, closed: Collection[date]
) -> pa.ChunkedArray:
    """The month in whose figures money of the day stands.

    That is its invoice month, or the day's own where that is closed. A part of a fee that is spread over months (``amortised``)
    stands in the day's month, unless its invoice month is later.
    """
    own = pa.scalar(day.replace(day=1))
    over = pc.is_in(billing_period, value_set=pa.array(sorted(closed), pa.date32()))
    spread = pc.and_(amortised, pc.less(billing_period, own))
    return pc.if_else(pc.or_(spread, pc.and_(over, pc.invert(amortised))), own, billing_period)


def nano_hours(sums: Int64, units: int) -> Int64:
    """Whole numbers of which so many are an hour, in 10**-9 hours: rounded once, half to even, and without floats."""
    divisor = np.gcd(units, NANO)
    over, under = NANO // divisor, units // divisor
    whole, rest = np.divmod(sums, under)
    part, left = np.divmod(rest * over, under)
    up = (2 * left > under) | ((2 * left == under) & ((whole * over + part) % 2 == 1))
    found: Int64 = whole * over + part + up
    return found
