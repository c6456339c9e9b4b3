"""Where what the cluster says contradicts the configuration or itself. Nothing here changes a figure.

The cluster is believed before the configuration, and of two samples the later one.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.node_keys import node_keys
from allocation.times import from_ms
from pipelines.inventory.nodes import node_sights
from pipelines.inventory.pod_lives import lives
from pipelines.inventory.pod_sights import PodSights
from pipelines.inventory.sections import Inventory, sections_of
from pipelines.inventory.stretches import Int64
from pipelines.settings import NodeEntry

_TOLD = 4
"""How many of several values a finding names."""


def disagreements(inventory: Inventory, configured: Sequence[NodeEntry]) -> list[Finding]:
    """What contradicts the configuration (``node_not_as_configured``) or itself (``contradicting_inventory``).

    Itself: one node name with two machines at one time, one machine under two names at one time, one pod uid on two nodes,
    a pod that ended before it started.
    """
    sections = sections_of(inventory)
    sights = node_sights(sections)
    sights = sights[sights.provider_id != ""]
    pods = sections.once(PodSights)
    return [
        *_not_as_configured(sights, configured),
        *_at_once(sights, "node", "provider_id", "has the machines"),
        *_at_once(sights, "provider_id", "node", "is the machine of the nodes"),
        *_on_two_nodes(pods),
        *_ended_early(pods),
    ]


def overruled(inventory: Inventory, configured: Sequence[NodeEntry], nodes: pa.Table) -> dict[str, str]:
    """Machines that series or configuration name for a node and that the table ``nodes`` never means by it: key -> node name.

    Another machine was named for that node at the same time and is believed.
    """
    sights = node_sights(sections_of(inventory))
    named = pd.DataFrame(
        [*sights[["node", "provider_id"]].itertuples(index=False), *((e.name, e.provider_id or "") for e in configured)],
        columns=["node", "provider_id"],
    )
    named = named[named.provider_id != ""].drop_duplicates()
    named = named.assign(key=node_keys(pa.array(named.provider_id, pa.string())).to_pylist()).sort_values(["key", "node"])
    lost = named[~named.key.isin(nodes["node_key"].to_pylist())].drop_duplicates("key")
    return dict(zip(lost.key, lost.node, strict=True))


def _not_as_configured(sights: pd.DataFrame, configured: Sequence[NodeEntry]) -> list[Finding]:
    told = sights[sights.node.isin([entry.name for entry in configured])].groupby("node").provider_id.unique()
    return [
        Finding(
            Code.NODE_NOT_AS_CONFIGURED,
            Severity.WARNING,
            entry.name,
            f"nodes: says {entry.provider_id}, kube_node_info {', '.join(sorted(told[entry.name]))}, which is believed",
        )
        for entry in configured
        if entry.provider_id and entry.name in told.index and entry.provider_id not in told[entry.name]
    ]


def _at_once(sights: pd.DataFrame, key: str, value: str, says: str) -> Iterator[Finding]:
    """A finding for each key that has two values at one time."""
    lives_of = sights.groupby([key, value], as_index=False).agg(first_ms=("first_ms", "min"))
    several = sights[sights[key].isin(lives_of[key][lives_of[key].duplicated()])].sort_values([key, "first_ms", "last_ms", value])
    before = several.groupby(key)
    overlap = np.minimum(before.last_ms.cummax().groupby(several[key]).shift(), several.last_ms) - several.first_ms
    other = before[value].shift()
    clash = several.assign(overlap_ms=overlap)[(overlap > 0) & (several[value] != other)]
    for name, rows in clash.groupby(key):
        values = several[several[key] == name][value].unique()
        start, length = from_ms(int(rows.first_ms.min())), int(rows.overlap_ms.max())
        evidence = f"kube_node_info: {name} {says} {_some(values)} at one time, for {length / 1000:g} s; the later sample wins"
        period = (start, from_ms(int((rows.first_ms + rows.overlap_ms).max())))
        subject = str(name) if key == "node" else str(rows[value].iloc[0])
        yield Finding(Code.CONTRADICTING_INVENTORY, Severity.WARNING, subject, evidence, period, len(rows))


def _on_two_nodes(sights: PodSights) -> Iterator[Finding]:
    told = sights.of("kube_pod_info", "node")
    told = told[(told.node != "") & (sights.pods.pod_uid.to_numpy() != "")[told.pod]].sort_values(["last_ms", "first_ms", "node"])
    places = told.drop_duplicates(["pod", "node"], keep="last")
    places = places[places.pod.duplicated(keep=False)].sort_values("pod", kind="stable")
    pod, begins = np.unique(places.pod.to_numpy(np.int64), return_index=True)
    nodes = np.split(places.node.to_numpy(object), begins[1:])
    times = told.groupby("pod").agg(first_ms=("first_ms", "min"), last_ms=("last_ms", "max")).loc[pod]
    named = zip(_names(sights, pod), sights.pods.pod_uid[pod], nodes, times.first_ms, times.last_ms, strict=len(pod) > 0)
    for name, uid, of_pod, first, last in named:
        evidence = f"kube_pod_info: uid {uid} is on the nodes {_some(of_pod.tolist())}; the later sample wins: {of_pod[-1]}"
        period = (from_ms(first), from_ms(last))
        yield Finding(Code.CONTRADICTING_INVENTORY, Severity.WARNING, name, evidence, period, len(of_pod))


def _ended_early(sights: PodSights) -> Iterator[Finding]:
    life = lives(sights)
    life = life[life.ended_early_ms.notna()]
    names = _names(sights, life.index.to_numpy(np.int64))
    for name, started, ended in zip(names, life.started_ms, life.ended_early_ms, strict=True):
        start, end = (from_ms(int(ms)).isoformat() for ms in (started, ended))
        evidence = f"the pod's end {end} lies before its start {start}; the end is not believed"
        yield Finding(Code.CONTRADICTING_INVENTORY, Severity.WARNING, name, evidence)


def _names(sights: PodSights, pods: Int64) -> list[str]:
    rows = sights.pods.iloc[pods]
    return [f"{namespace}/{pod}" for namespace, pod in zip(rows.namespace, rows.pod, strict=True)]


def _some(values: Sequence[str]) -> str:
    names = list(values)
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(names[:_TOLD]) + more
