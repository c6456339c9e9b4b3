"""What ``profile: auto`` chooses: on the real captures, and on combinations of exporters made up from their metric names."""

from pathlib import Path

import pytest

from pipelines.metric_sources.openmetrics_text import parse
from pipelines.metric_sources.profiles import PROFILES, Recognition, interesting, label_names, recognise

SNIPPETS = Path(__file__).parents[3] / "shared" / "data" / "metrics"
Series = list[tuple[str, dict[str, str]]]

DCGM: Series = [("DCGM_FI_DEV_FB_USED", {"UUID": "GPU-a", "gpu": "0", "Hostname": "n"})]
DCGM_PODS: Series = [("DCGM_FI_DEV_FB_USED", {"UUID": "GPU-a", "gpu": "0", "Hostname": "n", "exported_pod": "a"})]
HAMI_HOST: Series = [("HostGPUMemoryUsage", {"deviceuuid": "GPU-a"})]
HAMI: Series = [("hami_vgpu_memory_used_bytes", {"device_uuid": "GPU-a", "pod": "a"}), *HAMI_HOST]
RUNAI: Series = [("runai_pod_gpu_memory_used_bytes", {"pod_uuid": "u", "gpu": "0"})]
GKE: Series = [("memory_used", {"accelerator_id": "GPU-a", "pod": "a"})]
AWS: Series = [("container_gpu_memory_used", {"FullPodName": "a", "GpuDevice": "nvidia0", "ClusterName": "c"})]
AMD: Series = [("gpu_used_vram", {"gpu_id": "0", "card_model": "m", "pod": "a"})]
SMI: Series = [("nvidia_smi_memory_used_bytes", {"uuid": "1"})]
OTHERS: Series = [
    ("kube_pod_info", {"pod": "a"}),
    ("vllm:generation_tokens_total", {}),
    ("up", {}),
    ("memory_used", {"area": "heap"}),
]


def chosen(series: Series) -> Recognition:
    return recognise(label_names(series))


@pytest.mark.parametrize(
    ("series", "profiles", "pods", "device"),
    [
        (DCGM_PODS, ["dcgm"], ["dcgm"], ["dcgm"]),
        (DCGM, ["dcgm"], [], ["dcgm"]),
        (HAMI, ["hami"], ["hami"], ["hami"]),
        (HAMI_HOST, ["hami"], [], ["hami"]),
        (RUNAI, ["runai"], ["runai"], []),
        (GKE, ["gke"], ["gke"], ["gke"]),
        (AWS, ["aws-container-insights"], ["aws-container-insights"], ["aws-container-insights"]),
        (AMD, ["amd"], ["amd"], ["amd"]),
        (SMI, ["nvidia-smi"], [], ["nvidia-smi"]),
        (OTHERS, [], [], []),
        (DCGM_PODS + HAMI, ["hami", "dcgm"], ["hami"], ["dcgm"]),
        (DCGM + RUNAI, ["runai", "dcgm"], ["runai"], ["dcgm"]),
        (DCGM + HAMI_HOST, ["dcgm"], [], ["dcgm"]),
        (DCGM_PODS + GKE, ["dcgm"], ["dcgm"], ["dcgm"]),
        (DCGM + GKE, ["gke"], ["gke"], ["gke"]),
        (DCGM + SMI, ["dcgm"], [], ["dcgm"]),
        (DCGM_PODS + AMD + SMI, ["dcgm", "amd"], ["dcgm", "amd"], ["dcgm", "amd"]),
        (HAMI + AMD, ["hami", "amd"], ["hami", "amd"], ["hami", "amd"]),
        (HAMI + RUNAI + DCGM, ["hami", "dcgm"], ["hami"], ["dcgm"]),
    ],
)
def test_the_choice(series: Series, profiles: list[str], pods: list[str], device: list[str]) -> None:
    found = chosen(series)
    assert [list(names) for names in (found.profiles, found.pods, found.device)] == [profiles, pods, device]
    assert chosen(series[::-1]) == found
    assert chosen(series + OTHERS).profiles == found.profiles


def test_everything_seen_gets_a_sentence() -> None:
    found = chosen(DCGM_PODS + HAMI + SMI + [("runai_pod_gpu_utilization", {"gpu": "0"})] + OTHERS)
    assert [s.name for s in found.seen] == ["dcgm", "hami", "runai", "nvidia-smi"]
    assert [s.usable for s in found.seen] == [True, True, False, True]
    assert found.others == ("kube-state-metrics", "vllm")
    assert found.sentences == (
        "dcgm: read for the devices' own values, by DCGM_FI_DEV_FB_USED",
        "hami: read for pods' memory, by HostGPUMemoryUsage, hami_vgpu_memory_used_bytes",
        "runai: seen by runai_pod_gpu_utilization, but none of its memory metrics with labels of a device is there",
        "nvidia-smi: left out: hami and dcgm tell of the same devices, and it names no pods",
        "kube-state-metrics: seen; nodes and pods are read from it",
        "vllm: seen; a model server, whose counters can split a pod's cost over its models",
    )


