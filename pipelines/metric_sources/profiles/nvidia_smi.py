"""nvidia_gpu_exporter: a device's own values, no pods. Source: utkuozdemir/nvidia_gpu_exporter ``docs/METRICS.md``.

Process rows name a process id and no pod, so they are not read.
"""

from pipelines.metric_sources.profiles.base import DeviceLabels, Profile, SeriesRule

_ROLES = ("used", "free", "reserved", "total")

NVIDIA_SMI = Profile(
    name="nvidia-smi",
    level="device",
    vendor="nvidia",
    rules=(
        *(SeriesRule(role, f"nvidia_smi_memory_{role}_bytes", "bytes") for role in _ROLES),
        *(SeriesRule(role, f"nvidia_smi_mig_memory_{role}_bytes", "bytes") for role in _ROLES),
    ),
    device=DeviceLabels(
        node=("node", "nodename", "hostname"), gpu=("uuid",), instance=("gpu_instance_id",), address=("instance",)
    ),
    uuid_prefix="GPU-",
    signs=(r"nvidia_smi_.+",),
)
