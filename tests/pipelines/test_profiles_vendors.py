"""What the rows of clouds' and schedulers' exporters, of AMD and of ``custom`` mean; made up and worked out by hand."""

import pytest

from pipelines.metric_sources.profiles import PROFILES, profile_of
from pipelines.metrics_entries import MetricsEntry
from tests.pipelines.test_profiles import BARE, MIB, RUNAI_USED, Meant, read

ACCELERATOR = {"make": "nvidia", "accelerator_id": f"GPU-{BARE}", "model": "Tesla T4"}
CLOUD_USED, CLOUD_TOTAL = "kubernetes_io:container_accelerator_memory_used", "kubernetes_io:container_accelerator_memory_total"
CLOUD_NODE = "kubernetes_io:node_accelerator_memory_used"
GKE_GPU = f"GPU-{BARE}"
CLOUD_POD = {"namespace_name": "ns", "pod_name": "a", "container_name": "main", "monitored_resource": "k8s_container"}
PLUGIN = {"namespace": "kube-system", "pod": "nvidia-gpu-device-plugin-x", "container": "nvidia-gpu-device-plugin"}
HELD = ("ns", "a", "", "main")


@pytest.mark.parametrize(
    ("metric", "labels", "exported", "expected"),
    [
        (
            "memory_used",
            {"namespace": "ns", "pod": "a", "container": "main", "node": "n1"},
            False,
            Meant("pod_memory", "memory_used", "n1", GKE_GPU, 1.0, HELD),
        ),
        (
            "memory_used",
            PLUGIN | {"exported_namespace": "ns", "exported_pod": "a", "exported_container": "main", "instance": "10.0.0.7:2112"},
            True,
            Meant("pod_memory", "memory_used", "10.0.0.7", GKE_GPU, 1.0, HELD),
        ),
        ("memory_used", PLUGIN, False, Meant("used", "memory_used", "", GKE_GPU, 1.0)),
        (
            "memory_used_gpu_node",
            {"node_name": "n1"},
            False,
            Meant("used", "memory_used", "n1", GKE_GPU, 1.0),
        ),
        ("memory_total", {"namespace": "ns", "pod": "a"}, False, Meant("total", "memory_total", "", GKE_GPU, 1.0)),
        ("memory_total_gpu_node", {"node_name": "n1"}, False, Meant("total", "memory_total", "n1", GKE_GPU, 1.0)),
        (CLOUD_USED, CLOUD_POD, False, Meant("pod_memory", CLOUD_USED, "", GKE_GPU, 1.0, HELD)),
        (
            "kubernetes.io/container/accelerator/memory_used",
            CLOUD_POD,
            False,
            Meant("pod_memory", CLOUD_USED, "", GKE_GPU, 1.0, HELD),
        ),
        (CLOUD_NODE, {"node_name": "n1"}, False, Meant("used", CLOUD_NODE, "n1", GKE_GPU, 1.0)),
        (CLOUD_TOTAL, CLOUD_POD, False, Meant("total", CLOUD_TOTAL, "", GKE_GPU, 1.0)),
    ],
)
def test_gke(metric: str, labels: dict[str, str], exported: bool, expected: Meant) -> None:
    assert read(PROFILES["gke"], metric, ACCELERATOR | labels, exported=exported) == [expected]


@pytest.mark.parametrize(
    "labels",
    [{"area": "heap", "pod": "a"}, {"accelerator_index": "0", "node_name": "n1"}],
    ids=["another's metric", "index only"],
)
def test_gke_rows_that_are_no_series(labels: dict[str, str]) -> None:
    assert read(PROFILES["gke"], "memory_used", labels) == []
    assert read(PROFILES["gke"], "memory_used_gpu_node", labels) == []


