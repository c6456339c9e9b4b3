"""``explain``: every walk adds up by its JSON alone, says what a reader could find in the inputs, and refuses clearly."""

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow.compute as pc
import pytest
from rich.console import Console

from allocation.errors import ChargebackError
from pipelines import cli
from pipelines.explain import Query, document, explain
from pipelines.explain_text import show
from pipelines.partition import Partition
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import Walk, open_walk
from tests.pipelines.explained import check_walk, nanos

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
DAY = date(2026, 10, 1)
Told = dict[str, Any]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    return computed(ROOT / "examples" / "quickstart" / "chargeback.yaml", tmp_path_factory.mktemp("quickstart"), DAY)


def computed(config: Path, output: Path, *days: date) -> Walk:
    walk = open_walk(load_settings(config).model_copy(update={"output": str(output / "out")}))
    for day in days:
        run_day(walk, day)
    return walk


def told(walk: Walk, **asked: str) -> Told:
    """The document as a machine reads it."""
    found: Told = json.loads(json.dumps(document(explain(walk, Query(DAY, **asked)))))
    return found


def at(found: Told, start: str, **names: str) -> Told:
    """The one walk that starts at that hour and has these names."""
    rows = [w for w in found["rows"] if w["row"]["charge_period_start"] == f"2026-10-01T{start}:00:00Z"]
    (row,) = [w for w in rows if all(w["row"][k] == v for k, v in names.items())]
    return dict(row)


@pytest.mark.parametrize(
    ("asked", "rows", "cost"),
    [
        ({"pod": "support/tagger-5b77-p9wlc"}, 24, "7.488000000"),
        ({"pod": "research/trainer-0"}, 25, "96.800000000"),
        ({"gpu": "GPU-a37b61e8"}, 24, "22.464000000"),
        ({"gpu": "GPU-a0c1f7d2"}, 26, "22.464000000"),
        ({"team": "documents"}, 12, "11.232000000"),
        ({"model": "notebooks"}, 25, "23.923356525"),
        ({"gpu": "GPU-b1c7d350"}, 76, "99.600000000"),
    ],
)
def test_every_row_of_the_quick_start_adds_up(quickstart: Walk, asked: dict[str, str], rows: int, cost: str) -> None:
    found = told(quickstart, **asked)
    assert found["rows_matched"] == len(found["rows"]) == rows
    assert found["adds_up"] is True
    for walk in found["rows"]:
        check_walk(walk)
    (total,) = found["totals"]
    assert (total["currency"], total["cost"]) == ("USD", cost)
    assert nanos(cost) == sum(nanos(walk["row"]["cost"]) for walk in found["rows"])


def test_a_shared_gpu_by_hand(quickstart: Walk) -> None:
    """Hour 00: 3.744 over four equal cards is 0.936, a third of it 0.312; the exporter's first row of the card says 14964 MiB."""
    walk = at(told(quickstart, pod="support/tagger-5b77-p9wlc"), "00")
    assert [g["cost"] for g in walk["node"]["gpus"]] == ["0.936000000"] * 4
    assert walk["holder"]["cost"] == "0.312000000"
    first = walk["slices"][0]
    exported = (ROOT / "examples" / "quickstart" / "metrics.om").read_text(encoding="utf-8").splitlines()
    (line,) = [s for s in exported if s.startswith("DCGM_FI_DEV_FB_USED") and "tagger" in s and s.endswith(" 1790812800")]
    held = int(line.split()[-2]) * 2**20
    assert (first["held_bytes"], first["memory_bytes"], first["used_bytes"]) == (held, held, held)
    assert (first["repeated"], first["weight"], first["weights_total"], first["holders"]) == (True, 1, 3, 3)
    assert first["basis"] == "estimated_even"
    assert {s["role"] for s in first["samples"]} == {"pod_memory", "rows", "free"}
    assert {s["sample_at"] for s in first["samples"]} == {"2026-10-01T00:00:00Z"}
    assert int(first["used_byte_ms"]) == held * 120_000 // 3
    assert walk["line"]["source_file"] == "bill.csv"
    assert walk["line"]["line_cost"] == walk["line"]["cost_in"] == "3.744000000"
    assert walk["owner"]["team"]["name"] == "support"


