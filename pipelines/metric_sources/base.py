"""What every source of series does. A shard is a group of nodes; a source never splits a node over two shards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from allocation.findings import Finding
from allocation.times import to_ms


@dataclass(frozen=True)
class Window:
    """Half-open UTC time, whole milliseconds."""

    start: datetime
    end: datetime

    @property
    def start_ms(self) -> int:
        """Start in ms since the epoch."""
        return to_ms(self.start)

    @property
    def end_ms(self) -> int:
        """End in ms since the epoch."""
        return to_ms(self.end)


@dataclass(frozen=True)
class Shard:
    """The series of a group of nodes (table ``samples``, bytes), with what was noticed while reading them.

    Series are distinct by identity and sorted by it; samples ascend strictly in time and lie inside the window asked for;
    values are bytes and true (see ``allocation.series.clean``, which makes this so).
    """

    nodes: tuple[str, ...]
    samples: pa.Table
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class InfoSeries:
    """A series of kube-state-metrics reduced to a stretch: when these labels were first and last seen, and the last value.

    ``labels`` are without ``__name__``. A series that was away for longer than ``max_gap`` gives two stretches, and so does a
    time that changed. Where several label sets of one pod or node came and went, each is told hour by hour.
    """

    metric: str
    labels: Mapping[str, str]
    first_ms: int
    last_ms: int
    value: float


INVENTORY_METRICS = (
    "kube_node_info",
    "kube_node_created",
    "kube_node_labels",
    "kube_node_status_capacity",
    "kube_namespace_labels",
    "kube_pod_info",
    "kube_pod_created",
    "kube_pod_labels",
    "kube_pod_annotations",
    "kube_pod_owner",
    "kube_replicaset_owner",
    "kube_job_owner",
    "kube_pod_start_time",
    "kube_pod_completion_time",
    "kube_pod_status_phase",
    "kube_pod_container_state_started",
    "kube_pod_container_resource_requests",
    "kube_pod_resourceclaim_info",
)
"""The series that the inventory is built from; each may be absent."""


RawSeries = tuple[str, Mapping[str, str], NDArray[np.int64], NDArray[np.float64]]
"""Metric, labels, times in ms, values as delivered."""


@dataclass(frozen=True)
class RoleCount:
    """How many series a role has, for ``doctor``."""

    role: str
    metric: str
    series: int


class MetricSource(Protocol):
    """Series of one cluster from one place."""

    def nodes(self, window: Window) -> Sequence[str]:
        """Names of the nodes whose devices have series in the window, sorted."""
        ...

    def shards(self, window: Window, nodes: Sequence[str]) -> Iterator[Shard]:
        """The device series of these nodes, in shards of ``nodes_per_shard`` nodes in name order."""
        ...

    def inventory(self, window: Window) -> Sequence[InfoSeries]:
        """The series of kube-state-metrics in the window, reduced."""
        ...

    def roles(self, window: Window) -> Sequence[RoleCount]:
        """What stands behind each role of the profile."""
        ...

    def raw(self, window: Window, metrics: Sequence[str]) -> Iterator[RawSeries]:
        """All series of these metrics in the window, unreduced; the pieces of one series in time order."""
        ...
