"""What series mean under each profile, and the same shards from a file and from a real Prometheus."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml

from allocation.errors import SettingsError
from pipelines.metric_sources.base import InfoSeries, Window
from pipelines.metric_sources.normalise import InfoReducer
from pipelines.metric_sources.profiles import DCGM, Profile, profile_of
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry
from tests.servers import needs_prometheus, prometheus

CASES = Path(__file__).parents[1] / "cases"
DAY = Window(datetime(2026, 9, 30, 23, 45, tzinfo=UTC), datetime(2026, 10, 2, 0, 15, tzinfo=UTC))
GAP_MS = 900_000
USED = "DCGM_FI_DEV_FB_USED"
DEVICE = {"UUID": "GPU-1", "Hostname": "n1"}


def custom(**series: dict[str, object]) -> Profile:
    return profile_of(
        MetricsEntry.model_validate({"kind": "openmetrics", "path": "x", "profile": "custom", "custom": series}), "c"
    )


def meaning(profile: Profile, metric: str, labels: dict[str, str], *, exported: bool = False) -> list[tuple[str, ...]]:
    """Role, namespace, pod, uid, container of each identity."""
    return [(i.role, *i[-4:]) for i, _ in profile.identify(metric, labels, exported=exported)]


@pytest.mark.parametrize(
    ("labels", "exported", "expected"),
    [
        ({}, False, ("used", "", "", "", "")),
        ({"pod": ""}, False, ("used", "", "", "", "")),
        ({"pod": "a", "namespace": "ns", "container": "c", "pod_uid": "u"}, False, ("pod_memory", "ns", "a", "u", "c")),
        ({"pod_name": "a", "pod_namespace": "ns", "container_name": "c"}, False, ("pod_memory", "ns", "a", "", "c")),
        ({"pod": "nvidia-dcgm-exporter-x", "namespace": "gpu-operator"}, False, ("used", "", "", "", "")),
        ({"pod": "renamed-exporter", "namespace": "monitoring"}, True, ("used", "", "", "", "")),
        (
            {
                "pod": "x",
                "namespace": "gpu-operator",
                "exported_pod": "a",
                "exported_namespace": "ns",
                "exported_container": "c",
            },
            True,
            ("pod_memory", "ns", "a", "", "c"),
        ),
    ],
)
def test_dcgm_rows_with_a_pod_are_its_memory_and_others_the_device(
    labels: dict[str, str], exported: bool, expected: tuple[str, ...]
) -> None:
    assert meaning(DCGM, USED, DEVICE | labels, exported=exported) == [expected]


@pytest.mark.parametrize("metric", ["DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_TOTAL"])
def test_other_dcgm_rows_are_the_devices_whatever_pod_they_name(metric: str) -> None:
    role = metric.rpartition("_")[2].lower()
    assert meaning(DCGM, metric, DEVICE | {"pod": "a", "namespace": "ns"}) == [(role, "", "", "", "")]


def test_dcgm_labels_of_the_device() -> None:
    labels = {
        "uuid": "GPU-1",
        "node": "n1",
        "hostname": "pod-name",
        "GPU_I_ID": "3",
        "GPU_I_PROFILE": "1g.5gb",
        "modelName": "NVIDIA A100",
    }
    ((identity, unit),) = DCGM.identify(USED, labels, exported=False)
    assert unit == 1048576
    assert identity[:9] == ("used", "device", USED, False, "n1", "GPU-1", "3", "1g.5gb", "NVIDIA A100")


def test_a_series_without_a_device_has_no_meaning() -> None:
    assert DCGM.identify(USED, {"Hostname": "n1"}, exported=False) == []


def test_a_series_without_a_node_waits_for_its_place() -> None:
    ((identity, _),) = DCGM.identify(USED, {"UUID": "GPU-1"}, exported=False)
    assert (identity.node, identity.gpu_uuid) == ("", "GPU-1")


def test_custom_roles_units_and_reserve() -> None:
    profile = custom(
        pod_memory={"metric": "p", "unit": "MB"},
        used={"metric": "u", "unit": "GiB", "includes_reserved": True},
        declared={"metric": "d", "unit": "KiB"},
    )
    labels = {"node": "n", "gpu_uuid": "g", "namespace": "ns", "pod": "a", "uid": "x"}
    ((pod, pod_unit),) = profile.identify("p", labels, exported=False)
    ((used, used_unit),) = profile.identify("u", labels, exported=False)
    ((declared, declared_unit),) = profile.identify("d", labels, exported=False)
    assert (pod_unit, used_unit, declared_unit) == (1_000_000, 1073741824, 1024)
    assert (pod.level, pod.includes_reserved, used.includes_reserved) == ("container", False, True)
    assert (pod[-4:], used[-4:], declared[-4:]) == (("ns", "a", "x", ""), ("", "", "", ""), ("ns", "a", "x", ""))


def test_a_custom_row_without_a_pod_is_the_device_only_where_pods_repeat_it() -> None:
    labels = {"node": "n", "gpu_uuid": "g"}
    assert meaning(custom(pod_memory={"metric": "p", "level": "device"}), "p", labels) == [("used", "", "", "", "")]
    assert meaning(custom(pod_memory={"metric": "p"}), "p", labels) == []
    declared = custom(pod_memory={"metric": "p"}, declared={"metric": "d"})
    assert meaning(declared, "d", labels) == []


def test_one_metric_may_play_two_roles() -> None:
    profile = custom(pod_memory={"metric": "m", "level": "device"}, used={"metric": "m"})
    found = meaning(profile, "m", {"node": "n", "gpu_uuid": "g", "pod": "a"})
    assert found == [("pod_memory", "", "a", "", ""), ("used", "", "", "", "")]


def test_stretches_join_over_pieces_up_to_the_gap_and_not_beyond() -> None:
    reducer = InfoReducer(100)
    pieces = [([0, 100], [1.0, 1.0]), ([200], [2.0]), ([301, 350], [3.0, np.nan])]
    for times, values in pieces:
        reducer.add("kube_pod_info", {"__name__": "kube_pod_info", "pod": "a", "x": ""}, np.array(times), np.array(values))
    assert reducer.result() == [
        InfoSeries("kube_pod_info", {"pod": "a"}, 0, 200, 2.0),
        InfoSeries("kube_pod_info", {"pod": "a"}, 301, 301, 3.0),
    ]


def test_an_unknown_kind_names_the_nearest() -> None:
    entry = MetricsEntry(kind="openmetrics", path=Path("x")).model_copy(update={"kind": "openmetric"})
    with pytest.raises(SettingsError, match="did you mean 'openmetrics'"):
        load_metric_source(entry, "prod", 1)


def entries(profile: str) -> Iterator[MetricsEntry]:
    """The metrics entries of the cases of a profile, first of each case."""
    for config in sorted(CASES.glob("*/chargeback.yaml")):
        named = yaml.safe_load(config.read_text(encoding="utf-8"))["clusters"][0]["metrics"][0]
        if named["profile"] == profile:
            yield MetricsEntry.model_validate(named | {"path": config.parent / named["path"]})


CHOSEN = {
    "dcgm": ["09-mig", "21-time", "22-per", "23-exported", "24-two", "25-dcgm", "42-mig", "50-device"],
    "custom": ["12-gaps", "15-owners", "26-pod", "27-ha", "28-container", "41-declared"],
}


@needs_prometheus
@pytest.mark.parametrize("profile", ["dcgm", "custom"])
def test_a_file_and_a_prometheus_that_holds_it_give_the_same(profile: str, tmp_path: Path) -> None:
    """Several cases a profile, in one server, told apart by a label that ``match`` asks for."""
    chosen = [entry for entry in entries(profile) if any(f"/{case}" in str(entry.path) for case in CHOSEN[profile])]
    assert len(chosen) == len(CHOSEN[profile])
    files = []
    for number, entry in enumerate(chosen):
        text = Path(str(entry.path)).read_text(encoding="utf-8")
        files.append(tmp_path / f"{number}.om")
        files[-1].write_text(text.replace("{", f'{{case="{number}",'), encoding="utf-8")
    with prometheus(tmp_path, *files) as url:
        for number, (entry, file) in enumerate(zip(chosen, files, strict=True)):
            match = {"case": str(number)}
            from_file = load_metric_source(entry.model_copy(update={"path": file, "match": match}), "prod", GAP_MS)
            server = entry.model_copy(update={"kind": "prometheus", "url": url, "match": match, "nodes_per_shard": 1})
            from_server = load_metric_source(server, "prod", GAP_MS)
            nodes = from_file.nodes(DAY)
            assert nodes
            assert list(from_server.nodes(DAY)) == list(nodes)
            assert list(from_server.shards(DAY, nodes)) == list(from_file.shards(DAY, nodes))
            assert list(from_server.inventory(DAY)) == list(from_file.inventory(DAY))
            assert list(from_server.roles(DAY)) == list(from_file.roles(DAY))


def test_the_blank_values_of_a_case_are_counted_and_gone() -> None:
    (entry,) = (e for e in entries("dcgm") if "25-dcgm-blank" in str(e.path))
    read = load_metric_source(entry, "prod", GAP_MS)
    (shard,) = read.shards(DAY, read.nodes(DAY))
    samples = dict(zip(shard.samples.column("role").to_pylist(), shard.samples.column("values").to_pylist(), strict=True))
    assert samples == {"pod_memory": [40 * 2.0**30] * 5, "free": [40 * 2.0**30] * 4}
    assert [(f.code.value, f.subject, f.count) for f in shard.findings] == [("invalid_samples", "gpu-a/GPU-1", 3)]