def test_a_metric_of_another_meaning_is_not_used() -> None:
    dra = [("GPUDeviceMemoryLimit", {"deviceuuid": "GPU-a", "devicename": "hami-gpu-1"})]
    assert [(s.name, s.usable) for s in chosen(dra).seen] == [("hami", False)]
    assert chosen([("memory_used", {"area": "heap"}), ("gpu_clock", {"card": "x"})]).seen == ()


def test_labels_matter_only_for_the_interesting_names() -> None:
    series = DCGM_PODS + HAMI + GKE + AMD + OTHERS + [("gpu_clock", {"card_model": "m"}), ("hami_gpu_shared_count", {})]
    full = label_names(series)
    asked = interesting(full)
    assert asked == [
        "DCGM_FI_DEV_FB_USED",
        "HostGPUMemoryUsage",
        "gpu_clock",
        "gpu_used_vram",
        "hami_vgpu_memory_used_bytes",
        "memory_used",
    ]
    assert recognise({name: full[name] if name in asked else frozenset() for name in full}) == recognise(full)


def test_an_empty_label_is_an_absent_one() -> None:
    assert label_names([("m", {"pod": "", "a": "1"}), ("m", {"b": "2"})]) == {"m": frozenset({"a", "b"})}


CAPTURES = {
    "amd_device_metrics_exporter": ("amd", True),
    "dcgm_blank_sentinel": ("dcgm", False),
    "dcgm_idle_a100_40gb": ("dcgm", True),
    "dcgm_mig_a100_40gb": ("dcgm", True),
    "dcgm_pod_reservation_t4": ("dcgm", True),
    "hami_legacy_names": ("hami", True),
    "hami_new_names": ("hami", False),
    "kube_state_metrics": ("kube-state-metrics", False),
    "nvidia_gpu_exporter_h100_load": ("nvidia-smi", True),
    "nvidia_gpu_exporter_h200mig_load": ("nvidia-smi", True),
    "sglang": ("sglang", False),
    "vllm": ("vllm", False),
}


def capture(name: str) -> Series:
    """The series of a real capture, a timestamp put behind each sample."""
    if not SNIPPETS.is_dir():
        pytest.skip("the shared captures are not beside this checkout")
    lines = (SNIPPETS / f"{name}.prom").read_text(encoding="utf-8").splitlines()
    stamped = [line if line.startswith("#") or not line.strip() else f"{line} 1790812800" for line in lines]
    text = parse("\n".join([*stamped, "# EOF", ""]).encode(), name)
    return list(zip(text.metrics, text.labels, strict=True))


def test_no_capture_is_left_out() -> None:
    if not SNIPPETS.is_dir():
        pytest.skip("the shared captures are not beside this checkout")
    assert sorted(CAPTURES) == sorted(path.stem for path in SNIPPETS.glob("*.prom"))


@pytest.mark.parametrize("name", CAPTURES)
def test_each_real_capture_is_recognised(name: str) -> None:
    expected, usable = CAPTURES[name]
    found = chosen(capture(name))
    assert [s.name for s in found.seen] + list(found.others) == [expected]
    assert found.profiles == ((expected,) if usable else ())


def test_real_rows_name_device_instance_and_pod() -> None:
    dcgm, smi = PROFILES["dcgm"], PROFILES["nvidia-smi"]
    mig = [i for m, labels in capture("dcgm_mig_a100_40gb") for i, _ in dcgm.identify(m, labels, exported=False)]
    assert {(i.gpu_instance, i.mig_profile) for i in mig} == {("5", "2g.10gb"), ("7", "1g.5gb"), ("8", "1g.5gb"), ("9", "1g.5gb")}
    shared = [i for m, labels in capture("dcgm_pod_reservation_t4") for i, _ in dcgm.identify(m, labels, exported=False)]
    assert sorted((i.role, i.pod) for i in shared) == [
        ("free", ""),
        ("free", ""),
        ("pod_memory", "runai-reservation-gpu-qa-mig-worker-gpu-1-kvltw"),
        ("used", ""),
    ]
    h100 = [i for m, labels in capture("nvidia_gpu_exporter_h100_load") for i, _ in smi.identify(m, labels, exported=False)]
    assert sorted(i.role for i in h100) == ["free", "reserved", "total", "used"]
    assert {i.gpu_uuid for i in h100} == {"GPU-00000000-0000-0000-0000-000000000000"}
