"""What is noticed among raw series: copies by replicas, clocks that disagree, two exporters; and what is none of these."""

from collections.abc import Sequence

import numpy as np
import pytest

from allocation.findings import Finding
from pipelines.metric_sources.normalise import ShardBuilder
from pipelines.metric_sources.placing import Places
from pipelines.metric_sources.profiles import DCGM, PROFILES, Profile
from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, SeriesRule

USED = "DCGM_FI_DEV_FB_USED"
DEVICE = {"UUID": "GPU-1", "Hostname": "n1"}
HOLD_MS = 120_000
OTHER = Profile(
    "other",
    "device",
    (SeriesRule("pod_memory", "mem", "MiB", without_pod="used"), SeriesRule("declared", "want", "MiB")),
    DeviceLabels(("node",), ("uuid",)),
    HolderLabels(("namespace",), ("pod",), (), ()),
)
Told = tuple[Profile, str, dict[str, str], Sequence[int], Sequence[float]]


def gathered(*rows: Told, exported: bool = False) -> tuple[list[dict[str, object]], list[Finding]]:
    """Samples and findings of these series; times in seconds."""
    builder = ShardBuilder(Places(), ["n1"], HOLD_MS)
    for profile, metric, labels, times, values in rows:
        at = np.array(times, np.int64) * 1000
        for piece in (slice(0, len(at) // 2), slice(len(at) // 2, None)):
            builder.add(profile, (metric, labels, at[piece], np.array(values, np.float64)[piece]), exported=exported)
    shard = builder.shard()
    return shard.samples.to_pylist(), list(shard.findings)


def codes(findings: Sequence[Finding]) -> list[tuple[str, str, int]]:
    return [(f.code.value, f.subject, f.count) for f in findings]


def copies(first: dict[str, str], second: dict[str, str]) -> list[Told]:
    return [
        (DCGM, USED, DEVICE | first, range(0, 600, 60), [1.0] * 10),
        (DCGM, USED, DEVICE | second, range(10, 610, 60), [1.0] * 10),
    ]


def test_replicas_interleave_as_one_series_and_are_told() -> None:
    pod = {"pod": "a", "namespace": "ns", "prometheus_replica": "0"}
    rows, findings = gathered(*copies(pod, pod | {"prometheus_replica": "1", "instance": "10.0.0.1:9400"}))
    (row,) = rows
    assert row["timestamps_ms"] == sorted([*range(0, 600_000, 60_000), *range(10_000, 610_000, 60_000)])
    assert codes(findings) == [("ha_duplicates", "n1/GPU-1", 1)]
    assert "prometheus_replica" in findings[0].evidence
    assert "instance" in findings[0].evidence
    assert findings[0].severity.value == "info"
    assert findings[0].period is not None
    assert [moment.timestamp() for moment in findings[0].period] == [0.0, 550.001]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"pod": "a", "vgpu": "0"}, {"pod": "a", "vgpu": "1"}),  # two slots of one card
        ({"pod": "a", "container": "x"}, {"pod": "a", "container": "y"}),
        ({"pod": "a"}, {"pod": "b"}),
        ({"pod": "a", "DCGM_FI_DRIVER_VERSION": "1"}, {"pod": "a", "DCGM_FI_DRIVER_VERSION": "2"}),
    ],
)
def test_what_differs_in_more_than_a_replica_is_no_copy(first: dict[str, str], second: dict[str, str]) -> None:
    assert gathered(*copies(first, second))[1] == []


def test_a_restarted_exporter_is_no_replica() -> None:
    rows = [
        (DCGM, USED, DEVICE | {"instance": "a"}, range(0, 600, 60), [1.0] * 10),
        (DCGM, USED, DEVICE | {"instance": "b"}, range(600, 1200, 60), [1.0] * 10),
    ]
    found, findings = gathered(*rows)
    assert len(found) == 1
    assert findings == []


def test_the_exporters_own_pod_is_no_difference_where_the_server_moved_labels_aside() -> None:
    moved = {"exported_pod": "a", "exported_namespace": "ns", "namespace": "gpu"}
    rows = copies(moved | {"pod": "exporter-1"}, moved | {"pod": "exporter-2"})
    assert codes(gathered(*rows, exported=True)[1]) == [("ha_duplicates", "n1/GPU-1", 1)]


