"""What a machine type carries: how many GPUs, and how much memory one of them has.

The types that the clouds offer stand in ``data/instance_types.csv`` with their sources; ``instance_types:`` of the settings goes
before it. Here do not belong node labels, which say it of one node (`nodes`).
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from pipelines.settings import InstanceTypeEntry


class InstanceType(NamedTuple):
    """GPUs of a machine type and bytes of one. A slice of a GPU is one GPU with the slice's memory."""

    gpus: int
    gpu_memory_bytes: int


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """The types of the clouds. The file names its sources."""
    text = files("pipelines").joinpath("data/instance_types.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {r["instance_type"]: InstanceType(int(r["gpus"]), int(r["gpu_memory_mib"]) * 2**20) for r in rows}


def catalogue(configured: Mapping[str, InstanceTypeEntry]) -> Mapping[str, InstanceType]:
    """The types of the clouds, extended and overruled by the configured ones."""
    return {**instance_types(), **{name: InstanceType(t.gpus, t.gpu_memory) for name, t in configured.items()}}
