"""The table ``pods``: who lived when and where, whose they are, and what they asked for.

Here belong a pod's identity, node and owner; its life is in `pod_lives`, its requests in `pod_requests`, the versions of its
labels in `pod_labels`. A pod that is no longer seen has not therefore ended: kube-state-metrics may be what is away.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import PODS, conform
from allocation.times import time_column
from pipelines.inventory.host_requests import requested
from pipelines.inventory.pod_labels import label_versions
from pipelines.inventory.pod_lives import lives
from pipelines.inventory.pod_requests import claims, declared, gpu_group, gpu_requests, request_maps, requested_gpus
from pipelines.inventory.pod_sights import PodSights, latest
from pipelines.inventory.sections import Inventory, Sections, sections_of
from pipelines.inventory.stretches import last_of, text_column

_NO_OWNER = ("", "<none>")
_VERSIONED = ("labels", "annotations", "namespace_labels")
_ROLLED_UP = {"ReplicaSet": ("kube_replicaset_owner", "replicaset"), "Job": ("kube_job_owner", "job_name")}
"""Kinds of owners that have an owner themselves: the series that names it, and its label for their own name."""


def build_pods(inventory: Inventory, *, with_requests: bool = False) -> pa.Table:
    """The table ``pods``: one row a pod and version of its labels, annotations and declared memory.

    What series without a uid say of a pod goes to the pod of that name which had come last when they were seen, as far as no
    series with its uid says it. Several replicas of kube-state-metrics say things once; where they disagree, the later sample
    wins.

    Args:
        inventory: the table ``inventory``, or its series.
        with_requests: tell what each asked for of CPU and memory, null otherwise.
    """
    sections = sections_of(inventory)
    sights = sections.once(PodSights)
    pods = sights.pods
    life, requests = lives(sights), gpu_requests(sights)
    kind, name = _owners(sights, sections)
    columns = {
        **{name: text_column(pods[name]) for name in ("namespace", "pod", "pod_uid")},
        "node": text_column(_nodes(sights)),
        "seen_from": time_column(pods.first_ms.to_numpy(np.int64)),
        "seen_until": time_column(pods.last_ms.to_numpy(np.int64)),
        "started_at": _moments(life.started_ms),
        "ended_at": _moments(life.ended_ms),
        "workload_kind": text_column(kind),
        "workload_name": text_column(name),
        "gpu_requests": request_maps(requests, len(pods)),
        "requested_gpus": pa.array(requested_gpus(requests, len(pods)), from_pandas=True),
        **_host_requests(sights, with_requests=with_requests),
        "gpu_group": text_column(gpu_group(sights)),
        "resource_claims": claims(sights, len(pods)),
    }
    versions, told = label_versions(sights, sections.of("kube_namespace_labels"))
    at = _together(versions, declared(sights, requests))
    of_pod, of_version = (pa.array(at[name].to_numpy(np.int64)) for name in ("pod", "version"))
    rows = {column: values.take(of_pod) for column, values in columns.items()}
    rows |= {"labels_from": time_column(at.from_ms.to_numpy(np.int64))}
    rows |= {name: content.take(of_version) for name, content in zip(_VERSIONED, told, strict=True)}
    rows["declared_memory_bytes"] = pa.array(at.declared_memory_bytes.astype("Int64"), pa.int64())
    rows["declared_fraction"] = pa.array(at.declared_fraction, from_pandas=True)
    return conform(pa.table(rows), PODS, source="inventory")


def _host_requests(sights: PodSights, *, with_requests: bool) -> dict[str, pa.Array]:
    silent = pd.Series(np.nan, sights.pods.index)
    cpu, memory = requested(sights) if with_requests else (silent, silent)
    return {
        name: pa.array(amount.astype("Int64"), pa.int64())
        for name, amount in (("requested_cpu_milli", cpu), ("requested_memory_bytes", memory))
    }


def _together(versions: pd.DataFrame, declared: pd.DataFrame) -> pd.DataFrame:
    """Versions of labels and of what is declared as one sequence a pod; ``version`` is the row of ``versions``."""
    versions = versions.assign(version=np.arange(len(versions)))
    moments = pd.concat([versions, declared])[["pod", "from_ms"]].drop_duplicates().sort_values(["from_ms", "pod"])
    for told in (versions, declared):
        moments = pd.merge_asof(moments, told.sort_values(["from_ms", "pod"]), on="from_ms", by="pod")
    return moments.sort_values(["pod", "from_ms"], ignore_index=True)


def _nodes(sights: PodSights) -> "pd.Series[str]":
    """Each pod's node; a pending pod's is not known yet."""
    told = latest(sights.of("kube_pod_info", "node"), "node", len(sights.pods))
    return told.fillna(latest(sights.of("kube_pod_container_resource_requests", "node"), "node", len(sights.pods)))


def _owners(sights: PodSights, sections: Sections) -> tuple["pd.Series[str]", "pd.Series[str]"]:
    """Kind and name of each pod's topmost known owner; the controller before other owners."""
    owned = sights.of("kube_pod_owner", "owner_kind", "owner_name", "owner_is_controller")
    made = sights.of("kube_pod_info", "created_by_kind", "created_by_name").rename(
        columns={"created_by_kind": "owner_kind", "created_by_name": "owner_name"}
    )
    ranked = pd.concat([made.assign(rank=0), owned.assign(rank=1 + (owned.owner_is_controller == "true"))], ignore_index=True)
    ranked = ranked[~ranked.owner_kind.isin(_NO_OWNER) & ~ranked.owner_name.isin(_NO_OWNER)]
    ranked = ranked[ranked["rank"] == ranked.groupby("pod")["rank"].transform("max")]
    ranked = last_of(ranked, "pod", ["last_ms", "first_ms", "owner_kind", "owner_name"])
    owner = ranked.set_index("pod")[["owner_kind", "owner_name"]].astype("object").reindex(range(len(sights.pods)))
    owner = owner.assign(namespace=sights.pods.namespace)
    for kind, (metric, label) in _ROLLED_UP.items():
        above = _above(sections, metric, label)
        found = owner.merge(above, how="left", left_on=["namespace", "owner_name"], right_on=["namespace", "name"])
        rolled = ((owner.owner_kind == kind) & found.kind_above.notna()).to_numpy(np.bool_)
        owner["owner_kind"] = owner.owner_kind.mask(rolled, found.kind_above.set_axis(owner.index))
        owner["owner_name"] = owner.owner_name.mask(rolled, found.name_above.set_axis(owner.index))
    return owner.owner_kind, owner.owner_name


def _above(sections: Sections, metric: str, label: str) -> pd.DataFrame:
    """The owners of ReplicaSets or Jobs: ``namespace``, ``name``, ``kind_above``, ``name_above``, one row a name."""
    series = sections.of(metric)
    names = {"namespace": "namespace", "name": label, "kind_above": "owner_kind", "name_above": "owner_name"}
    above = series.times().assign(**{column: series.label(of).astype("object") for column, of in names.items()})
    above = above[~above.kind_above.isin(_NO_OWNER) & ~above.name_above.isin(_NO_OWNER)]
    return last_of(above, ["namespace", "name"], ["last_ms", "first_ms", "kind_above", "name_above"])[list(names)]


def _moments(ms: "pd.Series[float]") -> pa.Array:
    there = ms.notna().to_numpy()
    return pc.if_else(pa.array(there), time_column(np.where(there, ms, 0).astype(np.int64)), None)