AWS = {"ClusterName": "prod", "GpuDevice": "nvidia0"}
AWS_NODE = AWS | {"NodeName": "n1", "InstanceId": "i-1", "InstanceType": "g5.xlarge"}
AWS_POD = AWS | {"Namespace": "ns", "PodName": "workload", "FullPodName": "a", "ContainerName": "main"}
AWS_USED, AWS_TOTAL = "node_gpu_memory_used", "node_gpu_memory_total"


@pytest.mark.parametrize(
    ("metric", "labels", "expected"),
    [
        ("container_gpu_memory_used", AWS_POD, Meant("pod_memory", AWS_USED, "", "nvidia0", 1.0, HELD)),
        ("container_gpu_memory_total", AWS_POD, Meant("total", AWS_TOTAL, "", "nvidia0", 1.0)),
        (AWS_USED, AWS_NODE, Meant("used", AWS_USED, "n1", "nvidia0", 1.0)),
        (AWS_TOTAL, AWS_NODE, Meant("total", AWS_TOTAL, "n1", "nvidia0", 1.0)),
    ],
)
def test_container_insights(metric: str, labels: dict[str, str], expected: Meant) -> None:
    assert read(PROFILES["aws-container-insights"], metric, labels) == [expected]
    device = PROFILES["aws-container-insights"].device_of(labels)
    assert device is not None
    assert (device.place, device.local) == ("0", True)


@pytest.mark.parametrize(
    ("metric", "labels"),
    [
        pytest.param("pod_gpu_memory_used", AWS_POD, id="the same value once more"),
        pytest.param("container_gpu_memory_used", {k: v for k, v in AWS_POD.items() if k != "GpuDevice"}, id="over devices"),
        pytest.param("container_gpu_memory_used", {k: v for k, v in AWS_POD.items() if k != "FullPodName"}, id="over pods"),
        pytest.param(AWS_USED, {"ClusterName": "prod"}, id="over nodes"),
        pytest.param("node_gpu_memory_utilization", AWS_NODE, id="percent"),
    ],
)
def test_container_insights_rows_that_are_no_series(metric: str, labels: dict[str, str]) -> None:
    assert read(PROFILES["aws-container-insights"], metric, labels) == []


RUNAI_POD = {"clusterId": "c", "pod_name": "a", "pod_namespace": "ns", "pod_uuid": "u", "node": "n1", "gpu": "3"}
RUNAI_INTERNAL = {"pod_uuid": "u", "gpu": "3", "pod": "runai-node-exporter-x", "namespace": "runai", "instance": "10.0.0.7:9400"}


def test_runai_published_and_internal_names() -> None:
    profile = PROFILES["runai"]
    published = Meant("pod_memory", RUNAI_USED, "n1", "3", MIB, ("ns", "a", "u", ""))
    internal = Meant("pod_memory", RUNAI_USED, "10.0.0.7", "3", 1.0, ("", "", "u", ""))
    assert read(profile, RUNAI_USED, RUNAI_POD) == [published]
    assert read(profile, "runai_pod_gpu_memory_used_bytes", RUNAI_INTERNAL) == [internal]
    for role in ("used", "total"):
        metric = f"runai_gpu_memory_{role}_mebibytes_per_gpu"
        assert read(profile, metric, {"clusterId": "c", "node": "n1", "gpu": "3"}) == [Meant(role, metric, "n1", "3", MIB)]
    device = profile.device_of(RUNAI_POD)
    assert device is not None
    assert (device.place, device.local) == ("3", True)


def test_runai_never_takes_the_scraped_pod_for_a_holder() -> None:
    without = {k: v for k, v in RUNAI_INTERNAL.items() if k != "pod_uuid"}
    assert read(PROFILES["runai"], "runai_pod_gpu_memory_used_bytes", without) == []
    assert read(PROFILES["runai"], "runai_gpu_memory_used_mebibytes_per_workload", RUNAI_POD) == []


AMD = {"gpu_id": "2", "card_model": "MI300X", "gpu_partition_id": "0", "gpu_compute_partition_type": "spx", "hostname": "n1"}
AMD_USED, AMD_TOTAL = "gpu_used_vram", "gpu_total_vram"


