"""What nodes carry, by configuration, catalogue and labels; machines over time; contradictions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from allocation.errors import SettingsError
from allocation.findings import Code
from pipelines.inventory import EARLIEST, LATEST, InstanceType, build_nodes, catalogue, disagreements, instance_types
from pipelines.metric_sources.base import InfoSeries
from pipelines.settings import InstanceTypeEntry, NodeEntry, load_settings
from tests.pipelines.inventories import HOLD_MS, at, info, reduced

MIB = 2**20
FEATURES = {
    "label_nvidia_com_gpu_count": "4",
    "label_nvidia_com_gpu_memory": "46068",
    "label_nvidia_com_gpu_product": "NVIDIA-L40S-SHARED",
    "label_nvidia_com_gpu_replicas": "10",
    "label_nvidia_com_gpu_sharing_strategy": "time-slicing",
    "label_nvidia_com_mig_strategy": "mixed",
}


def nodes(
    series: list[InfoSeries], *configured: NodeEntry, seen: Sequence[str] = (), types: Mapping[str, InstanceType] | None = None
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = build_nodes(series, configured, seen, HOLD_MS, types).to_pylist()
    return rows


def machine(name: str, number: int, first: float, last: float, **labels: str) -> InfoSeries:
    return info("kube_node_info", first, last, node=name, provider_id=f"aws:///z/i-{number}", **labels)


def labelled(kind: str | None, **labels: str) -> list[InfoSeries]:
    typed = {"label_node_kubernetes_io_instance_type": kind} if kind else {}
    return [machine("n", 1, 0, 60), info("kube_node_labels", 0, 60, node="n", **typed, **labels)]


def test_a_node_that_nobody_knows_is_described_by_its_labels() -> None:
    (row,) = nodes(labelled("home-made-1", **FEATURES))
    assert (row["gpus"], row["gpu_memory_bytes"], row["gpu_memory_configured"]) == (4, 46068 * MIB, False)
    told = (row["gpu_product"], row["gpu_replicas"], row["sharing_strategy"], row["mig_strategy"], row["instance_type"])
    assert told == ("NVIDIA-L40S-SHARED", 10, "time-slicing", "mixed", "home-made-1")


def test_the_catalogue_goes_before_labels_and_the_configuration_before_both() -> None:
    series = labelled("g6e.48xlarge", **FEATURES)
    (row,) = nodes(series)
    assert (row["gpus"], row["gpu_memory_bytes"]) == (8, 45776 * MIB)
    (row,) = nodes(series, NodeEntry(name="n", gpus=2))
    assert (row["gpus"], row["gpu_memory_bytes"]) == (2, 45776 * MIB)
    (row,) = nodes(series, NodeEntry(name="n", gpu_memory="46068MiB"))
    assert (row["gpus"], row["gpu_memory_bytes"], row["gpu_memory_configured"]) == (8, 46068 * MIB, True)


def test_labels_that_describe_instances_describe_no_gpu() -> None:
    """MIG strategy `single`: count and memory are those of the instances."""
    single = FEATURES | {"label_nvidia_com_gpu_product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "label_nvidia_com_gpu_count": "7"}
    (row,) = nodes(labelled(None, **single))
    assert (row["gpus"], row["gpu_memory_bytes"], row["gpu_product"]) == (None, None, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")


@pytest.mark.parametrize("text", ["", "-1", "0", "abc", "1e9", "٣", "9" * 30, "4.5", "\x00"])
def test_labels_that_are_no_number_say_nothing(text: str) -> None:
    labels = FEATURES | {"label_nvidia_com_gpu_count": text, "label_nvidia_com_gpu_memory": text}
    (row,) = nodes(labelled(None, **labels))
    assert (row["gpus"], row["gpu_memory_bytes"], row["gpu_replicas"]) == (None, None, 10)


def test_facts_are_those_of_the_stay() -> None:
    series = [
        machine("n", 1, 0, 20),
        machine("n", 2, 30, 60),
        info("kube_node_labels", 0, 20, node="n", label_node_kubernetes_io_instance_type="g5.xlarge"),
        info("kube_node_labels", 30, 60, node="n", label_node_kubernetes_io_instance_type="g5.48xlarge"),
    ]
    assert [(r["node_key"], r["instance_type"], r["gpus"]) for r in nodes(series)] == [
        ("i-1", "g5.xlarge", 1),
        ("i-2", "g5.48xlarge", 8),
    ]


def test_settings_extend_and_overrule_the_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    text = """
version: 1
output: out
clusters: [{name: prod, metrics: [{kind: openmetrics, path: m.om}]}]
billing: [{kind: focus, path: bill.csv}]
instance_types:
  gpu.3x80: {gpus: 3, gpu_memory: 80GiB}
  g5.xlarge: {gpus: 1, gpu_memory: 23028MiB}
