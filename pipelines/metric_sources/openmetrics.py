"""Series from a file of OpenMetrics text with timestamps, which is read once, on first use.

Here do not belong the grammar (``openmetrics_text``) or the meaning of labels (``profiles``).
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from allocation.errors import SeriesError, SettingsError
from allocation.findings import Code, Finding, Severity
from pipelines.metric_sources.base import Floats, Ints, Window
from pipelines.metric_sources.openmetrics_text import parse
from pipelines.metric_sources.recorded import FileStore, Recorded, matches, span_in_words
from pipelines.metric_sources.source import ProfiledSource
from pipelines.metrics_entries import MetricsEntry


class OpenMetricsStore(FileStore):
    """The series of one file."""

    def __init__(self, entry: MetricsEntry, cluster: str) -> None:
        if not isinstance(entry.path, Path):
            raise SettingsError(f"clusters.{cluster}.metrics: kind openmetrics needs `path`, a file on this machine")
        self._path = entry.path
        self._match = entry.match
        self._cluster = cluster
        self._noticed: list[Finding] = []
        self._window: Window | None = None
        self._inside: dict[str, list[Recorded]] = {}

    def notices(self) -> Sequence[Finding]:
        """Bytes of the file that are no text."""
        return self._noticed

    def reach(self) -> str:
        """First and last time of the file."""
        times = [series.times for found in self._file.values() for series in found if len(series.times)]
        return span_in_words(min(int(t[0]) for t in times), max(int(t[-1]) for t in times)) if times else ""

    def _found(self, metrics: Collection[str] | None, window: Window) -> Iterable[Recorded]:
        if window != self._window:
            self._window, self._inside = window, {}
        for metric in self._file if metrics is None else metrics:
            if metric not in self._inside:
                there = ((series, series.inside(window)) for series in self._file.get(metric, ()))
                self._inside[metric] = [series for series, inside in there if inside.start < inside.stop]
            yield from self._inside[metric]

    @cached_property
    def _file(self) -> dict[str, list[Recorded]]:
        try:
            data = self._path.read_bytes()
        except OSError as error:
            setting = f"clusters.{self._cluster}.metrics.path"
            problem = f"cannot be read ({error.strerror}); {setting} must name an OpenMetrics file"
            raise SeriesError(problem, file=str(self._path)) from error
        text = parse(data, str(self._path))
        if text.not_utf8:
            evidence = f"{text.not_utf8} lines hold bytes that are no UTF-8; they stand as \\xNN in the labels' values"
            self._noticed.append(Finding(Code.INVALID_SAMPLES, Severity.WARNING, self._path.name, evidence, count=text.not_utf8))
        ends = np.searchsorted(text.series, np.arange(len(text.metrics)), side="right")
        kept: dict[str, list[Recorded]] = {}
        for number, (metric, labels) in enumerate(zip(text.metrics, text.labels, strict=True)):
            if matches(labels, self._match):
                samples = slice(ends[number - 1] if number else 0, ends[number])
                kept.setdefault(metric, []).append(_sorted(metric, labels, text.times[samples], text.values[samples]))
        return kept


class OpenMetricsSource(ProfiledSource):
    """See ``MetricSource``."""

    def __init__(self, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        super().__init__(OpenMetricsStore(entry, cluster), entry, cluster, max_gap_ms)


def _sorted(metric: str, labels: dict[str, str], times: Ints, values: Floats) -> Recorded:
    """A series in time order, whatever the order of its lines."""
    if np.any(times[1:] < times[:-1]):
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return Recorded(metric, labels, times, values)
