"""Doctor's look at kube-state-metrics: do its series say what nodes and owners need, and which flag is missing if not."""

from collections.abc import Iterable, Sequence

from allocation.owner_values import label_spellings
from pipelines.checks import Check, Status, count
from pipelines.metric_sources.base import InfoSeries
from pipelines.owner_entries import OwnersEntry
from pipelines.settings import ClusterEntry

_FIELDS = ("team", "model", "cost_center")
_SORTS = {
    "label": ("kube_pod_labels", "label_", "--metric-labels-allowlist=pods"),
    "annotation": ("kube_pod_annotations", "annotation_", "--metric-annotations-allowlist=pods"),
    "namespace_label": ("kube_namespace_labels", "label_", "--metric-labels-allowlist=namespaces"),
}


def check_inventory(cluster: ClusterEntry, series: Sequence[InfoSeries], where: str) -> list[Check]:
    """Whether machines and pods are known by their series, or machines by the configuration."""
    metrics = {s.metric for s in series}
    name = f"inventory {cluster.name}"
    machines = {s.labels.get("node") for s in series if s.metric == "kube_node_info" and s.labels.get("provider_id")}
    if machines:
        return [Check(name, Status.OK, f"kube_node_info names the machines of {count(len(machines), 'node', 'nodes')}", where)]
    listed = [node.name for node in cluster.nodes if node.provider_id]
    if listed:
        return [Check(name, Status.OK, f"nodes: names the machines of {count(len(listed), 'node', 'nodes')}", where)]
    there = "kube_node_info has no provider_id" if "kube_node_info" in metrics else "there is no kube_node_info"
    todo = f"Scrape kube-state-metrics into this source, or list the nodes with provider_id under clusters.{cluster.name}.nodes."
    return [Check(name, Status.WARN, f"{there}, so nodes join the bill by their own names only", where, todo)]


def check_labels(
    cluster: str, owners: OwnersEntry, series: Sequence[InfoSeries], where: str, mapped: Sequence[str] = ()
) -> list[Check]:
    """For labels and for annotations that owners need: which are exported, and the exact flag for those that are not.

    ``mapped`` are the sources by which the mapping file tells pods apart.
    """
    return [check for sort in _SORTS for check in _check(sort, cluster, needed(owners, sort, mapped), series, where)]


def needed(owners: OwnersEntry, sort: str, mapped: Sequence[str] = ()) -> list[list[str]]:
    """Groups of label (or annotation) keys of which one at least must be exported.

    A field's list is one group, each key of a rule and each key column of the mapping file is one of its own.
    """
    lists = [getattr(owners, name) for name in _FIELDS] + [
        [source] for rule in owners.rules for source in {**rule.match, **rule.match_regex}
    ]
    lists += [[source] for source in mapped]
    groups = [[key for kind, _, key in (s.partition(":") for s in sources) if kind == sort and key] for sources in lists]
    return [group for group in groups if group]


def _check(sort: str, cluster: str, groups: Sequence[Sequence[str]], series: Sequence[InfoSeries], where: str) -> list[Check]:
    if not groups:
        return []
    metric, prefix, flag = _SORTS[sort]
    mine = [s for s in series if s.metric == metric]
    exported = {name.removeprefix(prefix) for s in mine for name in s.labels if name.startswith(prefix)}
    keys = list(dict.fromkeys(key for group in groups for key in group))
    seen = [key for key in keys if exported.intersection(label_spellings(key))]
    absent = [key for key in keys if key not in seen]
    lacking = any(not set(group).intersection(seen) for group in groups)
    what = _told(metric, sort, there=bool(mine), exported=exported, seen=seen, absent=absent)
    subject = "namespace" if sort == "namespace_label" else "pod"
    todo = f"Start kube-state-metrics with {flag}=[{','.join(keys)}], unless no {subject} has them." if lacking else ""
    return [Check(f"{sort}s {cluster}", Status.WARN if lacking else Status.OK, what, where, todo)]


def _told(metric: str, sort: str, *, there: bool, exported: Iterable[str], seen: Sequence[str], absent: Sequence[str]) -> str:
    if not there:
        return f"owners need {', '.join(absent)}, and there are no series {metric}"
    if not any(exported):
        whose, what = ("namespaces", "label") if sort == "namespace_label" else ("pods", sort)
        return f"owners need {', '.join(absent)}, and {metric} names {whose} but exports no {what} of them"
    parts = [f"exported: {', '.join(seen)}"] if seen else []
    parts += [f"on no pod: {', '.join(absent)}"] if absent else []
    return "; ".join(parts)
