"""``explain`` on rows that models share, and on rows whose owners the settings would name otherwise today."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines import cli
from pipelines.partition import Partition
from pipelines.settings import load_settings
from pipelines.walk import open_walk
from tests.pipelines.explained import check_walk, nanos
from tests.pipelines.test_explain import CASES, DAY, ROOT, Told
from tests.walk.test_faults import NODE, Place, line, series

Copied = Callable[..., Path]


@pytest.fixture
def copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Copied:
    """Copies a case, with texts of its files changed, and runs its day."""

    def copy(folder: Path, **changes: tuple[str, str]) -> Path:
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "out"))
        for name, change in changes.items():
            edit(tmp_path / {"bill": "bill.csv"}.get(name, name), *change)
        assert cli.main(["run", str(tmp_path / "chargeback.yaml"), "--from", str(DAY), "--until", str(DAY + timedelta(1))]) == 0
        capsys.readouterr()
        return tmp_path / "chargeback.yaml"

    return copy


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def asked(config: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> list[Told]:
    """The checked walks, from the JSON alone."""
    capsys.readouterr()
    assert cli.main(["explain", str(config), "--date", str(DAY), *argv, "--format", "json"]) == 0
    rows: list[Told] = json.loads(capsys.readouterr().out)["rows"]
    for row in rows:
        check_walk(row)
    return rows


def printed(config: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    """The lines of the text, with one blank between words."""
    capsys.readouterr()
    assert cli.main(["explain", str(config), "--date", str(DAY), *argv]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    return [" ".join(shown.split()) for shown in text.splitlines()]


def owner(walk: Told, name: str) -> tuple[Any, ...]:
    told = walk["owner"][name]
    return told["name"], told["by"], told["today"]


SERVED = CASES / "85-model-split"
SPLIT = "model_split: {by: tokens, weights: {prompt: 1, generation: 1}}"


def test_a_row_that_two_models_share_by_hand(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    """85: the server's 60 by 600 and 200 tokens, each counter with one restart."""
    llama, mistral = asked(copied(SERVED), capsys, "--pod", "ns/serve-0")
    split = llama["model_split"]
    assert [llama["holder"][f"{kind}_cost"] for kind in ("used", "idle")] == ["30.000000000"] * 2
    assert (split["server"], split["unit"], split["start"], split["end"], split["as_stored"]) == (
        "vllm", "tokens", "2026-10-01T00:00:00Z", "2026-10-01T01:00:00Z", True,
    )  # fmt: skip
    assert [(c["model"], c["kind"], c["grown"], c["resets"], c["weight_ppm"]) for c in split["counters"]] == [
        ("llama", "generation", "200", 1, 10**6),
        ("llama", "prompt", "400", 1, 10**6),
        ("mistral", "generation", "100", 1, 10**6),
        ("mistral", "prompt", "100", 1, 10**6),
    ]
    prompt = split["counters"][1]
    assert prompt["metrics"][0] == "vllm:prompt_tokens_total"
    ends = ("began", "from_at", "from_value", "until_at", "until_value", "samples", "grown")
    assert [tuple(rose[name] for name in ends) for rose in prompt["stretches"]] == [
        ("first", "2026-10-01T00:00:00Z", "1000", "2026-10-01T00:20:00Z", "1200", 3, "200"),
        ("reset", "2026-10-01T00:30:00Z", "0", "2026-10-01T00:50:00Z", "200", 3, "200"),
    ]
    assert prompt["stretches"][0]["labels"]["engine"] == "0"
    assert [(m["model"], m["weight"], m["share"], m["cost"], m["this"]) for m in split["models"]] == [
        ("llama", "600000000", 0.75, "45.000000000", True),
        ("mistral", "200000000", 0.25, "15.000000000", False),
    ]
    assert [m["this"] for m in mistral["model_split"]["models"]] == [False, True]
    assert owner(llama, "model") == ("llama", "counters of vllm", None)
    assert owner(mistral, "model") == ("mistral", "counters of vllm", None)
    assert owner(llama, "team") == ("ns", "namespace", None)
    assert owner(llama, "cost_center") == (None, None, None)


