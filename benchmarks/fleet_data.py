"""A made-up day of a whole fleet, as a store keeps it: series shard by shard with their inventory, a bill, a configuration.

A few shards of ``sweep_data`` are drawn and stand for all, each time under names of their own: the same seed gives the same
bytes. Here belongs the data; what is measured with it stands in ``benchmarks.fleet``.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from allocation.schemas import INVENTORY, SAMPLES
from allocation.times import to_ms
from benchmarks.sweep_data import CARDS_MIB, DAY_MS, GPUS_PER_NODE, HOUR_MS, MARGIN_MS, NODE_COUNT, START_MS, ordinary
from pipelines.metric_sources.base import Window
from pipelines.partition import Partition
from pipelines.samples import query_id, window_of
from pipelines.series_digest import Told
from pipelines.settings import Settings, day_start, load_settings
from pipelines.storage import TableStore

DAY = date(2026, 10, 1)
CLUSTER = "fleet"
DRAWN = 6
"""So many shards differ in more than their names."""
_CONFIG = """\
version: 1
output: out
clusters:
  - name: fleet
    metrics: [{kind: prometheus, url: "http://localhost:9"}]
billing:
  - {kind: focus, path: bill.parquet, cost: effective, currency: USD}
instance_types:
%s
owners:
  team: [label:team, namespace]
  model: [label:model]
  cost_center: [label:cost_center]
engine: {workers: %d}
"""
_MAP = INVENTORY.arrow().field("labels").type


@dataclass(frozen=True)
class Fleet:
    """A fleet's day on disk."""

    config: Path
    nodes: int
    samples: int
    """Those of pods."""
    files: tuple[Path, ...]


@dataclass(frozen=True)
class _Template:
    """A drawn shard: its series, one row a pod, and the machine type of each node."""

    samples: pa.Table
    pods: pd.DataFrame
    types: Sequence[str]
    pod_samples: int


def write_fleet(folder: Path, shards: int, *, nodes: int = NODE_COUNT, workers: int = 2) -> Fleet:
    """A fleet of so many shards of so many nodes; with 15 a shard has about a million samples of pods."""
    folder.mkdir(parents=True, exist_ok=True)
    types = "\n".join(f"  {_type(mib)}: {{gpus: {GPUS_PER_NODE}, gpu_memory: {mib}MiB}}" for mib in sorted(set(CARDS_MIB)))
    (folder / "chargeback.yaml").write_text(_CONFIG % (types, workers), encoding="utf-8")
    settings = load_settings(folder / "chargeback.yaml")
    templates = [_template(seed, nodes) for seed in range(min(DRAWN, shards))]
    write_bill(folder / "bill.parquet", shards * nodes)
    store, partition = TableStore(settings.output), Partition(DAY, CLUSTER)
    _write_series(settings, store, partition, [templates[n % DRAWN] for n in range(shards)])
    files = tuple(Path(settings.output) / place for place in store.part_files("samples", partition))
    samples = sum(templates[n % DRAWN].pod_samples for n in range(shards))
    return Fleet(folder / "chargeback.yaml", shards * nodes, samples, files)


def _template(seed: int, nodes: int) -> _Template:
    work = ordinary(seed, nodes=nodes)
    samples = work.samples
    of_pods = samples.filter(pc.equal(samples["role"], "pod_memory"))
    lists = of_pods["timestamps_ms"].combine_chunks()
    offsets, times = lists.offsets.to_numpy(), lists.values.to_numpy()
    pods = of_pods.select(["namespace", "pod", "pod_uid", "node"]).to_pandas()
    pods = pods.assign(first_ms=times[offsets[:-1]], last_ms=times[offsets[1:] - 1])
    types = [_type(int(size) >> 20) for size in work.nodes.gpu_memory_bytes]
    return _Template(samples, pods, types, int(offsets[-1]))


def _type(mib: int) -> str:
    return f"gpu8.{mib}"


def _write_series(settings: Settings, store: TableStore, partition: Partition, templates: Sequence[_Template]) -> None:
    """The partition ``samples``, with a marker that says it was asked for as the settings ask."""
    cluster, policy = settings.clusters[0], settings.policy
    window: Window = window_of(settings, day_start(DAY), day_start(DAY) + timedelta(days=1))
    query, told = query_id(cluster, window, settings.owners.model_split, policy), Told(policy)
    arriving = store.arriving("samples", partition, "made")
    written: list[Future[str]] = []
    with ThreadPoolExecutor(2) as pool:
        for number, template in enumerate(templates):
            samples = _named(template.samples, number, _nodes(number, len(template.types)))
            written.append(pool.submit(arriving.add, number, samples))
            told.add(samples, [])
    for one in written:
        one.result()
    arriving.add_beside("inventory", pa.concat_tables(list(_inventory(templates))))
    arriving.commit(told.detail(query, [["dcgm"]]))


def _named(samples: pa.Table, shard: int, names: Sequence[str]) -> pa.Table:
    """The same series under the names of one shard; their order is the same."""
    number = pc.cast(pc.utf8_slice_codeunits(samples["node"], len("node-")), pa.int32())
    own = {"node": pa.array(names).take(number.combine_chunks())}
    for name in ("gpu_uuid", "pod_uid", "pod"):
        own[name] = _prefixed(samples[name].combine_chunks(), shard)
    columns = [own[name] if name in own else samples[name].combine_chunks() for name in SAMPLES.names]
    return pa.Table.from_arrays(columns, schema=SAMPLES.arrow())


