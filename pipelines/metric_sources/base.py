"""What every source of series does, and what it reads them from. A shard is a group of nodes, never a part of one.

Here belong protocols and the words they are spoken in. Here do not belong files, servers or the meaning of labels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from allocation.findings import Finding
from allocation.times import to_ms

if TYPE_CHECKING:
    from pipelines.metric_sources.normalise import ShardBuilder
    from pipelines.metric_sources.placing import Places, Sight

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Raw = tuple[str, Mapping[str, str], Ints, Floats]
"""A piece of a series as it was read: metric, labels, times in ms, values in the exporter's unit."""


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
REQUEST_METRICS = (
    "kube_pod_container_resource_requests",
    "kube_pod_init_container_resource_requests",
    "kube_node_status_allocatable",
)
"""Those that tell how much CPU and memory pods asked for and a machine can give."""


@dataclass(frozen=True)
class RoleCount:
    """How many series a role has, for ``doctor``."""

    role: str
    metric: str
    series: int


@dataclass(frozen=True)
class Wanted:
    """Series of one metric: without the labels ``absent``, with those ``present``, and with one of the values of ``among``."""

    metric: str
    absent: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    among: tuple[tuple[str, frozenset[str]], ...] = ()


class SeriesStore(Protocol):
    """Series without a meaning: a file or a server. Only those that the entry's ``match`` leaves are there."""

    def names(self, window: Window) -> Sequence[str]:
        """The names of all metrics with series in the window, sorted."""
        ...

    def label_names(self, metrics: Sequence[str], window: Window) -> Mapping[str, frozenset[str]]:
        """For each of the metrics, the labels that have a value on one of its series."""
        ...

    def values(self, label: str, wanted: Sequence[Wanted], window: Window) -> Sequence[str]:
        """The values of a label on these series, without the empty one; of ``__name__``: the metrics among them."""
        ...

    def label_sets(self, wanted: Sequence[Wanted], window: Window) -> Iterable[tuple[str, Mapping[str, str]]]:
        """Metric and labels of these series."""
        ...

    def read(self, wanted: Sequence[Wanted], window: Window) -> Iterator[Raw]:
        """These series, unreduced, in pieces; the pieces of one series in time order."""
        ...

    def notices(self) -> Sequence[Finding]:
        """What was noticed so far while reading."""
        ...

    def reach(self) -> str:
        """From when to when it has samples of any time, in words; empty where nobody can tell."""
        ...


class MetricSource(Protocol):
    """Series of one cluster from one place.

    ``places`` says where rows are; without it, what the labels of this source alone say counts.
    """

    nodes_per_shard: int

    def raw(self, window: Window, metrics: Sequence[str]) -> Iterator[Raw]:
        """All series of these metrics in the window, unreduced; the pieces of one series in time order."""
        ...

    def inventory(self, window: Window, metrics: Sequence[str] = INVENTORY_METRICS) -> Sequence[InfoSeries]:
        """These series of kube-state-metrics in the window, reduced."""
        ...

    def profiles(self, window: Window) -> Sequence[str]:
        """The profiles by which it is read."""
        ...

    def needs_sights(self, window: Window) -> bool:
        """Whether it has rows that do not name their node or their device by themselves."""
        ...

    def sights(self, window: Window, places: "Places") -> "Iterable[Sight]":
        """Which device its rows show on which node."""
        ...

    def nodes(self, window: Window, places: "Places | None" = None) -> Sequence[str]:
        """Names of the nodes whose devices have series in the window, sorted."""
        ...

    def pour(self, builder: "ShardBuilder", window: Window, places: "Places", group: Sequence[str]) -> None:
        """The device series of this group of nodes into the builder."""
        ...

    def shards(self, window: Window, nodes: Sequence[str], places: "Places | None" = None) -> Iterator[Shard]:
        """The device series of these nodes, in shards of ``nodes_per_shard`` nodes in name order."""
        ...

    def notices(self, window: Window, places: "Places | None" = None) -> Sequence[Finding]:
        """What stands out of its series as a whole: the profile that was chosen, nothing found, rows that belong nowhere."""
        ...

    def roles(self, window: Window, places: "Places | None" = None) -> Sequence[RoleCount]:
        """What stands behind each role of its profiles."""
        ...