@pytest.mark.parametrize(
    ("metric", "labels", "exported", "expected"),
    [
        (AMD_USED, AMD | {"pod": "", "namespace": ""}, False, Meant("used", AMD_USED, "n1", "2", MIB)),
        (
            AMD_USED,
            AMD | {"pod": "a", "namespace": "ns", "container": "main", "pod_uuid": "u"},
            False,
            Meant("pod_memory", AMD_USED, "n1", "2", MIB, ("ns", "a", "u", "main")),
        ),
        (AMD_USED, AMD | {"pod": "default-metrics-exporter-x"}, False, Meant("used", AMD_USED, "n1", "2", MIB)),
        (
            AMD_USED,
            AMD | {"pod": "x", "namespace": "gpu", "exported_pod": "a", "exported_namespace": "ns", "exported_container": "main"},
            True,
            Meant("pod_memory", AMD_USED, "n1", "2", MIB, HELD),
        ),
        ("amd_gpu_used_vram", AMD, False, Meant("used", AMD_USED, "n1", "2", MIB)),
        (AMD_TOTAL, AMD | {"pod": "a"}, False, Meant("total", AMD_TOTAL, "n1", "2", MIB)),
        ("amd_gpu_total_vram", AMD, False, Meant("total", AMD_TOTAL, "n1", "2", MIB)),
        ("gpu_total_memory", {"GPU_UUID": BARE, "SERIAL_NUMBER": "1"}, False, Meant("total", AMD_TOTAL, "", BARE, MIB)),
        (AMD_USED, {"gpu_id": "2", "gpu_partition_id": "0", "hostname": "vm"}, False, Meant("used", AMD_USED, "vm", "2", MIB)),
    ],
)
def test_amd(metric: str, labels: dict[str, str], exported: bool, expected: Meant) -> None:
    assert read(PROFILES["amd"], metric, labels, exported=exported) == [expected]


@pytest.mark.parametrize(
    ("metric", "labels"),
    [("gpu_total_gtt", AMD), ("gpu_free_vram", AMD), (AMD_USED, {"gpu_id": "2"}), (AMD_USED, {"card_model": "MI300X"})],
)
def test_amd_rows_that_are_no_series(metric: str, labels: dict[str, str]) -> None:
    assert read(PROFILES["amd"], metric, labels) == []


@pytest.mark.parametrize(
    ("stated", "true_mib"),
    [(65520, 65520), (68702, 65520), (196592, 196592), (206141, 196592), (274861, 262128), (309221, 294896)],
)
def test_amd_totals_in_millions_of_bytes_are_told_by_their_size(stated: int, true_mib: int) -> None:
    """68702 million bytes are 65519.3 MiB: a 64 GiB card, so its values are to be read as millions of bytes."""
    read_as = stated * MIB
    assert read_as * PROFILES["amd"].scale(read_as) == pytest.approx(true_mib * MIB, rel=1e-4)


@pytest.mark.parametrize("mib", [0, 49152, 65520 * 1.004, 131072])
def test_other_totals_stay_what_they_are(mib: float) -> None:
    assert PROFILES["amd"].scale(mib * MIB) == 1.0
    assert PROFILES["dcgm"].scale(68702 * MIB) == 1.0


def test_a_custom_node_told_by_instance_loses_its_port() -> None:
    custom = {"pod_memory": {"metric": "m"}, "labels": {"node": "instance", "gpu": "uuid"}}
    entry = MetricsEntry.model_validate({"kind": "openmetrics", "path": "x", "profile": "custom", "custom": custom})
    rows = read(profile_of(entry, "prod"), "m", {"instance": "gpu-a:9100", "uuid": "1", "pod": "a"})
    assert [(row.node, row.gpu, row.holder) for row in rows] == [("gpu-a", "1", ("", "a", "", ""))]
