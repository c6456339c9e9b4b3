"""AMD device-metrics-exporter. Sources: ROCm/device-metrics-exporter ``docs/configuration`` and ``pkg/amdgpu/gpuagent``.

"MB" is MiB in current versions and millions of bytes in early ones (see ``Profile.scale``). ``gpu_free_vram`` is not read: it is
total less used, so it says nothing of a reserve. A device is told by ``gpu_id``, which counts partitions too; the ids of the
card (``gpu_uuid``, ``serial_number``) may be one for all its partitions.
"""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule

_USED, _TOTAL = "gpu_used_vram", "gpu_total_vram"

AMD = Profile(
    name="amd",
    level="device",
    vendor="amd",
    rules=(
        SeriesRule("pod_memory", _USED, "MiB", without_pod="used"),
        SeriesRule("pod_memory", "amd_gpu_used_vram", "MiB", without_pod="used", family=_USED),
        SeriesRule("total", _TOTAL, "MiB"),
        SeriesRule("total", "amd_gpu_total_vram", "MiB", family=_TOTAL),
        SeriesRule("total", "gpu_total_memory", "MiB", family=_TOTAL),
    ),
    device=DeviceLabels(
        node=("node", "nodename", "hostname", "HOSTNAME"),
        gpu=("GPU_UUID",),
        model=("card_series", "card_model", "CARD_MODEL"),
        address=("instance",),
        place=("gpu_id", "GPU_ID"),
    ),
    holder=HolderLabels(
        namespace=("namespace", "NAMESPACE"),
        pod=("pod", "POD"),
        pod_uid=("pod_uuid", "POD_UUID"),
        container=("container", "CONTAINER"),
    ),
    exported=HolderLabels(
        namespace=("exported_namespace", "NAMESPACE"),
        pod=("exported_pod", "POD"),
        pod_uid=("exported_pod_uuid", "pod_uuid", "POD_UUID"),
        container=("exported_container", "CONTAINER"),
    ),
    exporter_pod="metrics-exporter",
    signs=(
        r"(amd_)?gpu_(total|used|free)_(visible_)?(vram|gtt)",
        r"(amd_)?gpu_(clock|gfx_activity|umc_activity|package_power|average_package_power|total_memory|usage)",
    ),
    needs_labels=(
        "card_model",
        "card_series",
        "serial_number",
        "gpu_partition_id",
        "gpu_compute_partition_type",
        "CARD_MODEL",
        "SERIAL_NUMBER",
    ),
    decimal_totals_mib=(65520, 196592, 262128, 294896),
)