def test_every_field_of_a_split_is_documented(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    split = asked(copied(SERVED), capsys, "--pod", "ns/serve-0")[0]["model_split"]
    counter = split["counters"][0]
    fields = [*split, *counter, *counter["stretches"][0], *split["models"][0]]
    assert [f for f in fields if f"`{f}`" not in page and not f.endswith("cost")] == []


def test_a_row_without_counters_has_no_split(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = asked(copied(SERVED), capsys, "--pod", "ns/embed-0")
    assert row["model_split"] is None
    assert owner(row, "model") == ("embed", "label:model", None)


def test_the_text_has_counters_weights_and_parts(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(copied(SERVED), capsys, "--pod", "ns/serve-0", "--limit", "1")
    for wanted in (
        "00:00 gpu-a GPU-1 ns/serve-0, llama 45.000000000",
        "the whole row: used 30.000000000 + overhead 0.000000000 + idle 30.000000000",
        "the whole row of 60.000000000 over models, by counters of vllm, 00:00:00 to 01:00:00",
        "llama prompt 1000 00:00:00 200 00:50:00 1 400 1",
        "mistral generation 0 00:00:00 60 00:50:00 1 100 1",
        "> llama 600 75.0000% 22.500000000 0.000000000 22.500000000 45.000000000",
        "mistral 200 25.0000% 7.500000000 0.000000000 7.500000000 15.000000000",
        "sum 800 30.000000000 0.000000000 30.000000000 60.000000000",
        "owner team ns (by namespace), model llama (by counters of vllm), cost centre -",
    ):
        assert wanted in shown


def test_nanos_that_do_not_divide_go_to_the_largest_remainder(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    """8 nanos by 10, 10, 30, 30 GiB: 3 used and 3 idle; 3 by 3 : 1 is 2.25 and 0.75, so 2 and 1."""
    small = copied(SERVED, bill=("80.00", "0.000000008"))
    llama, mistral = asked(small, capsys, "--pod", "ns/serve-0")
    for walk, each in ((llama, 2), (mistral, 1)):
        assert [nanos(walk["row"][f"{kind}_cost"]) for kind in ("used", "overhead", "idle")] == [each, 0, each]


def test_other_weights_are_told_beside_the_row(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    """A generated token for 4: llama 400 + 800 = 1200, mistral 100 + 400 = 500; 30 x 12/17 = 21.176470588."""
    config = copied(SERVED)
    edit(config, "generation: 1", "generation: 4")
    llama, _ = asked(config, capsys, "--pod", "ns/serve-0")
    today = [
        {"name": "llama", "by": "counters of vllm", "cost": "42.352941176"},
        {"name": "mistral", "by": "counters of vllm", "cost": "17.647058824"},
    ]
    assert (llama["row"]["cost"], llama["changed_inputs"]) == ("45.000000000", ["owners"])
    assert owner(llama, "model") == ("llama", None, today)
    assert owner(llama, "team") == ("ns", "namespace", None)
    assert llama["model_split"]["as_stored"] is False
    assert [m["used_cost"] for m in llama["model_split"]["models"]] == ["21.176470588", "8.823529412"]
    shown = printed(config, capsys, "--pod", "ns/serve-0", "--limit", "1")
    assert "model llama 45.000000000 llama counters of vllm 42.352941176" in shown
    assert "mistral counters of vllm 17.647058824" in shown
    assert "the table has today's owners once the day is run again" in shown


def test_a_split_that_is_gone_from_the_settings(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    config = copied(SERVED)
    edit(config, SPLIT, "")
    llama, _ = asked(config, capsys, "--pod", "ns/serve-0")
    assert owner(llama, "model") == ("llama", None, [{"name": "mixed", "by": "label:model", "cost": "60.000000000"}])
    assert llama["model_split"] is None


ONLY_A_RUN = [{"name": None, "by": "counters that the store does not keep", "cost": None}]


def test_counters_that_the_run_did_not_ask_for(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    """What the store does not keep is not taken for traffic that was not there."""
    config = copied(SERVED)
    edit(config, SPLIT, "model_split: {by: requests}")
    rows = asked(config, capsys, "--pod", "ns/serve-0")
    assert [owner(row, "model") for row in rows] == [("llama", None, ONLY_A_RUN), ("mistral", None, ONLY_A_RUN)]
    assert "model llama 45.000000000 only a run can tell counters that the store does" in printed(
        config, capsys, "--model", "llama"
    )


def test_a_split_that_is_new_in_the_settings(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    config = copied(SERVED, **{"chargeback.yaml": (SPLIT, "")})
    edit(config, "  model: [label:model]\n", f"  model: [label:model]\n  {SPLIT}\n")
    (row,) = asked(config, capsys, "--pod", "ns/serve-0")
    assert (row["row"]["cost"], owner(row, "model")) == ("60.000000000", ("mixed", None, ONLY_A_RUN))


def test_a_split_that_somebody_changed_in_the_store_is_refused(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    config = copied(SERVED)
    store, partition = open_walk(load_settings(config)).store, Partition(DAY, "prod")
    table, marker = store.read("chargeback", partition), store.commit("chargeback", partition)
    assert table is not None
    assert marker is not None
    swapped = {"llama": "mistral", "mistral": "llama"}
    rows = [row | {"model": swapped.get(str(row["model"]), row["model"])} for row in table.to_pylist()]
    store.write("chargeback", partition, type(table).from_pylist(rows, schema=table.schema), marker.detail)
    assert cli.main(["explain", str(config), "--date", str(DAY), "--pod", "ns/serve-0"]) == 1
    said = capsys.readouterr().err
    assert "mistral 45.000000000, llama 15.000000000 and have llama 45.000000000, mistral 15.000000000 now" in said
    assert "no known input changed" in said


def test_rules_that_changed_by_hand(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    """15: the rule until noon names `science` today; the one from noon on, and the label of apps/chat, are as they were."""
    config = copied(CASES / "15-owners-mid-day")
    before = {(w["row"]["charge_period_start"][11:13], w["row"]["pod"]): w for w in asked(config, capsys, "--gpu", "GPU-1")}
    assert owner(before["11", "trainer"], "team") == ("research", "rules[0]", None)
    assert owner(before["12", "trainer"], "team") == ("platform", "rules[1]", None)
    assert owner(before["11", "chat"], "team") == ("assist", "label:team", None)
    assert owner(before["11", "chat"], "model") == ("llama", "label:app.kubernetes.io/name", None)
    assert owner(before["11", "trainer"], "model") == ("unowned", "fallback", None)
    edit(config, "team: research", "team: science")
    after = {(w["row"]["charge_period_start"][11:13], w["row"]["pod"]): w for w in asked(config, capsys, "--gpu", "GPU-1")}
    assert owner(after["11", "trainer"], "team") == (
        "research", None, [{"name": "science", "by": "rules[0]", "cost": "5.000000000"}],
    )  # fmt: skip
    for key in (("12", "trainer"), ("11", "chat"), ("12", "chat")):
        assert after[key]["owner"] == before[key]["owner"]
        assert after[key]["changed_inputs"] == ["owners"]
    changed = printed(config, capsys, "--team", "research")
    assert "team research science rules[0]" in changed
    same = printed(config, capsys, "--team", "platform")
    assert "the owners in the settings changed since the run and give this row the same names and split" in same


def test_a_mapping_that_changed_by_hand(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    """84: finance's second row says CC-22 for vision today; `batch` stood in no row and does in the fourth."""
    config = copied(CASES / "84-owners-pattern-and-mapping")
    before = {w["row"]["pod"]: w for w in asked(config, capsys, "--gpu", "GPU-1")}
    assert owner(before["web-7f-1"], "team") == ("search", "rules[0]", None)
    assert owner(before["train-0"], "cost_center") == ("CC-20", "mapping row 2", None)
    assert owner(before["nightly-1-z"], "team") == ("batch", "namespace", None)
    assert owner(before["nightly-1-z"], "cost_center") == ("unowned", "fallback", None)
    edit(config.parent / "mapping.csv", "vision,CC-20,,2026-10-02", "vision,CC-22,,2026-10-02")
    edit(config.parent / "mapping.csv", "vision,CC-21,2026-10-02,", "vision,CC-21,2026-10-02,\nbatch,CC-30,,")
    after = {w["row"]["pod"]: w for w in asked(config, capsys, "--gpu", "GPU-1")}
    assert owner(after["web-7f-1"], "cost_center") == ("CC-10", "mapping row 1", None)
    given = [{"name": "CC-22", "by": "mapping row 2", "cost": "20.000000000"}]
    assert owner(after["train-0"], "cost_center") == ("CC-20", None, given)
    given = [{"name": "CC-30", "by": "mapping row 4", "cost": "20.000000000"}]
    assert owner(after["nightly-1-z"], "cost_center") == ("unowned", None, given)
    shown = printed(config, capsys, "--pod", "team-vision-dev/train-0")
    assert "cost centre CC-20 CC-22 mapping row 2" in shown


def test_owners_of_the_quick_start_that_changed(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    """The rule of the namespace notebooks names another team today; its model, and who stands for idle, are as they were."""
    config = copied(ROOT / "examples" / "quickstart")
    edit(config, "team: research, model: notebooks", "team: labs, model: notebooks")
    edit(config, "idle: {team: platform}", "idle: {team: platform, cost_center: CC-1}")
    rows = asked(config, capsys, "--model", "notebooks")
    assert len(rows) == 25
    for row in rows:
        assert owner(row, "team") == ("research", None, [{"name": "labs", "by": "rules[0]", "cost": row["row"]["cost"]}])
        assert owner(row, "model") == ("notebooks", "rules[0]", None)
    idle = next(w for w in asked(config, capsys, "--team", "platform") if w["row"]["bucket"] == "idle")
    assert owner(idle, "team") == ("platform", "buckets.idle", None)
    assert owner(idle, "cost_center")[2][0]["by"] == "buckets.idle"


def test_series_that_are_gone_from_the_store(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    config = copied(SERVED)
    for path in sorted((config.parent / "out" / "samples").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert cli.main(["explain", str(config), "--date", str(DAY), "--pod", "ns/serve-0"]) == 1
    said = capsys.readouterr().err
    assert "samples: the partition 2026-10-01|prod is not there, so no row can be walked back to its series" in said
    assert said.count("\n") == 1


def test_a_day_with_no_line_of_the_bill(copied: Copied, capsys: pytest.CaptureFixture[str]) -> None:
    config = copied(SERVED)
    following = ("--from", "2026-10-02", "--until", "2026-10-03")
    assert cli.main(["run", str(config), *following]) == 0
    capsys.readouterr()
    assert cli.main(["explain", str(config), "--date", "2026-10-02", "--pod", "ns/serve-0"]) == 1
    said = capsys.readouterr().err
    assert said == "error: no row of 2026-10-02 in prod has pod 'ns/serve-0'; the day has no rows at all\n"


def test_a_team_of_two_hundred_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """200 pods with 1 GiB each of a card of 200 GiB at $100: 0.50 each."""
    held = [
        text
        for n in range(200)
        for text in series("held", {"node": "a", "card": "GPU-1", "ns": "ns", "pod": f"p{n:03d}"}, (0, 1), 2**30, 600)
    ]
    labels = {"node": "node", "gpu": "card", "namespace": "ns", "pod": "pod"}
    entry = {"profile": "custom", "custom": {"pod_memory": {"metric": "held", "unit": "bytes"}, "labels": labels}}
    policy = {"max_hold": "10m", "max_gap": "15m"}
    owners = {"team": ["namespace"]}
    node = {**NODE, "gpu_memory": "200GiB"}
    place = Place(tmp_path, held, [line("i-1", (0, 1), "100")], nodes=[node], entry=entry, policy=policy, owners=owners)
    assert place.run() == 0
    config = tmp_path / "chargeback.yaml"
    shown = printed(config, capsys, "--team", "ns")
    assert "200 rows of team ns on 2026-10-01, billed cost" in shown
    assert "... 160 more" in shown
    assert "sum USD 100.000000000" in shown
    assert "197 more rows are not walked here; raise --limit, or --format json has all of them in full" in shown
    rows = asked(config, capsys, "--team", "ns")
    assert len(rows) == 200
    assert {row["row"]["cost"] for row in rows} == {"0.500000000"}
