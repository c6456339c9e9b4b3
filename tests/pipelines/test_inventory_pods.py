"""Pods over time: identity, life, owner, requests, claims, and versions of labels."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from allocation.schemas import PODS
from pipelines.inventory import EARLIEST, build_nodes, build_pods, inventory_table, pods_frame
from pipelines.metric_sources.base import InfoSeries
from pipelines.metric_sources.normalise import InfoReducer
from pipelines.metric_sources.openmetrics_text import read_series
from tests.pipelines.inventories import GAP_MS, at, info, ms, reduced

SNIPPET = Path(__file__).resolve().parents[3] / "shared" / "data" / "metrics" / "kube_state_metrics.prom"
POD = {"namespace": "ml", "pod": "t-0", "uid": "u1"}


def pods(*series: InfoSeries) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = build_pods(series).to_pylist()
    for row in rows:
        for name in ("labels", "annotations", "namespace_labels", "gpu_requests"):
            row[name] = dict(row[name])
    return rows


def pod(*series: InfoSeries) -> dict[str, Any]:
    (row,) = pods(*series)
    return row


def versions(*series: InfoSeries) -> list[tuple[object, ...]]:
    return [(r["labels_from"], r["labels"].get("team"), r["annotations"].get("note")) for r in pods(*series)]


def test_no_series_no_pods() -> None:
    assert build_pods([]).num_rows == 0
    assert len(pods_frame(build_pods([]))) == 0
    assert build_pods([info("kube_node_info", 0, 1, node="n")]).schema.equals(PODS.arrow())


def test_a_pod_of_which_only_its_name_is_known() -> None:
    row = pod(info("kube_pod_info", 0, 9, namespace="ml", pod="t-0"))
    assert (row["pod_uid"], row["node"], row["workload_kind"], row["requested_gpus"]) == ("", None, None, None)
    assert (row["labels_from"], row["labels"], row["resource_claims"]) == (EARLIEST, {}, [])
    assert (row["started_at"], row["ended_at"], row["seen_until"]) == (None, None, at(9))


def test_versions_of_labels_and_annotations_are_one_sequence() -> None:
    """Labels a from :00, b from :30; the annotation comes at :10 and changes at :40."""
    told = versions(
        info("kube_pod_labels", 0, 29, **POD, label_team="a"),
        info("kube_pod_labels", 30, 60, **POD, label_team="b"),
        info("kube_pod_annotations", 10, 39, **POD, annotation_note="x"),
        info("kube_pod_annotations", 40, 60, **POD, annotation_note="y"),
    )
    assert told == [(EARLIEST, "a", "x"), (at(30), "b", "x"), (at(40), "b", "y")]


def test_replicas_and_restarts_of_kube_state_metrics_make_no_versions() -> None:
    told = versions(
        *(
            info("kube_pod_labels", first, last, **POD, label_team=team, instance=f"10.0.0.{replica}:8080")
            for first, last, team in ((0, 20, "a"), (40, 50, "a"), (51, 60, "b"))
            for replica in (1, 2)
        )
    )
    assert told == [(EARLIEST, "a", None), (at(51), "b", None)]


def test_a_label_that_comes_back_counts_again_from_when_the_other_was_last_seen() -> None:
    told = versions(
        info("kube_pod_labels", 0, 60, **POD, label_team="a"),
        info("kube_pod_labels", 20, 30, **POD, label_team="b"),
    )
    assert told == [(EARLIEST, "a", None), (at(20), "b", None), (at(30 + 0.001 / 60), "a", None)]


def test_the_last_label_of_an_hour_is_known_through_the_reducer() -> None:
    """Every ten minutes a sample: a until :40, b at :50, then a again. Gaps below max_gap hide nothing from the hour."""
    series = reduced(
        ("kube_pod_labels", {**POD, "label_team": "a"}, [0, 10, 20, 30, 40, 60, 70]),
        ("kube_pod_labels", {**POD, "label_team": "b"}, [50]),
    )
    assert versions(*series) == [(EARLIEST, "a", None), (at(50), "b", None), (at(60), "a", None)]


def test_the_last_label_of_an_hour_is_known_where_the_server_moved_labels_and_the_scraped_pod_changed() -> None:
    moved = {"exported_namespace": "ml", "exported_pod": "t-0", "uid": "u1", "namespace": "monitoring"}
    series = reduced(
        ("kube_pod_labels", {**moved, "pod": "ksm-1", "label_team": "a"}, [0, 10, 20, 30, 40, 60, 70]),
        ("kube_pod_labels", {**moved, "pod": "ksm-2", "label_team": "b"}, [50]),
    )
    assert versions(*series) == [(EARLIEST, "a", None), (at(50), "b", None), (at(60), "a", None)]


def test_one_label_set_is_one_stretch_over_hours() -> None:
    (stretch,) = reduced(("kube_pod_labels", {**POD, "label_team": "a"}, list(range(0, 240, 10))))
    assert (stretch.first_ms, stretch.last_ms) == (ms(0), ms(230))


def test_exported_labels_are_kube_state_metrics_own() -> None:
    """The server has moved pod, namespace and node aside; the plain ones are of kube-state-metrics' own pod."""
    own = {"namespace": "monitoring", "pod": "kube-state-metrics-0", "node": "infra-1", "container": "kube-state-metrics"}
    moved = {"exported_namespace": "ml", "exported_pod": "t-0", "uid": "u1"}
    row = pod(
        info("kube_pod_info", 0, 9, **own, **moved, exported_node="gpu-a"),
        info("kube_pod_labels", 0, 9, **own, **moved, label_team="a"),
        *(
            info("kube_pod_container_resource_requests", 0, 9, 1, **own, **moved, exported_container=c, resource="nvidia_com_gpu")
            for c in ("main", "side")
        ),
    )
    assert (row["namespace"], row["pod"], row["node"], row["labels"]) == ("ml", "t-0", "gpu-a", {"team": "a"})
    assert row["requested_gpus"] == 2


