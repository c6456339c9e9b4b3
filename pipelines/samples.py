"""What the store keeps of a cluster's day of series: how it was asked for, and what follows from it.

Here does not belong how it gets there (``arrivals``).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from allocation.errors import ChargebackError
from allocation.findings import Finding, from_json
from pipelines.cards import models_by_node
from pipelines.frugal import give_back
from pipelines.inventory import (
    Sections,
    build_nodes,
    build_pods,
    catalogue,
    disagreements,
    overruled,
    requests_unknown,
    sections_of,
)
from pipelines.metric_sources.base import INVENTORY_METRICS, REQUEST_METRICS, MetricSource, Window
from pipelines.metric_sources.content import content_of
from pipelines.metric_sources.model_servers import metrics_of
from pipelines.metric_sources.registry import load_metric_source
from pipelines.owner_entries import ModelSplitEntry
from pipelines.partition import Partition
from pipelines.settings import ClusterEntry, PolicyEntry, Settings
from pipelines.storage import TableStore
from pipelines.table_digest import table_digest

KEPT_FORMAT = 3
"""Of what is kept; another one is fetched again."""


@dataclass(frozen=True)
class Fetched:
    """What stands in the store for one day and cluster."""

    fingerprint: str
    """Of series, nodes and pods."""
    samples_fingerprint: str
    """Of the series alone, as the partition's marker has it."""
    nodes: tuple[str, ...]
    findings: tuple[Finding, ...]
    reused: bool
    counters_fingerprint: str = ""
    """Of the model servers' counters; owners depend on it, measured usage does not."""
    models: tuple[str, ...] | None = None
    """The GPU models that series name; None where what is kept does not say."""
    overruled: Mapping[str, str] = field(default_factory=dict)
    """Machines (keys) that were named for a node and not believed, with the node's name."""
    node_models: Mapping[str, str] = field(default_factory=dict)
    """The GPU models that series name on each node, one a line; empty where what is kept does not say."""


def sources_of(cluster: ClusterEntry, settings: Settings) -> list[MetricSource]:
    """The cluster's sources of series."""
    return [load_metric_source(entry, cluster.name, settings.policy.max_gap) for entry in cluster.metrics]


def window_of(settings: Settings, start: datetime, end: datetime) -> Window:
    """The time that is read for ``[start, end)``: with a margin of ``max_gap`` on both sides, both ends included (R29)."""
    margin = timedelta(milliseconds=settings.policy.max_gap)
    return Window(start - margin, end + margin + timedelta(milliseconds=1))


def tables_of(settings: Settings, cluster: ClusterEntry, told: Sections, with_series: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """The tables ``nodes`` and ``pods``."""
    types, by_requests = catalogue(settings.instance_types), settings.policy.host == "by_requests"
    nodes = build_nodes(told, cluster.nodes, with_series, settings.policy.max_hold, types)
    return nodes, build_pods(told, with_requests=by_requests)


def derive(settings: Settings, cluster: ClusterEntry, partition: Partition, store: TableStore, *, reused: bool) -> Fetched:
    """Nodes and pods from what was kept and what is configured now."""
    kept, inventory = store.commit("samples", partition), store.read_beside("samples", partition, "inventory")
    if kept is None or inventory is None:
        raise ChargebackError(f"{store.place('samples')}: the partition {partition} is not whole; run the day with --refetch")
    detail, told = kept.detail, sections_of(inventory)
    names = [str(n) for n in listed(detail["nodes"])]
    give_back()
    nodes, pods = tables_of(settings, cluster, told, names)
    give_back()
    for name, table in (("nodes", nodes), ("pods", pods)):
        written = store.read(name, partition)
        if written is None or not written.equals(table):
            store.write(name, partition, table)
        else:
            store.clean(name, partition)
    digest = hashlib.sha256(str(detail["fingerprint"]).encode())
    for table in (nodes, pods):
        digest.update(table_digest(table).encode())
    findings = (*(from_json(finding) for finding in listed(detail["findings"])), *disagreements(told, cluster.nodes))
    findings += tuple(requests_unknown(cluster.name, pods, names)) if settings.policy.host == "by_requests" else ()
    counters = str(detail.get("counters", ""))
    models = tuple(str(model) for model in listed(detail["models"])) if "models" in detail else None
    not_believed = overruled(told, cluster.nodes, nodes)
    if not_believed:
        digest.update(json.dumps(not_believed, sort_keys=True).encode())
    samples_digest, by_node = str(detail["fingerprint"]), node_models(detail)
    return Fetched(digest.hexdigest(), samples_digest, tuple(names), findings, reused, counters, models, not_believed, by_node)


def node_models(detail: Mapping[str, object]) -> dict[str, str]:
    """The GPU models that kept series name on each node, one a line, from the marker of ``samples``."""
    return models_by_node(listed(detail.get("node_models")))


def listed(value: object) -> list[Any]:
    """A list as a marker has it; none where it is no list."""
    return value if isinstance(value, list) else []


def counters_asked(split: ModelSplitEntry) -> str:
    """A hash of which counters are fetched, and how their series are read."""
    return hashlib.sha256(json.dumps(_counters(split)).encode()).hexdigest()[:16]


def _counters(split: ModelSplitEntry) -> list[object]:
    return [metrics_of(split), split.custom and split.custom.model_dump()]


def inventory_metrics(policy: PolicyEntry) -> Sequence[str]:
    """The series of the inventory that are asked for."""
    return tuple(dict.fromkeys((*INVENTORY_METRICS, *REQUEST_METRICS))) if policy.host == "by_requests" else INVENTORY_METRICS


def query_id(cluster: ClusterEntry, window: Window, split: ModelSplitEntry | None, policy: PolicyEntry) -> str:
    """A hash of all that decides what is fetched: servers, files' content, profile, match labels, nodes, counters, window."""
    entries = []
    for entry in cluster.metrics:
        told = entry.model_dump(mode="json", include={"kind", "url", "profile", "custom", "match", "tenant"})
        if entry.headers:
            told["headers"] = entry.model_dump(mode="json", include={"headers"})["headers"]
        if entry.path is not None:
            told["content"] = content_of(entry)
        entries.append(told)
    nodes = sorted(entry.name for entry in cluster.nodes)
    counters = None if split is None else _counters(split)
    more = ["by_requests"] if policy.host == "by_requests" else []
    text = json.dumps([KEPT_FORMAT, entries, nodes, counters, window.start_ms, window.end_ms, *more], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
