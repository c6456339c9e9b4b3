"""Faults that were found once: each with its right value."""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from pipelines import cli, samples
from pipelines.partition import Partition
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.storage import TableStore
from pipelines.walk import open_walk

DAY = date(2026, 10, 1)
START = 1_790_812_800
WINDOW = ["--from", "2026-10-01", "--until", "2026-10-02"]
HEAD = "BillingAccountId,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,"
HEAD += "EffectiveCost,BillingCurrency,ProviderName,ServiceCategory,ServiceName,ResourceId,ConsumedQuantity,ConsumedUnit"


def at(hour: int) -> str:
    return datetime.fromtimestamp(START + 3600 * hour, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def line(node: str, hours: tuple[int, int], cost: str, effective: str = "") -> str:
    period = f"{at(hours[0])},{at(hours[1])}"
    amounts = f"{cost},{effective or cost},USD"
    return (
        f"1,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,{period},Usage,{amounts},AWS,Compute,EC2,{node},{hours[1] - hours[0]},Hours"
    )


def series(metric: str, labels: Mapping[str, str], hours: tuple[float, float], value: float, step: int = 60) -> list[str]:
    text = ",".join(f'{k}="{v}"' for k, v in labels.items())
    begin, end = (round(START + 3600 * h) for h in hours)
    return [f"{metric}{{{text}}} {value} {t}" for t in range(begin, end, step)]


def gpu(node: str, uuid: str, pod: str, hours: tuple[float, float], **more: str) -> list[str]:
    labels = {"Hostname": node, "UUID": uuid, "modelName": "A100", "namespace": "ns", "pod": pod, "container": "c"}
    return series("DCGM_FI_DEV_FB_USED", labels | more, hours, 1024)


def info(node: str, hours: tuple[float, float], **more: str) -> list[str]:
    return series("kube_node_info", {"node": node} | more, hours, 1)


class Place:
    """A configuration with its inputs in a folder of its own."""

    def __init__(self, folder: Path, lines: list[str], bill: list[str], **changes: object) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.metrics(lines)
        self.bill(bill)
        entry = {"kind": "openmetrics", "path": "metrics.om", "profile": "dcgm", **changes.pop("entry", {})}  # type: ignore[dict-item]
        nodes = changes.pop("nodes", [])
        self.values = {
            "version": 1,
            "output": "out",
            "clusters": [{"name": "prod", "metrics": [entry], "nodes": nodes}],
            "billing": [{"kind": "focus", "path": "bill.csv"}],
            **changes,
        }
        self.save()

    def save(self) -> None:
        (self.folder / "chargeback.yaml").write_text(yaml.safe_dump(self.values), encoding="utf-8")

    def metrics(self, lines: list[str]) -> None:
        groups: dict[str, list[str]] = {}
        for text in lines:
            groups.setdefault(text.split("{")[0], []).append(text)
        text = "\n".join(x for group in groups.values() for x in group)
        (self.folder / "metrics.om").write_text(f"{text}\n# EOF\n", encoding="utf-8")

    def bill(self, lines: list[str]) -> None:
        (self.folder / "bill.csv").write_text("\n".join([HEAD, *lines]) + "\n", encoding="utf-8")

    def run(self, *more: str) -> int:
        return cli.main(["run", str(self.folder / "chargeback.yaml"), *WINDOW, *more, "--format", "json"])

    def rows(self, cluster: str = "prod", table: str = "chargeback") -> list[dict[str, object]]:
        found = TableStore(str(self.folder / "out")).read(table, Partition(DAY, cluster))
        return [] if found is None else found.to_pylist()

    def by_pod(self) -> dict[object, Decimal]:
        sums: dict[object, Decimal] = {}
        for row in self.rows():
            key = row["pod"] or row["bucket"]
            sums[key] = sums.get(key, Decimal(0)) + Decimal(str(row["cost"]))
        return {k: v for k, v in sums.items() if v}

    def kept(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in sorted((self.folder / "out").rglob("*")) if p.is_file()}


NODE = {"name": "a", "provider_id": "aws:///z/i-1", "gpus": 1, "gpu_memory": "2GiB"}


def test_a_refused_rerun_keeps_the_samples_and_all_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 2)), [line("i-1", (0, 1), "10")], nodes=[NODE])
    assert place.run() == 0
    before = place.kept()
    place.metrics([])
    for more in ((), ("--refetch",)):
        assert place.run(*more) == 1
        assert "What is kept stays" in capsys.readouterr().err
        assert place.kept() == before


def test_configuring_a_node_asks_no_server_again(tmp_path: Path) -> None:
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)), [line("i-1", (0, 1), "10")], nodes=[NODE])
    walk = open_walk(load_settings(tmp_path / "chargeback.yaml"))
    run_day(walk, DAY)
    place.values["clusters"][0]["nodes"] = [NODE | {"gpu_memory": "4GiB"}]  # type: ignore[index]
    place.save()
    again = open_walk(load_settings(tmp_path / "chargeback.yaml"))
    (tmp_path / "out" / "samples").rename(tmp_path / "kept")
    shutil.copytree(tmp_path / "kept", tmp_path / "out" / "samples")
    first = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "samples").rglob("*.parquet")}
    results = run_day(again, DAY)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "samples").rglob("*.parquet")} == first
    assert results[0].chargeback["used_gib_seconds"].to_pylist() == [pytest.approx(3600)]
    assert results[0].chargeback["idle_gib_seconds"].to_pylist() == [pytest.approx(3 * 3600)]


