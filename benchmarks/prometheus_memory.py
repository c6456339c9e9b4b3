"""Peak memory of one million samples of one node group, from a real Prometheus' answers on.

    python -m benchmarks.prometheus_memory

writes the series as OpenMetrics text, fills a real Prometheus with it, and lets a process of its own fetch them;
prints the samples, the seconds and that process' peak memory, and ends with 1 where the peak reaches the limit.
``walk`` is the place where more of the way is taken.
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

from pipelines.metric_sources.base import MetricSource, Window
from pipelines.metric_sources.registry import load_metric_source
from pipelines.settings import MetricsEntry
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
        with prometheus(folder, folder / "metrics.om") as url:
            measured = subprocess.run(
                [sys.executable, "-m", "benchmarks.prometheus_memory", url], check=True, stdout=subprocess.PIPE
            )
    figures = json.loads(measured.stdout)
    print("  ".join(f"{name}: {value}" for name, value in figures.items()), f" limit_mib: {LIMIT_MIB}")
    return int(figures["peak_mib"] >= LIMIT_MIB)


def child(url: str) -> None:
    """What is measured, in a process that has done nothing else."""
    source = load_metric_source(MetricsEntry(kind="prometheus", url=url, nodes_per_shard=NODES), "bench", 900_000)
    began = time.perf_counter()
    samples = walk(source)
    seconds = round(time.perf_counter() - began, 2)
    print(json.dumps({"samples": samples, "seconds": seconds, "peak_mib": peak_mib()}))


def walk(source: MetricSource) -> int:
    """The way that is measured; what follows on a shard (sweep, shares, rows) belongs into this loop."""
    samples = 0
    for shard in source.shards(WINDOW, source.nodes(WINDOW)):
        samples += pc.sum(pc.list_value_length(shard.samples.column("values"))).as_py()
    return samples


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
