"""Fetched series: kept in the store by day, cluster and shard, used again by reruns."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.schemas import SAMPLES
from pipelines.inventory import build_nodes, build_pods
from pipelines.metric_sources.base import MetricSource, Window
from pipelines.metric_sources.registry import load_metric_source
from pipelines.settings import ClusterEntry, Settings
from pipelines.storage import Partition, TableStore
from pipelines.version import VERSION

_FINGERPRINTED = [c for c in SAMPLES.names if c != "gpu_model"]


@dataclass(frozen=True)
class Fetched:
    """What stands in the store for one day and cluster."""

    fingerprint: str
    nodes: tuple[str, ...]
    findings: tuple[Finding, ...]
    reused: bool


def sources_of(cluster: ClusterEntry, settings: Settings) -> list[MetricSource]:
    """The cluster's sources of series."""
    return [load_metric_source(entry, cluster.name, settings.policy.max_gap) for entry in cluster.metrics]


def window_of(settings: Settings, start: datetime, end: datetime) -> Window:
    """The time that is read for ``[start, end)``: with a margin of ``max_gap`` on both sides, both ends included (R29)."""
    margin = timedelta(milliseconds=settings.policy.max_gap)
    return Window(start - margin, end + margin + timedelta(milliseconds=1))


def fetch(
    settings: Settings, cluster: ClusterEntry, partition: Partition, window: Window, store: TableStore, *, again: bool
) -> Fetched:
    """Brings the day's series and inventory into the store, unless they are there already.

    Writes the partitions ``samples`` (one file a shard), ``nodes`` and ``pods``. With ``again`` the source is asked anyway.
    """
    sources = sources_of(cluster, settings)
    query = _query_id(settings, cluster, window, sources)
    kept = store.commit("samples", partition)
    if (
        kept
        and not again
        and kept.detail.get("query") == query
        and store.commit("pods", partition)
        and store.commit("nodes", partition)
    ):
        return _from_store(kept.detail)
    digest = _Digest()
    findings: list[Finding] = []
    nodes = sorted({n for source in sources for n in source.nodes(window)})
    series = [s for source in sources for s in source.inventory(window)]
    table = build_nodes(series, cluster.nodes, nodes, settings.policy.max_hold)
    digest.tell(table)
    shards = _shards(sources, window, nodes, digest, findings)
    pods = build_pods(series)
    digest.tell(pods)
    detail: dict[str, object] = {}
    store.write_parts("samples", partition, _noting(shards, detail, digest, query, nodes, findings), detail)
    store.write("nodes", partition, table)
    store.write("pods", partition, pods)
    return Fetched(str(detail["fingerprint"]), tuple(nodes), tuple(findings), reused=False)


def _shards(
    sources: Sequence[MetricSource], window: Window, nodes: Sequence[str], digest: "_Digest", findings: list[Finding]
) -> Iterator[pa.Table]:
    for source in sources:
        for shard in source.shards(window, nodes):
            digest.add(shard.samples)
            findings.extend(shard.findings)
            yield shard.samples


def _noting(
    shards: Iterator[pa.Table],
    detail: dict[str, object],
    digest: "_Digest",
    query: str,
    nodes: list[str],
    findings: list[Finding],
) -> Iterator[pa.Table]:
    """Passes shards on; when the last has gone by, completes what the marker will say."""
    yield from shards
    told = [
        [f.code.value, f.severity.value, f.subject, f.evidence, f.count, [t.isoformat() for t in f.period or ()]]
        for f in findings
    ]
    detail.update({"query": query, "fingerprint": digest.text(), "nodes": nodes, "findings": told})


def _from_store(detail: object) -> Fetched:
    assert isinstance(detail, dict)  # noqa: S101
    findings = tuple(_finding(*told) for told in detail["findings"])
    return Fetched(str(detail["fingerprint"]), tuple(detail["nodes"]), findings, reused=True)


def _finding(code: str, severity: str, subject: str, evidence: str, count: int, times: list[str]) -> Finding:
    period = (datetime.fromisoformat(times[0]), datetime.fromisoformat(times[1])) if times else None
    return Finding(Code(code), Severity(severity), subject, evidence, period, count)


def _query_id(settings: Settings, cluster: ClusterEntry, window: Window, sources: Sequence[MetricSource]) -> str:
    """A hash of all that decides what is fetched: servers, files' content, profile, match labels, nodes, window."""
    entries = []
    for entry in cluster.metrics:
        told = entry.model_dump(mode="json", include={"kind", "url", "profile", "custom", "match", "tenant"})
        if entry.path is not None and entry.path.is_file():
            with entry.path.open("rb") as stream:
                told["content"] = hashlib.file_digest(stream, "sha256").hexdigest()
        entries.append(told)
    nodes = [n.model_dump(mode="json") for n in cluster.nodes]
    text = json.dumps(
        [entries, nodes, window.start_ms, window.end_ms, settings.policy.max_hold, len(sources), VERSION],
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(text.encode()).hexdigest()


class _Digest:
    """A fingerprint of series and inventory that does not depend on where shards begin."""

    def __init__(self) -> None:
        self._columns = {name: hashlib.sha256() for name in (*_FINGERPRINTED, "lengths")}
        self._inventory = hashlib.sha256()

    def add(self, samples: pa.Table) -> None:
        self._columns["lengths"].update(samples.column("values").combine_chunks().value_lengths().to_numpy().tobytes())
        for name in _FINGERPRINTED:
            digest = self._columns[name]
            column = samples.column(name).combine_chunks()
            if pa.types.is_list(column.type):
                digest.update(column.flatten().to_numpy().tobytes())
            else:
                digest.update("\0".join(map(str, column.to_pylist())).encode() + b"\0" * bool(len(column)))

    def tell(self, table: pa.Table) -> None:
        """Takes a table of the inventory in, row by row as JSON."""
        self._inventory.update(json.dumps(table.to_pylist(), sort_keys=True, default=str).encode())

    def text(self) -> str:
        whole = hashlib.sha256(self._inventory.digest())
        for digest in self._columns.values():
            whole.update(digest.digest())
        return whole.hexdigest()
