"""Rows are placed on nodes by what the cluster tells, in a fixed order, and never by a guess."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.metric_sources.base import InfoSeries, MetricSource, Window
from pipelines.metric_sources.gather import all_notices, all_places, all_shards
from pipelines.metric_sources.placing import Places, Sight, places_of
from pipelines.metric_sources.profiles import Profile, profile_of
from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, SeriesRule
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry
from tests.servers import needs_prometheus, prometheus

WINDOW = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))
AT = 1_790_812_800
CUSTOM = {"pod_memory": {"metric": "pod_bytes"}, "used": {"metric": "used_bytes"}, "total": {"metric": "total_bytes"}}


def info(metric: str, **labels: str) -> InfoSeries:
    return InfoSeries(metric, labels, 0, 1, 1.0)


INVENTORY = (
    info("kube_node_info", node="gpu-a", internal_ip="10.0.0.1"),
    info("kube_node_info", node="gpu-b", internal_ip="10.0.0.2"),
    info("kube_pod_info", namespace="gpu", pod="exporter-x", uid="u1", node="gpu-b", host_ip="10.0.0.2", pod_ip="10.1.2.3"),
    info("kube_pod_info", namespace="ns", pod="train", uid="u2", node="gpu-a", host_ip="10.0.0.1", pod_ip="fd00::7"),
    info("kube_pod_info", namespace="kube", pod="ksm", exported_namespace="ns", exported_pod="moved", exported_node="gpu-b"),
    info("kube_pod_info", namespace="ns", pod="pending", uid="u4", node=""),
    info("kube_pod_info", namespace="ns", pod="web-0", uid="u5", node="gpu-a", pod_ip="10.9.9.9"),
    info("kube_pod_info", namespace="ns", pod="web-0", uid="u6", node="gpu-b", pod_ip="10.9.9.9"),
)
PROFILE = Profile(
    name="test",
    level="container",
    rules=(SeriesRule("pod_memory", "m", "bytes"), SeriesRule("used", "u", "bytes")),
    device=DeviceLabels(node=("node",), gpu=("uuid",), address=("instance",), place=("index",)),
    holder=HolderLabels(("namespace",), ("pod",), ("uid",), ()),
    exported=HolderLabels(("exported_namespace",), ("exported_pod",), (), ()),
    holder_by_uid=True,
)


@pytest.mark.parametrize(
    ("told", "node"),
    [
        ("gpu-a", "gpu-a"),
        ("exporter-x", "gpu-b"),
        ("10.0.0.1", "gpu-a"),
        ("10.0.0.2:9400", "gpu-b"),
        ("10.1.2.3:9394", "gpu-b"),
        ("[fd00::7]:9400", "gpu-a"),
        ("FD00:0::7", "gpu-a"),
        ("moved", "gpu-b"),
        ("gpu-a:9835", "gpu-a"),
        ("web-0", ""),
        ("10.9.9.9", ""),
        ("pending", ""),
        ("unknown", ""),
    ],
)
def test_a_label_tells_a_node_by_name_pod_or_address(told: str, node: str) -> None:
    assert places_of(INVENTORY).named(told) == node


def test_a_configured_node_is_known_by_name() -> None:
    assert places_of((), ["10.0.0.9"]).named("10.0.0.9:9400") == "10.0.0.9"


SIGHTS = [Sight("GPU-1", "gpu-a", "0"), Sight("GPU-2", "gpu-b", "0"), Sight("GPU-3", "gpu-a", "1"), Sight("GPU-3", "gpu-b", "1")]


@pytest.mark.parametrize(
    ("labels", "exported", "node"),
    [
        ({"uuid": "GPU-1", "node": "gpu-b"}, False, "gpu-b"),  # a label goes before all else
        ({"uuid": "GPU-1", "node": "gpu-new"}, False, "gpu-new"),  # a name that nobody knows is believed
        ({"uuid": "GPU-1", "instance": "10.0.0.2:9400"}, False, "gpu-b"),
        ({"uuid": "GPU-1", "instance": "service:9400"}, False, "gpu-a"),  # an address that leads nowhere, then the device
        ({"uuid": "GPU-1", "node": "192.0.2.1"}, False, "gpu-a"),
        ({"uuid": "GPU-2"}, False, "gpu-b"),
        ({"uuid": "GPU-3"}, False, ""),  # the card was on two nodes
        ({"uuid": "GPU-3", "namespace": "ns", "pod": "train"}, False, "gpu-a"),
        ({"uuid": "GPU-9", "namespace": "ns", "pod": "train"}, False, "gpu-a"),
        ({"uuid": "GPU-9", "namespace": "other", "pod": "train"}, False, ""),
        ({"uuid": "GPU-9", "namespace": "ns", "pod": "web-0"}, False, ""),  # one name, two nodes
        ({"uuid": "GPU-9", "namespace": "ns", "pod": "web-0", "uid": "u6"}, False, "gpu-b"),
        ({"uuid": "GPU-9", "namespace": "gpu", "pod": "exporter-x"}, True, "gpu-b"),  # the exporter's own pod
        (
            {
                "uuid": "GPU-9",
                "exported_namespace": "ns",
                "exported_pod": "train",
                "namespace": "gpu",
                "pod": "exporter-x",
            },
            True,
            "gpu-a",
        ),
        ({"uuid": "GPU-9", "instance": "service:9400"}, False, ""),  # no node of a cluster that lists its nodes
        ({"uuid": "GPU-9", "node": "192.0.2.1"}, False, ""),
        ({"index": "0"}, False, ""),  # a place alone is no device
        ({"index": "0", "namespace": "ns", "pod": "train"}, False, "gpu-a"),
    ],
)
def test_a_row_is_placed_by_label_device_and_pod_in_this_order(labels: dict[str, str], exported: bool, node: str) -> None:
    places = places_of(INVENTORY).with_sights(SIGHTS)
    device = PROFILE.device_of(labels)
    assert device is not None
    assert places.node(PROFILE, device, labels, exported=exported) == node


@pytest.mark.parametrize(
    ("configured", "told", "node"),
    [
        ([], "10.0.0.5:9400", "10.0.0.5"),
        ([], "gpu-x:9835", "gpu-x"),
        (["gpu-a"], "gpu-x:9835", "gpu-x"),
        (["gpu-a"], "10.0.0.5:9400", ""),
    ],
)
def test_where_no_inventory_lists_nodes_a_host_is_one(configured: list[str], told: str, node: str) -> None:
    device = PROFILE.device_of({"uuid": "GPU-9", "instance": told})
    assert device is not None
    assert places_of((), configured).node(PROFILE, device, {"uuid": "GPU-9", "instance": told}, exported=False) == node


def test_a_place_becomes_the_id_that_others_show_there() -> None:
    places = places_of(INVENTORY).with_sights([*SIGHTS, Sight("GPU-4", "gpu-a", "1")])

    def gpu(labels: Mapping[str, str]) -> str:
        ((identity, _),) = places.identify(PROFILE, "u", labels, exported=False)
        return identity.gpu_uuid

    assert gpu({"node": "gpu-a", "index": "0"}) == "GPU-1"
    assert gpu({"node": "gpu-b", "index": "nvidia0"}) == "GPU-2"
    assert gpu({"node": "gpu-a", "index": "1"}) == "1"  # two cards were there
    assert gpu({"node": "gpu-a", "index": "7"}) == "7"
    assert gpu({"node": "gpu-a", "index": "0", "uuid": "GPU-8"}) == "GPU-8"


def test_a_pod_named_by_its_uid_gets_its_name() -> None:
    ((identity, _),) = places_of(INVENTORY).identify(PROFILE, "m", {"uuid": "GPU-9", "uid": "u2"}, exported=False)
    assert (identity.node, identity.namespace, identity.pod, identity.pod_uid) == ("gpu-a", "ns", "train", "u2")


NO_TOTAL = ("no_series", "total_bytes", 1)
"""What is said where the role ``total`` of CUSTOM has no series."""


def source(folder: Path, name: str, *rows: str, **entry: object) -> MetricSource:
    path = folder / f"{name}.om"
    path.write_text("".join(f"{row} {AT + 60 * n}\n" for row in rows for n in range(3)) + "# EOF\n", encoding="utf-8")
    values = {"kind": "openmetrics", "path": path, "profile": "custom", "custom": CUSTOM, **entry}
    return load_metric_source(MetricsEntry.model_validate(values), "prod", 900_000)


def placed(*sources: MetricSource) -> tuple[dict[tuple[str, str, str], str], list[tuple[str, str, int]]]:
    """Node of each (role, device, pod), and the findings."""
    asked = [(one, WINDOW) for one in sources]
    places = all_places(asked, [told for one in sources for told in one.inventory(WINDOW)], [])
    shards = list(all_shards(asked, places, 120_000))
    rows = [row for shard in shards for row in shard.samples.to_pylist()]
    found = {(row["role"], row["gpu_uuid"], row["pod"]): row["node"] for row in rows}
    assert len(found) == len(rows)
    findings = [*(f for shard in shards for f in shard.findings), *all_notices(asked, places)]
    return found, [(f.code.value, f.subject, f.count) for f in findings]


def test_container_rows_without_a_node_are_placed_by_their_device_within_one_source(tmp_path: Path) -> None:
    found, findings = placed(
        source(
            tmp_path,
            "one",
            'pod_bytes{gpu_uuid="GPU-1",namespace="ns",pod="a"} 5',
            'used_bytes{gpu_uuid="GPU-1",node="gpu-a"} 7',
            'pod_bytes{gpu_uuid="GPU-2",namespace="ns",pod="b"} 5',
        )
    )
    assert found == {("pod_memory", "GPU-1", "a"): "gpu-a", ("used", "GPU-1", ""): "gpu-a"}
    assert findings == [NO_TOTAL, ("no_series", "pod_bytes", 1)]


def test_a_row_is_placed_by_another_source_and_by_the_pods_node(tmp_path: Path) -> None:
    containers = source(
        tmp_path,
        "containers",
        'pod_bytes{gpu_uuid="GPU-1",namespace="ns",pod="a"} 5',
        'pod_bytes{gpu_uuid="GPU-2",namespace="ns",pod="b"} 5',
        'total_bytes{gpu_uuid="GPU-2"} 9',
        'kube_pod_info{namespace="ns",pod="b",uid="u",node="gpu-b"} 1',
    )
    devices = source(tmp_path, "devices", 'used_bytes{gpu_uuid="GPU-1",node="gpu-a"} 7')
    found, findings = placed(containers, devices)
    assert found == {
        ("pod_memory", "GPU-1", "a"): "gpu-a",
        ("used", "GPU-1", ""): "gpu-a",
        ("pod_memory", "GPU-2", "b"): "gpu-b",
        ("total", "GPU-2", ""): "gpu-b",
    }
    assert findings == [("no_series", "used_bytes", 1), ("no_series", "pod_bytes", 1), NO_TOTAL], "roles without series"


def test_a_card_on_two_nodes_is_told_and_not_guessed(tmp_path: Path) -> None:
    rows = [f'used_bytes{{gpu_uuid="GPU-1",node="{node}"}} 7' for node in ("gpu-a", "gpu-b")]
    read = source(tmp_path, "one", *rows, 'pod_bytes{gpu_uuid="GPU-1",namespace="ns",pod="a"} 5')
    places = all_places([(read, WINDOW)], [], [])
    shards = list(all_shards([(read, WINDOW)], places, 120_000))
    assert [(row["role"], row["node"]) for s in shards for row in s.samples.to_pylist()] == [("used", "gpu-a"), ("used", "gpu-b")]
    findings = [(f.code.value, f.subject, f.count) for f in all_notices([(read, WINDOW)], places)]
    assert findings == [NO_TOTAL, ("no_series", "pod_bytes", 1), ("contradicting_inventory", "GPU-1", 1)]


ROWS = (
    'pod_bytes{gpu_uuid="GPU-1",namespace="ns",pod="a"} 5',
    'pod_bytes{gpu_uuid="GPU-1",namespace="ns",pod="b"} 6',
    'pod_bytes{gpu_uuid="GPU-2",namespace="ns",pod="c"} 7',
    'pod_bytes{gpu_uuid="GPU-3",namespace="ns",pod="d"} 8',
    'pod_bytes{gpu_uuid="GPU-9",namespace="ns",pod="e"} 8',
    'used_bytes{gpu_uuid="GPU-1",node="gpu-a"} 11',
    'used_bytes{gpu_uuid="GPU-2",node="gpu-b"} 7',
    'used_bytes{gpu_uuid="GPU-3",node="exporter-x"} 8',
    'kube_pod_info{namespace="ns",pod="exporter-x",uid="u",node="gpu-b"} 1',
)


@needs_prometheus
@pytest.mark.parametrize("size", [1, 5])
def test_a_real_server_places_the_same_rows_on_the_same_nodes(tmp_path: Path, size: int) -> None:
    from_file = source(tmp_path, "m", *ROWS, nodes_per_shard=size)
    with prometheus(tmp_path, tmp_path / "m.om") as url:
        from_server = source(tmp_path, "x", "x 1", kind="prometheus", url=url, path=None, nodes_per_shard=size)
        assert placed(from_server) == placed(from_file)
    found, findings = placed(from_file)
    assert found[("pod_memory", "GPU-3", "d")] == "gpu-b"
    assert sum(role == "pod_memory" for role, _, _ in found) == 4
    assert findings == [NO_TOTAL, ("no_series", "pod_bytes", 1)]


def test_without_places_a_source_uses_what_it_shows_itself(tmp_path: Path) -> None:
    read = source(tmp_path, "one", *ROWS[:2], ROWS[5])
    assert list(read.nodes(WINDOW)) == ["gpu-a"]
    (shard,) = read.shards(WINDOW, ["gpu-a"])
    assert shard.samples.column("pod").to_pylist() == ["a", "b", ""]


def test_nothing_known_places_nothing() -> None:
    assert Places().named("gpu-a") == ""
    entry = MetricsEntry.model_validate({"kind": "openmetrics", "path": "x", "profile": "custom", "custom": CUSTOM})
    ((identity, _),) = Places().identify(profile_of(entry, "c"), "used_bytes", {"gpu_uuid": "g"}, exported=False)
    assert (identity.node, identity.gpu_uuid) == ("", "g")
