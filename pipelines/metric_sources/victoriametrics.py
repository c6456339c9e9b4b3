"""Series from VictoriaMetrics: samples by its export API, the index by its API like Prometheus'.

An export counts both ends of its time in, to the millisecond, and may write a long series as several lines, in time order.
Deduplication of the server applies, since ``reduce_mem_usage`` is left off. Here do not belong HTTP (``server_http``), lines
(``victoriametrics_json``), chunks (``chunks``) or the meaning of labels (``profiles``).
"""

import requests

from allocation.errors import SourceUnavailableError
from pipelines.metric_sources.chunks import Query
from pipelines.metric_sources.prometheus_http import rfc3339
from pipelines.metric_sources.prometheus_json import Points
from pipelines.metric_sources.server_store import ServerStore, inside
from pipelines.metric_sources.source import ProfiledSource
from pipelines.metric_sources.victoriametrics_json import BrokenExportError, read_export
from pipelines.metrics_entries import MetricsEntry

_SAMPLES_A_LINE = 10_000


class VictoriaMetricsStore(ServerStore):
    """See ``SeriesStore``."""

    def points(self, query: Query) -> list[Points]:
        """The samples of one query, line by line as they come in."""
        params = [
            ("match[]", query.selector),
            ("start", rfc3339(query.start_ms)),
            ("end", rfc3339(query.end_ms - 1)),
            ("max_rows_per_line", str(_SAMPLES_A_LINE)),
            ("deny_partial_response", "1"),
        ]
        server = self.api.server
        try:
            return server.ask(
                "POST",
                "export",
                params,
                lambda pieces: [inside(found, query) for found in read_export(pieces)],
                server.answer_bytes,
            )
        except SourceUnavailableError as error:
            if isinstance(error.__cause__, BrokenExportError):
                raise server.refusal(requests.codes.ok, error.__cause__.said) from error
            raise


class VictoriaMetricsSource(ProfiledSource):
    """See ``MetricSource``."""

    def __init__(self, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        super().__init__(VictoriaMetricsStore(entry, cluster), entry, cluster, max_gap_ms)