@pytest.mark.parametrize("nodes_per_shard", [1, 16])
def test_a_renamed_machine_costs_the_same_in_any_shards(tmp_path: Path, nodes_per_shard: int) -> None:
    lines = gpu("a1", "GPU-1", "p", (0, 2)) + gpu("b1", "GPU-1", "q", (2, 4))
    lines += info("a1", (0, 2), provider_id="aws:///z/i-1") + info("b1", (2, 4), provider_id="aws:///z/i-1")
    bill = [line("i-1", (0, 2), "10"), line("i-1", (2, 4), "20")]
    nodes = [{"name": n, "gpus": 1, "gpu_memory": "2GiB"} for n in ("a1", "b1")]
    place = Place(tmp_path, lines, bill, nodes=nodes, entry={"nodes_per_shard": nodes_per_shard})
    assert place.run() == 0
    costs = {(r["charge_period_start"], r["pod"]): r["cost"] for r in place.rows()}
    assert {k: v for k, v in costs.items() if v and k[1] == "q"} == {(datetime(2026, 10, 1, 2, tzinfo=UTC), "q"): Decimal(20)}
    assert {k[1]: v for k, v in costs.items() if k[0].hour == 0} == {"p": Decimal(10)}  # type: ignore[attr-defined]


def test_an_interrupted_fetch_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, gpu("a", "GPU-1", "r", (0, 1)), [line("i-1", (0, 1), "10")], nodes=[NODE])
    assert place.run() == 0
    ended = series("kube_pod_completion_time", {"namespace": "ns", "pod": "r", "uid": "u"}, (0, 1), START + 900)
    ended += series("kube_pod_info", {"namespace": "ns", "pod": "r", "uid": "u", "node": "a"}, (0, 1), 1)
    device = {"Hostname": "a", "UUID": "GPU-1", "modelName": "A100"}
    place.metrics(gpu("a", "GPU-1", "r", (0, 1)) + ended + series("DCGM_FI_DEV_FB_FREE", device, (0, 1), 1024))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(samples, "build_nodes", killed)
        assert place.run() == 130
    assert place.run() == 0
    assert place.by_pod() == {"r": Decimal("2.50"), "idle": Decimal("7.50")}


def test_a_configured_machine_counts_where_the_cluster_names_none(tmp_path: Path) -> None:
    lines = gpu("a", "GPU-1", "p", (0, 1)) + info("a", (0, 1))
    place = Place(tmp_path, lines, [line("i-1", (0, 1), "10")], nodes=[NODE])
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(10)}


def test_a_contradicted_provider_id_is_told(tmp_path: Path) -> None:
    lines = gpu("a", "GPU-1", "p", (0, 1)) + info("a", (0, 1), provider_id="aws:///z/i-7")
    place = Place(tmp_path, lines, [line("i-7", (0, 1), "10")], nodes=[NODE])
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(10)}
    assert [f["subject"] for f in place.rows(table="findings") if f["code"] == "node_not_as_configured"] == ["a"]


def test_a_smaller_bill_is_no_loss_of_metrics(tmp_path: Path) -> None:
    lines = gpu("a", "GPU-1", "p", (0, 1)) + gpu("b", "GPU-2", "q", (0, 1))
    other = NODE | {"name": "b", "provider_id": "aws:///z/i-2"}
    place = Place(tmp_path, lines, [line("i-1", (0, 1), "10"), line("i-2", (0, 1), "20")], nodes=[NODE, other])
    assert place.run() == 0
    place.bill([line("i-1", (0, 1), "10")])
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(10)}


def test_another_cost_metric_is_another_run(tmp_path: Path) -> None:
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)), [line("i-1", (0, 1), "10", "8")], nodes=[NODE])
    ids = []
    for cost in ("billed", "effective"):
        place.values["billing"] = [{"kind": "focus", "path": "bill.csv", "cost": cost}]
        place.save()
        assert place.run() == 0
        ids.append((place.rows()[0]["run_id"], place.rows()[0]["cost"]))
    assert [cost for _, cost in ids] == [Decimal(10), Decimal(8)]
    assert ids[0][0] != ids[1][0]


def test_a_delivery_configured_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    billing = [{"kind": "focus", "path": "bill.csv"}, {"kind": "focus", "path": "./bill.csv"}]
    place = Place(tmp_path, [], [line("i-1", (0, 1), "10")], nodes=[NODE], billing=billing)
    assert place.run() == 2
    assert "charged twice" in capsys.readouterr().err


