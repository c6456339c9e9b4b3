"""HAMi: container memory as its CUDA hook counts it.

Sources: Project-HAMi/HAMi ``cmd/vGPUmonitor/metrics.go`` and ``cmd/scheduler/metrics.go``.
Old and new names of a metric are one family, since an upgrade may fall into the time that is read. The metric that has
sizes as label values (``Device_memory_desc_of_container``) is a sign and never read. ``GPUDeviceMemoryLimit`` of HAMi's DRA
driver counts MiB instead of bytes; its rows have the label ``devicename`` and are not read.
"""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule

_USED = "hami_vgpu_memory_used_bytes"
_LIMIT = "hami_vgpu_memory_limit_bytes"
_HOST = "hami_host_gpu_memory_used_bytes"
_TOTAL = "hami_gpu_memory_limit_bytes"
_NOT_DRA = {"devicename": ""}

HAMI = Profile(
    name="hami",
    level="container",
    vendor="nvidia",
    rules=(
        SeriesRule("pod_memory", _USED, "bytes"),
        SeriesRule("pod_memory", "vGPU_device_memory_usage_in_bytes", "bytes", family=_USED),
        SeriesRule("declared", _LIMIT, "bytes"),
        SeriesRule("declared", "vGPU_device_memory_limit_in_bytes", "bytes", family=_LIMIT),
        SeriesRule("used", _HOST, "bytes", includes_reserved=True),
        SeriesRule("used", "HostGPUMemoryUsage", "bytes", includes_reserved=True, family=_HOST),
        SeriesRule("total", _TOTAL, "bytes"),
        SeriesRule("total", "GPUDeviceMemoryLimit", "bytes", family=_TOTAL, where=_NOT_DRA),
    ),
    device=DeviceLabels(
        node=("nodeid", "nodename", "exported_node", "node"),
        gpu=("device_uuid", "deviceuuid"),
        model=("device_type", "devicetype"),
        address=("instance",),
        place=("device_index", "deviceidx"),
    ),
    holder=HolderLabels(namespace=("podnamespace", "namespace"), pod=("podname", "pod"), container=("ctrname", "container")),
    exported=HolderLabels(
        namespace=("podnamespace", "exported_namespace"),
        pod=("podname", "exported_pod"),
        container=("ctrname", "exported_container"),
    ),
    signs=(
        r"hami_.+",
        r"vGPU_?\w+",
        r"Device_(memory_desc|utilization_desc|last_kernel)_of_container",
        r"HostGPUMemoryUsage|HostCoreUtilization",
        r"GPUDevice(Memory|Core)(Limit|Allocated)|GPUDeviceSharedNum",
        r"nodeGPU(MemoryPercentage|Overview|MigInstance)",
    ),
)