def test_a_gap_is_imputed_and_a_restart_ends_a_holder(quickstart: Walk) -> None:
    """gpu-a is silent from 10:04 to 10:14: two minutes hold, 480 s are imputed. The pod is replaced at 13:04."""
    found = told(quickstart, pod="search/embedder-0")
    bridged = at(found, "10")
    (hole,) = [s for s in bridged["slices"] if s["imputed_seconds"]]
    assert (hole["start"], hole["end"]) == ("2026-10-01T10:06:00Z", "2026-10-01T10:14:00Z")
    assert {s["sample_at"] for s in hole["samples"]} == {"2026-10-01T10:04:00Z"}
    assert all(s["imputed"] for s in hole["samples"])
    uids = {w["row"]["pod_uid"]: w for w in found["rows"] if w["row"]["charge_period_start"] == "2026-10-01T13:00:00Z"}
    assert len(uids) == 2
    assert sorted(w["holder"]["observed_seconds"] for w in uids.values()) == [240, 3240]


def test_unknown_time_has_slices_of_which_nothing_is_known(quickstart: Walk) -> None:
    walk = at(told(quickstart, gpu="GPU-b04f9a2e"), "03", bucket="unallocated")
    (hole,) = [s for s in walk["slices"] if not s["known"]]
    assert (hole["start"], hole["end"]) == ("2026-10-01T03:12:00Z", "2026-10-01T03:52:00Z")
    assert walk["row"]["cost"] == "2.800000000"
    assert walk["device"]["known_seconds"] == 1200


def test_a_node_without_metrics_by_its_line(quickstart: Walk) -> None:
    table = quickstart.store.read("chargeback", Partition(DAY, "prod"))
    assert table is not None
    line = table.filter(pc.equal(table["node"], "gpu-c"))["line_item_id"][0].as_py()
    (walk,) = told(quickstart, line_item=line)["rows"]
    check_walk(walk)
    assert (walk["row"]["bucket"], walk["row"]["reason"], walk["row"]["cost"]) == (
        "unallocated",
        "node_without_metrics",
        "8.400000000",
    )
    assert walk["slices"] == []


@pytest.mark.parametrize(
    "case",
    [
        "01-fairness-holder", "02-fairness-separate", "03-fairness-proportional", "04-reserved-overhead", "05-even-policies",
        "06-zero-bytes", "07-idle-proportional-two-gpus", "08-over-capacity", "09-mig-stranded", "10-seven-of-eight", "12-gaps",
        "13-daily-line", "14-partial-hour", "16-huge-cost", "18-credit-mirror", "22-per-process-rows", "24-two-exporters",
        "26-pod-restart-uid", "28-container-repeat", "30-node-replaced", "33-used-plus-free-is-not-total", "39-host-share",
        "41-declared-memory", "42-mig-repartition", "43-little-known", "48-mig-one-after-the-other",
        "56-declared-by-annotation-and-request", "62-nvidia-smi-one-possibility", "81-reservation-pod",
        "87-discount-and-tax-spread",
    ],
)  # fmt: skip
def test_every_row_of_a_worked_example_adds_up(case: str, tmp_path: Path) -> None:
    walk = computed(CASES / case / "chargeback.yaml", tmp_path, DAY)
    seen = 0
    for cluster in walk.settings.clusters:
        table = walk.store.read("chargeback", Partition(DAY, cluster.name))
        assert table is not None
        for line in table["line_item_id"].unique().to_pylist():
            found = told(walk, cluster=cluster.name, line_item=line)
            for row in found["rows"]:
                check_walk(row)
            seen += len(found["rows"])
            (total,) = found["totals"]
            assert nanos(total["cost"]) == nanos(found["rows"][0]["line"]["cost_in"])
        assert seen == len(table)


def test_every_field_is_documented(quickstart: Walk) -> None:
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    found = told(quickstart, pod="support/tagger-5b77-p9wlc")
    walk = found["rows"][0]
    slices = [k for k in walk["slices"][0] if not k.startswith("device_") or k == "device_used_byte_ms"]
    whose = [*walk["owner"]["team"], *walk["owner"]]
    fields = [*found, *walk, *whose, *walk["holder"], *slices, *walk["slices"][0]["samples"][0]]
    spelt = {"used_cost", "overhead_cost", "idle_cost", "unmeasured_weight"}
    assert [f for f in fields if f"`{f}`" not in page and f not in spelt | {"cost"}] == []


