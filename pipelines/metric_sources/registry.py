"""Kind of metrics entry -> source, imported on use."""

from importlib import import_module

from allocation.errors import SettingsError, nearest
from pipelines.metric_sources.base import MetricSource
from pipelines.metrics_entries import MetricsEntry

_KINDS = {
    "openmetrics": ("pipelines.metric_sources.openmetrics", "OpenMetricsSource"),
    "parquet": ("pipelines.metric_sources.parquet", "ParquetSource"),
    "prometheus": ("pipelines.metric_sources.prometheus", "PrometheusSource"),
    "victoriametrics": ("pipelines.metric_sources.victoriametrics", "VictoriaMetricsSource"),
}


def load_metric_source(entry: MetricsEntry, cluster: str, max_gap_ms: int) -> MetricSource:
    """The source of that entry, or a ``SettingsError``.

    Args:
        entry: The metrics entry of the configuration.
        cluster: The cluster's name, for messages.
        max_gap_ms: A series of the inventory that was away for longer gives two stretches.
    """
    if entry.kind not in _KINDS:
        raise SettingsError(f"clusters.{cluster}.metrics: unknown kind {entry.kind!r}; {nearest(entry.kind, _KINDS)}")
    module, name = _KINDS[entry.kind]
    source: MetricSource = getattr(import_module(module), name)(entry, cluster, max_gap_ms)
    return source
