"""What the rows of each exporter mean: the row shapes that its documentation and source state, made up and worked out by hand.

The real captures that licences allow are read in ``test_profiles_recognise``.
"""

from typing import NamedTuple

import pytest

from pipelines.metric_sources.profiles import PROFILES, Profile, profile_of
from pipelines.metric_sources.profiles.base import DeviceLabels
from pipelines.metrics_entries import MetricsEntry

MIB = 2.0**20
DCGM_USED = "DCGM_FI_DEV_FB_USED"
HAMI_USED, HAMI_LIMIT = "hami_vgpu_memory_used_bytes", "hami_vgpu_memory_limit_bytes"
HAMI_HOST, HAMI_TOTAL = "hami_host_gpu_memory_used_bytes", "hami_gpu_memory_limit_bytes"
RUNAI_USED = "runai_gpu_memory_used_mebibytes_per_pod_per_gpu"
BARE = "6699c0a8-4200-4242-037f-f97e6cae0f09"


class Meant(NamedTuple):
    """What a row should say: as ``Identity``, without level, profile and model, and the bytes of its unit."""

    role: str
    family: str
    node: str
    gpu: str
    unit: float
    holder: tuple[str, str, str, str] = ("", "", "", "")
    instance: str = ""
    reserved: bool = False


def read(profile: Profile, metric: str, labels: dict[str, str], *, exported: bool = False) -> list[Meant]:
    """What a profile makes of a row."""
    found = []
    for i, unit in profile.identify(metric, labels, exported=exported):
        holder = (i.namespace, i.pod, i.pod_uid, i.container)
        found.append(Meant(i.role, i.metric, i.node, i.gpu_uuid, unit, holder, i.gpu_instance, i.includes_reserved))
    return found


DCGM_DEVICE = {"gpu": "1", "UUID": "GPU-a", "device": "nvidia1", "modelName": "Tesla T4"}
DCGM_POD = {"namespace": "ns", "pod": "a", "container": "main"}


@pytest.mark.parametrize(
    ("labels", "exported", "node", "holder"),
    [
        pytest.param({"Hostname": "n1"}, False, "n1", None, id="device row"),
        pytest.param({"hostname": "n1", "container": "", "pod": ""}, False, "n1", None, id="new label, empty is absent"),
        pytest.param({"Hostname": "n1", **DCGM_POD}, False, "n1", ("ns", "a", "", "main"), id="exclusive"),
        pytest.param({"Hostname": "n1", **DCGM_POD, "vgpu": "2"}, False, "n1", ("ns", "a", "", "main"), id="virtual GPU"),
        pytest.param(
            {"hostname": "n1", **DCGM_POD, "vgpu": "0", "pod_uid": "u"}, False, "n1", ("ns", "a", "u", "main"), id="per process"
        ),
        pytest.param(
            {"Hostname": "n1", "pod_namespace": "ns", "pod_name": "a", "container_name": "main"},
            False,
            "n1",
            ("ns", "a", "", "main"),
            id="old namespace",
        ),
        pytest.param(
            {**DCGM_POD, "dra_claim_name": "c", "dra_driver_name": "gpu.nvidia.com", "dra_pool_name": "n1"},
            False,
            "n1",
            ("ns", "a", "", "main"),
            id="DRA",
        ),
        pytest.param(
            {"Hostname": "n1", "namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x", "container": "nvidia-dcgm-exporter"},
            False,
            "n1",
            None,
            id="the exporter's own labels",
        ),
        pytest.param(
            {
                "node": "n1",
                "Hostname": "exporter-pod",
                "namespace": "gpu-operator",
                "pod": "x",
                "exported_namespace": "ns",
                "exported_pod": "a",
                "exported_container": "main",
                "exported_pod_uid": "u",
            },
            True,
            "n1",
            ("ns", "a", "u", "main"),
            id="exported",
        ),
        pytest.param({"instance": "10.0.0.7:9400", "pod": "x"}, True, "10.0.0.7", None, id="address only"),
    ],
)
def test_dcgm_used(labels: dict[str, str], exported: bool, node: str, holder: tuple[str, str, str, str] | None) -> None:
    role = "pod_memory" if holder else "used"
    expected = Meant(role, DCGM_USED, node, "GPU-a", MIB, holder or ("", "", "", ""))
    assert read(PROFILES["dcgm"], DCGM_USED, DCGM_DEVICE | labels, exported=exported) == [expected]


def test_dcgm_instances_are_told_by_parent_and_instance_id() -> None:
    labels = {"uuid": BARE, "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.5gb", "Hostname": "n1"}
    for role in ("free", "reserved", "total"):
        metric = f"DCGM_FI_DEV_FB_{role.upper()}"
        assert read(PROFILES["dcgm"], metric, labels) == [Meant(role, metric, "n1", f"GPU-{BARE}", MIB, instance="7")]


HAMI_OLD = {"deviceuuid": "GPU-a", "zone": "vGPU"}
HAMI_NEW = {"device_uuid": "GPU-a", "zone": "vGPU"}
HAMI_OLD_POD = {"podnamespace": "ns", "podname": "a", "ctrname": "main", "vdeviceid": "0", **HAMI_OLD}
HAMI_NEW_POD = {"namespace": "ns", "pod": "a", "container": "main", "vdevice_index": "0", **HAMI_NEW}
SCRAPED = {"namespace": "kube-system", "pod": "hami-device-plugin-x", "container": "vgpu-monitor"}
EXPORTED = {"exported_namespace": "ns", "exported_pod": "a", "exported_container": "main"}
HELD = ("ns", "a", "", "main")


