"""NVIDIA dcgm-exporter. Sources: NVIDIA/dcgm-exporter ``etc/default-counters.csv`` and ``internal/pkg/transformation``."""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule

DCGM = Profile(
    name="dcgm",
    level="device",
    vendor="nvidia",
    rules=(
        SeriesRule("pod_memory", "DCGM_FI_DEV_FB_USED", "MiB", without_pod="used"),
        SeriesRule("free", "DCGM_FI_DEV_FB_FREE", "MiB"),
        SeriesRule("reserved", "DCGM_FI_DEV_FB_RESERVED", "MiB"),
        SeriesRule("total", "DCGM_FI_DEV_FB_TOTAL", "MiB"),
    ),
    device=DeviceLabels(
        node=("node", "nodename", "Hostname", "hostname", "dra_pool_name"),
        gpu=("UUID", "uuid"),
        instance=("GPU_I_ID",),
        profile=("GPU_I_PROFILE",),
        model=("modelName",),
        address=("instance",),
        place=("gpu",),
    ),
    holder=HolderLabels(
        namespace=("namespace", "pod_namespace"),
        pod=("pod", "pod_name"),
        pod_uid=("pod_uid",),
        container=("container", "container_name"),
    ),
    exported=HolderLabels(
        namespace=("exported_namespace", "namespace", "pod_namespace"),
        pod=("exported_pod",),
        pod_uid=("exported_pod_uid", "pod_uid"),
        container=("exported_container", "container", "container_name"),
    ),
    exporter_pod="dcgm-exporter",
    uuid_prefix="GPU-",
    signs=(r"DCGM_(FI|EXP)_.+",),
)
