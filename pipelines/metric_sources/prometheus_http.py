"""Prometheus' HTTP API on one server: its paths, and what counts as an answer.

An answer is whole or an error: partial ones (``warnings``, ``isPartial``), a status other than success and anything that is
not JSON are refused, with the URL and the setting to look at. Here belong neither connections (``server_http``) nor series.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec
import requests

from pipelines.metric_sources.base import Window
from pipelines.metric_sources.prometheus_json import read_label_sets, read_names
from pipelines.metric_sources.refusals import one_line
from pipelines.metric_sources.server_http import INDEX_BYTES, Params, Server, whole_answer
from pipelines.metrics_entries import MetricsEntry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Out = TypeVar("_Out")


class PrometheusApi:
    """The HTTP API of one server. Safe to use from several threads."""

    def __init__(self, entry: MetricsEntry, cluster: str) -> None:
        self.server = Server(entry, cluster)

    def query(self, promql: str, at_ms: int, read: Callable[[msgspec.Raw], _Out]) -> _Out:
        """What ``read`` makes of the data of an instant query, which is sent as a form so that its length has no limit."""
        return self._data("POST", "query", [("query", promql), ("time", rfc3339(at_ms))], read, self.server.answer_bytes)

    def label_values(self, label: str, selectors: Sequence[str], window: Window) -> list[str]:
        """The values of a label on series of these selectors, near the window."""
        return self._data("GET", f"label/{label}/values", _matching(selectors, window), read_names, INDEX_BYTES)

    def label_names(self, selectors: Sequence[str], window: Window) -> list[str]:
        """The names of the labels on series of these selectors, near the window."""
        return self._data("POST", "labels", _matching(selectors, window), read_names, INDEX_BYTES)

    def series(self, selectors: Sequence[str], window: Window) -> list[dict[str, str]]:
        """The series of these selectors, near the window."""
        return self._data("POST", "series", _matching(selectors, window), read_label_sets, INDEX_BYTES)

    def _data(self, method: str, path: str, params: Params, read: Callable[[msgspec.Raw], _Out], most_bytes: int) -> _Out:
        answer = self.server.ask(method, path, params, whole_answer, most_bytes)
        if answer.status != "success":
            said = f"{answer.error_type}: {answer.error}" if answer.error else ""
            raise self.server.refusal(requests.codes.ok, said)
        if answer.warnings or answer.partial:
            told = one_line("; ".join(answer.warnings or ["isPartial"]))
            problem = f"the answer is not complete: {told}"
            raise self.server.error(problem, "url", "Run again when every store behind the server answers.")
        try:
            return read(answer.data)
        except ValueError as error:
            raise self.server.unreadable(error) from error


def rfc3339(ms: int) -> str:
    """A time in ms as text, exactly.

    >>> rfc3339(1_790_812_799_999)
    '2026-09-30T23:59:59.999Z'
    """
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _matching(selectors: Sequence[str], window: Window) -> list[tuple[str, str]]:
    times = [("start", rfc3339(window.start_ms)), ("end", rfc3339(window.end_ms - 1))]
    return [("match[]", selector) for selector in selectors] + times
