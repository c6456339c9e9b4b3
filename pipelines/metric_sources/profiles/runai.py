"""Run:ai: each pod's own memory by GPU.

Sources: run-ai/docs ``docs/developer/metrics/metrics.md`` (published names), run-ai/fake-gpu-operator (the node exporter's own).
The plain ``pod`` label of a scraped row is the exporter's and is never read. The node exporter's rows name the pod by uid
alone. GPUs are numbered on their node.
"""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule

_USED = "runai_gpu_memory_used_mebibytes_per_pod_per_gpu"

RUNAI = Profile(
    name="runai",
    level="container",
    vendor="nvidia",
    rules=(
        SeriesRule("pod_memory", _USED, "MiB"),
        SeriesRule("pod_memory", "runai_pod_gpu_memory_used_bytes", "bytes", family=_USED),
        SeriesRule("used", "runai_gpu_memory_used_mebibytes_per_gpu", "MiB"),
        SeriesRule("total", "runai_gpu_memory_total_mebibytes_per_gpu", "MiB"),
    ),
    device=DeviceLabels(node=("exported_node", "node", "nodename"), gpu=(), address=("instance",), place=("exported_gpu", "gpu")),
    holder=HolderLabels(namespace=("pod_namespace",), pod=("pod_name",), pod_uid=("pod_uuid",)),
    holder_by_uid=True,
    uuid_prefix="GPU-",
    signs=(r"runai_.*gpu.*",),
)
