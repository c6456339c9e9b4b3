"""The sums of a day (``sums``) into the table ``daily_mart``.

Here belongs in which month money stands. Here does not belong where marts are kept or what months add up to.
"""

from collections.abc import Collection
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import nanos_column
from allocation.schemas import DAILY_MART, HOURS, conform
from allocation.sums import COSTS, MEASURES

KEYS = DAILY_MART.key
FIGURES = tuple(name for name in DAILY_MART.names if name not in (*KEYS, "run_id"))
_NANO_HOURS = 1e9 / 3600 / 2**20


def daily_mart(holders: pa.Table, day: date, closed: Collection[date], run_id: str) -> pa.Table:
    """The day's mart.

    Args:
        holders: as of ``DaySums``.
        day: the UTC day.
        closed: the billing periods that are closed.
        run_id: the id for every row.
    """
    booked = booked_periods(holders["billing_period"], day, closed)
    rows = holders.append_column("booked_period", booked)
    sums = rows.group_by([*KEYS], use_threads=False).aggregate([(name, "sum") for name in (*COSTS, *MEASURES)])
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names]).sort_by(
        [(k, "ascending") for k in KEYS]
    )
    columns = {name: sums[name] for name in (*KEYS, *COSTS)}
    for name in MEASURES:
        columns[name.replace("_seconds", "_hours")] = _hours(sums[name])
    for name in ("gpu_hours", "held_gpu_hours", "requested_gpu_hours"):
        columns[name] = pa.repeat(pa.scalar(0).cast(HOURS), len(sums))
    columns["tokens"] = pa.nulls(len(sums), pa.int64())
    columns["run_id"] = pa.repeat(run_id, len(sums))
    return conform(pa.table({name: columns[name] for name in DAILY_MART.names}), DAILY_MART, source="daily_mart")


def booked_periods(billing_period: pa.ChunkedArray, day: date, closed: Collection[date]) -> pa.ChunkedArray:
    """The month in whose figures money of the day stands: its invoice month, or the day's own where that is closed."""
    over = pc.is_in(billing_period, value_set=pa.array(sorted(closed), pa.date32()))
    return pc.if_else(over, pa.scalar(day.replace(day=1)), billing_period)


def _hours(values: pa.ChunkedArray) -> pa.Array:
    """Whole 2**-20 GiB-seconds as hours, rounded to nine places."""
    return nanos_column(np.rint(values.to_numpy() * _NANO_HOURS).astype(np.int64))
