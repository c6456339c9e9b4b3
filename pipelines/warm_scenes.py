"""A made-up day so small that it costs nothing, with all that makes a run call a compiled function, and the walk over it.

Who adds a compiled function, or calls one with arrays of another type, adds here what needs it (``tests/pipelines/test_warm.py``
tells). Figures mean nothing here.
"""

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from allocation.money import to_nanos
from billing_adapters.row_ids import joined_hashes, text_hashes
from pipelines.explain import Query, explain
from pipelines.metric_sources.prometheus_json import read_points
from pipelines.settings import load_settings
from pipelines.stages import open_walk, run_day

DAY = date(2026, 10, 1)
_SECONDS = tuple(range(1_790_812_800, 1_790_812_800 + 3601, 600))
_GIB = 2**30

_CONFIG = """\
version: 1
output: out
clusters:
  - name: warm
    metrics:
      - kind: openmetrics
        path: metrics.om
        profile: custom
        custom:
          pod_memory: {metric: pod_gpu_memory_bytes, unit: bytes}
          used: {metric: gpu_memory_used_bytes, unit: bytes}
          total: {metric: gpu_memory_total_bytes, unit: bytes}
          labels: {node: node, gpu: gpu_uuid, instance: mig, namespace: namespace, pod: pod, pod_uid: uid}
    nodes:
      - {name: a, provider_id: "aws:///us-east-1a/i-0a00000000000001a", instance_type: gpu.2x80, gpus: 2, gpu_memory: 80GiB}
      - {name: b, provider_id: "aws:///us-east-1a/i-0a00000000000002b", instance_type: gpu.1x80, gpus: 1, gpu_memory: 80GiB}
      - {name: c, provider_id: "aws:///us-east-1a/i-0a00000000000003c", instance_type: gpu.1x80, gpus: 1, gpu_memory: 80GiB}
billing:
  - {kind: focus, path: bill.csv, cost: billed}
policy: {max_hold: 10m, max_gap: 15m, gpu_share: 0.8, host: by_requests, unattributed: spread}
owners: {team: [namespace], model: [label:model], model_split: {by: tokens, weights: {prompt: 1, generation: 1}}}
"""

_SERIES = {
    # two pods on one card, one of them on both cards; it asked for one, serves two models, and is known for its tokens
    'pod_gpu_memory_bytes{node="a",gpu_uuid="GPU-1",namespace="ns",pod="serve"}': 30 * _GIB,
    'pod_gpu_memory_bytes{node="a",gpu_uuid="GPU-2",namespace="ns",pod="serve"}': 20 * _GIB,
    'pod_gpu_memory_bytes{node="a",gpu_uuid="GPU-1",namespace="ns",pod="train"}': 10 * _GIB,
    'gpu_memory_used_bytes{node="a",gpu_uuid="GPU-1"}': 42 * _GIB,
    'gpu_memory_total_bytes{node="a",gpu_uuid="GPU-1"}': 80 * _GIB,
    # a card of instances, one of them held
    'pod_gpu_memory_bytes{node="b",gpu_uuid="GPU-3",mig="1",namespace="ns",pod="small"}': 5 * _GIB,
    'gpu_memory_used_bytes{node="b",gpu_uuid="GPU-3",mig="1"}': 6 * _GIB,
    'gpu_memory_total_bytes{node="b",gpu_uuid="GPU-3",mig="1"}': 10 * _GIB,
    'gpu_memory_total_bytes{node="b",gpu_uuid="GPU-3",mig="2"}': 10 * _GIB,
    # a card in use without a pod, and a pod that asked for one and is seen nowhere
    'gpu_memory_used_bytes{node="c",gpu_uuid="GPU-4"}': 40 * _GIB,
    'gpu_memory_total_bytes{node="c",gpu_uuid="GPU-4"}': 80 * _GIB,
} | {
    f'kube_pod_info{{namespace="ns",pod="{pod}",uid="u-{pod}",node="{node}"}}': 1
    for pod, node in (("serve", "a"), ("train", "a"), ("small", "b"), ("lost", "c"))
} | {
    f'kube_pod_container_resource_requests{{namespace="ns",pod="{pod}",uid="u-{pod}",node="{node}",{what}}}': amount
    for pod, node in (("serve", "a"), ("train", "a"), ("lost", "c"))
    for what, amount in (
        ('resource="nvidia_com_gpu",unit="integer"', 1),
        ('resource="cpu",unit="core"', 2),
        ('resource="memory",unit="byte"', _GIB),
    )
} | {
    f'kube_node_status_allocatable{{node="a",{what}}}': amount
    for what, amount in (('resource="cpu",unit="core"', 8), ('resource="memory",unit="byte"', 64 * _GIB))
}  # fmt: skip
_COUNTERS = [
    f'vllm:{kind}_tokens_total{{namespace="ns",pod="serve",model_name="{model}",engine="0"}}'
    for kind in ("prompt", "generation")
    for model in ("one", "two")
]

_BILL = """\
BillingAccountId,SubAccountId,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,\
EffectiveCost,ListCost,ContractedCost,BillingCurrency,ProviderName,ServiceCategory,ServiceName,ResourceId,SkuId,PricingQuantity,\
PricingUnit,ConsumedQuantity,ConsumedUnit,x_InstanceType
"""
_LINE = (
    "1,2,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,{category},{cost},{cost},{cost},"
    "{cost},USD,AWS,Compute,Amazon Elastic Compute Cloud,{node},{rest}\n"
)
_MACHINES = ("i-0a00000000000001a", "i-0a00000000000002b", "i-0a00000000000003c")


def walk_all(folder: Path) -> None:
    """Computes the made-up day in an empty folder, walks one figure back, and reads what a file cannot hold."""
    (folder / "chargeback.yaml").write_text(_CONFIG, encoding="utf-8")
    (folder / "metrics.om").write_text(_metrics(), encoding="utf-8")
    (folder / "bill.csv").write_text(_bill(), encoding="utf-8")
    walk = open_walk(load_settings(folder / "chargeback.yaml"))
    run_day(walk, DAY)
    explain(walk, Query(DAY, team="ns"), None)
    read_points(b'[[1790812800,"1.5"]]')
    to_nanos(pa.array(np.array([1.5])))
    hashes = text_hashes(pa.array(["one"]))
    joined_hashes(hashes, hashes)


def _metrics() -> str:
    kinds: dict[str, list[str]] = {}
    for series, value in _SERIES.items():
        kinds.setdefault(f"# TYPE {series.partition('{')[0]} gauge", []).extend(f"{series} {value} {t}" for t in _SECONDS)
    for series in _COUNTERS:
        name = series.partition("_total{")[0]
        kinds.setdefault(f"# TYPE {name} counter", []).extend(f"{series} {100 * k} {t}" for k, t in enumerate(_SECONDS))
    return "\n".join([*(f"{kind}\n" + "\n".join(lines) for kind, lines in kinds.items()), "# EOF", ""])


def _bill() -> str:
    hours = [_LINE.format(category="Usage", cost="80.00", node=node, rest=",1,Hours,1,Hours,gpu.1x80") for node in _MACHINES]
    return _BILL + "".join(hours) + _LINE.format(category="Tax", cost="1.00", node="", rest=",,,,,")
