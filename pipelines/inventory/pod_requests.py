"""What pods asked for: GPU resources, memory or a part of a GPU, resource claims, and the group that shares a device.

Here does not belong what they held: that is measured.
"""

import re

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.inventory.node_facts import COUNTED
from pipelines.inventory.pod_sights import PodSights, latest
from pipelines.inventory.stretches import last_of, text_column
from pipelines.inventory.timeline import changes

_ACCELERATOR = re.compile(r"(nvidia_com|amd_com|gpu_intel_com|volcano_sh_vgpu|k8s_amazonaws_com_vgpu|aliyun_com_gpu)(_\w+)?")
_MEMORY_MIB = ("nvidia_com_gpumem", "volcano_sh_vgpu_memory")
_MEMORY_PERCENT = ("nvidia_com_gpumem_percentage",)
_MOST_BYTES = 2.0**50
_ANNOTATIONS = ("annotation_gpu_memory", "annotation_gpu_fraction")
_TOLD_WITHIN_MS = 120_000
"""All series of a pod come with one scrape of kube-state-metrics; of another replica with a scrape or two."""
_GROUP = "label_runai_gpu_group"
"""The label that the pods of a shared device have, and their reservation pod; with several devices one label a group."""


def gpu_requests(sights: PodSights) -> pd.DataFrame:
    """Requests of accelerator resources: one row a ``pod``, ``container`` and ``resource``, with the last ``value`` (above 0)."""
    said = sights.of("kube_pod_container_resource_requests", "container", "resource")
    kinds = {name for name in said.resource.unique() if _ACCELERATOR.fullmatch(name)}
    said = said[said.resource.isin(kinds) & np.isfinite(said.value) & (said.value >= 0) & (said.value < 2.0**63)]
    said = last_of(said, ["pod", "container", "resource"], ["last_ms", "first_ms", "value"])
    return said[said.value > 0].sort_values(["pod", "resource", "container"], ignore_index=True)


def request_maps(requests: pd.DataFrame, pods: int) -> pa.Array:
    """Each pod's requests as a map from resource to the sum over its containers."""
    sums = requests.groupby(["pod", "resource"], as_index=False).value.sum()
    offsets = np.searchsorted(sums.pod.to_numpy(np.int64), np.arange(pods + 1)).astype(np.int32)
    return pa.MapArray.from_arrays(offsets, text_column(sums.resource), pa.array(sums.value, pa.float64()))


def requested_gpus(requests: pd.DataFrame, pods: int) -> "pd.Series[float]":
    """GPUs, instances and replicas that each pod asked for; NaN for none."""
    counted = {name for name in requests.resource.unique() if COUNTED.fullmatch(name)}
    return requests[requests.resource.isin(counted)].groupby("pod").value.sum().reindex(range(pods))


def declared(sights: PodSights, requests: pd.DataFrame) -> pd.DataFrame:
    """Memory per device and part of a GPU that pods declare, by time, in order: each holds until the pod's next row (R43).

    An annotation goes before a request. A request is made per container and device, so of several containers the mean counts.
    What is first told with the pod's first sight counts for the time before; an annotation that comes later counts from then on.

    Returns:
        ``pod``, ``from_ms`` (0 for the first), ``declared_memory_bytes``, ``declared_fraction`` (NaN: nothing).
    """
    pods = len(sights.pods)
    said = sights.of("kube_pod_annotations", *_ANNOTATIONS)
    content = said.groupby(list(_ANNOTATIONS), sort=True).ngroup()
    found = changes(*(column.to_numpy(np.int64) for column in (said.pod, said.first_ms, said.last_ms, content)))
    texts = said.iloc[found.stretch].reset_index(drop=True)
    first_sight = sights.pods.first_ms.to_numpy(np.int64)[found.group]
    began = ~found.group.duplicated() & (found.at_ms <= first_sight + _TOLD_WITHIN_MS)
    told = pd.DataFrame({"pod": found.group, "from_ms": found.at_ms.where(~began, 0)}).assign(
        memory=_number(texts[_ANNOTATIONS[0]]), fraction=_number(texts[_ANNOTATIONS[1]])
    )
    silent = pd.DataFrame({"pod": np.setdiff1d(np.arange(pods), told.pod[began]), "from_ms": 0})
    told = pd.concat([silent, told], ignore_index=True).sort_values(["pod", "from_ms"], kind="stable", ignore_index=True)
    memory = told.memory.astype("float64").fillna(told.pod.map(_mean(requests, _MEMORY_MIB, pods))) * 2**20
    fraction = told.fraction.astype("float64").fillna(told.pod.map(_mean(requests, _MEMORY_PERCENT, pods)) / 100)
    told = told[["pod", "from_ms"]].assign(
        declared_memory_bytes=np.rint(memory.where((memory >= 1) & (memory < _MOST_BYTES))),
        declared_fraction=fraction.where((fraction > 0) & (fraction <= 1)),
    )
    said = told[["pod", "declared_memory_bytes", "declared_fraction"]].fillna(0)
    return told[(said != said.shift()).any(axis=1)]


def _number(texts: "pd.Series[str]") -> "pd.Series[float]":
    """Plain decimal numbers above zero; NaN for anything else."""
    plain = texts.astype("str").str.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?") & texts.notna()
    numbers = pd.to_numeric(texts.where(plain.astype("bool"), None), errors="coerce").astype("float64")
    return numbers.where(numbers > 0)


def _mean(requests: pd.DataFrame, resources: tuple[str, ...], pods: int) -> "pd.Series[float]":
    return requests[requests.resource.isin(resources)].groupby("pod").value.mean().reindex(range(pods))


def gpu_group(sights: PodSights) -> "pd.Series[str]":
    """The group label of each pod; of several groups all names in order, with commas between; null for none."""
    series = sights.series["kube_pod_labels"]
    said = sights.of("kube_pod_labels", _GROUP)
    several = pd.Series(series.joined(f"{_GROUP}_").take(pa.array(said.row.to_numpy(np.int64))).to_pandas())
    return latest(said.assign(group=said[_GROUP].where(said[_GROUP] != "", several)), "group", len(sights.pods))


def claims(sights: PodSights, pods: int) -> pa.Array:
    """Names of the resource claims of each pod, in order; a claim that is not made yet has no name."""
    key = ["pod", "resourceclaim_name"]
    said = sights.of("kube_pod_resourceclaim_info", "resourceclaim_name")
    said = said[said.resourceclaim_name != ""].drop_duplicates(key).sort_values(key)
    offsets = np.searchsorted(said.pod.to_numpy(np.int64), np.arange(pods + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, text_column(said.resourceclaim_name))
