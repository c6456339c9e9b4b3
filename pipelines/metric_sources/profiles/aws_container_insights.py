"""AWS Container Insights, its dimensions as labels. Source: aws/amazon-cloudwatch-agent, sample configurations with GPUs.

The agent states one device value under three names (``container_``, ``pod_``, ``node_``): the first says who holds, the last is
the device's, the one between is a sign and never read. Rows of fewer dimensions are sums over devices and name none.
``PodName`` is the workload; the pod is ``FullPodName``.
"""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule

_USED, _TOTAL = "node_gpu_memory_used", "node_gpu_memory_total"

AWS_CONTAINER_INSIGHTS = Profile(
    name="aws-container-insights",
    level="device",
    vendor="nvidia",
    rules=(
        SeriesRule("pod_memory", "container_gpu_memory_used", "bytes", family=_USED),
        SeriesRule("used", _USED, "bytes"),
        SeriesRule("total", _TOTAL, "bytes"),
        SeriesRule("total", "container_gpu_memory_total", "bytes", family=_TOTAL),
    ),
    device=DeviceLabels(node=("NodeName",), gpu=(), place=("GpuDevice",)),
    holder=HolderLabels(namespace=("Namespace",), pod=("FullPodName",), container=("ContainerName",)),
    signs=(r"(container|pod|node)_gpu_.+",),
    needs_labels=("ClusterName", "NodeName", "FullPodName"),
)
