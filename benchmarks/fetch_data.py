"""Series of a fleet for the benchmark of fetching: the same number gives the same bytes.

Here belong the series and how they get into servers. Here does not belong what is measured.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.metric_sources.base import Window

METRIC = "DCGM_FI_DEV_FB_USED"
START = datetime(2024, 10, 1, tzinfo=UTC)
DAY = Window(START, START + timedelta(days=1))
GPUS, STEP_S = 8, 30
SERIES_A_NODE = 22  # its eight devices, and fourteen rows of pods
SAMPLES_A_NODE = SERIES_A_NODE * 86_400 // STEP_S


def nodes_for(samples: int) -> int:
    """How many nodes have at least so many samples in a day."""
    return -(-samples // SAMPLES_A_NODE)


def labels_of(node: int, row: int) -> dict[str, str]:
    """The labels of one row of a node: first its devices, then pods on them."""
    labels = {
        "gpu": str(row % GPUS),
        "UUID": f"GPU-{node:05d}{row % GPUS}-1b2c-4d5e-8f90-aabbccddeeff",
        "modelName": "NVIDIA A100-SXM4-80GB",
        "Hostname": f"gpu-{node:04d}",
    }
    return (
        labels if row < GPUS else {**labels, "namespace": f"team-{node % 7}", "pod": f"train-{node}-{row}", "container": "main"}
    )


def levels_of(node: int, row: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The values of one row in MiB: now and then a new one."""
    random = np.random.default_rng(node * 100 + row)
    count = 86_400 // STEP_S
    return np.repeat(random.integers(0, 80_000, count // 20 + 1), 20)[:count]


def rows(nodes: int) -> Iterator[tuple[int, int]]:
    """Node and row of each series."""
    return ((node, row) for node in range(nodes) for row in range(SERIES_A_NODE))


def write_open_metrics(path: Path, nodes: int) -> None:
    """All series as OpenMetrics text."""
    times = pa.array(np.arange(int(START.timestamp()), int(DAY.end.timestamp()), STEP_S)).cast(pa.string())
    with path.open("w", encoding="utf-8") as file:
        file.write(f"# TYPE {METRIC} gauge\n")
        for node, row in rows(nodes):
            texts = ",".join(f'{name}="{value}"' for name, value in labels_of(node, row).items())
            levels = pa.array(levels_of(node, row)).cast(pa.string())
            lines = pc.binary_join_element_wise(f"{METRIC}{{{texts}}}", levels, times, " ")
            file.write("\n".join(lines.to_pylist()) + "\n")
        file.write("# EOF\n")


def import_lines(nodes: int) -> Iterator[bytes]:
    """All series as lines of VictoriaMetrics' import."""
    times = np.arange(DAY.start_ms, DAY.end_ms, STEP_S * 1000).tolist()
    for node, row in rows(nodes):
        told = {"metric": {"__name__": METRIC, **labels_of(node, row)}, "values": levels_of(node, row).tolist()}
        yield json.dumps({**told, "timestamps": times}).encode() + b"\n"
