"""What pods asked for: GPU resources, memory or a part of a GPU, resource claims, and the group that shares a device.

Here does not belong what they held: that is measured.
"""

import re

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.inventory.node_facts import COUNTED
from pipelines.inventory.pod_sights import PodSights, latest
from pipelines.inventory.stretches import text_column

_ACCELERATOR = re.compile(r"(nvidia_com|amd_com|gpu_intel_com|volcano_sh_vgpu|k8s_amazonaws_com_vgpu|aliyun_com_gpu)(_\w+)?")
_MEMORY_MIB = ("nvidia_com_gpumem", "volcano_sh_vgpu_memory")
_MEMORY_PERCENT = ("nvidia_com_gpumem_percentage",)
_MOST_BYTES = 2.0**50
_GROUP = "label_runai_gpu_group"
"""The label that the pods of a shared device have, and their reservation pod; with several devices one label a group."""


def gpu_requests(sights: PodSights) -> pd.DataFrame:
    """Requests of accelerator resources: one row a ``pod``, ``container`` and ``resource``, with the last ``value`` (above 0)."""
    said = sights.of("kube_pod_container_resource_requests", "container", "resource")
    kinds = {name for name in said.resource.unique() if _ACCELERATOR.fullmatch(name)}
    said = said[said.resource.isin(kinds) & np.isfinite(said.value) & (said.value >= 0) & (said.value < 2.0**63)]
    said = said.sort_values(["last_ms", "first_ms", "value"]).drop_duplicates(["pod", "container", "resource"], keep="last")
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


def declared(sights: PodSights, requests: pd.DataFrame) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Memory per device in bytes, and part of a GPU, that each pod declares (NaN: nothing).

    An annotation goes before a request. A request is made per container and device, so of several containers the mean counts.
    """
    pods = len(sights.pods)
    said = sights.of("kube_pod_annotations", "annotation_gpu_memory", "annotation_gpu_fraction")
    memory = _number(latest(said, "annotation_gpu_memory", pods)).fillna(_mean(requests, _MEMORY_MIB, pods)) * 2**20
    fraction = _number(latest(said, "annotation_gpu_fraction", pods)).fillna(_mean(requests, _MEMORY_PERCENT, pods) / 100)
    return np.rint(memory.where((memory >= 1) & (memory < _MOST_BYTES))), fraction.where((fraction > 0) & (fraction <= 1))


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
