"""Doctor's look at the join: which nodes have both series and bill lines, and which only one of them.

Joined as a run joins them: by machine, over all clusters. Here do not belong money or samples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from allocation.machines import GPU_FAMILIES
from allocation.schemas import TIME
from allocation.split_rows import PROVIDER_SPLIT
from pipelines.cards import models_by_node
from pipelines.checks import Check, Status, count, some
from pipelines.checks_metrics import SeriesSeen
from pipelines.inventory import InstanceType, build_nodes, instance_types
from pipelines.metric_sources.base import Window
from pipelines.settings import ClusterEntry

_NO_SERIES = "Roll the exporter out to them and have it scraped; until then their cost is unallocated."
_NO_LINES = (
    "Check that the export holds their account, and that provider ids name the bill's resources (else set provider_id in nodes:)."
)
_TWO_HOMES = "Take it out of one of them: by nodes: or by the series' match labels."
_NO_NODE = "Add their cluster, or their ids to nodes:; until then their cost stands outside."


@dataclass(frozen=True)
class ClusterNodes:
    """A cluster's machines in its window: node name by join key, and the names whose devices have samples."""

    cluster: ClusterEntry
    window: Window
    machines: Mapping[str, str]
    with_series: frozenset[str]
    without_gpu: frozenset[str]
    table: pa.Table
    """Those machines as the table ``nodes`` has them."""
    models: Mapping[str, str]
    """The GPU models that series name on each node, one a line."""


def nodes_of(
    cluster: ClusterEntry, seen: Sequence[SeriesSeen], max_hold_ms: int, types: Mapping[str, InstanceType]
) -> ClusterNodes:
    """The machines that the cluster's sources and ``nodes:`` tell of."""
    names = frozenset().union(*(s.nodes for s in seen))
    series = [info for s in seen for info in s.inventory]
    window = Window(min(s.window.start for s in seen), max(s.window.end for s in seen))
    table = build_nodes(series, cluster.nodes, names, max_hold_ms, types)
    alive = pc.and_(
        pc.less(table["alive_from"], pa.scalar(window.end, TIME)),
        pc.greater(table["alive_until"], pa.scalar(window.start, TIME)),
    )
    there = table.filter(alive)
    rows = there.select(["node_key", "node", "gpus", "gpu_resources"]).to_pylist()
    machines = {row["node_key"]: row["node"] for row in rows}
    empty = frozenset(row["node"] for row in rows if row["gpu_resources"] == 0 and not row["gpus"])
    return ClusterNodes(
        cluster,
        window,
        machines,
        names,
        empty - names,
        there,
        models_by_node(sorted(frozenset().union(*(s.models for s in seen)))),
    )


def billed_machines(bills: Iterable[pa.Table], window: Window) -> dict[str, bool]:
    """The keys that usage lines touching the window name as machines; True for types that carry GPUs."""
    columns = ["node_key", "instance_type"]
    found: dict[str, bool] = {}
    for lines in bills:
        touching = pc.and_(
            pc.less(lines["charge_period_start"], pa.scalar(window.end, TIME)),
            pc.greater(lines["charge_period_end"], pa.scalar(window.start, TIME)),
        )
        rule = lines["scope_rule"]
        in_scope = pc.and_(pc.or_kleene(pc.is_null(rule), pc.equal(rule, PROVIDER_SPLIT)), pc.is_valid(lines["node_key"]))
        usage = pc.and_(in_scope, pc.equal(lines["charge_category"], "Usage"))
        pairs = lines.filter(pc.and_(touching, usage)).select(columns).group_by(columns).aggregate([])
        for key, kind in zip(pairs["node_key"].to_pylist(), pairs["instance_type"].to_pylist(), strict=True):
            found[key] = found.get(key, False) or kind in instance_types() or bool(GPU_FAMILIES.match(kind or ""))
    return found


def check_join(nodes: ClusterNodes, billed: Mapping[str, bool], where: str) -> list[Check]:
    """The join of one cluster, both ways."""
    name = f"nodes {nodes.cluster.name}"
    on_bill = {node for key, node in nodes.machines.items() if key in billed}
    joined = on_bill & nodes.with_series
    silent = on_bill - nodes.with_series - nodes.without_gpu
    unbilled = nodes.with_series - on_bill
    checks = [_joined(name, joined, nodes, where)]
    if silent:
        checks.append(Check(name, Status.WARN, f"on the bill, without series: {some(silent)}", where, _NO_SERIES))
    if unbilled:
        keys = {key for key, node in nodes.machines.items() if node in unbilled}
        told = f"with series, on no bill line: {some(unbilled)} (machines {some(keys)})"
        checks.append(Check(name, Status.WARN, told, where, _NO_LINES))
    return checks


def _joined(name: str, joined: set[str], nodes: ClusterNodes, where: str) -> Check:
    names = f": {some(joined)}" if joined else ""
    told = f"on the bill: {len(joined)} of {count(len(nodes.with_series), 'node', 'nodes')} with series{names}"
    if joined:
        return Check(name, Status.OK, told, where)
    if not nodes.with_series:
        return Check(name, Status.FAIL, "no node has series, so none can be joined", where, "See the checks of metrics.")
    return Check(name, Status.FAIL, told, where, _NO_LINES)


def check_claims(clusters: Sequence[ClusterNodes]) -> list[Check]:
    """Machines that two clusters call their own: a run refuses them, since their cost would be charged twice."""
    homes: dict[str, list[str]] = {}
    for nodes in clusters:
        for key in nodes.machines:
            homes.setdefault(key, []).append(nodes.cluster.name)
    return [
        Check("nodes claims", Status.FAIL, f"{key} is a node of the clusters {some(names)}", "clusters", _TWO_HOMES)
        for key, names in sorted(homes.items())
        if len(names) > 1
    ]


def check_strangers(clusters: Sequence[ClusterNodes], billed: Mapping[str, bool], where: str) -> list[Check]:
    """Machines of the bill that are no node of any cluster: those with GPUs are a warning, others are told."""
    known = {key for nodes in clusters for key in nodes.machines}
    strangers = {key: gpu for key, gpu in billed.items() if key not in known}
    with_gpu = {key for key, gpu in strangers.items() if gpu}
    checks = []
    if with_gpu:
        told = f"GPU machines on the bill that are no node of any cluster: {some(with_gpu)}"
        checks.append(Check("nodes bill", Status.WARN, told, where, _NO_NODE))
    rest = strangers.keys() - with_gpu
    if rest:
        told = f"other machines on the bill that are no node of any cluster: {some(rest)}"
        checks.append(Check("nodes bill", Status.OK, told, where))
    return checks
