"""``policy.gpu_share`` by instance type and ``policy.host``: settings, what the inventory tells, and whole runs."""

import hashlib
import json
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from allocation.errors import SettingsError
from allocation.policy import BY_SKU, FROM_LIST_PRICES, Policy
from pipelines.inventory import build_nodes, build_pods
from pipelines.metric_sources.base import REQUEST_METRICS, InfoSeries, MetricSource, Window
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry
from pipelines.settings import load_settings
from pipelines.values import GpuShares
from tests.pipelines.inventories import HOLD_MS, info
from tests.servers import needs_prometheus, prometheus
from tests.walk.test_faults import HEAD, NODE, Place, gpu, line, series

PPB = 10**9
GIB = 2**30
REQUESTS, INIT, ALLOCATABLE = REQUEST_METRICS
WINDOW = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))
AT = 1_790_812_800


def policy_of(folder: Path, **policy: object) -> Policy:
    return load_settings(Place(folder, [], [], policy=policy).folder / "chargeback.yaml").policy.policy()


TABLE = {"g5.*": 0.8, "p5.48xlarge": 0.9, "p5.*": "0.85", "default": 0.5}


@pytest.mark.parametrize(
    ("share", "kind", "ppb"),
    [
        (0.75, "p5.48xlarge", 750_000_000),
        ("0.75", None, 750_000_000),
        (1, "any", PPB),
        (TABLE, "p5.48xlarge", 900_000_000),
        (TABLE, "p5.4xlarge", 850_000_000),
        (TABLE, "g5.xlarge", 800_000_000),
        (TABLE, "G5.xlarge", 500_000_000),
        (TABLE, "a2", 500_000_000),
        (TABLE, None, 500_000_000),
        (TABLE, float("nan"), 500_000_000),
        ({"*": 0.1, "a2": 0.2}, "a2", 200_000_000),
        ({"a*": 0.1, "a2*": 0.2}, "a2x", 100_000_000),
        ({"g5.*": 0.8}, "a2", PPB),
        ({"default": 0.7}, "a2", 700_000_000),
        ("by_sku", None, BY_SKU),
        ({"a2-*": "by_sku", "a3-*": "from_list_prices", "default": 0.9}, "a2-highgpu-1g", BY_SKU),
        ({"a2-*": "by_sku", "a3-*": "from_list_prices", "default": 0.9}, "a3-highgpu-8g", FROM_LIST_PRICES),
        ({"a2-*": "by_sku", "a3-*": "from_list_prices", "default": 0.9}, "g2", 900_000_000),
    ],
)
def test_the_share_of_a_type(tmp_path: Path, share: object, kind: object, ppb: int) -> None:
    assert policy_of(tmp_path, gpu_share=share).share_of(kind) == ppb


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "'0'|0 is no share"),
        (-0.1, "-0.1 is no share"),
        (1.5, "1.5 is no share"),
        ("half", "'half' is no share"),
        ("by_skus", "'by_skus' is no share; write a number above 0, up to 1, or by_sku or from_list_prices"),
        (None, "None is no share"),
        ([0.5], r"\[0.5\] is no share"),
        (0.1234567891, "at most nine decimals"),
        ({}, "has instance types as its keys"),
        ({5: 0.5}, "has instance types as its keys"),
        ({"g5.*": 0}, r"g5\.\*: 0 is no share"),
        ({"g5.*": 2}, r"g5\.\*: 2 is no share"),
        ({"g5.*": -1, "default": 1}, r"g5\.\*: -1 is no share"),
        ({"g5.*": {"x": 1}}, r"g5\.\*: .* is no share"),
    ],
)
def test_shares_that_cannot_be(tmp_path: Path, share: object, text: str) -> None:
    with pytest.raises(SettingsError, match=rf"policy\.gpu_share.*({text})"):
        policy_of(tmp_path, gpu_share=share)


