"""Times as whole milliseconds since the epoch, which the method counts in, and as the timestamps that tables hold. All UTC."""

from datetime import datetime

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.schemas import TIME

Int64 = npt.NDArray[np.int64]
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def milliseconds(column: pa.Array | pa.ChunkedArray) -> Int64:
    """A timestamp column without nulls in ms."""
    values: Int64 = np.asarray(column.cast(pa.int64()).to_numpy()) // 1000
    return values


def time_column(ms: Int64) -> pa.Array:
    """Milliseconds as a column of type TIME."""
    return pa.array(ms * 1000).cast(pa.timestamp("us")).cast(TIME)


def to_ms(moment: datetime) -> int:
    """A moment in ms."""
    return round(moment.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    """The moment of a count of ms."""
    moment: datetime = pd.Timestamp(int(ms), unit="ms", tz="UTC")
    return moment
