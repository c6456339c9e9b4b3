"""What the counters of model servers are called, what their labels mean, and how they are gathered into the table ``counters``.

Here belong declarations, one constant a server, and the one rule that reads a series' labels. Here do not belong the growth of a
counter (``allocation.counters``) or what it is worth (``allocation.model_split``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from allocation.counters import LIMIT
from allocation.findings import Code, Finding, Severity
from allocation.model_split import ModelSplit
from allocation.schemas import COUNTERS
from pipelines.metric_sources.base import MetricSource, Window
from pipelines.owner_entries import CounterLabels, CustomServer, ModelSplitEntry

_MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}
_PODS = ("exported_pod", "pod", "pod_name", "kubernetes_pod_name")
_NAMESPACES = ("exported_namespace", "namespace", "pod_namespace", "kubernetes_namespace")
_UIDS = ("exported_pod_uid", "pod_uid", "uid")
_COPIES = frozenset(
    [
        "prometheus",
        "prometheus_replica",
        "replica",
        "__replica__",
        "receive_replica",
        "job",
        "service",
        "endpoint",
        "container",
        "exported_job",
        "exported_service",
        "exported_container",
        "scrape_job",
        "tp_rank",
        "pp_rank",
    ]
)
"""Labels by which series are copies: of another Prometheus or scrape job, or of a rank that does the same work."""


@dataclass(frozen=True)
class ModelServer:
    """One server: the names of each counter (old and new ones are one series), and the labels, the first that is there counts.

    ``kinds`` are prompt, generation, requests and compute_time; ``units`` are microseconds of one unit of a time.
    """

    name: str
    kinds: Mapping[str, tuple[str, ...]]
    model: tuple[str, ...] = ("model_name", "model")
    adapter: tuple[str, ...] = ()
    pod: tuple[str, ...] = _PODS
    namespace: tuple[str, ...] = _NAMESPACES
    pod_uid: tuple[str, ...] = _UIDS
    units: Mapping[str, int] = field(default_factory=dict)


def _spelt(server: str, counter: str) -> tuple[str, ...]:
    """A counter with a colon after the server's name, and as exporters write it that do not know colons."""
    return f"{server}:{counter}", f"{server}_{counter}"


VLLM = ModelServer(
    "vllm",
    {
        "prompt": (*_spelt("vllm", "prompt_tokens_total"), "ray_vllm_prompt_tokens_total", "ray_vllm_prompt_tokens"),
        "generation": (
            *_spelt("vllm", "generation_tokens_total"),
            "ray_vllm_generation_tokens_total",
            "ray_vllm_generation_tokens",
        ),
        "requests": (*_spelt("vllm", "request_success_total"), "ray_vllm_request_success_total", "ray_vllm_request_success"),
    },
)
"""``engine`` (a data-parallel rank) and ``finished_reason`` add up. No counter tells adapters from their base model."""

SGLANG = ModelServer(
    "sglang",
    {
        "prompt": _spelt("sglang", "prompt_tokens_total"),
        "generation": _spelt("sglang", "generation_tokens_total"),
        "requests": _spelt("sglang", "num_requests_total"),
    },
    model=("model_name", "name"),
)
"""``dp_rank`` adds up; ``tp_rank`` and ``pp_rank`` are copies."""

TGI = ModelServer(
    "tgi",
    {
        "prompt": ("tgi_request_input_length_sum",),
        "generation": ("tgi_request_generated_tokens_sum",),
        "requests": ("tgi_request_success", "tgi_request_success_total"),
    },
    model=("model_name", "model_id", "model"),
)
"""No counter names a model unless a scrape rule added it; tokens are the sums of histograms."""

TRITON = ModelServer(
    "triton",
    {"requests": ("nv_inference_request_success",), "compute_time": ("nv_inference_compute_infer_duration_us",)},
    model=("model",),
)
"""``version`` and ``gpu_uuid`` add up. An ensemble counts the time of its members again."""

KNOWN = (VLLM, SGLANG, TGI, TRITON)
_MEASURES = {"tokens": ("prompt", "generation"), "compute_time": ("compute_time",), "requests": ("requests",)}


def servers_of(entry: ModelSplitEntry) -> tuple[ModelServer, ...]:
    """The servers that are asked for, a custom one first."""
    everything = "auto" in entry.servers
    custom = () if entry.custom is None else (custom_server(entry.custom),)
    return custom + tuple(server for server in KNOWN if everything or server.name in entry.servers)


def custom_server(entry: CustomServer) -> ModelServer:
    """The server whose counters and labels the configuration names."""
    labels: CounterLabels = entry.labels
    named = {kind: getattr(entry, kind) for kind in ("prompt", "generation", "requests", "compute_time")}
    units = {} if entry.compute_time is None else {entry.compute_time.metric: _MICROSECONDS[entry.compute_time.unit]}
    return ModelServer(
        "custom",
        {kind: (counter.metric,) for kind, counter in named.items() if counter is not None},
        model=(labels.model,),
        adapter=() if labels.adapter is None else (labels.adapter,),
        pod=(labels.pod,),
        namespace=(labels.namespace,),
        units=units,
    )


