"""A small made-up fleet whose day has all that a cut into shards could get wrong, and the folder of a run over it.

A machine that was renamed, a name that two machines had one after the other, machines without series, pods that moved nodes,
counters of model servers, a host that is divided by requests, lines that are spread. The day is over, whatever the clock says.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import yaml

from allocation.schemas import BILL_CLUSTER
from pipelines.partition import COMMIT, Partition
from pipelines.results import RESULT_TABLES
from pipelines.storage import TableStore

DAY = date(2025, 10, 1)
START = round(datetime(2025, 10, 1, tzinfo=UTC).timestamp())
WINDOW = ("--from", "2025-10-01", "--until", "2025-10-02")
PRODUCTION = Partition(DAY, "prod")
TABLES = (*RESULT_TABLES, "samples", "nodes", "pods")
HOURS = 3
STEP_S = 300
NODES = ("a", "b", "c", "d", "e1", "e2", "f", "g", "h")
"""Names: ``e1`` and ``e2`` are one machine, ``f`` is two, ``h`` has no series of a device."""
_HEAD = (
    "BillingAccountId,SubAccountId,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,EffectiveCost,"
    "BillingCurrency,ProviderName,ServiceCategory,ServiceName,ResourceId,ConsumedQuantity,ConsumedUnit"
)


def series(metric: str, labels: Mapping[str, str], value: float, hours: tuple[float, float] = (0, HOURS)) -> list[str]:
    """Samples of one series, as lines of OpenMetrics."""
    text = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return [
        f"{metric}{{{text}}} {value} {t}" for t in range(round(START + 3600 * hours[0]), round(START + 3600 * hours[1]), STEP_S)
    ]


def _machine(node: str, machine: str, hours: tuple[float, float] = (0, HOURS)) -> Iterator[str]:
    yield from series("kube_node_info", {"node": node, "provider_id": f"aws:///z/i-{machine}"}, 1, hours)
    yield from series("kube_node_status_allocatable", {"node": node, "resource": "cpu", "unit": "core"}, 8, hours)
    memory = {"node": node, "resource": "memory", "unit": "byte"}
    yield from series("kube_node_status_allocatable", memory, 2**36, hours)


def _pod(pod: str, node: str, used_mib: int, hours: tuple[float, float] = (0, HOURS), *, gpu: int = 0) -> Iterator[str]:
    """A pod with a card of its node, its request of two cores, and its label."""
    name = {"namespace": "ml", "pod": pod, "uid": f"u-{pod}-{node}"}
    device = {"Hostname": node, "UUID": f"GPU-{node}-{gpu}", "modelName": "A100", "gpu": str(gpu)}
    yield from series("kube_pod_info", name | {"node": node}, 1, hours)
    yield from series("kube_pod_labels", name | {"label_model": pod.partition("-")[0]}, 1, hours)
    asked = name | {"node": node, "container": "c", "resource": "cpu", "unit": "core"}
    yield from series("kube_pod_container_resource_requests", asked, 2, hours)
    held = device | {"namespace": "ml", "pod": pod, "container": "c"}
    yield from series("DCGM_FI_DEV_FB_USED", held, used_mib, hours)
    yield from series("DCGM_FI_DEV_FB_FREE", device, 2048 - used_mib, hours)


def _tokens(pod: str, by_model: Mapping[str, int]) -> Iterator[str]:
    times = range(START, START + 3600 * HOURS, STEP_S)
    for metric in ("prompt", "generation"):
        for model, each in by_model.items():
            labels = f'namespace="ml",pod="{pod}",model_name="{model}",engine="0"'
            yield from (f"vllm:{metric}_tokens_total{{{labels}}} {each * n} {t}" for n, t in enumerate(times))


def fleet_lines(nodes: Sequence[str] = NODES) -> list[str]:
    """All its samples, or those of some nodes, as lines of OpenMetrics, metric by metric."""
    lines = [x for node in ("a", "b", "c", "d", "g", "h") for x in _machine(node, node)]
    lines += [*_machine("e1", "e", (0, 1)), *_machine("e2", "e", (1, HOURS))]
    lines += [*_machine("f", "f1", (0, 1)), *_machine("f", "f2", (1, HOURS))]
    for number, node in enumerate(("a", "b", "c", "d", "g")):
        lines += _pod(f"train-{node}", node, 300 + 100 * number)
    lines += [*_pod("web-0", "a", 512, (0, 1), gpu=1), *_pod("web-0", "c", 768, (1, 2), gpu=1)]
    lines += [*_pod("old", "e1", 1024, (0, 1)), *_pod("new", "e2", 512, (1, HOURS))]
    lines += [*_pod("first", "f", 256, (0, 1)), *_pod("second", "f", 1536, (1.5, HOURS))]
    lines += [*_pod("serve-0", "b", 1000, gpu=1), *_tokens("serve-0", {"llama": 300, "qwen": 100})]
    lines += _tokens("train-d", {"llama": 5})
    others = {f'"{node}"' for node in NODES if node not in nodes}
    kept = [text for text in lines if not any(f"{label}={name}" in text for label in ("node", "Hostname") for name in others)]
    return sorted(kept, key=lambda text: text.partition("{")[0])


def bill_lines(price: int = 10) -> list[str]:
    """A line for each machine and hour, and two that name none."""
    lines = []
    for number, machine in enumerate(("a", "b", "c", "d", "e", "f1", "f2", "g", "h", "unknown")):
        hours = {"f1": [0], "f2": [1, 2]}.get(machine, range(HOURS))
        lines += [_line("Usage", f"i-{machine}", hour, f"{price + number}.{hour}7") for hour in hours]
    return [*lines, _line("Tax", "", 0, "7.31"), _line("Usage", "vol-1", 1, "0.99")]


def _line(category: str, resource: str, hour: int, cost: str) -> str:
    begin, end = (datetime.fromtimestamp(START + 3600 * h, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for h in (hour, hour + 1))
    period = f"2025-10-01T00:00:00Z,2025-11-01T00:00:00Z,{begin},{end}"
    return f"1,7,{period},{category},{cost},{cost},USD,AWS,Compute,EC2,{resource},1,Hours"


class Fleet:
    """A folder with metrics, bill and configuration. ``entry``: keys of its source of series; more: of the configuration."""

    def __init__(self, folder: Path, entry: Mapping[str, object] | None = None, **more: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.config = folder, folder / "chargeback.yaml"
        self.out = folder / str(more.get("output", "out"))
        source = {"kind": "openmetrics", "path": "metrics.om", "profile": "dcgm", "nodes_per_shard": 2} | dict(entry or {})
        if "url" in source:
            source.pop("path")
        else:
            self.write_metrics(fleet_lines())
        self.write_bill(bill_lines())
        configured = [{"name": node, "gpus": 2, "gpu_memory": "2GiB"} for node in NODES]
        values: dict[str, Any] = {
            "version": 1,
            "output": "out",
            "clusters": [{"name": "prod", "metrics": [source], "nodes": configured}],
            "billing": [{"kind": "focus", "path": "bill.csv"}],
            "policy": {"max_hold": "5m", "max_gap": "15m", "gpu_share": 0.8, "host": "by_requests", "unattributed": "spread"},
            "owners": {
                "team": ["namespace"],
                "model": ["label:model"],
                "model_split": {"by": "tokens", "weights": {"prompt": 1, "generation": 1}},
            },
            "engine": {"kind": "local", "workers": 1},
        }
        self.config.write_text(yaml.safe_dump(values | more), encoding="utf-8")

    def write_metrics(self, lines: Sequence[str]) -> None:
        """Its file of series."""
        (self.folder / "metrics.om").write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")

    def write_bill(self, lines: Sequence[str]) -> None:
        """Its bill."""
        (self.folder / "bill.csv").write_text("\n".join([_HEAD, *lines, ""]), encoding="utf-8")

    @property
    def store(self) -> TableStore:
        """Its tables."""
        return TableStore(str(self.out))

    def command(self, *more: str) -> list[str]:
        """The arguments of a run over its day."""
        return ["run", str(self.config), *WINDOW, "--format", "json", *more]

    def bytes_of(self, tables: Sequence[str] = TABLES) -> dict[str, bytes]:
        """All files of these tables."""
        return {
            str(p.relative_to(self.out)): p.read_bytes() for t in tables for p in sorted((self.out / t).rglob("*")) if p.is_file()
        }

    def rows(self, table: str = "chargeback") -> list[dict[str, Any]]:
        """The rows of a table, of the cluster and of the bill."""
        found = [self.store.read(table, Partition(DAY, name)) for name in ("prod", BILL_CLUSTER)]
        return [row for one in found if one is not None for row in one.to_pylist()]

    def left_over(self) -> list[str]:
        """What no whole run leaves: folders and files that were made on the way."""
        return [p.name for p in self.out.rglob("*") if p.name.startswith((".", "gpu-chargeback-")) or p.name == "lock"]


def markers(folder: Path) -> list[Path]:
    """The markers of whole partitions below a folder."""
    return [p for p in folder.rglob(COMMIT) if not any(part.startswith(".") for part in p.parts)]


def assert_whole(fleet: Fleet, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    """Each partition that readers see is wholly old or wholly new; a marker of new rows stands beside no old ones.

    ``old``, ``new``: see ``Fleet.bytes_of``.
    """
    for marker in markers(fleet.out):
        name, files = str(marker.relative_to(fleet.out)), json.loads(marker.read_bytes())["files"]
        held = {file: (marker.parent / file).read_bytes() for file in files}
        if "part-0.parquet" not in files:
            assert {file: hashlib.sha256(content).hexdigest() for file, content in held.items()} == files
            continue
        place = name.replace(COMMIT, "part-0.parquet")
        assert held["part-0.parquet"] in (old.get(place), new[place])
        assert marker.read_bytes() in (old.get(name), new[name])
        if marker.read_bytes() == new[name]:
            assert held["part-0.parquet"] == new[place]
