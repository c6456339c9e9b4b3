"""Series from a server that speaks Prometheus' HTTP API.

Raw samples come by range selectors on the instant-query API, never by ``query_range``, which would step them anew. A
half-open chunk ``[a, b)`` is asked for at ``b`` - 1 ms over ``b - a`` ms; where the server counts the left end in
(Prometheus 2), the sample at ``a`` - 1 ms is dropped. Here do not belong HTTP (``prometheus_http``), JSON
(``prometheus_json``), chunks (``chunks``) or the meaning of labels (``profiles``).
"""

from pipelines.metric_sources.chunks import Query
from pipelines.metric_sources.prometheus_json import Points, read_matrix
from pipelines.metric_sources.server_store import ServerStore, inside
from pipelines.metric_sources.source import ProfiledSource
from pipelines.metrics_entries import MetricsEntry


class PrometheusStore(ServerStore):
    """See ``SeriesStore``."""

    def points(self, query: Query) -> list[Points]:
        """The samples of one query."""
        promql = f"{query.selector}[{query.length_ms}ms]"
        return self.api.query(promql, query.end_ms - 1, lambda data: [inside(found, query) for found in read_matrix(data)])


class PrometheusSource(ProfiledSource):
    """See ``MetricSource``."""

    def __init__(self, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        super().__init__(PrometheusStore(entry, cluster), entry, cluster, max_gap_ms)