def skewed(by_s: int, step_s: int = 30) -> list[Told]:
    """Two replicas of a value that changes every ten minutes; the second one's clock is late."""
    times = range(0, 7200, step_s)
    values = [float(t // 600) for t in times]
    second = [t + by_s for t in times]
    labels = DEVICE | {"pod": "a"}
    return [(DCGM, USED, labels | {"replica": "0"}, times, values), (DCGM, USED, labels | {"replica": "1"}, second, values)]


@pytest.mark.parametrize(("by_s", "told"), [(0, False), (29, False), (120, False), (121, True), (500, True)])
def test_clocks_that_tell_changes_further_apart_than_the_hold_are_told(by_s: int, told: bool) -> None:
    findings = gathered(*skewed(by_s))[1]
    assert ("skewed_clocks" in {f.code.value for f in findings}) is told
    if told:
        (finding,) = (f for f in findings if f.code.value == "skewed_clocks")
        assert (finding.subject, finding.severity.value) == ("n1/GPU-1", "warning")
        assert f"{by_s} s apart" in finding.evidence


def test_rare_scrapes_and_few_changes_are_no_skew() -> None:
    assert codes(gathered(*skewed(250, 300))[1]) == [("ha_duplicates", "n1/GPU-1", 1)]
    first, second = skewed(500)
    flat = [(p, m, labels, times, [1.0] * len(times)) for p, m, labels, times, _ in (first, second)]
    assert codes(gathered(*flat)[1]) == [("ha_duplicates", "n1/GPU-1", 1)]


def test_two_exporters_of_one_role_at_one_time_are_told() -> None:
    theirs = {"uuid": "GPU-1", "node": "n1"}
    rows: list[Told] = [
        (DCGM, USED, DEVICE, range(0, 600, 60), [1.0] * 10),
        (OTHER, "mem", theirs, range(300, 900, 60), [1.0] * 10),
        (OTHER, "mem", theirs | {"uuid": "GPU-2"}, range(300, 900, 60), [1.0] * 10),
    ]
    findings = gathered(*rows)[1]
    assert codes(findings) == [("two_exporters", "n1/GPU-1", 1)]
    assert f"used by {USED} and mem" in findings[0].evidence
    assert findings[0].period is not None
    assert [moment.timestamp() for moment in findings[0].period] == [300.0, 540.001]


def test_one_exporter_after_the_other_or_at_another_level_is_no_second() -> None:
    theirs = {"uuid": "GPU-1", "node": "n1"}
    later: Told = (OTHER, "mem", theirs, range(600, 900, 60), [1.0] * 5)
    ours: Told = (DCGM, USED, DEVICE, range(0, 600, 60), [1.0] * 10)
    assert gathered(ours, later)[1] == []
    containers = Profile("c", "container", (SeriesRule("used", "mem", "MiB"),), OTHER.device)
    assert gathered(ours, (containers, "mem", theirs, range(0, 600, 60), [1.0] * 10))[1] == []


def test_values_of_a_device_are_scaled_by_what_its_total_tells() -> None:
    profile = Profile(
        "mb",
        "device",
        (SeriesRule("used", "u", "MiB"), SeriesRule("total", "t", "MiB")),
        DeviceLabels(("node",), ("uuid",)),
        decimal_totals_mib=(65520,),
    )
    rows: list[Told] = [
        (profile, metric, {"node": "n1", "uuid": gpu}, [0, 1], [value, float("nan")])
        for gpu, total, used in (("GPU-1", 68702.0, 34351.0), ("GPU-2", 65520.0, 32760.0))
        for metric, value in (("t", total), ("u", used))
    ]
    found = {(row["gpu_uuid"], row["role"]): row["values"] for row in gathered(*rows)[0]}
    assert found["GPU-1", "used"] == pytest.approx([34351e6])
    assert found["GPU-1", "total"] == pytest.approx([68702e6])
    assert found["GPU-2", "used"] == [32760 * 2**20]


def test_pods_named_by_unknown_uids_are_left_out_and_told() -> None:
    profile = Profile(
        "uids",
        "container",
        (SeriesRule("pod_memory", "m", "bytes"),),
        DeviceLabels(("node",), ("uuid",)),
        HolderLabels(pod_uid=("uid",)),
        holder_by_uid=True,
    )
    labels = {"node": "n1", "uuid": "GPU-1"}
    found, findings = gathered(*((profile, "m", labels | {"uid": uid}, [0], [1.0]) for uid in ("x", "y")))
    assert found == []
    assert codes(findings) == [("no_series", "m", 2)]


FREE = "DCGM_FI_DEV_FB_FREE"


@pytest.mark.parametrize("exported", [False, True])
def test_a_devices_value_on_each_pods_row_is_one_series_and_no_duplicate(exported: bool) -> None:
    name, own = ("exported_pod", {"pod": "exporter"}) if exported else ("pod", {})
    rows: list[Told] = [
        (DCGM, FREE, DEVICE | own | {name: pod, "vgpu": slot}, range(0, 600, 60), [float(t) for t in range(10)])
        for pod, slot in (("a", "0"), ("b", "1"), ("", "2"))
    ]
    found, findings = gathered(*rows, exported=exported)
    (row,) = found
    assert (row["role"], row["pod"], row["values"]) == ("free", "", [t * 2.0**20 for t in range(10)])
    assert findings == []


def test_slots_of_one_pod_are_one_series_and_no_duplicate() -> None:
    labels = DEVICE | {"pod": "a", "namespace": "ns"}
    rows: list[Told] = [(DCGM, USED, labels | {"vgpu": slot}, range(0, 600, 60), [7.0] * 10) for slot in "012"]
    (row,), findings = gathered(*rows)
    assert (row["pod"], row["values"]) == ("a", [7 * 2.0**20] * 10)
    assert findings == []


def test_rows_that_tell_two_values_of_a_device_at_one_time_are_duplicates() -> None:
    """Four of the ten times have 5 MiB on one row and 8 on the other; the larger stands."""
    rows: list[Told] = [
        (DCGM, FREE, DEVICE | {"pod": "a"}, range(0, 600, 60), [5.0] * 10),
        (DCGM, FREE, DEVICE | {"pod": "b"}, range(0, 600, 60), [5.0] * 6 + [8.0] * 4),
    ]
    (row,), findings = gathered(*rows)
    assert row["values"] == [5 * 2.0**20] * 6 + [8 * 2.0**20] * 4
    assert codes(findings) == [("duplicate_samples", "n1/GPU-1", 4)]


def test_containers_that_two_exporters_measure_are_counted_once() -> None:
    """HAMi from minute 5 on, Run:ai all the time: 30 + 30 GiB of one pod are not 60."""
    ours = {"device_uuid": "0", "node": "n1", "namespace": "ns", "pod": "a", "container": "c"}
    theirs = {"gpu": "0", "node": "n1", "pod_namespace": "ns", "pod_name": "a", "pod_uuid": "u"}
    total = "runai_gpu_memory_total_mebibytes_per_gpu"
    rows: list[Told] = [
        (PROFILES["runai"], "runai_gpu_memory_used_mebibytes_per_pod_per_gpu", theirs, range(0, 600, 60), [30 * 1024.0] * 10),
        (PROFILES["runai"], total, theirs, range(0, 600, 60), [80 * 1024.0] * 10),
        (PROFILES["hami"], "hami_vgpu_memory_used_bytes", ours, range(300, 560, 60), [30 * 2.0**30] * 5),
    ]
    found, findings = gathered(*rows)
    times = {(row["role"], row["pod_uid"]): row["timestamps_ms"] for row in found}
    assert times["pod_memory", ""] == list(range(300_000, 560_000, 60_000))
    assert times["pod_memory", "u"] == [0, 60_000, 120_000, 180_000, 240_000]
    assert times["total", ""] == list(range(0, 600_000, 60_000))
    assert codes(findings) == [("two_exporters", "n1/0", 1)]
    assert "pod_memory by hami_vgpu_memory_used_bytes and runai_gpu" in findings[0].evidence