def test_a_pending_pods_node_is_not_the_one_of_kube_state_metrics() -> None:
    """An empty node is no label, so the server moves nothing aside for it; other rows of the metric show that it would."""
    own = {"node": "infra-1", "namespace": "monitoring", "pod": "ksm"}
    rows = pods(
        info("kube_pod_info", 0, 9, **own, exported_namespace="ml", exported_pod="a", uid="1", exported_node="gpu-a"),
        info("kube_pod_info", 0, 9, **own, exported_namespace="ml", exported_pod="b", uid="2"),
    )
    assert [(r["pod"], r["node"]) for r in rows] == [("a", "gpu-a"), ("b", None)]


def test_requests_by_resource_and_their_sum() -> None:
    def asks(container: str, resource: str, value: float, **more: str) -> InfoSeries:
        return info("kube_pod_container_resource_requests", 0, 9, value, **POD, container=container, resource=resource, **more)

    row = pod(
        asks("a", "nvidia_com_gpu", 1, instance="ksm-1"),
        asks("a", "nvidia_com_gpu", 1, instance="ksm-2"),
        asks("b", "nvidia_com_gpu", 2),
        asks("b", "nvidia_com_gpumem", 4000),
        asks("b", "nvidia_com_gpucores", 30),
        asks("a", "cpu", 8),
        asks("a", "memory", 2.0**35),
    )
    assert row["gpu_requests"] == {"nvidia_com_gpu": 3, "nvidia_com_gpucores": 30, "nvidia_com_gpumem": 4000}
    assert row["requested_gpus"] == 3
    assert row["declared_memory_bytes"] == 4000 * 2**20


@pytest.mark.parametrize(
    ("resource", "counts"),
    [
        ("nvidia_com_gpu_shared", True),
        ("nvidia_com_mig_1g_10gb", True),
        ("amd_com_gpu", True),
        ("gpu_intel_com_xe", True),
        ("volcano_sh_vgpu_number", True),
        ("gpu_intel_com_i915_monitoring", False),
        ("volcano_sh_vgpu_memory", False),
        ("nvidia_com_gpumem_percentage", False),
    ],
)
def test_which_resources_count_gpus(resource: str, counts: bool) -> None:
    series = info("kube_pod_container_resource_requests", 0, 9, 3, **POD, container="a", resource=resource)
    assert pod(series)["gpu_requests"] == {resource: 3}
    assert pod(series)["requested_gpus"] == (3 if counts else None)
    (frame,) = pods_frame(build_pods([series])).to_dict("records")
    assert frame["gpu_resource"] == (resource if counts else "")


