"""GKE's device plugin, scraped raw or read through Cloud Monitoring.

Source: GoogleCloudPlatform/container-engine-accelerators ``pkg/gpu/nvidia/metrics/metrics.go``.
A container's row repeats the device's value, which includes what the driver reserves. Rows of versions that give only
``accelerator_index`` are not read: nothing tells which of the ids on the node they mean.
"""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule

_USED, _TOTAL = "memory_used", "memory_total"
_CLOUD_USED = "kubernetes_io:container_accelerator_memory_used"
_CLOUD_TOTAL = "kubernetes_io:container_accelerator_memory_total"
_CLOUD_NODE_USED = "kubernetes_io:node_accelerator_memory_used"


def _pods(metric: str, family: str = "") -> SeriesRule:
    return SeriesRule("pod_memory", metric, "bytes", without_pod="used", family=family)


def _used(metric: str, family: str = "") -> SeriesRule:
    return SeriesRule("used", metric, "bytes", family=family)


def _total(metric: str, family: str = "") -> SeriesRule:
    return SeriesRule("total", metric, "bytes", family=family)


GKE = Profile(
    name="gke",
    level="device",
    vendor="nvidia",
    rules=(
        _pods(_USED),
        _used("memory_used_gpu_node", _USED),
        _total(_TOTAL),
        _total("memory_total_gpu_node", _TOTAL),
        _pods(_CLOUD_USED),
        _pods("kubernetes.io/container/accelerator/memory_used", _CLOUD_USED),
        _used(_CLOUD_NODE_USED),
        _used("kubernetes.io/node/accelerator/memory_used", _CLOUD_NODE_USED),
        _total(_CLOUD_TOTAL),
        _total("kubernetes.io/container/accelerator/memory_total", _CLOUD_TOTAL),
        _total("kubernetes_io:node_accelerator_memory_total", _CLOUD_TOTAL),
        _total("kubernetes.io/node/accelerator/memory_total", _CLOUD_TOTAL),
    ),
    device=DeviceLabels(
        node=("node_name", "exported_node", "node", "nodename"),
        gpu=("accelerator_id",),
        model=("model",),
        address=("instance",),
    ),
    holder=HolderLabels(
        namespace=("namespace_name", "namespace"), pod=("pod_name", "pod"), container=("container_name", "container")
    ),
    exported=HolderLabels(
        namespace=("namespace_name", "exported_namespace"),
        pod=("pod_name", "exported_pod"),
        container=("container_name", "exported_container"),
    ),
    exporter_pod="nvidia-gpu-device-plugin",
    uuid_prefix="GPU-",
    signs=(
        r"(memory_used|memory_total|duty_cycle)(_gpu_node)?",
        r"kubernetes_io:(container|node)_accelerator_.+",
        r"kubernetes\.io/(container|node)/accelerator/.+",
    ),
    needs_labels=("accelerator_id", "accelerator_index"),
)