def test_host_share_by_hand(tmp_path: Path) -> None:
    """39: of $100 with gpu_share 0.8 the GPU weighs 80 GiB x 0.8 and the host 80 GiB x 0.2."""
    walk = computed(CASES / "39-host-share" / "chargeback.yaml", tmp_path, DAY)
    table = walk.store.read("chargeback", Partition(DAY, "prod"))
    assert table is not None
    line = table.filter(pc.equal(table["cost"], Decimal("20.000000000")))["line_item_id"][0].as_py()
    (host,) = [w for w in told(walk, line_item=line)["rows"] if w["row"]["bucket"] == "host"]
    assert [g["cost"] for g in host["node"]["gpus"]] == ["80.000000000", "20.000000000"]
    weights = [int(g["weight"]) for g in host["node"]["gpus"]]
    assert weights == [80 * 2**30 * 800_000_000, 80 * 2**30 * 200_000_000]
    assert host["holder"]["overhead_cost"] == "20.000000000"


def test_a_pod_that_has_only_host_money(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """90: of the host's $20 pod b has 1.25 by its CPU request and 2.50 by its memory request; it has no GPU."""
    walk = computed(CASES / "90-host-by-requests" / "chargeback.yaml", tmp_path, DAY)
    found = told(walk, pod="web/b")
    (row,) = found["rows"]
    check_walk(row)
    assert (row["row"]["gpu_uuid"], row["holder"]["overhead_cost"], row["slices"]) == (None, "3.750000000", [])
    assert [(g["cost"], g["reason"], g["this"]) for g in row["node"]["gpus"]] == [
        ("80.000000000", None, False),
        ("20.000000000", "gpu_share", True),
    ]
    assert [(r["pod"], r["cost"]) for r in row["device"]["rows"]] == [
        ("a", "7.500000000"),
        ("b", "3.750000000"),
        ("c", "0.625000000"),
        (None, "8.125000000"),
    ]
    assert (row["owner"]["team"]["name"], row["policy"]["host"]) == ("web", "by_requests")
    for w in told(walk, pod="train/a")["rows"]:
        check_walk(w)
    show(explain(walk, Query(DAY, pod="web/b")), Console(width=120))
    shown = capsys.readouterr().out
    assert "half by its CPU request, half by its memory request (R48)" in shown
    assert "overhead 3.750000000" in shown


def test_pooled_idle_by_hand(tmp_path: Path) -> None:
    """07: GPU-1's idle of $30 goes to a (20 GiB) and b (60 GiB) of the node: 7.50 and 22.50."""
    walk = computed(CASES / "07-idle-proportional-two-gpus" / "chargeback.yaml", tmp_path, DAY)
    rows = told(walk, gpu="GPU-1")["rows"]
    assert sorted(w["row"]["idle_cost"] for w in rows) == ["22.500000000", "7.500000000"]
    away = next(w for w in rows if w["row"]["idle_cost"] == "22.500000000")
    assert away["row"]["used_cost"] == "0.000000000"
    assert [Decimal(h["used_byte_ms"]) / Decimal(away["pool"]["node_used_byte_ms"]) for h in away["pool"]["holders"]] == [
        Decimal("0.25"),
        Decimal("0.75"),
    ]


def test_a_fee_of_two_days_names_the_hour(tmp_path: Path) -> None:
    """40: $100 over 48 hours: 2.083333334 for each of the first 16 hours, of 33.333... none is lost on either day."""
    walk = computed(CASES / "40-fee-of-two-days" / "chargeback.yaml", tmp_path, DAY)
    table = walk.store.read("chargeback", Partition(DAY, "prod"))
    assert table is not None
    found = told(walk, line_item=table["line_item_id"][0].as_py())
    first = next(w["line"] for w in found["rows"] if w["row"]["charge_period_start"].endswith("T00:00:00Z"))
    assert first["part"]["cost"] == "2.083333334"
    assert first["line_cost"] == "100.000000000"
    assert nanos(first["cost_in"]) == 16 * 2_083_333_334 + 8 * 2_083_333_333


def test_models_that_share_a_server_add_up_to_its_part(tmp_path: Path) -> None:
    """A run with other owners gave one model 10 and another the rest: together they are the holder's 22.222222223."""
    walk = computed(CASES / "01-fairness-holder" / "chargeback.yaml", tmp_path, DAY)
    partition = Partition(DAY, "prod")
    table, marker = walk.store.read("chargeback", partition), walk.store.commit("chargeback", partition)
    assert table is not None
    assert marker is not None
    rows = []
    for row in table.to_pylist():
        if row["pod"] != "a":
            rows.append(row)
            continue
        first = {"used_cost": Decimal(7), "idle_cost": Decimal(3), "cost": Decimal(10), "used_gib_seconds": 1000.0}
        rows += [row | first | {"idle_gib_seconds": 0.0, "model": "x"}]
        rows += [row | {name: row[name] - value for name, value in first.items()} | {"model": "y"}]
    of_run = {**marker.detail, "inputs": {**cast(Told, marker.detail["inputs"]), "owners": "those of the run"}}
    walk.store.write("chargeback", partition, type(table).from_pylist(rows, schema=table.schema), of_run)
    found = told(walk, pod="ns/a")
    assert [w["row"]["model"] for w in found["rows"]] == ["x", "y"]
    for shown in found["rows"]:
        check_walk(shown)
        assert [m["model"] for m in shown["holder"]["models"]] == ["x", "y"]
        assert sum(nanos(m["cost"]) for m in shown["holder"]["models"]) == nanos(shown["holder"]["cost"])
    assert [w["row"]["cost"] for w in found["rows"]] == ["10.000000000", "12.222222223"]


def test_a_figure_that_somebody_changed_in_the_store_is_refused(tmp_path: Path) -> None:
    walk = computed(CASES / "01-fairness-holder" / "chargeback.yaml", tmp_path, DAY)
    partition = Partition(DAY, "prod")
    table, marker = walk.store.read("chargeback", partition), walk.store.commit("chargeback", partition)
    assert table is not None
    assert marker is not None
    rows = [row | {"used_gib_seconds": row["used_gib_seconds"] + 1} for row in table.to_pylist()]
    walk.store.write("chargeback", partition, type(table).from_pylist(rows, schema=table.schema), marker.detail)
    with pytest.raises(ChargebackError, match=r"used GiB-seconds.*no known input changed"):
        told(walk, pod="ns/a")


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], Path]:
    def copy(case: str) -> Path:
        for path in (CASES / case).iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        return tmp_path / "chargeback.yaml"

    return copy