def test_of_two_requests_of_one_container_the_later_sample_wins() -> None:
    series = [
        info("kube_pod_container_resource_requests", 10, 20, 4, **POD, container="a", resource="nvidia_com_gpu", instance="x"),
        info("kube_pod_container_resource_requests", 0, 9, 2, **POD, container="a", resource="nvidia_com_gpu", instance="y"),
    ]
    assert pod(*series)["requested_gpus"] == 4


def test_declared_memory_and_fraction_by_annotation_before_requests() -> None:
    told = {"annotation_gpu_memory": "2000", "annotation_gpu_fraction": "0.25"}
    row = pod(
        info("kube_pod_annotations", 0, 9, **POD, **told),
        info("kube_pod_container_resource_requests", 0, 9, 500, **POD, container="a", resource="volcano_sh_vgpu_memory"),
    )
    assert (row["declared_memory_bytes"], row["declared_fraction"]) == (2000 * 2**20, 0.25)


def test_what_a_pod_declares_holds_from_its_sight_on() -> None:
    """A change never reaches back, what is told at first sight holds from ever, and without the annotation the request holds."""
    series = [
        info("kube_pod_info", 0, 99, **POD),
        info("kube_pod_annotations", 0, 9, **POD, annotation_gpu_memory="2000"),
        info("kube_pod_annotations", 10, 19, **POD, annotation_gpu_memory="3000", annotation_x="y"),
        info("kube_pod_annotations", 20, 29, **POD, annotation_gpu_memory="3000"),
        info("kube_pod_annotations", 30, 99, **POD),
        info("kube_pod_container_resource_requests", 0, 99, 500, **POD, container="a", resource="volcano_sh_vgpu_memory"),
    ]
    frame = pods_frame(build_pods(series))
    assert list(frame.declared_memory_bytes / 2**20) == [2000, 3000, 500]
    assert list(np.diff(frame.declared_from_ms)) == [frame.declared_from_ms[1], 20 * 60_000]
    assert frame.declared_from_ms[0] == 0


def test_an_annotation_that_comes_late_declares_nothing_before() -> None:
    series = [
        info("kube_pod_info", 0, 99, **POD),
        info("kube_pod_annotations", 50, 99, **POD, annotation_gpu_fraction="0.5"),
    ]
    frame = pods_frame(build_pods(series))
    assert np.isnan(frame.declared_fraction[0])
    assert frame.declared_fraction[1] == 0.5


@pytest.mark.parametrize("text", ["", "nan", "inf", "-1", "1e3", "0x10", "٣", "0", "2,5", "9" * 40, "\x00"])
def test_what_is_no_plain_number_declares_nothing(text: str) -> None:
    row = pod(info("kube_pod_annotations", 0, 9, **POD, annotation_gpu_memory=text, annotation_gpu_fraction=text))
    assert (row["declared_memory_bytes"], row["declared_fraction"]) == (None, None)


def test_the_group_of_a_shared_device_and_the_reservation_pod() -> None:
    reservation = {"namespace": "kai-resource-reservation", "pod": "gpu-reservation-x", "uid": "r"}
    rows = pods_frame(
        build_pods(
            [
                info("kube_pod_labels", 0, 9, **POD, label_runai_gpu_group="g-1"),
                info("kube_pod_labels", 0, 9, **{**POD, "pod": "two"}, label_runai_gpu_group_b="b", label_runai_gpu_group_a="a"),
                info("kube_pod_annotations", 0, 9, **reservation, annotation_run_ai_reserve_for_gpu_index="GPU-7"),
            ]
        )
    ).set_index("pod")
    assert dict(rows.gpu_group) == {"t-0": "g-1", "two": "a,b", "gpu-reservation-x": ""}
    assert dict(rows.reserves_index) == {"t-0": "", "two": "", "gpu-reservation-x": "GPU-7"}


