"""Several exporters and sources of one cluster: what `auto` chooses, one part a group of nodes, raw series, strange labels."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from allocation.findings import Finding
from pipelines.metric_sources.base import INVENTORY_METRICS, MetricSource, Shard, Window
from pipelines.metric_sources.gather import all_notices, all_places, all_shards
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry
from tests.servers import needs_prometheus, prometheus

WINDOW = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))
AT = 1_790_812_800
GIB = 2**30
USED = "DCGM_FI_DEV_FB_USED"
HAMI = "hami_vgpu_memory_used_bytes"
DCGM_ROWS = (
    f'{USED}{{gpu="0",UUID="GPU-1",Hostname="n1",namespace="ns",pod="a"}} 40960',
    f'{USED}{{gpu="0",UUID="GPU-2",Hostname="n2"}} 1024',
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",Hostname="n1"} 7',
)
HAMI_ROWS = (
    f'{HAMI}{{namespace="ns",pod="a",container="c",vdevice_index="0",device_uuid="GPU-1"}} {30 * GIB}',
    f'{HAMI}{{namespace="ns",pod="b",container="c",vdevice_index="0",device_uuid="GPU-1"}} {5 * GIB}',
    f'{HAMI}{{namespace="ns",pod="far",container="c",vdevice_index="0",device_uuid="GPU-3"}} {GIB}',
)
KUBE_ROWS = (
    'kube_node_info{node="n1",provider_id="p1"} 1',
    'kube_node_info{node="n2",provider_id="p2"} 1',
    'kube_pod_info{namespace="ns",pod="far",uid="u",node="n2"} 1',
)
OTHERS = ('up{job="x"} 1', 'vllm:prompt_tokens_total{model_name="m"} 9')
EXPECTED = {
    ("n1", "GPU-1", "device", "pod_memory", "a", 40.0),
    ("n1", "GPU-1", "container", "pod_memory", "a", 30.0),
    ("n1", "GPU-1", "container", "pod_memory", "b", 5.0),
    ("n2", "GPU-2", "device", "used", "", 1.0),
    ("n2", "GPU-3", "container", "pod_memory", "far", 1.0),
}


def write(folder: Path, name: str, *rows: str) -> Path:
    path = folder / f"{name}.om"
    path.write_text("".join(f"{row} {AT + 60 * n}\n" for row in rows for n in range(3)) + "# EOF\n", encoding="utf-8")
    return path


def source(**entry: object) -> MetricSource:
    return load_metric_source(MetricsEntry.model_validate({"kind": "openmetrics", **entry}), "prod", 900_000)


def together(*sources: MetricSource) -> tuple[list[Shard], list[Finding]]:
    asked = [(one, WINDOW) for one in sources]
    places = all_places(asked, [told for one in sources for told in one.inventory(WINDOW)], [])
    shards = list(all_shards(asked, places, 120_000))
    return shards, [*(f for shard in shards for f in shard.findings), *all_notices(asked, places)]


def content(shards: Sequence[Shard]) -> set[tuple[object, ...]]:
    """Node, device, level, role, pod and GiB of each series."""
    columns = ("node", "gpu_uuid", "level", "role", "pod")
    rows = [row for shard in shards for row in shard.samples.to_pylist()]
    assert all(len(row["values"]) == 3 for row in rows)
    return {(*(row[c] for c in columns), row["values"][0] / GIB) for row in rows}


def told(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    return [(f.code.value, f.subject) for f in findings]


def test_auto_reads_containers_from_one_exporter_and_devices_from_another(tmp_path: Path) -> None:
    read = source(path=write(tmp_path, "m", *DCGM_ROWS, *HAMI_ROWS, *KUBE_ROWS, *OTHERS), profile="auto")
    shards, findings = together(read)
    assert list(read.profiles(WINDOW)) == ["hami", "dcgm"]
    assert content(shards) == EXPECTED
    assert told(findings) == [("profile_chosen", "prod")]
    assert findings[0].evidence.startswith("hami, dcgm: ")
    for word in ("kube-state-metrics", "vllm"):
        assert word in findings[0].evidence


@needs_prometheus
@pytest.mark.parametrize("size", [1, 16])
def test_auto_on_a_real_server_finds_what_the_file_holds(tmp_path: Path, size: int) -> None:
    file = write(tmp_path, "m", *DCGM_ROWS, *HAMI_ROWS, *KUBE_ROWS, *OTHERS)
    from_file = source(path=file, profile="auto", nodes_per_shard=size)
    with prometheus(tmp_path, file) as url:
        from_server = source(kind="prometheus", url=url, profile="auto", nodes_per_shard=size)
        wanted, got = together(from_file), together(from_server)
        assert list(from_server.profiles(WINDOW)) == ["hami", "dcgm"]
        assert list(from_server.roles(WINDOW)) == list(from_file.roles(WINDOW))
    assert content(got[0]) == EXPECTED
    assert got == wanted
    assert len(got[0]) == (2 if size == 1 else 1)


@needs_prometheus
def test_two_entries_make_one_part_a_group_of_nodes(tmp_path: Path) -> None:
    devices = source(path=write(tmp_path, "dcgm", *DCGM_ROWS), nodes_per_shard=1)
    file = write(tmp_path, "hami", *HAMI_ROWS, *KUBE_ROWS)
    with prometheus(tmp_path, file) as url:
        containers = source(kind="prometheus", url=url, profile="hami", nodes_per_shard=5)
        shards, findings = together(devices, containers)
    assert [shard.nodes for shard in shards] == [("n1",), ("n2",)]
    assert [set(shard.samples["node"].to_pylist()) for shard in shards] == [{"n1"}, {"n2"}]
    assert content(shards) == EXPECTED
    assert findings == []


def test_one_series_in_two_sources_is_one_series(tmp_path: Path) -> None:
    files = [write(tmp_path, name, *DCGM_ROWS) for name in ("one", "two")]
    shards, _ = together(*(source(path=file) for file in files))
    assert content(shards) == {row for row in EXPECTED if row[2] == "device"}
    assert sum(shard.samples.num_rows for shard in shards) == 2


def test_nothing_recognised_is_told_and_no_failure(tmp_path: Path) -> None:
    shards, findings = together(source(path=write(tmp_path, "m", *OTHERS, *KUBE_ROWS), profile="auto"))
    assert shards == []
    assert told(findings) == [("no_series", "prod")]
    assert "recognises no exporter of GPU memory among 4 metrics" in findings[0].evidence


@needs_prometheus
def test_a_profile_without_series_names_what_it_looked_for_and_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path, "m", 'DCGM_FI_DEV_FB_USED_BYTES{UUID="GPU-1"} 1', *OTHERS)
    with prometheus(tmp_path, file) as url:
        for read in (source(path=file), source(kind="prometheus", url=url)):
            shards, (finding,) = together(read)
            assert shards == []
            assert (finding.code.value, finding.subject, finding.severity.value) == ("no_series", "prod", "warning")
            assert f"no series of {USED}, DCGM_FI_DEV_FB_FREE" in finding.evidence
            assert "the nearest of 3 names that exist: DCGM_FI_DEV_FB_USED_BYTES" in finding.evidence
    _, (nothing,) = together(source(path=write(tmp_path, "empty")))
    assert "there is no series of any name in the window" in nothing.evidence


NAMED = {
    "pod_memory": {"metric": "pod_bytes"},
    "free": {"metric": "gpu_mem_free"},
    "total": {"metric": "gpu_total"},
    "used": {"metric": "gpu_used"},
}
CUSTOM_ROWS = (
    'pod_bytes{node="n1",gpu_uuid="GPU-1",namespace="ns",pod="a"} 5',
    'gpu_memory_free{node="n1",gpu_uuid="GPU-1"} 7',
    'gpu_total{node="n1",gpu="GPU-1"} 9',
    'gpu_used{node="n1",gpu_uuid="GPU-1"} 5',
)


@needs_prometheus
def test_a_named_role_that_no_series_plays_is_told(tmp_path: Path) -> None:
    file = write(tmp_path, "m", *CUSTOM_ROWS)
    with prometheus(tmp_path, file) as url:
        for read in (
            source(path=file, profile="custom", custom=NAMED),
            source(kind="prometheus", url=url, profile="custom", custom=NAMED),
        ):
            shards, findings = together(read)
            assert [(row["role"], row["values"][0]) for s in shards for row in s.samples.to_pylist()] == [
                ("pod_memory", 5.0),
                ("used", 5.0),
            ]
            assert [(f.code.value, f.subject, f.severity.value) for f in findings] == [
                ("no_series", "gpu_mem_free", "warning"),
                ("no_series", "gpu_total", "warning"),
            ]
            assert findings[0].evidence == (
                "profile custom: no series of gpu_mem_free for the role `free`; the nearest of 4 names that exist: "
                "gpu_memory_free"
            )
            assert findings[1].evidence == (
                "profile custom: no series of gpu_total for the role `total` has the labels gpu_uuid; the labels that exist: "
                "gpu, node"
            )


def test_containers_without_a_pod_label_are_told_and_devices_without_one_are_not(tmp_path: Path) -> None:
    rows = ('pod_bytes{node="n1",gpu_uuid="GPU-1",pod_name="a"} 5', 'gpu_used{node="n1",gpu_uuid="GPU-1"} 5')
    file = write(tmp_path, "m", *rows)
    named = {"pod_memory": {"metric": "pod_bytes"}, "used": {"metric": "gpu_used"}}
    (finding,) = together(source(path=file, profile="custom", custom=named))[1]
    assert finding.evidence.endswith("has the labels gpu_uuid and pod; the labels that exist: gpu_uuid, node, pod_name")
    of_device = named | {"pod_memory": {"metric": "pod_bytes", "level": "device"}}
    assert together(source(path=file, profile="custom", custom=of_device))[1] == []


@pytest.mark.parametrize(
    ("level", "values"), [("container", {"pod_bytes": [5.0]}), ("device", {"pod_bytes": [5.0], "mem": [7.0]})]
)
def test_two_custom_entries_on_one_device_are_two_exporters(
    tmp_path: Path, level: str, values: Mapping[str, list[float]]
) -> None:
    """The first entry's containers count, the other's would be added to them: 5, not 12 bytes of one pod."""
    labels = 'node="n1",gpu_uuid="GPU-1",namespace="ns",pod="a"'
    file = write(tmp_path, "m", f"pod_bytes{{{labels}}} 5", f"mem{{{labels}}} 7")
    first, second = (
        source(path=file, profile="custom", custom={"pod_memory": {"metric": metric, "level": level}})
        for metric in ("pod_bytes", "mem")
    )
    shards, (finding,) = together(first, second)
    assert (finding.code.value, finding.subject) == ("two_exporters", "n1/GPU-1")
    assert "pod_memory by pod_bytes and mem" in finding.evidence
    assert {row["metric"]: sorted(set(row["values"])) for s in shards for row in s.samples.to_pylist()} == values
    same = source(path=file, profile="custom", custom={"pod_memory": {"metric": "pod_bytes", "level": level}})
    assert "two_exporters" not in {f.code.value for f in together(first, same)[1]}


@needs_prometheus
def test_raw_series_are_whole_and_in_time_order(tmp_path: Path) -> None:
    metric = "vllm:prompt_tokens_total"
    rows = "".join(f'{metric}{{pod="{pod}"}} {n} {AT + 60 * n}\n' for pod in ("a", "b") for n in range(-2, 62))
    (tmp_path / "m.om").write_text(f"{rows}# EOF\n", encoding="utf-8")

    def joined(read: MetricSource) -> dict[str, list[tuple[int, float]]]:
        found: dict[str, list[tuple[int, float]]] = {}
        for name, labels, times, values in read.raw(WINDOW, [metric, "absent"]):
            assert name == metric
            found.setdefault(labels["pod"], []).extend(zip(times.tolist(), values.tolist(), strict=True))
        return found

    expected = [((AT + 60 * n) * 1000, float(n)) for n in range(60)]
    with prometheus(tmp_path, tmp_path / "m.om") as url:
        server = joined(source(kind="prometheus", url=url, chunk="7m"))
    assert server == joined(source(path=tmp_path / "m.om")) == {"a": expected, "b": expected}


def many_labels(count: int) -> tuple[str, ...]:
    """One pod whose row and whose labels change at every sample, to values of any sort."""
    strange = ('x\\"y', "\\\\", "\\n", "ü", "\u200f", "\0", "\u0001}{,=")
    labels = [f"{strange[n % len(strange)]}{n}" for n in range(count)]
    return tuple(
        f'{USED}{{UUID="GPU-1",Hostname="n1",namespace="ns",pod="a",note="{label}"}} 1024 {AT}.{n % 1000:03d}\n'
        f'kube_pod_labels{{namespace="ns",pod="a",label_note="{label}"}} 1 {AT}.{n % 1000:03d}\n'
        for n, label in enumerate(labels)
    )


def test_a_hundred_thousand_label_changes_are_one_series_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "m.om").write_text("".join(many_labels(100_000)) + "# EOF\n", encoding="utf-8", newline="")
    read = source(path=tmp_path / "m.om")
    began = time.process_time()
    shards, findings = together(read)
    assert time.process_time() - began < 60
    (row,) = (row for shard in shards for row in shard.samples.to_pylist())
    assert (row["pod"], len(row["values"]), set(row["values"])) == ("a", 1000, {float(GIB)})
    assert {f.code.value for f in findings} == {"duplicate_samples"}
    assert sum(f.count for f in findings) == 99_000
    assert len(read.inventory(WINDOW)) == 100_000


@needs_prometheus
def test_strange_label_values_are_the_same_from_a_server(tmp_path: Path) -> None:
    (tmp_path / "m.om").write_text("".join(many_labels(50)) + "# EOF\n", encoding="utf-8", newline="")
    with prometheus(tmp_path, tmp_path / "m.om") as url:
        server = source(kind="prometheus", url=url)
        file = source(path=tmp_path / "m.om")
        assert together(server) == together(file)
        assert list(server.inventory(WINDOW)) == list(file.inventory(WINDOW))


def test_the_inventory_is_read_beside_the_profiles(tmp_path: Path) -> None:
    found = source(path=write(tmp_path, "m", *KUBE_ROWS), profile="auto").inventory(WINDOW)
    assert {one.metric for one in found} <= set(INVENTORY_METRICS)
    labels: list[Mapping[str, str]] = [one.labels for one in found]
    assert {"node": "n1", "provider_id": "p1"} in labels
    assert np.all([one.last_ms - one.first_ms == 120_000 for one in found])