"""
    file.write_text(text, encoding="utf-8")
    types = catalogue(load_settings(file).instance_types)
    (own,) = nodes(labelled("gpu.3x80"), types=types)
    assert (own["gpus"], own["gpu_memory_bytes"], own["gpu_memory_configured"]) == (3, 80 * 2**30, False)
    (overruled,) = nodes(labelled("g5.xlarge"), types=types)
    assert overruled["gpu_memory_bytes"] == 23028 * MIB
    assert types["p4d.24xlarge"] == (8, 40960 * MIB)
    file.write_text(text.replace("gpus: 3,", "gpu: 3,"), encoding="utf-8")
    with pytest.raises(SettingsError, match=r"unknown key 'gpu' at instance_types\.gpu\.3x80\.gpu; did you mean 'gpus'"):
        load_settings(file)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        InstanceTypeEntry(gpus=0, gpu_memory="1GiB")


@pytest.mark.parametrize(
    ("name", "gpus", "mib"),
    [
        ("g4ad.16xlarge", 4, 8192),
        ("g5g.metal", 2, 16384),
        ("g6f.2xlarge", 1, 5722),
        ("g7.48xlarge", 8, 32768),
        ("p6-b300.48xlarge", 8, 275040),
        ("a3-highgpu-2g", 2, 81559),
        ("g4-standard-384", 8, 97887),
        ("Standard_NV12ads_A10_v5", 1, 8192),
        ("Standard_ND128isr_NDR_GB200_v6", 4, 189471),
    ],
)
def test_types_of_the_clouds(name: str, gpus: int, mib: int) -> None:
    assert instance_types()[name] == (gpus, mib * MIB)


def test_a_machine_lives_from_its_node_objects_creation() -> None:
    """Created at :28 between the two machines' sights; the first machine's creation lies before its first sight."""
    series = [
        machine("n", 1, 0, 20),
        machine("n", 2, 30, 60),
        info("kube_node_created", 0, 20, at(-300).timestamp(), node="n"),
        info("kube_node_created", 30, 60, at(28).timestamp(), node="n"),
        info("kube_node_created", 0, 60, float("nan"), node="n"),
    ]
    assert [(r["alive_from"], r["seen_from"], r["seen_until"]) for r in nodes(series)] == [
        (EARLIEST, at(-300), at(22)),
        (at(30), at(28), at(62)),
    ]


def test_a_creation_before_the_earlier_machines_end_is_not_the_new_ones() -> None:
    series = [machine("n", 1, 0, 20), machine("n", 2, 30, 60), info("kube_node_created", 0, 60, at(10).timestamp(), node="n")]
    assert [r["seen_from"] for r in nodes(series)] == [at(0), at(30)]


def test_a_sight_without_provider_id_says_nothing_beside_one_with_it() -> None:
    (row,) = nodes([info("kube_node_info", 0, 10, node="n"), machine("n", 1, 11, 60)])
    assert (row["node_key"], row["alive_from"], row["alive_until"]) == ("i-1", EARLIEST, LATEST)


def test_a_machine_that_comes_back_lives_each_time_until_its_last_sight() -> None:
    series = [machine("n", 1, 0, 20), machine("n", 2, 30, 40), machine("n", 1, 50, 60)]
    assert [(r["node_key"], r["seen_from"], r["seen_until"]) for r in nodes(series)] == [
        ("i-1", at(0), at(22)),
        ("i-2", at(30), at(42)),
        ("i-1", at(50), at(62)),
    ]


def test_a_moved_node_label_is_kube_state_metrics_own() -> None:
    own = {"node": "infra-1", "pod": "ksm", "namespace": "monitoring"}
    series = [info("kube_node_info", 0, 9, **own, exported_node="gpu-a", provider_id="aws:///z/i-1")]
    series.append(info("kube_node_status_capacity", 0, 9, 8, **own, exported_node="gpu-a", resource="nvidia_com_gpu"))
    (row,) = nodes(series)
    assert (row["node"], row["node_key"], row["gpu_resources"]) == ("gpu-a", "i-1", 8)


def test_nothing_known_but_a_name() -> None:
    (row,) = nodes([], seen=["bare"])
    assert (row["node"], row["node_key"], row["seen_from"], row["gpus"], row["gpu_product"]) == ("bare", "bare", None, None, None)
    assert nodes([]) == []


def contradictions(*series: InfoSeries, configured: tuple[NodeEntry, ...] = ()) -> list[tuple[Code, str, str]]:
    return [(f.code, f.subject, f.evidence) for f in disagreements(series, configured)]


def test_two_machines_of_one_name_at_one_time() -> None:
    series = [machine("n", 1, 0, 60), machine("n", 2, 30, 90)]
    ((code, subject, evidence),) = contradictions(*series)
    assert (code, subject) == (Code.CONTRADICTING_INVENTORY, "n")
    assert "n has the machines aws:///z/i-1, aws:///z/i-2 at one time, for 1800 s" in evidence
    (finding,) = disagreements(series, [])
    assert finding.period == (at(30), at(60))
    assert [(r["node_key"], r["alive_until"]) for r in nodes(series)] == [("i-1", at(30)), ("i-2", LATEST)]


def test_one_machine_under_two_names_at_one_time() -> None:
    ((code, subject, evidence),) = contradictions(machine("a", 1, 0, 60), machine("b", 1, 30, 90))
    assert (code, subject) == (Code.CONTRADICTING_INVENTORY, "b")
    assert "aws:///z/i-1 is the machine of the nodes a, b at one time" in evidence


def test_one_after_the_other_contradicts_nothing() -> None:
    replicas = [machine("n", 1, 0, 60, instance=f"ksm-{k}") for k in (1, 2)]
    after = [machine("n", 2, 61, 90), machine("m", 1, 61, 90)]
    restarted = [info("kube_pod_info", 10 * k, 10 * k + 5, namespace="ml", pod="p", uid=f"u{k}", node=f"n{k}") for k in range(3)]
    assert contradictions(*replicas, *after, *restarted) == []


def test_one_uid_on_two_nodes() -> None:
    pod = {"namespace": "ml", "pod": "p", "uid": "u"}
    ((code, subject, evidence),) = contradictions(
        info("kube_pod_info", 0, 30, **pod, node="b"), info("kube_pod_info", 10, 20, **pod, node="a")
    )
    assert (code, subject) == (Code.CONTRADICTING_INVENTORY, "ml/p")
    assert evidence.endswith("uid u is on the nodes a, b; the later sample wins: b")


def test_an_end_before_the_start_is_told() -> None:
    pod = {"namespace": "ml", "pod": "p", "uid": "u"}
    ((code, subject, evidence),) = contradictions(
        info("kube_pod_start_time", 0, 30, at(20).timestamp(), **pod),
        info("kube_pod_completion_time", 0, 30, at(10).timestamp(), **pod),
    )
    assert (code, subject) == (Code.CONTRADICTING_INVENTORY, "ml/p")
    assert "end 2026-10-01T00:10:00+00:00 lies before its start 2026-10-01T00:20:00+00:00" in evidence


def test_a_configured_machine_that_the_cluster_contradicts() -> None:
    entries = (NodeEntry(name="n", provider_id="aws:///z/i-9"), NodeEntry(name="m", provider_id="aws:///z/i-2"))
    ((code, subject, evidence),) = contradictions(machine("n", 1, 0, 60), machine("m", 2, 0, 60), configured=entries)
    assert (code, subject) == (Code.NODE_NOT_AS_CONFIGURED, "n")
    assert evidence == "nodes: says aws:///z/i-9, kube_node_info aws:///z/i-1, which is believed"


def test_a_machine_that_comes_and_goes_within_the_gap_is_told_by_the_hour() -> None:
    """Every ten minutes a sample: 1 until :40, 2 at :50, then 1 again."""
    series = reduced(
        ("kube_node_info", {"node": "n", "provider_id": "aws:///z/i-1"}, [0, 10, 20, 30, 40, 60, 70]),
        ("kube_node_info", {"node": "n", "provider_id": "aws:///z/i-2"}, [50]),
    )
    assert [(r["node_key"], r["alive_from"]) for r in nodes(series)] == [("i-1", EARLIEST), ("i-2", at(50)), ("i-1", at(60))]
