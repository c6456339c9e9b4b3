"""Machines behind node names over time, and pods from what kube-state-metrics says of them."""

from datetime import UTC, datetime, timedelta

from pipelines.inventory import EARLIEST, LATEST, build_nodes, build_pods, nodes_frame
from pipelines.metric_sources.base import InfoSeries
from pipelines.settings import NodeEntry

MIDNIGHT = datetime(2026, 10, 1, tzinfo=UTC)
HOLD_MS = 120_000


def at(minutes: int) -> datetime:
    return MIDNIGHT + timedelta(minutes=minutes)


def info(metric: str, first: int, last: int, value: float = 1, **labels: str) -> InfoSeries:
    return InfoSeries(metric, labels, round(at(first).timestamp() * 1000), round(at(last).timestamp() * 1000), value)


def test_a_name_that_changes_its_machine() -> None:
    series = [
        info("kube_node_info", 30, 60, node="gpu-a", provider_id="aws:///z/i-2"),
        info("kube_node_info", 0, 20, node="gpu-a", provider_id="aws:///z/i-1"),
    ]
    stays = build_nodes(series, [NodeEntry(name="gpu-a", gpus=8, gpu_memory="40GiB")], ["gpu-a"], HOLD_MS).to_pylist()
    assert [(s["node_key"], s["alive_from"], s["alive_until"]) for s in stays] == [
        ("i-1", EARLIEST, at(30)),
        ("i-2", at(30), LATEST),
    ]
    assert [(s["seen_from"], s["seen_until"]) for s in stays] == [(at(0), at(22)), (at(30), at(62))]
    assert {(s["gpus"], s["gpu_memory_bytes"], s["gpu_memory_configured"]) for s in stays} == {(8, 40 * 2**30, True)}


def test_configured_stays_and_names_that_nobody_describes() -> None:
    configured = [
        NodeEntry.model_validate({"name": "gpu-a", "provider_id": "aws:///z/i-1", "until": "2026-10-01T12:00:00Z"}),
        NodeEntry.model_validate({"name": "gpu-a", "provider_id": "aws:///z/i-2", "from": "2026-10-01T12:00:00Z"}),
    ]
    rows = build_nodes([], configured, ["bare-metal-7"], HOLD_MS).to_pylist()
    assert [(r["node"], r["node_key"], r["alive_from"], r["alive_until"]) for r in rows] == [
        ("bare-metal-7", "bare-metal-7", EARLIEST, LATEST),
        ("gpu-a", "i-1", EARLIEST, at(720)),
        ("gpu-a", "i-2", at(720), LATEST),
    ]


def test_nameplate_and_capacity() -> None:
    series = [
        info("kube_node_info", 0, 60, node="gpu-a", provider_id="aws:///z/i-1"),
        info("kube_node_info", 0, 60, node="cpu-a", provider_id="aws:///z/i-9"),
        info("kube_node_labels", 0, 60, node="gpu-a", label_node_kubernetes_io_instance_type="p4d.24xlarge"),
        info("kube_node_status_capacity", 0, 60, 8, node="gpu-a", resource="nvidia_com_gpu"),
        info("kube_node_status_capacity", 0, 60, 64, node="cpu-a", resource="cpu"),
    ]
    rows = {r["node"]: r for r in build_nodes(series, [], [], HOLD_MS).to_pylist()}
    assert (rows["gpu-a"]["gpus"], rows["gpu-a"]["gpu_memory_bytes"]) == (8, 40960 * 2**20)
    assert not rows["gpu-a"]["gpu_memory_configured"]
    assert (rows["gpu-a"]["gpu_resources"], rows["cpu-a"]["gpu_resources"], rows["cpu-a"]["gpus"]) == (8, 0, None)
    frame = nodes_frame(build_nodes(series, [], [], HOLD_MS), ["gpu-a"])
    assert dict(zip(frame.node, frame.has_series, strict=True)) == {"cpu-a": False, "gpu-a": True}


def test_a_pod_from_all_its_series() -> None:
    series = [
        info(
            "kube_pod_info", 0, 50, namespace="ml", pod="t-0", uid="u1", node="gpu-a", created_by_kind="Job", created_by_name="t"
        ),
        info("kube_pod_labels", 0, 10, namespace="ml", pod="t-0", uid="u1", label_team="old"),
        info("kube_pod_labels", 20, 50, namespace="ml", pod="t-0", label_team="new", label_app_kubernetes_io_name="llama"),
        info("kube_pod_start_time", 0, 50, at(1).timestamp(), namespace="ml", pod="t-0", uid="u1"),
        info("kube_pod_completion_time", 50, 50, at(49).timestamp(), namespace="ml", pod="t-0", uid="u1"),
        info(
            "kube_pod_container_resource_requests",
            0,
            50,
            2,
            namespace="ml",
            pod="t-0",
            uid="u1",
            container="a",
            resource="nvidia_com_gpu",
        ),
        info(
            "kube_pod_container_resource_requests", 0, 50, 4, namespace="ml", pod="t-0", uid="u1", container="a", resource="cpu"
        ),
    ]
    (pod,) = build_pods(series).to_pylist()
    assert (pod["pod_uid"], pod["node"], pod["workload_kind"], pod["workload_name"]) == ("u1", "gpu-a", "Job", "t")
    assert (pod["seen_from"], pod["seen_until"], pod["started_at"], pod["ended_at"]) == (at(0), at(50), at(1), at(49))
    assert pod["requested_gpus"] == 2
    assert dict(pod["labels"]) == {"team": "old"}