def compute(config: Path) -> None:
    assert cli.main(["run", str(config), "--from", "2026-10-01", "--until", "2026-10-02"]) == 0


def refused(config: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    capsys.readouterr()
    code = cli.main(["explain", str(config), "--date", "2026-10-01", *argv])
    shown = capsys.readouterr()
    assert shown.out == ""
    return code, shown.err


@pytest.mark.parametrize(
    ("argv", "code", "texts"),
    [
        ([], 2, ["--pod", "--line-item"]),
        (["--pod", "a"], 2, ["NAMESPACE/POD"]),
        (["--team", "x", "--metric", "biled"], 2, ["did you mean 'billed'"]),
        (["--team", "x", "--cluster", "prd"], 2, ["did you mean 'prod'"]),
        (["--team", "x", "--date", "2026-10-01T05:00:00"], 2, ["2026-10-01"]),
        (["--team", "x", "--date", "soon"], 2, ["soon"]),
        (["--pod", "ns/aa"], 1, ["pods there", "'ns/a'"]),
        (["--gpu", "GPU-9"], 1, ["gpus there", "'GPU-1'"]),
        (["--team", "x", "--date", "2026-10-02"], 1, ["--from 2026-10-02 --until 2026-10-03"]),
        (["--pod", "ns/a", "--metric", "effective"], 1, ["cost metrics there: billed"]),
    ],
)
def test_refusals(
    place: Callable[[str], Path], capsys: pytest.CaptureFixture[str], argv: list[str], code: int, texts: list[str]
) -> None:
    config = place("01-fairness-holder")
    compute(config)
    given, said = refused(config, capsys, *argv)
    assert given == code
    assert [t for t in texts if t not in said] == []
    assert "Traceback" not in said


def test_several_cost_metrics_need_a_choice(place: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    config = place("01-fairness-holder")
    text = config.read_text(encoding="utf-8")
    entry = "  - {kind: focus, path: bill.csv, cost: billed}\n"
    assert entry in text
    config.write_text(text.replace(entry, entry + entry.replace("billed", "effective")), encoding="utf-8")
    compute(config)
    assert refused(config, capsys, "--gpu", "GPU-1") == (
        2,
        "error: the rows stand under several cost metrics (billed, effective); choose one with --metric\n",
    )
    argv = ["explain", str(config), "--date", "2026-10-01", "--gpu", "GPU-1", "--metric", "effective", "--format", "json"]
    assert cli.main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert {w["row"]["cost_metric"] for w in found["rows"]} == {found["query"]["cost_metric"]} == {"effective"}


def test_a_line_out_of_scope_says_its_rule(place: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    config = place("32-egress-and-volume")
    compute(config)
    lines = open_walk(load_settings(config)).store.read("reconciliation", Partition(DAY, "_bill"))
    assert lines is not None
    code, said = refused(config, capsys, "--line-item", lines["line_item_id"][0].as_py())
    assert code == 1
    assert f"out of scope by rule {lines['rule'][0].as_py()}" in said
    assert f"row {lines['source_row'][0].as_py()}" in said


def test_another_policy_is_named(place: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    config = place("01-fairness-holder")
    compute(config)
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("policy: {", "policy: {idle: separate, "), encoding="utf-8")
    code, said = refused(config, capsys, "--gpu", "GPU-1")
    assert code == 1
    assert "cannot be computed again" in said
    assert "changed since it was computed: the policy;" in said


def test_other_samples_are_named(place: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The kept samples are those of a later day's run with another file; the stored rows are of the earlier one."""
    config = place("01-fairness-holder")
    compute(config)
    before = open_walk(load_settings(config))
    kept = before.store.read("chargeback", Partition(DAY, "prod"))
    marker = before.store.commit("chargeback", Partition(DAY, "prod"))
    metrics = config.parent / "metrics.om"
    series = metrics.read_text(encoding="utf-8")
    assert " 21474836480 " in series
    metrics.write_text(series.replace(" 21474836480 ", " 10737418240 "), encoding="utf-8")
    compute(config)
    assert marker is not None
    before.store.write("chargeback", Partition(DAY, "prod"), kept, marker.detail)
    code, said = refused(config, capsys, "--gpu", "GPU-1")
    assert code == 1
    assert "changed since it was computed: the kept samples;" in said


def test_owners_that_changed_do_not_hide_the_figures(place: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    config = place("01-fairness-holder")
    compute(config)
    config.write_text(config.read_text(encoding="utf-8") + "\nowners: {cost_center: [namespace]}\n", encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["explain", str(config), "--date", "2026-10-01", "--gpu", "GPU-1", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {tuple(w["changed_inputs"]) for w in found["rows"]} == {("owners",)}
    assert found["adds_up"] is True


def test_nothing_is_written(place: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    config = place("01-fairness-holder")
    compute(config)
    (config.parent / "bill.csv").unlink()
    (config.parent / "metrics.om").unlink()
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in (config.parent / "out").rglob("*")}
    assert cli.main(["explain", str(config), "--date", "2026-10-01", "--gpu", "GPU-1"]) == 0
    assert "adds up" in capsys.readouterr().out
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in (config.parent / "out").rglob("*")} == before


def test_text_is_plain_and_narrow_where_it_is_piped(place: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    config = place("09-mig-stranded")
    compute(config)
    capsys.readouterr()
    assert cli.main(["explain", str(config), "--date", "2026-10-01", "--gpu", "GPU-1", "--limit", "1"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 100
    wanted = ("bill.csv, row 1", "over its GPUs", "over its instances", "adds up", "not walked here")
    assert [w for w in wanted if w not in shown] == []