def test_resource_claims_by_name_and_none_while_they_are_not_made() -> None:
    def claim(name: str, **pod_labels: str) -> InfoSeries:
        return info("kube_pod_resourceclaim_info", 0, 9, **pod_labels, claim_name="gpu", resourceclaim_name=name)

    series = [
        claim("b", **POD),
        claim("a", **POD),
        claim("a", **POD, instance="ksm-2"),
        claim("", namespace="ml", pod="p", uid="2"),
    ]
    assert [(r["pod"], r["resource_claims"]) for r in pods(*series)] == [("p", []), ("t-0", ["a", "b"])]
    assert dict(pods_frame(build_pods(series)).set_index("pod").has_claim) == {"p": False, "t-0": True}


def test_owners_are_rolled_up_as_far_as_series_tell() -> None:
    def owned(pod_name: str, kind: str, name: str) -> InfoSeries:
        return info("kube_pod_owner", 0, 9, namespace="ml", pod=pod_name, uid=pod_name, owner_kind=kind, owner_name=name)

    rows = pods(
        owned("a", "ReplicaSet", "chat-6f9"),
        owned("b", "ReplicaSet", "lone-1"),
        owned("c", "Job", "nightly-28"),
        owned("d", "StatefulSet", "db"),
        owned("e", "<none>", "<none>"),
        info("kube_pod_info", 0, 9, namespace="ml", pod="f", uid="f", created_by_kind="ReplicaSet", created_by_name="chat-6f9"),
        info("kube_replicaset_owner", 0, 9, namespace="ml", replicaset="chat-6f9", owner_kind="Deployment", owner_name="chat"),
        info("kube_replicaset_owner", 0, 9, namespace="ml", replicaset="lone-1", owner_kind="<none>", owner_name="<none>"),
        info("kube_replicaset_owner", 0, 9, namespace="other", replicaset="lone-1", owner_kind="Deployment", owner_name="no"),
        info("kube_job_owner", 0, 9, namespace="ml", job_name="nightly-28", owner_kind="CronJob", owner_name="nightly"),
    )
    assert [(r["pod"], r["workload_kind"], r["workload_name"]) for r in rows] == [
        ("a", "Deployment", "chat"),
        ("b", "ReplicaSet", "lone-1"),
        ("c", "CronJob", "nightly"),
        ("d", "StatefulSet", "db"),
        ("e", None, None),
        ("f", "Deployment", "chat"),
    ]


def test_the_controller_is_the_owner() -> None:
    row = pod(
        info("kube_pod_owner", 0, 9, **POD, owner_kind="Foo", owner_name="z", owner_is_controller="false"),
        info("kube_pod_owner", 0, 9, **POD, owner_kind="Job", owner_name="a", owner_is_controller="true"),
    )
    assert (row["workload_kind"], row["workload_name"]) == ("Job", "a")


def moment(metric: str, minutes: float, first: float = 0, last: float = 60, **labels: str) -> InfoSeries:
    return info(metric, first, last, at(minutes).timestamp(), **POD, **labels)


def phase(name: str, first: float, last: float, value: float = 1) -> InfoSeries:
    return info("kube_pod_status_phase", first, last, value, **POD, phase=name)


def test_the_start_is_the_kubelets_word_then_a_containers_then_the_creation() -> None:
    created = moment("kube_pod_created", 1)
    containers = [moment("kube_pod_container_state_started", m, container=c) for m, c in ((7, "a"), (5, "b"))]
    assert pod(created)["started_at"] == at(1)
    assert pod(created, *containers)["started_at"] == at(5)
    assert pod(created, *containers, moment("kube_pod_start_time", 3))["started_at"] == at(3)


def test_an_end_is_known_by_completion_or_by_the_first_sight_of_a_terminal_phase() -> None:
    completed = moment("kube_pod_completion_time", 40)
    assert pod(completed)["ended_at"] == at(40)
    assert pod(completed, phase("Running", 0, 40), phase("Succeeded", 41, 60))["ended_at"] == at(40)
    assert pod(phase("Running", 0, 40), phase("Failed", 41, 60), phase("Succeeded", 0, 60, 0))["ended_at"] == at(41)


def test_one_terminated_container_or_a_vanished_pod_is_no_end() -> None:
    completed = moment("kube_pod_completion_time", 40)
    assert pod(completed, phase("Running", 0, 60))["ended_at"] is None
    assert pod(phase("Failed", 0, 10), phase("Running", 11, 60))["ended_at"] is None
    assert pod(info("kube_pod_info", 0, 20, **POD), info("kube_node_info", 0, 60, node="n"))["ended_at"] is None


