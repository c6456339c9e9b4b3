"""What pods asked for of a machine's CPU and memory, and what the machine can give them: read only with ``host: by_requests``.

A pod asks for the sum over its containers, or for what its largest init container asks for where that is more: init containers
run one after the other, before the others. Of a request that changed the last one counts. Here do not belong requests of
accelerators (`pod_requests`) or what anybody used.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from pipelines.inventory.pod_sights import PodSights
from pipelines.inventory.sections import Sections
from pipelines.inventory.stretches import last_of
from pipelines.metric_sources.base import REQUEST_METRICS

_CONTAINERS, _INIT_CONTAINERS, _ALLOCATABLE = REQUEST_METRICS
_PER_UNIT = {"cpu": 1000.0, "memory": 1.0}
"""Of kube-state-metrics' units (core, byte) in ours (millicore, byte)."""
_MOST = {"cpu": 2.0**22, "memory": 2.0**45}
"""Millicores and bytes: more is no machine's."""


def requested(sights: PodSights) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Millicores and bytes that each pod asked for, NaN where no series says it; 0 is said."""
    containers, init = (_last(sights, metric) for metric in (_CONTAINERS, _INIT_CONTAINERS))
    amounts = []
    for resource in _PER_UNIT:
        sums = containers[containers.resource == resource].groupby("pod").amount.sum()
        largest = init[init.resource == resource].groupby("pod").amount.max()
        both = pd.concat([sums, largest], axis=1).max(axis=1)
        amounts.append(both.reindex(range(len(sights.pods))).astype("float64"))
    return amounts[0], amounts[1]


def _last(sights: PodSights, metric: str) -> pd.DataFrame:
    """The last amount of each ``pod``, ``container`` and ``resource``."""
    said = _amounts(sights.of(metric, "container", "resource"))
    return last_of(said, ["pod", "container", "resource"], ["last_ms", "first_ms", "amount"])


def _amounts(said: pd.DataFrame) -> pd.DataFrame:
    """The rows of CPU and memory with their whole ``amount``, without what cannot be."""
    said = said[said.resource.isin(list(_PER_UNIT))]
    amount = np.rint(said.value * said.resource.map(_PER_UNIT).astype("float64"))
    possible = (amount >= 0) & (amount < said.resource.map(_MOST).astype("float64"))
    return said.assign(amount=amount)[possible]


def allocatable(stays: pd.DataFrame, sections: Sections) -> pd.DataFrame:
    """What the machine of each stay can give to pods, by the last that was told of its node during the stay.

    Args:
        stays: ``node``, ``from_ms``, ``until_ms``.
        sections: the inventory.

    Returns:
        A row a stay: ``cpu`` (millicores) and ``memory`` (bytes), NaN where nothing says it.
    """
    series = sections.of(_ALLOCATABLE)
    said = _amounts(series.times().assign(node=series.label("node"), resource=series.label("resource")))
    asked = stays[["node", "from_ms", "until_ms"]].assign(stay=np.arange(len(stays)))
    met = asked.merge(said[["node", "resource", "amount", "first_ms", "last_ms"]], on="node")
    met = met[(met.first_ms < met.until_ms) & (met.last_ms >= met.from_ms)]
    met = met.sort_values(["last_ms", "first_ms", "amount"]).drop_duplicates(["stay", "resource"], keep="last")
    found = {name: met[met.resource == name].set_index("stay").amount for name in _PER_UNIT}
    return pd.DataFrame({name: amount.reindex(range(len(stays))) for name, amount in found.items()})


def requests_unknown(cluster: str, pods: pa.Table, nodes: Sequence[str]) -> list[Finding]:
    """A finding where no pod of the cluster has a request of CPU or memory: everything stays with the host.

    Args:
        cluster: its name.
        pods: the table ``pods``.
        nodes: its nodes with device series, whose host money hangs on it.
    """
    missing = [name for name in ("requested_cpu_milli", "requested_memory_bytes") if pods[name].null_count == len(pods)]
    if len(missing) < 2:
        return []
    evidence = (
        f"host: by_requests needs {_CONTAINERS} with resource cpu or memory, and no series of it or of {_INIT_CONTAINERS} is "
        "there; nothing of the host's part is divided"
    )
    return [Finding(Code.HOST_NOT_DIVIDED, Severity.WARNING, cluster, evidence, money_of=tuple(nodes))]