@pytest.mark.parametrize(
    ("metric", "labels", "exported", "expected"),
    [
        (HAMI_USED, HAMI_NEW_POD, False, Meant("pod_memory", HAMI_USED, "", "GPU-a", 1.0, HELD)),
        (HAMI_USED, HAMI_NEW | SCRAPED | EXPORTED, True, Meant("pod_memory", HAMI_USED, "", "GPU-a", 1.0, HELD)),
        (
            "vGPU_device_memory_usage_in_bytes",
            HAMI_OLD_POD,
            False,
            Meant("pod_memory", HAMI_USED, "", "GPU-a", 1.0, HELD),
        ),
        (
            "vGPU_device_memory_usage_in_bytes",
            SCRAPED | HAMI_OLD_POD | {"node": "n1"},
            False,
            Meant("pod_memory", HAMI_USED, "n1", "GPU-a", 1.0, HELD),
        ),
        (HAMI_LIMIT, HAMI_NEW_POD, False, Meant("declared", HAMI_LIMIT, "", "GPU-a", 1.0, HELD)),
        ("vGPU_device_memory_limit_in_bytes", HAMI_OLD_POD, False, Meant("declared", HAMI_LIMIT, "", "GPU-a", 1.0, HELD)),
        (
            HAMI_HOST,
            HAMI_NEW | {"node": "n1", "device_index": "3", "device_type": "NVIDIA-A100"},
            False,
            Meant("used", HAMI_HOST, "n1", "GPU-a", 1.0, reserved=True),
        ),
        (
            "HostGPUMemoryUsage",
            HAMI_OLD | {"deviceidx": "0"},
            False,
            Meant("used", HAMI_HOST, "", "GPU-a", 1.0, reserved=True),
        ),
        (
            "HostGPUMemoryUsage",
            HAMI_OLD | {"nodeid": "n1", "node": "where-it-was-scraped"},
            False,
            Meant("used", HAMI_HOST, "n1", "GPU-a", 1.0, reserved=True),
        ),
        (HAMI_TOTAL, HAMI_NEW | {"node": "n1"}, False, Meant("total", HAMI_TOTAL, "n1", "GPU-a", 1.0)),
        (
            HAMI_TOTAL,
            HAMI_NEW | {"node": "scheduler's", "exported_node": "n1"},
            False,
            Meant("total", HAMI_TOTAL, "n1", "GPU-a", 1.0),
        ),
        ("GPUDeviceMemoryLimit", HAMI_OLD | {"nodeid": "n1"}, False, Meant("total", HAMI_TOTAL, "n1", "GPU-a", 1.0)),
    ],
)
def test_hami_old_and_new_names_are_one_family(metric: str, labels: dict[str, str], exported: bool, expected: Meant) -> None:
    assert read(PROFILES["hami"], metric, labels, exported=exported) == [expected]
    assert {i.level for i, _ in PROFILES["hami"].identify(metric, labels, exported=exported)} == {"container"}


@pytest.mark.parametrize(
    ("metric", "labels"),
    [
        pytest.param("Device_memory_desc_of_container", HAMI_OLD_POD | {"data": "1778516992"}, id="sizes as label values"),
        pytest.param("hami_container_device_memory_bytes", HAMI_NEW_POD, id="used again"),
        pytest.param("hami_vgpu_memory_context_bytes", HAMI_NEW_POD, id="a part of used"),
        pytest.param("hami_vgpu_memory_allocated_bytes", HAMI_NEW_POD, id="what the scheduler handed out"),
        pytest.param("GPUDeviceMemoryLimit", HAMI_OLD | {"devicename": "hami-gpu-1", "nodeid": "n1"}, id="MiB of the DRA driver"),
        pytest.param(HAMI_USED, {"namespace": "ns", "pod": "a"}, id="no device"),
        pytest.param(HAMI_USED, HAMI_NEW, id="no pod"),
    ],
)
def test_hami_rows_that_are_no_series(metric: str, labels: dict[str, str]) -> None:
    assert read(PROFILES["hami"], metric, labels) == []


def test_nvidia_smi_has_device_and_instance_rows_and_writes_the_prefix() -> None:
    profile = PROFILES["nvidia-smi"]
    labels = {"uuid": BARE, "instance": "gpu-a:9835"}
    gpu = f"GPU-{BARE}"
    for role in ("used", "free", "reserved", "total"):
        metric, mig = f"nvidia_smi_memory_{role}_bytes", f"nvidia_smi_mig_memory_{role}_bytes"
        assert read(profile, metric, labels) == [Meant(role, metric, "gpu-a", gpu, 1.0)]
        inside = labels | {"gpu_instance_id": "2", "node": "n1"}
        assert read(profile, mig, inside) == [Meant(role, mig, "n1", gpu, 1.0, instance="2")]
    assert read(profile, "nvidia_smi_memory_used_bytes", {"uuid": f"GPU-{BARE}"})[0].gpu == gpu
    assert read(profile, "nvidia_smi_compute_app_used_memory_bytes", labels | {"pid": "1"}) == []


def test_every_profile_is_chosen_by_its_name() -> None:
    for name, profile in PROFILES.items():
        entry = MetricsEntry(kind="openmetrics", path="x").model_copy(update={"profile": name})
        assert profile_of(entry, "prod") is profile
        assert profile.name == name


def test_a_devices_place_is_a_number_and_stands_for_a_missing_id() -> None:
    profile = Profile("p", "device", (), DeviceLabels(node=("n",), gpu=("id",), place=("at",)))
    found = [
        profile.device_of(labels)
        for labels in ({"id": "x", "at": "nvidia3"}, {"at": "3", "n": "n1"}, {"at": "GPU-y"}, {"n": "n1"})
    ]
    assert [(d.node, d.gpu, d.place, d.local) if d else None for d in found] == [
        ("", "x", "3", False),
        ("n1", "3", "3", True),
        ("", "GPU-y", "", False),
        None,
    ]