def test_an_end_before_the_start_is_no_end() -> None:
    row = pod(moment("kube_pod_start_time", 30), moment("kube_pod_completion_time", 20))
    assert (row["started_at"], row["ended_at"]) == (at(30), None)


def test_the_phase_counts_from_its_first_one() -> None:
    """The reducer sees 0 until :20 and 1 from :30 on."""
    reducer = InfoReducer(GAP_MS)
    times = np.array([ms(m) for m in range(0, 60, 10)])
    reducer.add("kube_pod_status_phase", {**POD, "phase": "Succeeded"}, times, np.array([0.0, 0, 0, 1, 1, 1]))
    reducer.add("kube_pod_status_phase", {**POD, "phase": "Running"}, times, np.array([1.0, 1, 1, 0, 0, 0]))
    assert pod(*reducer.result())["ended_at"] == at(30)


def test_a_restarted_container_does_not_start_the_pod_again() -> None:
    reducer = InfoReducer(GAP_MS)
    times = np.array([ms(m) for m in (0, 10, 20)])
    started = np.array([at(-5).timestamp(), at(-5).timestamp(), at(15).timestamp()])
    reducer.add("kube_pod_container_state_started", {**POD, "container": "a"}, times, started)
    assert pod(*reducer.result())["started_at"] == at(-5)


def test_series_without_uid_go_to_the_pod_that_had_come_last() -> None:
    """Two lives of one name; labels without uid change at the restart."""
    name = {"namespace": "ml", "pod": "t-0"}
    rows = pods(
        info("kube_pod_info", 0, 29, **name, uid="u1", node="n"),
        info("kube_pod_info", 30, 60, **name, uid="u2", node="n"),
        info("kube_pod_labels", 0, 29, **name, label_team="a"),
        info("kube_pod_labels", 30, 60, **name, label_team="b"),
        info("kube_pod_owner", 0, 60, **name, owner_kind="Job", owner_name="j"),
    )
    assert [(r["pod_uid"], r["labels"], r["workload_name"]) for r in rows] == [
        ("u1", {"team": "a"}, "j"),
        ("u2", {"team": "b"}, "j"),
    ]


def test_namespace_labels_have_versions_as_pod_labels_have() -> None:
    rows = pods(
        info("kube_pod_info", 0, 9, **POD),
        info("kube_namespace_labels", 0, 4, namespace="ml", label_team="old"),
        info("kube_namespace_labels", 5, 9, namespace="ml", label_team="new"),
        info("kube_namespace_labels", 0, 9, namespace="other", label_team="no"),
    )
    told = [(r["namespace_labels"], r["labels_from"]) for r in rows]
    assert told == [({"team": "old"}, datetime(1970, 1, 1, tzinfo=UTC)), ({"team": "new"}, at(5))]


def test_what_cannot_be_read_is_ignored() -> None:
    row = pod(
        info("kube_pod_info", 0, 9, **POD, node="gpu-a"),
        InfoSeries("kube_pod_info", {**POD, "node": "no"}, -5, ms(9), 1.0),
        InfoSeries("kube_pod_info", {**POD, "node": "no"}, ms(9), ms(0), 1.0),
        *(info("kube_pod_start_time", 0, 9, value, **POD) for value in (float("nan"), float("inf"), -1.0, 1e300)),
        *(
            info("kube_pod_container_resource_requests", 0, 9, value, **POD, container="a", resource="nvidia_com_gpu")
            for value in (float("nan"), float("inf"), -1.0)
        ),
        info("kube_pod_labels", 0, 9, namespace="ml", label_team="nobody"),
    )
    assert (row["node"], row["started_at"], row["requested_gpus"], row["seen_from"]) == ("gpu-a", None, None, at(0))


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "日本", "\ud800", "\U0001f600", "',\"\\\n", "x" * 100_000, "label_team"])
def test_label_values_may_be_any_text(text: str) -> None:
    labels = {"namespace": "ml", "pod": text, "uid": text, "label_team": text}
    row = pod(info("kube_pod_labels", 0, 9, **labels))
    shown = text.encode("utf-8", "replace").decode()
    assert (row["pod"], row["pod_uid"], row["labels"]) == (shown, shown, {"team": shown})


