"""Series of kube-state-metrics for tests, in minutes of one day."""

from datetime import UTC, datetime, timedelta

import numpy as np

from pipelines.metric_sources.base import InfoSeries
from pipelines.metric_sources.normalise import InfoReducer

MIDNIGHT = datetime(2026, 10, 1, tzinfo=UTC)
HOLD_MS = 120_000
GAP_MS = 900_000


def at(minutes: float) -> datetime:
    return MIDNIGHT + timedelta(minutes=minutes)


def ms(minutes: float) -> int:
    return round(at(minutes).timestamp() * 1000)


def info(metric: str, first: float, last: float, value: float = 1, /, **labels: str) -> InfoSeries:
    """A stretch from one minute of the day to another."""
    return InfoSeries(metric, labels, ms(first), ms(last), value)


def reduced(*series: tuple[str, dict[str, str], list[int]], value: float = 1) -> list[InfoSeries]:
    """What the reducer makes of series that were sampled at these minutes."""
    reducer = InfoReducer(GAP_MS)
    for metric, labels, minutes in series:
        reducer.add(metric, labels, np.array([ms(m) for m in minutes]), np.full(len(minutes), float(value)))
    return reducer.result()