def test_memory_resources_are_no_gpus(tmp_path: Path) -> None:
    pod = {"namespace": "ns", "pod": "p", "uid": "u", "node": "a", "container": "c"}
    lines = gpu("a", "GPU-1", "p", (0, 1)) + series("kube_pod_info", pod, (0, 1), 1)
    for resource, amount in (("nvidia_com_gpu", 1), ("nvidia_com_gpumem", 3000), ("nvidia_com_gpucores", 30)):
        lines += series("kube_pod_container_resource_requests", pod | {"resource": resource}, (0, 1), amount)
    place = Place(tmp_path, lines, [line("i-1", (0, 1), "10")], nodes=[NODE])
    assert place.run() == 0
    assert [r["requested_gpus"] for r in place.rows()] == [1]


def test_an_instance_that_is_cut_anew_ends_its_pod(tmp_path: Path) -> None:
    lines = gpu("a", "GPU-1", "p", (0, 1), GPU_I_ID="7", GPU_I_PROFILE="1g.5gb")
    lines += gpu("a", "GPU-1", "q", (1, 2), GPU_I_ID="7", GPU_I_PROFILE="3g.20gb")
    place = Place(tmp_path, lines, [line("i-1", (0, 2), "100")], nodes=[NODE])
    assert place.run() == 0
    held = {r["pod"]: r["observed_seconds"] for r in place.rows() if r["pod"]}
    assert held == {"p": 3600, "q": 3600}


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"owners": {"rules": [{"match": {"nmaespace": "ns"}, "team": "t"}]}}, ("nmaespace", "did you mean 'namespace'")),
        ({"owners": {"team": ["foo"]}}, ("foo", "names no owner")),
        ({"policy": {"gpu_share": float("nan")}}, ("gpu_share",)),
        ({"policy": {"max_gap": "99999999999999d"}}, ("max_gap", "31d")),
        ({"policy": {"reserved": {"A100": "99999999999999TiB"}}}, ("reserved",)),
        ({"entry": {"kind": "prometheus", "url": "http://[::1"}}, ("url", "is no URL")),
        ({"entry": {"timeout": "0s"}}, ("timeout",)),
        ({"entry": {"chunk": "0s"}}, ("metrics.0.chunk",)),
        ({"output": ""}, ("output",)),
        ({"output": "s3://"}, ("s3://",)),
        ({"nodes": [NODE | {"gpus": 10**20}]}, ("gpus",)),
        ({"billing": [{"kind": "focus", "path": "."}]}, ("holds the output folder",)),
    ],
)
def test_settings_that_cannot_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], texts: tuple[str, ...]
) -> None:
    place = Place(tmp_path / "x", [], [], **changes)
    assert place.run() == 2
    error = capsys.readouterr().err
    assert [t for t in texts if t not in error] == []
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"version: 1\npolicy: {idle: holder}\npolicy: {idle: even}\n", "'policy' stands twice"),
        (b"version: 1\nstart: 2026-13-01\n", "is no YAML"),
        (b"version: 1\noutput: gr\xf6\xdfe\n", "UTF-8"),
    ],
)
def test_files_that_are_no_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, text: str) -> None:
    (tmp_path / "c.yaml").write_bytes(content)
    assert cli.main(["run", str(tmp_path / "c.yaml")]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("CHARGEBACK__POLICY", "x"), ("CHARGEBACK__CLUSTERS", "[")])
def test_an_environment_that_is_no_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    place = Place(tmp_path, [], [])
    monkeypatch.setenv(name, value)
    assert place.run() == 2
    assert name.split("__")[1].lower() in capsys.readouterr().err


def test_damaged_files_in_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)), [line("i-1", (0, 1), "10")], nodes=[NODE])
    assert place.run() == 0
    for path in (
        next((tmp_path / "out" / "samples").rglob("part-*")),
        next((tmp_path / "out" / "samples").rglob("_commit.json")),
    ):
        path.write_bytes(b"{")
        assert place.run() == 1
        error = capsys.readouterr().err
        assert "is damaged" in error
        assert path.name in error


def test_values_of_the_inventory_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = {"namespace": "ns", "pod": "p", "uid": "u"}
    lines = gpu("a", "GPU-1", "p", (0, 1)) + series("kube_pod_start_time", pod, (0, 1), float("1e300"))
    lines += [x.replace(" inf ", " +Inf ") for x in series("kube_node_status_capacity", {"node": "a"}, (0, 1), float("inf"))]
    place = Place(tmp_path, lines, [line("i-1", (0, 1), "10")], nodes=[NODE])
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal(10)}
    assert json.loads(capsys.readouterr().out)["partitions"][0]["rows"] == 1


def test_the_day_around_a_moment_is_utc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, [], [])
    config = str(place.folder / "chargeback.yaml")
    assert cli.main(["run", config, "--from", "2026-10-01T00:00:00+02:00"]) == 2
    assert "--from 2026-09-30 --until 2026-10-01" in " ".join(capsys.readouterr().err.split())
    assert cli.main(["run", config, "--from", "0001-01-01"]) == 2
    assert cli.main(["init", str(tmp_path / "no" / "x.yaml"), "--cluster", "c"]) == 2
