"""The section ``engine``: where shards run, and how many at once."""

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from pipelines.section import Section

WORKER_BYTES = 450 << 20
"""What a worker needs at most with shards of about a million samples."""

_UNKNOWN_BYTES = 8 << 30
"""Of a machine that does not tell its memory."""
CONTROL_GROUP = Path("/sys/fs/cgroup")
"""Where Linux tells a container its limits."""
_INSTEAD = {
    "local": "write `kind: spark` for a cluster",
    "spark": "say in `master` or `conf` how many cores Spark has, like local[4] or spark.executor.instances",
}


class EngineEntry(Section):
    """``local``: processes on this machine; ``spark``: tasks of a Spark cluster.

    ``workers``: how many processes of ``local``; by default one a core, fewer where memory is short. ``shards_in_flight``: how
    many shards are being computed or wait for it, by default two a worker, or two a core of Spark's cluster; memory, or the disk
    of ``output``, grows with it. ``master``, ``conf``: of ``spark``, in Spark's own words.
    """

    kind: Literal["local", "spark"] = "local"
    workers: int | None = Field(default=None, ge=1, le=1024)
    shards_in_flight: int | None = Field(default=None, ge=1, le=4096)
    master: str = Field(default="local[*]", min_length=1)
    conf: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        other = {"local": {"master", "conf"}, "spark": {"workers"}}[self.kind]
        if odd := sorted(other & self.model_fields_set):
            raise ValueError(f"engine {self.kind} has no {' and no '.join(odd)}; {_INSTEAD[self.kind]}")
        return self

    @property
    def workers_here(self) -> int:
        """How many processes run shards on this machine."""
        return self.workers or max(1, min(_cores(), _memory_bytes() // WORKER_BYTES - 1))

    @property
    def in_flight_here(self) -> int:
        """How many shards are under way at once."""
        return self.shards_in_flight or 2 * self.workers_here


def _cores() -> int:
    """The cores that this process may use, by its own bounds and by the container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _limit("cpu.max").partition(" ")
    return max(1, min(cores, int(quota) // int(period))) if quota.isdecimal() and period.isdecimal() else cores


def _memory_bytes() -> int:
    """The memory that this process may use: the container's limit, or that of the machine."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        machine = _UNKNOWN_BYTES
    told = _limit("memory.max")
    return min(machine, int(told)) if told.isdecimal() else machine


def _limit(name: str) -> str:
    """What the control group of this process says of a limit; empty where there is none."""
    try:
        return (CONTROL_GROUP / name).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