def split_of(entry: ModelSplitEntry) -> ModelSplit:
    """What each server is weighed by: what ``by`` says, else the next of tokens, compute time and requests that it counts."""
    weights = {"prompt": entry.weights.prompt, "generation": entry.weights.generation}
    order = (entry.by, *(name for name in _MEASURES if name != entry.by))
    found: dict[str, dict[str, int]] = {}
    for server in servers_of(entry):
        counted = {
            name: {kind: weight for kind in _MEASURES[name] if kind in server.kinds and (weight := weights.get(kind, 10**6))}
            for name in order
        }
        found[server.name] = next((kinds for kinds in counted.values() if kinds), {})
    return ModelSplit(found)


def metrics_of(entry: ModelSplitEntry) -> tuple[str, ...]:
    """The names of all counters that the split needs, in order."""
    return tuple(sorted(_wanted(entry)))


def _wanted(entry: ModelSplitEntry) -> dict[str, tuple[ModelServer, str]]:
    """Server and kind of each metric that the split needs."""
    needed = split_of(entry).servers
    servers = [(server, kind) for server in reversed(servers_of(entry)) for kind in server.kinds if kind in needed[server.name]]
    return {metric: (server, kind) for server, kind in servers for metric in server.kinds[kind]}


_Key = tuple[str, str, str, str, str, str, str, str]
_Pieces = list[tuple[NDArray[np.int64], NDArray[np.float64]]]


def gather(sources: Sequence[MetricSource], window: Window, entry: ModelSplitEntry) -> tuple[pa.Table, tuple[Finding, ...]]:
    """The counters of all sources in the window, with what was noticed."""
    wanted = _wanted(entry)
    pieces: dict[_Key, _Pieces] = {}
    nameless: dict[str, int] = {}
    for source in sources:
        for metric, labels, times, values in source.raw(window, tuple(sorted(wanted))):
            key = _key(*wanted[metric], labels)
            if key is None:
                nameless[metric] = nameless.get(metric, 0) + 1
            elif len(times):
                scale = wanted[metric][0].units.get(metric, 1)
                pieces.setdefault(key, []).append((times, values if scale == 1 else values * scale))
    table, findings = _table(pieces)
    text = "series name no pod, so nothing is split by them; scrape the servers with the labels namespace and pod"
    findings += [
        Finding(Code.MODEL_COUNTERS_MISSING, Severity.WARNING, metric, f"{count} {text}", None, count)
        for metric, count in sorted(nameless.items())
    ]
    return table, tuple(findings)


def _key(server: ModelServer, kind: str, labels: Mapping[str, str]) -> _Key | None:
    """The columns of ``counters`` that name a series, None where it names no pod."""
    told = {name: value for name, value in labels.items() if value and name != "__name__"}
    pod, namespace, uid = (_first(told, names) for names in (server.pod, server.namespace, server.pod_uid))
    if not pod or not namespace:
        return None
    model = _first(told, server.adapter) or _first(told, server.model)
    rest = sorted((n, v) for n, v in told.items() if n not in (*server.pod, *server.namespace, *server.pod_uid))
    copies = _COPIES - {"replica"} if "ReplicaId" in told or "deployment" in told else _COPIES
    instance, replica = (repr([(n, v) for n, v in rest if (n in copies) == copied]) for copied in (False, True))
    return server.name, kind, namespace, pod, uid, model, instance, replica


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _table(pieces: Mapping[_Key, _Pieces]) -> tuple[pa.Table, list[Finding]]:
    """The table ``counters`` in a stable order: whole, true values in order of time. What cannot be true is counted."""
    columns: list[tuple[object, ...]] = []
    findings = []
    for key, parts in sorted(pieces.items(), key=lambda item: item[0]):
        times, values = np.concatenate([t for t, _ in parts]), np.concatenate([v for _, v in parts])
        true = (values >= 0) & (values < LIMIT)
        order = np.lexsort((values[true], times[true]))
        if true.any():
            columns.append((*key, times[true][order], np.rint(values[true][order]).astype(np.int64)))
        if wrong := int((~true & ~np.isnan(values)).sum()):
            text = f"{key[0]}: {wrong} values of a counter that cannot be true were dropped"
            findings.append(Finding(Code.INVALID_SAMPLES, Severity.WARNING, f"{key[2]}/{key[3]}", text, None, wrong))
    if not columns:
        return COUNTERS.empty(), findings
    arrays = [pa.array(column, c.type) for column, c in zip(zip(*columns, strict=True), COUNTERS.columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=COUNTERS.arrow()), findings
