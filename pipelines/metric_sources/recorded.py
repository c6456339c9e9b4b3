"""Series that lie in files, found in memory by their labels as a server would find them.

Here do not belong formats (``openmetrics``, ``parquet``) or meanings.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allocation.findings import Finding
from pipelines.metric_sources.base import Floats, Ints, Raw, Wanted, Window


@dataclass(frozen=True)
class Recorded:
    """One series of a file, in time order."""

    metric: str
    labels: Mapping[str, str]
    times: Ints
    values: Floats

    def inside(self, window: Window) -> slice:
        """Its samples in the window."""
        first, end = np.searchsorted(self.times, (window.start_ms, window.end_ms))
        return slice(int(first), int(end))


class FileStore(ABC):
    """See ``SeriesStore``. What a file holds is found by ``_found``; the rest is alike for all formats."""

    @abstractmethod
    def _found(self, metrics: Collection[str] | None, window: Window) -> Iterable[Recorded]:
        """The series of these metrics (None: of all) that have samples in the window, metric by metric as asked for."""

    def notices(self) -> Sequence[Finding]:
        """What was noticed so far while reading."""
        return ()

    def reach(self) -> str:
        """From when to when it has samples of any time, in words; empty where it has none."""
        return ""

    def names(self, window: Window) -> Sequence[str]:
        """The names of all metrics with series in the window, sorted."""
        return sorted({series.metric for series in self._found(None, window)})

    def label_names(self, metrics: Sequence[str], window: Window) -> Mapping[str, frozenset[str]]:
        """For each of the metrics, the labels that have a value on one of its series."""
        found = {metric: set[str]() for metric in metrics}
        for series in self._found(metrics, window):
            found[series.metric].update(name for name, value in series.labels.items() if value)
        return {metric: frozenset(names) for metric, names in found.items()}

    def values(self, label: str, wanted: Sequence[Wanted], window: Window) -> Sequence[str]:
        """The values of a label on these series."""
        found = self._wanted(wanted, window)
        return sorted({series.metric if label == "__name__" else series.labels.get(label, "") for _, series in found} - {""})

    def label_sets(self, wanted: Sequence[Wanted], window: Window) -> Iterable[tuple[str, Mapping[str, str]]]:
        """Metric and labels of these series."""
        return ((series.metric, series.labels) for _, series in self._wanted(wanted, window))

    def read(self, wanted: Sequence[Wanted], window: Window) -> Iterator[Raw]:
        """These series, each in one piece."""
        for _, series in self._wanted(wanted, window):
            inside = series.inside(window)
            yield series.metric, series.labels, series.times[inside], series.values[inside]

    def _wanted(self, wanted: Sequence[Wanted], window: Window) -> Iterator[tuple[Wanted, Recorded]]:
        of_metric: dict[str, list[Wanted]] = {}
        for one in wanted:
            of_metric.setdefault(one.metric, []).append(one)
        for series in self._found(of_metric.keys(), window):
            for one in of_metric[series.metric]:
                if fits(series.labels, one):
                    yield one, series


def span_in_words(first_ms: int, last_ms: int) -> str:
    """First and last time of what a file holds, also where no calendar reaches.

    >>> span_in_words(1_790_812_800, 1_790_812_860)
    'its samples go from 1970-01-21T17:26:52.800Z to 1970-01-21T17:26:52.860Z'
    """
    first, last = (f"{np.datetime64(ms, 'ms')}Z" for ms in (first_ms, last_ms))
    return f"its samples go from {first} to {last}"


def fits(labels: Mapping[str, str], wanted: Wanted) -> bool:
    """Whether a series with these labels is wanted."""
    get = labels.get
    for name in wanted.absent:
        if get(name):
            return False
    for name in wanted.present:
        if not get(name):
            return False
    return all(get(name, "") in values for name, values in wanted.among)


def matches(labels: Mapping[str, str], match: Mapping[str, str]) -> bool:
    """Whether the labels have the values that the entry's ``match`` asks for."""
    return all(labels.get(name, "") == value for name, value in match.items())


def shared(labels: Mapping[str, str]) -> dict[str, str]:
    """The same labels, each text held in memory once."""
    return {sys.intern(name): sys.intern(value) for name, value in labels.items()}