def test_values_do_not_flow_into_each_other() -> None:
    """Label sets whose texts read the same one after the other are different sets."""
    told = [
        info("kube_pod_labels", 0, 9, **POD, label_a="1", label_b="23"),
        info("kube_pod_labels", 10, 19, **POD, label_a="12", label_b="3"),
    ]
    assert [r["labels"] for r in pods(*told)] == [{"a": "1", "b": "23"}, {"a": "12", "b": "3"}]


def test_the_order_of_series_changes_nothing() -> None:
    series = []
    for k in range(40):
        of = {"namespace": "ml", "pod": f"p{k % 3}"}
        series.append(info("kube_pod_labels", 10 * k, 10 * k + 5, **of, uid=f"u{k % 4}", label_team=str(k % 5)))
        series.append(info("kube_pod_info", k, 90, **of, uid=f"u{k % 4}", node=f"n{k % 2}"))
        series.append(info("kube_pod_annotations", 3 * k, 3 * k + 2, **of, annotation_note=str(k)))
    whole = build_pods(series)
    turned = series[::-1][1::2] + series[::-1][::2]
    assert build_pods(turned).equals(whole)
    assert build_pods(inventory_table(turned)).equals(whole)


def test_a_frame_has_one_row_a_pod() -> None:
    series = [
        info("kube_pod_info", 10, 60, **POD, node="gpu-a"),
        info("kube_pod_labels", 10, 29, **POD, label_team="a"),
        info("kube_pod_labels", 30, 60, **POD, label_team="b", label_runai_gpu_group="g"),
        moment("kube_pod_start_time", 5, 10),
        info("kube_pod_container_resource_requests", 10, 60, 1, **POD, container="a", resource="nvidia_com_gpu"),
    ]
    (row,) = pods_frame(build_pods(series)).to_dict("records")
    assert (row["seen_ms"], row["seen_until_ms"], row["started_ms"], row["gpu_group"]) == (ms(5), ms(60), ms(5), "g")
    assert np.isnan([row["ended_ms"], row["declared_memory_bytes"], row["declared_fraction"]]).all()
    assert (row["node"], row["requested_gpus"], row["gpu_resource"], row["has_claim"]) == ("gpu-a", 1, "nvidia_com_gpu", False)


def test_a_frame_of_rows_that_lack_the_newer_columns() -> None:
    row = {"namespace": "ml", "pod": "p", "pod_uid": "", "seen_from": at(0), "seen_until": at(1)}
    (told,) = pods_frame(pa.Table.from_pylist([row], schema=PODS.arrow())).to_dict("records")
    assert (told["node"], told["gpu_resource"], told["has_claim"], told["reserves_index"]) == ("", "", False, "")


def test_a_real_exposition() -> None:
    if not SNIPPET.is_file():
        pytest.skip("the shared metric snippets are not beside this checkout")
    series = []
    for line in SNIPPET.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            metric, labels = read_series(name)
            series.append(info(metric, 0, 9, float(value), **labels))
    rows = {r["pod_uid"]: r for r in pods(*series)}
    assert [(r["namespace"], r["pod"], r["pod_uid"]) for r in rows.values()] == [
        ("ns1", "pod1", "abc-123-xxx"),
        ("ns1", "pod1", "uid1"),
        ("ns2", "pod2", "abc-456-xxx"),
        ("ns2", "pod2", "uid2"),
    ]
    assert rows["abc-123-xxx"]["started_at"].timestamp() == 1501569018
    assert rows["abc-456-xxx"]["ended_at"].timestamp() == 1501888018
    assert (rows["abc-456-xxx"]["node"], rows["abc-456-xxx"]["workload_kind"]) == ("node2", "ReplicaSet")
    assert rows["uid1"]["labels"] == {"app": "example"}
    assert (rows["uid1"]["requested_gpus"], rows["uid1"]["ended_at"]) == (1, None)
    assert rows["uid1"]["resource_claims"] == ["pod1-gpu-tmpl-abcde", "shared-gpu-claim"]
    assert rows["uid2"]["resource_claims"] == []
    (node,) = build_nodes(series, [], [], 1).to_pylist()
    assert (node["node"], node["node_id"], node["gpu_resources"]) == ("127.0.0.1", "provider://i-uniqueid", 4)
