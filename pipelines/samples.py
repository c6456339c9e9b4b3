"""Fetched series: kept in the store by day, cluster and shard, used again by reruns."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from allocation.errors import ChargebackError
from allocation.findings import Finding, as_json, from_json
from allocation.schemas import SAMPLES
from pipelines.inventory import build_nodes, build_pods, catalogue, disagreements, inventory_table
from pipelines.metric_sources.base import MetricSource, Window
from pipelines.metric_sources.model_servers import gather, metrics_of
from pipelines.metric_sources.registry import load_metric_source
from pipelines.owner_entries import ModelSplitEntry
from pipelines.settings import ClusterEntry, PolicyEntry, Settings
from pipelines.storage import Partition, TableStore

_FINGERPRINTED = SAMPLES.names
KEEPS_AT_LEAST = 0.95
KEPT_FORMAT = 2
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
    query = _query_id(cluster, window, settings.owners.model_split)
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
    nodes = sorted({n for source in sources for n in source.nodes(window)})
    inventory = inventory_table([s for source in sources for s in source.inventory(window)])
    told = _Told(settings.policy)
    beside = {"inventory": inventory}
    detail: dict[str, object] = {}
    if settings.owners.model_split is not None:
        beside["counters"], noticed = gather(sources, window, settings.owners.model_split)
        detail["counters"] = _fingerprint(beside["counters"])
        told.notice(noticed)

    def check() -> None:
        if told.known_seconds < before * KEEPS_AT_LEAST:
            raise ChargebackError(
                f"{partition}: the series tell {told.known_seconds:g} s of device time now and told {before:g} s when they were "
                "kept; retention may have passed. What is kept stays; accept the loss with --accept-less-metrics"
            )
        detail.update(told.detail(query, nodes))

    store.write_parts("samples", partition, told.listen(sources, window, nodes), detail, beside=beside, check=check)


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
    nodes, pods = build_nodes(inventory, cluster.nodes, names, settings.policy.max_hold, types), build_pods(inventory)
    for name, table in (("nodes", nodes), ("pods", pods)):
        written = store.read(name, partition)
        if written is None or not written.equals(table):
            store.write(name, partition, table)
    digest = hashlib.sha256(str(detail["fingerprint"]).encode())
    for table in (nodes, pods):
        digest.update(json.dumps(table.to_pylist(), sort_keys=True, default=str).encode())
    findings = (*(from_json(told) for told in _list(detail["findings"])), *disagreements(inventory, cluster.nodes))
    counters = str(detail.get("counters", ""))
    return Fetched(digest.hexdigest(), str(detail["fingerprint"]), tuple(names), findings, reused, counters)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


class _Told:
    """What passes by on its way into the store: fingerprint, findings, and how much device time it tells."""

    def __init__(self, policy: PolicyEntry) -> None:
        self._policy = policy
        self._digest, self._findings = _Digest(), list[Finding]()
        self.known_seconds = 0.0

    def notice(self, findings: Iterable[Finding]) -> None:
        """What was noticed elsewhere, to stand with the rest."""
        self._findings.extend(findings)

    def listen(self, sources: Sequence[MetricSource], window: Window, nodes: Sequence[str]) -> Iterator[pa.Table]:
        """The sources' shards, one after the other."""
        for source in sources:
            for shard in source.shards(window, nodes):
                self._digest.add(shard.samples)
                self._findings.extend(shard.findings)
                self.known_seconds += known_seconds(shard.samples, self._policy.max_hold, self._policy.max_gap)
                yield shard.samples

    def detail(self, query: str, nodes: list[str]) -> dict[str, object]:
        """What the marker will say."""
        told = [as_json(f) for f in self._findings]
        known = round(self.known_seconds, 3)
        return {"query": query, "fingerprint": self._digest.text(), "nodes": nodes, "findings": told, "known_seconds": known}


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
    """A hash of a table with the column ``values``."""
    digest = _Digest(table.column_names)
    digest.add(table)
    return digest.text()


def _query_id(cluster: ClusterEntry, window: Window, split: ModelSplitEntry | None) -> str:
    """A hash of all that decides what is fetched: servers, files' content, profile, match labels, counters, window."""
    entries = []
    for entry in cluster.metrics:
        told = entry.model_dump(mode="json", include={"kind", "url", "profile", "custom", "match", "tenant"})
        if entry.path is not None and entry.path.is_file():
            with entry.path.open("rb") as stream:
                told["content"] = hashlib.file_digest(stream, "sha256").hexdigest()
        entries.append(told)
    counters = None if split is None else (metrics_of(split), split.custom and split.custom.model_dump())
    text = json.dumps([KEPT_FORMAT, entries, counters, window.start_ms, window.end_ms], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class _Digest:
    """A fingerprint of series that does not depend on where shards begin."""

    def __init__(self, names: Sequence[str] = _FINGERPRINTED) -> None:
        self._names = names
        self._columns = {name: hashlib.sha256() for name in (*names, "lengths")}

    def add(self, samples: pa.Table) -> None:
        self._columns["lengths"].update(samples.column("values").combine_chunks().value_lengths().to_numpy().tobytes())
        for name in self._names:
            digest = self._columns[name]
            column = samples.column(name).combine_chunks()
            if pa.types.is_list(column.type):
                digest.update(column.flatten().to_numpy().tobytes())
            else:
                digest.update("\0".join(map(str, column.to_pylist())).encode() + b"\0" * bool(len(column)))

    def text(self) -> str:
        whole = hashlib.sha256()
        for digest in self._columns.values():
            whole.update(digest.digest())
        return whole.hexdigest()
