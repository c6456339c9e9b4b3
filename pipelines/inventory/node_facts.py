"""What Kubernetes says of a node's hardware: its labels at a time, and its capacity.

Labels are those of NVIDIA's GPU feature discovery, of Karpenter and of GKE, as kube-state-metrics spells them. Here does not
belong what the configuration or the catalogue says, which go before.
"""

import re

import numpy as np
import pandas as pd

from pipelines.inventory.sections import Sections

COUNTED = re.compile(
    r"nvidia_com_(gpu(_shared)?|mig_\w+)|amd_com_(gpu|\w+_nps\d)|gpu_intel_com_(xe|i915)"
    r"|volcano_sh_vgpu_number|k8s_amazonaws_com_vgpu"
)
"""Resources whose amount counts whole GPUs, MIG instances or shared replicas, as kube-state-metrics spells them."""
_TEXTS = {
    "instance_type": ("label_node_kubernetes_io_instance_type", "label_beta_kubernetes_io_instance_type"),
    "gpu_product": (
        "label_nvidia_com_gpu_product",
        "label_amd_com_gpu_product_name",
        "label_karpenter_k8s_aws_instance_gpu_name",
        "label_cloud_google_com_gke_accelerator",
    ),
    "sharing_strategy": ("label_nvidia_com_gpu_sharing_strategy", "label_cloud_google_com_gke_gpu_sharing_strategy"),
    "mig_strategy": ("label_nvidia_com_mig_strategy",),
}
_COUNTS = {
    "gpus": (
        "label_nvidia_com_gpu_count",
        "label_karpenter_k8s_aws_instance_gpu_count",
        "label_cloud_google_com_gke_accelerator_count",
    ),
    "gpu_memory_mib": ("label_nvidia_com_gpu_memory", "label_karpenter_k8s_aws_instance_gpu_memory"),
    "gpu_replicas": ("label_nvidia_com_gpu_replicas",),
}
_MOST = {"gpus": 1000.0, "gpu_memory_mib": 2.0**30, "gpu_replicas": 1e6}


def facts_at(stays: pd.DataFrame, sections: Sections) -> pd.DataFrame:
    """What the labels say of each stay: those that came last before its end.

    Args:
        stays: ``node``, ``until_ms``.
        sections: the inventory.

    Returns:
        A row a stay: ``instance_type``, ``gpu_product``, ``sharing_strategy``, ``mig_strategy`` (text or null), ``gpus``,
        ``gpu_memory_bytes``, ``gpu_replicas`` (NaN where unknown).
    """
    labels = sections.of("kube_node_labels")
    said = labels.times().assign(node=labels.label("node"))
    for name, spellings in _TEXTS.items():
        said[name] = labels.label(*spellings).astype("object").replace("", None)
    for name, spellings in _COUNTS.items():
        said[name] = _number(labels.label(*spellings), _MOST[name])
    partitioned = said.gpu_product.fillna("").astype("str").str.contains("-MIG-", regex=False)
    said.loc[partitioned, ["gpus", "gpu_memory_mib"]] = np.nan  # strategy `single`: the labels describe the instances
    said = said.sort_values(["first_ms", "last_ms", *_TEXTS, *_COUNTS], na_position="first")
    asked = stays[["node", "until_ms"]].assign(place=np.arange(len(stays))).sort_values("until_ms")
    asked["node"], said["node"] = asked.node.astype("str"), said.node.astype("str")
    said = said.drop(columns=["last_ms", "value"]).rename(columns={"first_ms": "until_ms"})
    found = pd.merge_asof(asked, said, on="until_ms", by="node", allow_exact_matches=False)
    found = found.sort_values("place", ignore_index=True)
    return found.assign(gpu_memory_bytes=found.gpu_memory_mib * 2**20)


def _number(texts: "pd.Series[str]", most: float) -> "pd.Series[float]":
    """Whole numbers above zero; NaN for anything else."""
    plain = texts.where(texts.str.fullmatch(r"[0-9]{1,15}").astype("bool"), None)
    numbers = pd.to_numeric(plain, errors="coerce").astype("float64")
    return numbers.where((numbers > 0) & (numbers <= most))


def capacity(sections: Sections) -> "pd.Series[float]":
    """GPU resources of each node name that reports its capacity at all (0: it has none), of several resources the largest."""
    series = sections.of("kube_node_status_capacity")
    resource = series.label("resource")
    counted = {name for name in resource.unique() if COUNTED.fullmatch(name)}
    said = series.times().assign(node=series.label("node"))
    said = said[(said.node != "") & np.isfinite(said.value)]
    amount = said.value.where(resource[said.index].isin(counted), 0.0).clip(0, 1e6)
    return np.floor(amount.groupby(said.node).max())
