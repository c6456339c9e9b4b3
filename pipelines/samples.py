"""Fetched series: kept in the store by day, cluster and shard, used again by reruns."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.findings import Finding, as_json, from_json
from allocation.schemas import SAMPLES
from pipelines.cards import models_by_node
from pipelines.inventory import (
    build_nodes,
    build_pods,
    catalogue,
    disagreements,
    inventory_table,
    overruled,
    requests_unknown,
    sections_of,
)
from pipelines.metric_sources.base import INVENTORY_METRICS, REQUEST_METRICS, MetricSource, Shard, Window
from pipelines.metric_sources.content import content_of
from pipelines.metric_sources.gather import all_notices, all_places, all_shards
from pipelines.metric_sources.model_servers import gather, metrics_of
from pipelines.metric_sources.registry import load_metric_source
from pipelines.owner_entries import ModelSplitEntry
from pipelines.settings import ClusterEntry, PolicyEntry, Settings
from pipelines.storage import Partition, TableStore
from pipelines.table_digest import table_digest

KEEPS_AT_LEAST = 0.95
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


def fetch(
    settings: Settings,
    cluster: ClusterEntry,
    partition: Partition,
    window: Window,
    store: TableStore,
    *,
    again: bool,
    accept_less: bool = False,
) -> Fetched:
    """Brings the day's series and inventory into the store, unless they are there already.

    Writes the partition ``samples`` (one file a shard, the inventory's series beside them, one commit), and ``nodes`` and
    ``pods`` as they follow from it and the configuration. With ``again`` the source is asked anyway.

    Raises:
        ChargebackError: the source tells less than 95 % of what is kept; what is kept stays.
    """
    query = _query_id(cluster, window, settings.owners.model_split, settings.policy)
    kept = store.commit("samples", partition)
    reused = kept is not None and not again and kept.detail.get("query") == query
    if not reused:
        before = 0.0 if kept is None or accept_less else float(str(kept.detail.get("known_seconds", 0)))
        _ask(settings, cluster, partition, window, store, query, before)
        kept = store.commit("samples", partition)
    inventory = store.read_beside("samples", partition, "inventory")
    if kept is None or inventory is None:
        raise ChargebackError(f"{store.place('samples')}: the partition {partition} is not whole; run the day with --refetch")
    return _derive(settings, cluster, partition, store, kept.detail, inventory, reused=reused)


def _ask(
    settings: Settings, cluster: ClusterEntry, partition: Partition, window: Window, store: TableStore, query: str, before: float
) -> None:
    """Asks the sources and replaces the samples, unless they tell too much less than before."""
    sources = sources_of(cluster, settings)
    asked = [(source, window) for source in sources]
    series = [told for source, _ in asked for told in source.inventory(window, _inventory_metrics(settings.policy))]
    places = all_places(asked, series, [entry.name for entry in cluster.nodes])
    told = _Told(settings.policy)
    beside = {"inventory": inventory_table(series)}
    detail: dict[str, object] = {}
    if settings.owners.model_split is not None:
        beside["counters"], noticed = gather(sources, window, settings.owners.model_split)
        detail["counters"] = _fingerprint(beside["counters"])
        detail["counters_asked"] = counters_asked(settings.owners.model_split)
        told.findings += noticed

    def check() -> None:
        if told.known_seconds < before * KEEPS_AT_LEAST:
            raise ChargebackError(
                f"{partition}: the series tell {told.known_seconds:g} s of device time now and told {before:g} s when they were "
                "kept; retention may have passed. What is kept stays; accept the loss with --accept-less-metrics"
            )
        told.findings += all_notices(asked, places)
        profiles = [list(source.profiles(window)) for source, _ in asked]
        detail.update(told.detail(query, profiles))

    shards = all_shards(asked, places, settings.policy.max_hold)
    store.write_parts("samples", partition, told.listen(shards), detail, beside=beside, check=check)


def _derive(
    settings: Settings,
    cluster: ClusterEntry,
    partition: Partition,
    store: TableStore,
    detail: Mapping[str, object],
    inventory: pa.Table,
    *,
    reused: bool,
) -> Fetched:
    """Nodes and pods from what was kept and what is configured now."""
    names = [str(n) for n in _list(detail["nodes"])]
    types = catalogue(settings.instance_types)
    by_requests = settings.policy.host == "by_requests"
    told = sections_of(inventory)
    nodes = build_nodes(told, cluster.nodes, names, settings.policy.max_hold, types)
    pods = build_pods(told, with_requests=by_requests)
    for name, table in (("nodes", nodes), ("pods", pods)):
        written = store.read(name, partition)
        if written is None or not written.equals(table):
            store.write(name, partition, table)
    digest = hashlib.sha256(str(detail["fingerprint"]).encode())
    for table in (nodes, pods):
        digest.update(table_digest(table).encode())
    findings = (*(from_json(finding) for finding in _list(detail["findings"])), *disagreements(told, cluster.nodes))
    findings += tuple(requests_unknown(cluster.name, pods, names)) if by_requests else ()
    counters = str(detail.get("counters", ""))
    models = tuple(str(model) for model in _list(detail["models"])) if "models" in detail else None
    not_believed = overruled(told, cluster.nodes, nodes)
    if not_believed:
        digest.update(json.dumps(not_believed, sort_keys=True).encode())
    samples_digest, by_node = str(detail["fingerprint"]), node_models(detail)
    return Fetched(digest.hexdigest(), samples_digest, tuple(names), findings, reused, counters, models, not_believed, by_node)


def node_models(detail: Mapping[str, object]) -> dict[str, str]:
    """The GPU models that kept series name on each node, one a line, from the marker of ``samples``."""
    return models_by_node(_list(detail.get("node_models")))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


class _Told:
    """What passes by on its way into the store: fingerprint, nodes, findings, and how much device time it tells."""

    def __init__(self, policy: PolicyEntry) -> None:
        self._policy = policy
        self._digest, self._nodes, self._models = _Digest(), set[str](), set[tuple[str, str]]()
        self.findings = list[Finding]()
        self.known_seconds = 0.0

    def listen(self, shards: Iterable[Shard]) -> Iterator[pa.Table]:
        """The samples of the shards, one after the other."""
        for shard in shards:
            self._digest.add(shard.samples)
            self._nodes.update(shard.samples["node"].unique().to_pylist())
            pairs = shard.samples.select(["node", "gpu_model"]).group_by(["node", "gpu_model"]).aggregate([])
            self._models.update(zip(pairs["node"].to_pylist(), pairs["gpu_model"].to_pylist(), strict=True))
            self.findings.extend(shard.findings)
            self.known_seconds += known_seconds(shard.samples, self._policy.max_hold, self._policy.max_gap)
            yield shard.samples

    def detail(self, query: str, profiles: list[list[str]]) -> dict[str, object]:
        """What the marker will say."""
        return {
            "query": query,
            "fingerprint": self._digest.text(profiles),
            "profiles": profiles,
            "nodes": sorted(self._nodes),
            "models": sorted({model for _, model in self._models} - {""}),
            "node_models": [[node, model] for node, model in sorted(self._models) if model],
            "findings": [as_json(f) for f in self.findings],
            "known_seconds": round(self.known_seconds, 3),
        }


def known_seconds(samples: pa.Table, max_hold_ms: int, max_gap_ms: int) -> float:
    """How much device time samples tell, by the times of all series of a device together: gaps up to ``max_gap`` count."""
    if not len(samples):
        return 0.0
    lists = samples.column("timestamps_ms").combine_chunks()
    keys = samples.select(["node", "gpu_uuid", "gpu_instance"]).to_pandas()
    device = np.repeat(keys.groupby(list(keys.columns), sort=False).ngroup().to_numpy(), lists.value_lengths().to_numpy())
    ts = lists.flatten().to_numpy()
    order = np.lexsort((ts, device))
    gap = np.diff(ts[order], append=np.iinfo(np.int64).max)
    apart = np.diff(device[order], append=-1) != 0
    held = np.where(apart | (gap > max_gap_ms), max_hold_ms, gap)
    return float(held.sum()) / 1000


def _fingerprint(table: pa.Table) -> str:
    """A hash of a table of series."""
    digest = _Digest(table.column_names)
    digest.add(table)
    return digest.text()


def counters_asked(split: ModelSplitEntry) -> str:
    """A hash of which counters are fetched, and how their series are read."""
    return hashlib.sha256(json.dumps(_counters(split)).encode()).hexdigest()[:16]


def _counters(split: ModelSplitEntry) -> list[object]:
    return [metrics_of(split), split.custom and split.custom.model_dump()]


def _inventory_metrics(policy: PolicyEntry) -> Sequence[str]:
    return tuple(dict.fromkeys((*INVENTORY_METRICS, *REQUEST_METRICS))) if policy.host == "by_requests" else INVENTORY_METRICS


def _query_id(cluster: ClusterEntry, window: Window, split: ModelSplitEntry | None, policy: PolicyEntry) -> str:
    """A hash of all that decides what is fetched: servers, files' content, profile, match labels, nodes, counters, window."""
    entries = []
    for entry in cluster.metrics:
        told = entry.model_dump(mode="json", include={"kind", "url", "profile", "custom", "match", "tenant"})
        if entry.path is not None:
            told["content"] = content_of(entry)
        entries.append(told)
    nodes = sorted(entry.name for entry in cluster.nodes)
    counters = None if split is None else _counters(split)
    more = ["by_requests"] if policy.host == "by_requests" else []
    text = json.dumps([KEPT_FORMAT, entries, nodes, counters, window.start_ms, window.end_ms, *more], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class _Digest:
    """A fingerprint of series that does not depend on where shards begin."""

    def __init__(self, names: Sequence[str] = tuple(SAMPLES.names)) -> None:
        self._names = names
        self._columns = {name: hashlib.sha256() for name in names}
        self._lengths = {name: hashlib.sha256() for name in names}

    def add(self, samples: pa.Table) -> None:
        for name in self._names:
            column = samples.column(name).combine_chunks()
            if pa.types.is_list(column.type):
                lengths, content = column.value_lengths(), column.flatten().to_numpy()
            else:
                text = column.cast(pa.string())
                lengths, content = pc.binary_length(text), "".join(text.to_pylist()).encode()
            self._lengths[name].update(lengths.to_numpy().tobytes())
            self._columns[name].update(content if isinstance(content, bytes) else content.tobytes())

    def text(self, profiles: Sequence[Sequence[str]] = ()) -> str:
        """The fingerprint of what was added, as these profiles read it."""
        whole = hashlib.sha256(json.dumps(profiles).encode())
        for digest in (*self._columns.values(), *self._lengths.values()):
            whole.update(digest.digest())
        return whole.hexdigest()