def _prefixed(values: pa.Array, shard: int) -> pa.Array:
    return pc.if_else(pc.equal(values, ""), "", pc.binary_join_element_wise(f"s{shard:04d}", values, "-"))


def _nodes(shard: int, count: int) -> list[str]:
    return [f"gpu-{shard * count + n:05d}" for n in range(count)]


def _inventory(templates: Sequence[_Template]) -> Iterator[pa.Table]:
    """Series of kube-state-metrics of all shards, metric by metric: nodes and their types; pods, their labels, owners and GPU."""
    names = [name for shard, template in enumerate(templates) for name in _nodes(shard, len(template.types))]
    ids = [f"aws:///us-west-2a/{instance_id(n)}" for n in range(len(names))]
    types = [kind for template in templates for kind in template.types]
    times = np.full(len(names), START_MS - MARGIN_MS), np.full(len(names), START_MS + DAY_MS + MARGIN_MS)
    yield _series("kube_node_info", {"node": names, "provider_id": ids}, *times)
    yield _series("kube_node_labels", {"label_node_kubernetes_io_instance_type": types, "node": names}, *times)
    pods = pd.concat([_pods(template, shard) for shard, template in enumerate(templates)], ignore_index=True)
    lived = pods.first_ms.to_numpy(np.int64), pods.last_ms.to_numpy(np.int64)
    key = {name: list(pods[name]) for name in ("namespace", "pod")} | {"uid": list(pods.pod_uid)}
    number = pods.pod_uid.str.slice(6, 14).astype("int64")
    told = {
        "kube_pod_info": {"node": list(pods.node)},
        "kube_pod_labels": {
            "label_cost_center": [f"cc-{n % 11:02d}" for n in number],
            "label_model": [f"model-{n % 53:02d}" for n in number],
            "label_team": [f"team-{n % 37:02d}" for n in number],
        },
        "kube_pod_owner": {
            "owner_is_controller": ["true"] * len(pods),
            "owner_kind": ["StatefulSet"] * len(pods),
            "owner_name": [f"server-{n % 400}" for n in number],
        },
        "kube_pod_container_resource_requests": {
            "container": ["main"] * len(pods),
            "resource": ["nvidia_com_gpu"] * len(pods),
            "unit": ["integer"] * len(pods),
        },
    }
    for metric, labels in told.items():
        yield _series(metric, {**key, **labels}, *lived)


def _pods(template: _Template, shard: int) -> pd.DataFrame:
    nodes = np.array(_nodes(shard, len(template.types)), object)
    number = template.pods.node.str.slice(len("node-")).astype("int64")
    own = {name: f"s{shard:04d}-" + template.pods[name] for name in ("pod", "pod_uid")}
    return template.pods.assign(**own, node=nodes[number])


def _series(metric: str, labels: dict[str, list[str]], first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> pa.Table:
    """One stretch a row, of value 1."""
    names, rows = sorted(labels), len(first)
    keys = pa.array(names).take(pa.array(np.tile(np.arange(len(names)), rows)))
    column_by_column = pa.concat_arrays([pa.array(labels[name], pa.string()) for name in names])
    values = column_by_column.take(pa.array(np.arange(len(names) * rows).reshape(len(names), rows).T.ravel()))
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * len(names))
    columns = [
        pa.repeat(metric, rows), pa.MapArray.from_arrays(offsets, keys, values).cast(_MAP), pa.array(first), pa.array(last),
        pa.array(np.ones(rows)),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=INVENTORY.arrow())


def instance_id(number: int) -> str:
    """The provider's id of a node."""
    return f"i-{number:017x}"


def write_bill(path: Path, nodes: int, day: date = DAY) -> None:
    """One line a node and hour of a day in October, in FOCUS."""
    midnight_ms = to_ms(day_start(day))
    random = np.random.default_rng(nodes)
    rows, hours = nodes * 24, np.tile(np.arange(24), nodes)
    start = pa.array((midnight_ms + hours * HOUR_MS) * 1000).cast(pa.timestamp("us", tz="UTC"))
    end = pa.array((midnight_ms + (hours + 1) * HOUR_MS) * 1000).cast(pa.timestamp("us", tz="UTC"))
    cost = pa.array(np.round(random.random(rows) * 95 + 3, 6))
    month = [datetime(day.year, month, 1, tzinfo=UTC) for month in (10, 11)]
    same = {
        "BillingAccountId": "111122223333", "SubAccountId": "444455556666", "BillingPeriodStart": month[0],
        "BillingPeriodEnd": month[1], "ChargeCategory": "Usage", "PricingCategory": "Standard", "BillingCurrency": "USD",
        "ProviderName": "AWS", "RegionId": "us-west-2", "ServiceCategory": "Compute", "ServiceName": "Amazon EC2",
        "SkuId": "BOX", "PricingUnit": "Hours", "PricingQuantity": 1.0, "ConsumedUnit": "Hours", "ConsumedQuantity": 1.0,
        "x_InstanceType": "p5.48xlarge",
    }  # fmt: skip
    columns = {name: pa.repeat(pa.scalar(value), rows) for name, value in same.items()}
    columns |= {"ChargePeriodStart": start, "ChargePeriodEnd": end}
    columns |= dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"), cost)
    ids = pa.array([instance_id(n) for n in range(nodes)])
    columns["ResourceId"] = ids.take(pa.array(np.repeat(np.arange(nodes), 24)))
    pq.write_table(pa.table(columns), path)
