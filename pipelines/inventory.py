"""Nodes by provider id and pods over time, from kube-state-metrics' series and the configured ``nodes:``.

Works without any of them, with less said: a node that nobody describes is joined by its own name. Rules R16, R19, R20, R37.
"""

import csv
import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files

import pandas as pd
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.node_keys import node_keys
from allocation.schemas import NODES, PODS, conform
from pipelines.metric_sources.base import InfoSeries
from pipelines.settings import NodeEntry

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_GPU_RESOURCE = re.compile(r"nvidia_com_(gpu(_shared)?|mig_\w+)|amd_com_gpu|gpu_intel_com_(xe|i915)")
_TYPE_LABELS = ("label_node_kubernetes_io_instance_type", "label_beta_kubernetes_io_instance_type")


@cache
def instance_types() -> dict[str, tuple[int, int]]:
    """Known GPU instance types: count of GPUs and bytes of one. The file names its source."""
    text = files("pipelines").joinpath("data/instance_types.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {r["instance_type"]: (int(r["gpus"]), int(r["gpu_memory_mib"]) * 2**20) for r in rows}


def _ms(value: int) -> datetime:
    return EARLIEST + timedelta(milliseconds=value)


def _moment(seconds: float) -> datetime | None:
    """A time as kube-state-metrics states it; None where it cannot be one."""
    return EARLIEST + timedelta(seconds=seconds) if 0 < seconds < LATEST.timestamp() else None


def build_nodes(series: Sequence[InfoSeries], configured: Sequence[NodeEntry], seen: Iterable[str], max_hold_ms: int) -> pa.Table:
    """The table ``nodes``: one row a stay of a machine under a name.

    A name means the machine of the latest ``kube_node_info`` at or before a time (before the first: the first).

    Args:
        series: the inventory's series.
        configured: ``nodes:`` of the cluster; an entry without provider id completes what the series say.
        seen: node names that have device series; those that nobody describes get a row of their own.
        max_hold_ms: how long the last sign of life holds.
    """
    facts = {n.name: n for n in configured}
    capacity, kinds = _capacity(series), _types(series)
    rows: list[dict[str, object]] = []
    named_by_file = {n.name for n in configured if n.provider_id}
    for name, stays in _stays(series, named_by_file).items():
        for k, (machine, first, last) in enumerate(stays):
            begin = EARLIEST if k == 0 else _ms(first)
            end = _ms(stays[k + 1][1]) if k + 1 < len(stays) else LATEST
            rows.append(
                _node(
                    name,
                    machine,
                    (begin, end),
                    (_ms(first), _ms(last + max_hold_ms)),
                    facts.get(name),
                    kinds.get(name),
                    capacity.get(name),
                )
            )
    named = {str(r["node"]) for r in rows}
    lives = _lives(series, max_hold_ms)
    for entry in configured:
        if entry.name not in named:
            stay = (entry.alive_from or EARLIEST, entry.alive_until or LATEST)
            rows.append(
                _node(
                    entry.name,
                    entry.provider_id or entry.name,
                    stay,
                    lives.get(entry.name),
                    entry,
                    kinds.get(entry.name),
                    capacity.get(entry.name),
                )
            )
    described = {str(r["node"]) for r in rows}
    rows += [_node(n, n, (EARLIEST, LATEST), None, None, kinds.get(n), capacity.get(n)) for n in sorted(set(seen) - described)]
    rows.sort(key=lambda r: (str(r["node"]), r["alive_from"], str(r["node_id"])))
    ids = node_keys(pa.array([r["node_id"] for r in rows], pa.string())).to_pylist()
    for row, key in zip(rows, ids, strict=True):
        row["node_key"] = key
    return conform(pa.Table.from_pylist(rows, schema=NODES.arrow()), NODES, source="inventory")


def _node(
    name: str, machine: str, stay: tuple[datetime, datetime], life: tuple[datetime, datetime] | None, entry: NodeEntry | None,
    kind: str | None, gpu_resources: int | None,
) -> dict[str, object]:  # fmt: skip
    instance_type = (entry.instance_type if entry else None) or kind
    nameplate = instance_types().get(instance_type or "")
    return {
        "node": name,
        "node_id": machine,
        "alive_from": stay[0],
        "alive_until": stay[1],
        "seen_from": life[0] if life else None,
        "seen_until": life[1] if life else None,
        "instance_type": instance_type,
        "gpus": (entry.gpus if entry else None) or (nameplate[0] if nameplate else None),
        "gpu_memory_bytes": (entry.gpu_memory if entry else None) or (nameplate[1] if nameplate else None),
        "gpu_memory_configured": bool(entry and entry.gpu_memory),
        "configured": entry is not None,
        "gpu_resources": gpu_resources,
    }


def _lives(series: Sequence[InfoSeries], max_hold_ms: int) -> dict[str, tuple[datetime, datetime]]:
    """First and last sign of life of each node name."""
    sights: dict[str, tuple[int, int]] = {}
    for s in series:
        if s.metric == "kube_node_info" and s.labels.get("node"):
            first, last = sights.get(s.labels["node"], (s.first_ms, s.last_ms))
            sights[s.labels["node"]] = (min(first, s.first_ms), max(last, s.last_ms))
    return {name: (_ms(first), _ms(last + max_hold_ms)) for name, (first, last) in sights.items()}


def disagreements(series: Sequence[InfoSeries], configured: Sequence[NodeEntry]) -> list[Finding]:
    """A finding for each node whose configured provider id the cluster itself contradicts; the cluster is believed."""
    told: dict[str, set[str]] = {}
    for s in series:
        if s.metric == "kube_node_info" and s.labels.get("node") and s.labels.get("provider_id"):
            told.setdefault(s.labels["node"], set()).add(s.labels["provider_id"])
    return [
        Finding(
            Code.NODE_NOT_AS_CONFIGURED,
            Severity.WARNING,
            entry.name,
            f"nodes: says {entry.provider_id}, kube_node_info {', '.join(sorted(told[entry.name]))}, which is believed",
        )
        for entry in configured
        if entry.provider_id and entry.name in told and entry.provider_id not in told[entry.name]
    ]


def _stays(series: Sequence[InfoSeries], named_by_file: Iterable[str]) -> dict[str, list[tuple[str, int, int]]]:
    """Machines of each node name in order of time: provider id, first and last sight.

    A sight without a provider id says nothing of the machine where the configuration does.
    """
    names = set(named_by_file)
    sights = sorted(
        (s for s in series if s.metric == "kube_node_info" and s.labels.get("node") and _names_machine(s, names)),
        key=lambda s: (s.labels["node"], s.first_ms),
    )
    stays: dict[str, list[tuple[str, int, int]]] = {}
    for s in sights:
        name = s.labels["node"]
        machine = s.labels.get("provider_id") or name
        known = stays.setdefault(name, [])
        if known and known[-1][0] == machine:
            known[-1] = (machine, known[-1][1], max(known[-1][2], s.last_ms))
        else:
            known.append((machine, s.first_ms, s.last_ms))
    return stays


def _names_machine(s: InfoSeries, named_by_file: set[str]) -> bool:
    return bool(s.labels.get("provider_id")) or s.labels["node"] not in named_by_file


def _capacity(series: Sequence[InfoSeries]) -> dict[str, int]:
    """GPU resources of each node that reports its capacity at all (0: it has none)."""
    found: dict[str, int] = {}
    for s in series:
        if s.metric == "kube_node_status_capacity" and s.labels.get("node") and math.isfinite(s.value):
            gpus = int(s.value) if _GPU_RESOURCE.fullmatch(s.labels.get("resource", "")) else 0
            found[s.labels["node"]] = max(found.get(s.labels["node"], 0), gpus)
    return found


def _types(series: Sequence[InfoSeries]) -> dict[str, str]:
    found: dict[str, str] = {}
    for s in series:
        if s.metric == "kube_node_labels" and s.labels.get("node"):
            kind = next((s.labels[k] for k in _TYPE_LABELS if s.labels.get(k)), None)
            if kind:
                found[s.labels["node"]] = kind
    return found


def build_pods(series: Sequence[InfoSeries]) -> pa.Table:
    """The table ``pods``: identity, life, owner, requests, and the labels and annotations last seen."""
    pods: dict[tuple[str, str, str], dict[str, object]] = {}
    for s in sorted(series, key=lambda s: s.last_ms):
        if s.metric.startswith("kube_pod_") and s.labels.get("pod"):
            key = (s.labels.get("namespace", ""), s.labels["pod"], s.labels.get("uid", ""))
            _add(pods.setdefault(key, _new_pod(key, s)), s)
    _fold_unnamed(pods)
    rows = [pods[key] for key in sorted(pods)]
    for row in rows:
        row["requested_gpus"] = sum(row.pop("requests").values()) or None  # type: ignore[attr-defined]
    return conform(pa.Table.from_pylist(rows, schema=PODS.arrow()), PODS, source="inventory")


def _new_pod(key: tuple[str, str, str], s: InfoSeries) -> dict[str, object]:
    return {
        "namespace": key[0], "pod": key[1], "pod_uid": key[2], "node": None,
        "seen_from": _ms(s.first_ms), "seen_until": _ms(s.last_ms),
        "started_at": None, "ended_at": None,
        "workload_kind": None, "workload_name": None, "labels": [], "annotations": [], "requests": {},
    }  # fmt: skip


def _add(pod: dict[str, object], s: InfoSeries) -> None:
    """Lets one series say what it knows of the pod."""
    labels = s.labels
    pod["seen_from"] = min(pod["seen_from"], _ms(s.first_ms))  # type: ignore[call-overload]
    pod["seen_until"] = max(pod["seen_until"], _ms(s.last_ms))  # type: ignore[call-overload]
    if s.metric == "kube_pod_info":
        pod["node"] = labels.get("node") or pod["node"]
        pod["workload_kind"] = labels.get("created_by_kind") or pod["workload_kind"]
        pod["workload_name"] = labels.get("created_by_name") or pod["workload_name"]
    elif s.metric == "kube_pod_owner":
        pod["workload_kind"], pod["workload_name"] = labels.get("owner_kind") or None, labels.get("owner_name") or None
    elif s.metric == "kube_pod_start_time":
        pod["started_at"] = _moment(s.value)
    elif s.metric == "kube_pod_completion_time":
        pod["ended_at"] = _moment(s.value)
    elif s.metric in ("kube_pod_labels", "kube_pod_annotations"):
        word = "label_" if s.metric == "kube_pod_labels" else "annotation_"
        pairs = sorted((k.removeprefix(word), v) for k, v in labels.items() if k.startswith(word))
        pod["labels" if word == "label_" else "annotations"] = pairs
    elif (
        s.metric == "kube_pod_container_resource_requests"
        and _GPU_RESOURCE.fullmatch(labels.get("resource", ""))
        and math.isfinite(s.value)
    ):
        requests = pod["requests"]
        assert isinstance(requests, dict)  # noqa: S101
        requests[(labels.get("container"), labels.get("resource"))] = s.value


def _fold_unnamed(pods: dict[tuple[str, str, str], dict[str, object]]) -> None:
    """What series without a uid say of a pod goes to the one pod of that name, where there is exactly one."""
    for key in [k for k in pods if not k[2]]:
        named = [k for k in pods if k[:2] == key[:2] and k[2]]
        if len(named) == 1:
            loose, pod = pods.pop(key), pods[named[0]]
            for field, value in loose.items():
                if field not in ("pod_uid", "seen_from", "seen_until") and not pod[field]:
                    pod[field] = value


def nodes_frame(nodes: pa.Table, with_series: Iterable[str] = ()) -> pd.DataFrame:
    """The table ``nodes`` with times as int64 ms, for the method; ``has_series`` marks nodes whose devices have series."""
    frame = nodes.to_pandas()
    for column, name in (("alive_from", "from_ms"), ("alive_until", "until_ms")):
        frame[name] = _column_ms(nodes, column).astype("int64")
    for column in ("seen_from", "seen_until"):
        frame[f"{column}_ms"] = _column_ms(nodes, column)
    return frame.assign(has_series=frame.node.isin(set(with_series)))


def pods_frame(pods: pa.Table) -> pd.DataFrame:
    """The table ``pods`` with times in ms; a pod's own start counts as first sight where it is earlier."""
    frame = pods.drop_columns(["labels", "annotations"]).to_pandas()
    started = _column_ms(pods, "started_at")
    frame["seen_ms"] = (
        _column_ms(pods, "seen_from").where(started.isna(), started.combine(_column_ms(pods, "seen_from"), min)).astype("int64")
    )
    return frame.assign(started_ms=started, ended_ms=_column_ms(pods, "ended_at"))


def _column_ms(table: pa.Table, column: str) -> "pd.Series[float]":
    values = table[column].cast(pa.int64()).to_pandas(integer_object_nulls=False).astype("float64")
    return values // 1000