def test_a_type_that_stands_twice_and_a_wrong_host_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, [], [])
    text = yaml.safe_dump(place.values) + "policy: {gpu_share: {g5.*: 0.8, g5.*: 0.9}}\n"
    (tmp_path / "chargeback.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"'g5\.\*' stands twice"):
        load_settings(tmp_path / "chargeback.yaml")
    with pytest.raises(SettingsError, match=r"policy\.host.*separate.*by_requests"):
        policy_of(tmp_path / "x", host="by_request")


def test_the_environment_overrides_with_a_number_or_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARGEBACK__POLICY__GPU_SHARE", "0.9")
    monkeypatch.setenv("CHARGEBACK__POLICY__HOST", "by_requests")
    told = load_settings(Place(tmp_path, [], []).folder / "chargeback.yaml").policy
    assert (told.gpu_share, told.host) == (GpuShares(900_000_000), "by_requests")
    monkeypatch.setenv("CHARGEBACK__POLICY__GPU_SHARE", '{"g5.*": 0.8}')
    told = load_settings(tmp_path / "chargeback.yaml").policy
    assert told.gpu_share == GpuShares(PPB, (("g5.*", 800_000_000),))


def test_a_plain_number_has_the_id_that_it_always_had() -> None:
    old = ("max_hold_ms", "max_gap_ms", "overhead", "idle", "stranded", "gpu_share_ppb", "min_coverage", "reserved_bytes")
    policy = Policy(gpu_share_ppb=800_000_000, reserved_bytes={"A100": 1})
    text = json.dumps({name: value for name, value in asdict(policy).items() if name in old}, sort_keys=True)
    assert policy.policy_id == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_each_new_choice_has_an_id_of_its_own() -> None:
    a, b = ("g5.*", 800_000_000), ("g5.4*", 900_000_000)
    policies = [
        Policy(), Policy(host="by_requests"), Policy(gpu_shares=(a,)), Policy(gpu_shares=(a, b)), Policy(gpu_shares=(b, a)),
    ]  # fmt: skip
    assert len({policy.policy_id for policy in policies}) == len(policies)


def asked(metric: str, container: str, resource: str, value: float, first: float = 0, last: float = 60) -> InfoSeries:
    return info(metric, first, last, value, namespace="ns", pod="p", uid="u", container=container, node="n", resource=resource)


def requested(*told: InfoSeries, with_requests: bool = True) -> tuple[int | None, int | None]:
    (pod,) = build_pods(told, with_requests=with_requests).to_pylist()
    return pod["requested_cpu_milli"], pod["requested_memory_bytes"]


def test_containers_add_up_and_of_init_containers_the_largest_counts() -> None:
    both = [asked(REQUESTS, "a", "cpu", 0.25), asked(REQUESTS, "b", "cpu", 1), asked(REQUESTS, "a", "memory", 3 * GIB)]
    assert requested(*both) == (1250, 3 * GIB)
    init = [asked(INIT, "x", "cpu", 1.2), asked(INIT, "y", "cpu", 1.2), asked(INIT, "x", "memory", 4 * GIB)]
    assert requested(*both, *init) == (1250, 4 * GIB)
    assert requested(*init) == (1200, 4 * GIB)


def test_the_last_request_counts_and_what_cannot_be_does_not() -> None:
    assert requested(asked(REQUESTS, "a", "cpu", 2, 0, 10), asked(REQUESTS, "a", "cpu", 1, 11, 60)) == (1000, None)
    wrong = [asked(REQUESTS, name, "cpu", value) for name, value in (("a", -1), ("b", 1e12), ("c", float("inf")))]
    assert requested(*wrong) == (None, None)
    assert requested(asked(REQUESTS, "a", "nvidia_com_gpu", 1)) == (None, None)
    assert requested(asked(REQUESTS, "a", "cpu", 0)) == (0, None)
    assert requested(asked(REQUESTS, "a", "cpu", 1), with_requests=False) == (None, None)


def test_allocatable_of_each_machine_that_a_name_meant() -> None:
    """Until minute 29 the name meant m-1 with 8 cores, then m-2 with 16; memory is told of m-2 alone."""
    told = [
        info("kube_node_info", 0, 29, node="n", provider_id="m-1"),
        info("kube_node_info", 30, 60, node="n", provider_id="m-2"),
        info(ALLOCATABLE, 0, 29, 8, node="n", resource="cpu", unit="core"),
        info(ALLOCATABLE, 30, 60, 16, node="n", resource="cpu", unit="core"),
        info(ALLOCATABLE, 30, 60, 64 * GIB, node="n", resource="memory", unit="byte"),
        info(ALLOCATABLE, 0, 60, 110, node="n", resource="pods", unit="integer"),
    ]
    rows = build_nodes(told, [], [], HOLD_MS).to_pylist()
    assert [(r["node_id"], r["allocatable_cpu_milli"], r["allocatable_memory_bytes"]) for r in rows] == [
        ("m-1", 8000, None),
        ("m-2", 16000, 64 * GIB),
    ]


ROWS = (
    (REQUESTS, {"namespace": "ns", "pod": "p", "uid": "u", "container": "c", "resource": "cpu"}, 0.5),
    (INIT, {"namespace": "ns", "pod": "p", "uid": "u", "container": "i", "resource": "memory"}, 1024.0),
    (ALLOCATABLE, {"node": "n", "resource": "cpu"}, 8.0),
    ("kube_pod_info", {"namespace": "ns", "pod": "p", "uid": "u", "node": "n"}, 1.0),
)


def told_by(source: MetricSource) -> list[tuple[str, float]]:
    return [(one.metric, one.value) for one in source.inventory(WINDOW, REQUEST_METRICS)]


def source_of(**entry: object) -> MetricSource:
    return load_metric_source(MetricsEntry.model_validate(entry), "prod", 900_000)


EXPECTED = [(ALLOCATABLE, 8.0), (REQUESTS, 0.5), (INIT, 1024.0)]


def text_of(folder: Path) -> Path:
    lines = [one for metric, labels, value in ROWS for one in series(metric, labels, (0, 0.05), value)]
    path = folder / "m.om"
    path.write_text("\n".join([*lines, "# EOF"]) + "\n", encoding="utf-8")
    return path


def test_text_and_parquet_tell_the_same_requests(tmp_path: Path) -> None:
    labels = ("namespace", "pod", "uid", "container", "resource", "node")
    rows = [
        {"metric": m, "timestamp": (AT + 60 * n) * 1000, "value": v, **{name: told.get(name) for name in labels}}
        for m, told, v in ROWS
        for n in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "m.parquet")
    assert told_by(source_of(kind="openmetrics", path=text_of(tmp_path))) == EXPECTED
    assert told_by(source_of(kind="parquet", path=tmp_path / "m.parquet")) == EXPECTED


@needs_prometheus
def test_a_server_tells_the_same_requests(tmp_path: Path) -> None:
    with prometheus(tmp_path, text_of(tmp_path)) as url:
        assert told_by(source_of(kind="prometheus", url=url)) == EXPECTED


def request(pod: str, resource: str, value: float) -> list[str]:
    labels = {"namespace": "ns", "pod": pod, "uid": f"u-{pod}", "container": "c", "node": "a", "resource": resource}
    return series(REQUESTS, labels, (0, 1), value)


BY_REQUESTS = {"gpu_share": 0.5, "host": "by_requests"}
BILL = [line("i-1", (0, 1), "8")]
CPU = series(ALLOCATABLE, {"node": "a", "resource": "cpu"}, (0, 1), 4)
MEMORY = series(ALLOCATABLE, {"node": "a", "resource": "memory"}, (0, 1), 16 * GIB)


def told(place: Place, code: str, cluster: str = "prod") -> list[tuple[object, object]]:
    return [(f["subject"], f["cost_at_risk"]) for f in place.rows(cluster, "findings") if f["code"] == code]


def test_without_any_request_the_host_keeps_all_and_says_why(tmp_path: Path) -> None:
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)) + CPU + MEMORY, BILL, nodes=[NODE], policy=BY_REQUESTS)
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(4), "host": Decimal(4)}
    assert told(place, "host_not_divided") == [("prod", Decimal(4))]
    (finding,) = [f for f in place.rows("prod", "findings") if f["code"] == "host_not_divided"]
    assert REQUESTS in str(finding["evidence"])


