"""Peak memory of one million samples of one node group, from a real Prometheus' answers on.

    python -m benchmarks.prometheus_memory

writes the series as OpenMetrics text and an hourly bill, fills a real Prometheus with the series, and lets a process of its
own take the whole walk: fetch, store, sweep, split, write. Prints samples, rows, seconds and that process' peak memory, and
ends with 1 where the peak reaches the limit.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from pipelines.metric_sources.base import Window
from pipelines.partition import Partition
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk
from tests.servers import HAS_PROMETHEUS, WITHOUT_PROMETHEUS, prometheus

LIMIT_MIB = 600
NODES, GPUS, SERIES, STEP_S = 16, 8, 350, 30
START = datetime(2026, 10, 1, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(days=1))
_LABELS = (
    '{{gpu="{gpu}",UUID="GPU-{uuid:08d}-1b2c-4d5e-8f90-aabbccddeeff",modelName="NVIDIA A100-SXM4-80GB",'
    'Hostname="ip-10-0-0-{node}",instance="10.0.0.{node}:9400",job="dcgm-exporter"{pod}}}'
)


def main() -> int:
    """Prepares the server, measures a process of its own against it, prints what came out."""
    if not HAS_PROMETHEUS:
        print(f"not measured: {WITHOUT_PROMETHEUS}")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_series(folder / "metrics.om")
        write_bill(folder / "bill.csv")
        with prometheus(folder, folder / "metrics.om") as url:
            write_config(folder / "chargeback.yaml", url)
            measured = subprocess.run(
                [sys.executable, "-m", "benchmarks.prometheus_memory", str(folder / "chargeback.yaml")],
                check=True,
                stdout=subprocess.PIPE,
            )
    figures = json.loads(measured.stdout)
    print("  ".join(f"{name}: {value}" for name, value in figures.items()), f" limit_mib: {LIMIT_MIB}")
    return int(figures["peak_mib"] >= LIMIT_MIB)


def child(config: str) -> None:
    """What is measured, in a process that has done nothing else."""
    walk = open_walk(load_settings(Path(config)))
    began = time.perf_counter()
    results = run_day(walk, START.date())
    seconds = round(time.perf_counter() - began, 2)
    rows = sum(len(r.chargeback) for r in results)
    peak = peak_mib()
    parts = walk.store.read_parts("samples", Partition(START.date(), "bench"))
    samples = sum(pc.sum(pc.list_value_length(part["values"])).as_py() for part in parts)
    print(json.dumps({"samples": samples, "rows": rows, "seconds": seconds, "peak_mib": peak}))


def write_bill(path: Path) -> None:
    """One line a node and hour."""
    head = "BillingAccountId,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,"
    head += "BillingCurrency,ProviderName,ServiceCategory,ServiceName,ResourceId,ConsumedQuantity,ConsumedUnit\n"
    with path.open("w", encoding="utf-8") as file:
        file.write(head)
        for node in range(NODES):
            for hour in range(24):
                begin, end = START + timedelta(hours=hour), START + timedelta(hours=hour + 1)
                file.write(
                    f"1,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,{begin:%Y-%m-%dT%H:%M:%SZ},{end:%Y-%m-%dT%H:%M:%SZ},"
                    f"Usage,32.7726,USD,AWS,Compute,Amazon Elastic Compute Cloud,i-{node:017d},1,Hours\n"
                )


def write_config(path: Path, url: str) -> None:
    """One cluster of sixteen eight-GPU nodes."""
    nodes = [
        {"name": f"ip-10-0-0-{n}", "provider_id": f"aws:///us-east-1a/i-{n:017d}", "gpus": GPUS, "gpu_memory": "80GiB"}
        for n in range(NODES)
    ]
    config = {
        "version": 1,
        "output": "out",
        "clusters": [{"name": "bench", "metrics": [{"kind": "prometheus", "url": url, "profile": "dcgm"}], "nodes": nodes}],
        "billing": [{"kind": "focus", "path": "bill.csv"}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")


def peak_mib() -> int:
    """The largest resident memory of this process so far (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def write_series(path: Path) -> None:
    """One row a device and, on top of them, rows of pods; times every half minute of the day."""
    times = pa.array(np.arange(int(START.timestamp()), int(WINDOW.end.timestamp()), STEP_S)).cast(pa.string())
    random = np.random.default_rng(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("# TYPE DCGM_FI_DEV_FB_USED gauge\n")
        for number in range(SERIES):
            device = number % (NODES * GPUS)
            pod = f',namespace="ns",pod="train-{number}",container="main"' if number >= NODES * GPUS else ""
            labels = _LABELS.format(gpu=device % GPUS, uuid=device, node=device // GPUS, pod=pod)
            levels = np.repeat(random.integers(0, 80_000, len(times) // 20 + 1), 20)[: len(times)]
            lines = pc.binary_join_element_wise(f"DCGM_FI_DEV_FB_USED{labels}", pa.array(levels).cast(pa.string()), times, " ")
            file.write("\n".join(lines.to_pylist()) + "\n")
        file.write("# EOF\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1])
    else:
        raise SystemExit(main())