def test_a_node_that_does_not_say_what_it_can_give(tmp_path: Path) -> None:
    """Of 4 dollars 2 go by CPU: q asks for 1 of 4 cores. What the node's memory is nobody says, so 2 + 1.50 stay."""
    lines = gpu("a", "GPU-1", "p", (0, 1)) + CPU + request("q", "cpu", 1) + request("q", "memory", GIB)
    place = Place(tmp_path, lines, BILL, nodes=[NODE], policy=BY_REQUESTS)
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(4), "q": Decimal("0.5"), "host": Decimal("3.5")}
    assert told(place, "host_not_divided") == [("a", Decimal("3.5"))]


def test_a_credit_mirrors_its_line_and_another_choice_is_another_run(tmp_path: Path) -> None:
    lines = gpu("a", "GPU-1", "p", (0, 1)) + CPU + MEMORY + request("q", "cpu", 4) + request("r", "memory", 8 * GIB)
    bill = [*BILL, line("i-1", (0, 1), "-8").replace(",Usage,", ",Credit,")]
    place = Place(tmp_path, lines, bill, nodes=[NODE], policy=BY_REQUESTS)
    assert place.run() == 0
    assert place.by_pod() == {}
    (charge,) = {r["line_item_id"] for r in place.rows() if r["cost"] == Decimal(2)}
    parts = {r["pod"] or r["bucket"]: r["cost"] for r in place.rows() if r["line_item_id"] == charge}
    assert parts == {"p": Decimal(4), "q": Decimal(2), "r": Decimal(1), "host": Decimal(1)}
    before = place.rows()[0]["run_id"]
    place.values["policy"] = BY_REQUESTS | {"host": "separate"}
    place.save()
    assert place.run() == 0
    assert {r["bucket"] for r in place.rows()} == {"workload", "host"}
    assert {r["pod"] for r in place.rows()} == {"p", None}
    assert place.rows()[0]["run_id"] != before


def test_types_that_no_machine_has_and_a_host_without_a_part_are_told(tmp_path: Path) -> None:
    """The type of the machine stands on its line alone, and has its share."""
    policy: dict[str, object] = {"gpu_share": {"g5.*": 0.75, "g6.*": 0.8, "p5.48xlarge": 0.9, "g5.xlarge": 0.5}}
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)), [], nodes=[NODE], policy=policy)
    rows = [f"{HEAD},x_InstanceType", f"{BILL[0]},g5.xlarge"]
    (tmp_path / "bill.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(4), "host": Decimal(4)}
    unused = [subject for subject, _ in told(place, "unused_setting", "_bill")]
    assert unused == ["policy.gpu_share.g6.*", "policy.gpu_share.p5.48xlarge"]
    place.values["policy"] = {"host": "by_requests"}
    place.save()
    assert place.run() == 0
    assert [subject for subject, _ in told(place, "unused_setting", "_bill")] == ["policy.host"]
