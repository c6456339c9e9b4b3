"""Counters of model servers: names, labels, copies, and the walk from a file of series to rows by model."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from allocation.model_split import ModelSplit
from pipelines import cli
from pipelines.metric_sources.base import Window
from pipelines.metric_sources.model_servers import gather, metrics_of, servers_of, split_of
from pipelines.metric_sources.openmetrics import OpenMetricsSource
from pipelines.metric_sources.prometheus import PrometheusSource
from pipelines.metrics_entries import MetricsEntry
from pipelines.owner_entries import ModelSplitEntry, OwnerRule, OwnersEntry
from pipelines.partition import Partition
from pipelines.storage import TableStore
from tests.allocation.test_owners import EPOCH
from tests.servers import needs_prometheus, prometheus
from tests.walk.test_faults import DAY, NODE, START, Place, gpu, line, series

CUSTOM = {
    "prompt": {"metric": "in_total"},
    "generation": {"metric": "out_total"},
    "labels": {"namespace": "ns", "pod": "server", "model": "base", "adapter": "lora"},
}


def entry(**values: object) -> ModelSplitEntry:
    return ModelSplitEntry.model_validate(values)


def test_each_server_is_weighed_by_what_it_counts() -> None:
    weights = {"prompt": "0.25", "generation": 1}
    assert split_of(entry(weights=weights)) == ModelSplit(
        {
            "vllm": {"prompt": 250_000, "generation": 10**6},
            "sglang": {"prompt": 250_000, "generation": 10**6},
            "tgi": {"prompt": 250_000, "generation": 10**6},
            "triton": {"compute_time": 10**6},
        }
    )
    assert split_of(entry(by="requests", servers=["triton", "vllm"])).servers == {
        "vllm": {"requests": 10**6},
        "triton": {"requests": 10**6},
    }
    assert list(split_of(entry(by="compute_time", servers=["vllm"])).servers["vllm"]) == ["prompt", "generation"]


def test_a_custom_server_goes_first_and_only_needed_metrics_are_read() -> None:
    asked = entry(custom=CUSTOM, weights={"generation": 0}, servers=["custom", "triton"])
    assert [server.name for server in servers_of(asked)] == ["custom", "triton"]
    assert metrics_of(asked) == ("in_total", "nv_inference_compute_infer_duration_us")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"weights": {"prompt": 0, "generation": 0}}, "both 0"),
        ({"weights": {"prompt": "0.1234567"}}, "at most six decimals"),
        ({"weights": {"prompt": -1}}, "no weight from 0"),
        ({"servers": ["custom"]}, "needs the section `custom`"),
        ({"servers": ["vllm"], "custom": CUSTOM}, "does not name custom"),
        ({"servers": ["auto", "vllm"]}, "auto means all"),
        ({"custom": {"labels": {}}}, "at least one of prompt"),
        ({"by": "words"}, "tokens"),
        ({"by": "requests", "weights": {"prompt": 1}}, "under by: requests none of the servers is weighed by tokens"),
        ({"by": "compute_time", "weights": {"prompt": 2}, "servers": ["triton"]}, "under by: compute_time none"),
        ({"by": "requests", "weights": {"prompt": 2}, "custom": CUSTOM | {"requests": {"metric": "n"}}}, "weighed by tokens"),
    ],
)
def test_settings_that_cannot_be_meant_are_told(values: Mapping[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        entry(**values)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "values",
    [
        {"by": "compute_time", "servers": ["vllm"]},
        {"by": "compute_time", "servers": ["auto"]},
        {"by": "requests", "custom": CUSTOM},
        {"by": "tokens", "servers": ["triton"]},
    ],
)
def test_weights_stay_where_a_server_goes_by_tokens_after_all(values: Mapping[str, object]) -> None:
    assert entry(weights={"prompt": "0.5"}, **values).weights.prompt == 500_000


def test_an_unusable_expression_is_told_with_its_rule() -> None:
    rules = [{"team": "a"}, {"match_regex": {"namespace": "("}, "team": "b"}]
    with pytest.raises(ValueError, match=r"rules\.1\n.*namespace: '\(' is no regular expression"):
        OwnersEntry.model_validate({"rules": rules})
    assert OwnerRule.model_validate({"match_regex": {"pod": "(.)"}, "team": "{1}"}).names == {"team": "{1}"}


def gathered(folder: Path, text: list[str], **values: object) -> tuple[list[dict[str, Any]], list[tuple[str, str, int]]]:
    """Table ``counters`` of a file, and code, subject and count of the findings."""
    path = folder / "m.om"
    path.write_text("\n".join([*text, "# EOF"]) + "\n", encoding="utf-8")
    source = OpenMetricsSource(MetricsEntry.model_validate({"kind": "openmetrics", "path": path}), "prod", 900_000)
    table, findings = gather([source], Window(EPOCH, EPOCH + timedelta(hours=1)), entry(**values))
    return table.to_pylist(), [(f.code.value, f.subject, f.count) for f in findings]


def names(rows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [tuple(r[c] for c in ("server", "kind", "namespace", "pod", "pod_uid", "model", "values")) for r in rows]


def test_vllm_under_all_its_names(tmp_path: Path) -> None:
    pod = 'namespace="ns",pod="p"'
    text = [
        f'vllm:prompt_tokens_total{{{pod},engine="0",model_name="m"}} 5 60',
        f'vllm:prompt_tokens_total{{{pod},engine="1",model_name="m"}} 7 60',
        f'vllm_generation_tokens_total{{{pod},model_name="m"}} 8 60',
        f'ray_vllm_generation_tokens_total{{{pod},model_name="m",deployment="d",replica="r1"}} 9 60',
    ]
    rows, noticed = gathered(tmp_path, text)
    assert noticed == []
    assert sorted(r["values"] for r in rows) == [[5], [7], [8], [9]]
    assert {names([r])[0][:-1] for r in rows} == {("vllm", k, "ns", "p", "", "m") for k in ("prompt", "generation")}
    assert len({r["instance"] for r in rows if r["kind"] == "prompt"}) == 2, "data-parallel ranks add up"
    assert "r1" in str(next(r["instance"] for r in rows if r["values"] == [9])), "a replica of Ray is an instance"


def test_copies_are_told_from_instances(tmp_path: Path) -> None:
    pod = 'namespace="ns",pod="p",model_name="m"'
    text = [
        f'sglang:prompt_tokens_total{{{pod},tp_rank="{tp}",dp_rank="{dp}",job="{job}",prometheus_replica="{ha}"}} 5 60'
        for tp, dp, job, ha in (("0", "0", "a", "0"), ("1", "0", "a", "0"), ("0", "1", "a", "0"), ("0", "0", "b", "1"))
    ]
    rows, _ = gathered(tmp_path, text)
    assert len({r["instance"] for r in rows}) == 2
    assert len({r["replica"] for r in rows}) == 3


def test_the_pod_that_the_server_named_goes_before_the_one_that_was_scraped(tmp_path: Path) -> None:
    labels = 'namespace="monitoring",pod="gateway",exported_namespace="ns",exported_pod="p",exported_pod_uid="u",model="m"'
    rows, _ = gathered(tmp_path, [f"nv_inference_compute_infer_duration_us{{{labels}}} 5 60"])
    assert names(rows) == [("triton", "compute_time", "ns", "p", "u", "m", [5])]


def test_tgi_names_no_model(tmp_path: Path) -> None:
    rows, _ = gathered(tmp_path, ['tgi_request_generated_tokens_sum{namespace="ns",pod="p"} 5 60'])
    assert names(rows) == [("tgi", "generation", "ns", "p", "", "", [5])]


@needs_prometheus
def test_a_file_and_a_prometheus_that_holds_it_tell_the_same_counters(tmp_path: Path) -> None:
    file = tmp_path / "m.om"
    lines = [text for kind in ("prompt", "generation") for text in tokens("a", kind, [(m, 10 * m) for m in range(0, 180, 5)])]
    file.write_text("\n".join([*lines, "# EOF"]) + "\n", encoding="utf-8")
    start = datetime.fromtimestamp(START, UTC)
    window = Window(start + timedelta(minutes=5), start + timedelta(minutes=170))
    from_file = OpenMetricsSource(MetricsEntry.model_validate({"kind": "openmetrics", "path": file}), "prod", 900_000)
    with prometheus(tmp_path, file) as url:
        server = PrometheusSource(MetricsEntry.model_validate({"kind": "prometheus", "url": url}), "prod", 900_000)
        told, _ = gather([server], window, entry())
    assert told.equals(gather([from_file], window, entry())[0])
    assert [r["values"] for r in told.to_pylist()] == [[10 * m for m in range(5, 170, 5)]] * 2


def test_an_adapter_is_a_model_of_its_own(tmp_path: Path) -> None:
    text = [f'in_total{{ns="n",server="p",base="b"{lora}}} 5 60' for lora in ("", ',lora="sql"')]
    rows, _ = gathered(tmp_path, text, custom=CUSTOM)
    assert sorted(r["model"] for r in rows) == ["b", "sql"]


def test_time_is_counted_in_whole_microseconds(tmp_path: Path) -> None:
    custom = {"compute_time": {"metric": "busy", "unit": "s"}}
    rows, _ = gathered(tmp_path, ['busy{namespace="n",pod="p",model="m"} 0.1234567 60'], custom=custom)
    assert rows[0]["values"] == [123457]


def test_what_cannot_be_a_count_and_who_names_no_pod_is_told(tmp_path: Path) -> None:
    good = 'vllm:prompt_tokens_total{namespace="ns",pod="p",model_name="m"}'
    text = [f"{good} {v} {60 + n}" for n, v in enumerate(("NaN", "-1", "+Inf", "1e300", "4"))]
    text.append('vllm:prompt_tokens_total{model_name="m"} 1 60')
    rows, noticed = gathered(tmp_path, text)
    assert [r["values"] for r in rows] == [[4]]
    assert noticed == [("invalid_samples", "ns/p", 3), ("model_counters_missing", "vllm:prompt_tokens_total", 1)]


def tokens(model: str, kind: str, values: list[tuple[int, int]]) -> list[str]:
    """Samples (minute, value) of a counter of pod p."""
    head = f'vllm:{kind}_tokens_total{{namespace="ns",pod="p",model_name="{model}"}}'
    return [f"{head} {value} {START + 60 * minute}" for minute, value in values]


OWNERS = {"model": ["label:model"], "model_split": {"by": "tokens", "weights": {"prompt": 1, "generation": 3}}}
LABEL = {"namespace": "ns", "pod": "p", "uid": "u", "label_model": "label-model"}


def test_a_row_becomes_one_a_model(tmp_path: Path) -> None:
    """Hour 0: a 10 + 3 * 30 = 100, b 200 + 3 * 0 = 200, so thirds of 9, and of the credit,
    half of which is for memory held and half for idle. Hour 1: no traffic, the label. Hour 2: no counter.
    """
    lines = gpu("a", "GPU-1", "p", (0, 3)) + series("kube_pod_labels", LABEL, (0, 3), 1)
    lines += tokens("a", "prompt", [(0, 5), (10, 15), (20, 15), (70, 15), (80, 15)])
    lines += tokens("a", "generation", [(0, 0), (10, 30), (20, 30), (70, 30), (80, 30)])
    lines += tokens("b", "prompt", [(0, 100), (10, 200), (20, 100)]) + tokens("b", "generation", [(0, 7), (10, 7)])
    bill = [line("i-1", (h, h + 1), cost) for h, cost in enumerate(("9", "5", "4"))] + [line("i-1", (0, 1), "-0.000000012")]
    place = Place(tmp_path, lines, bill, nodes=[NODE], owners=OWNERS)
    assert place.run() == 0
    rows = [r for r in place.rows() if r["bucket"] == "workload"]
    costs = {(r["charge_period_start"].hour, r["model"], r["cost"] < 0): r["cost"] for r in rows}  # type: ignore[attr-defined, operator]
    assert costs == {
        (0, "a", False): Decimal(3),
        (0, "b", False): Decimal(6),
        (0, "a", True): Decimal("-0.000000004"),
        (0, "b", True): Decimal("-0.000000008"),
        (1, "label-model", False): Decimal(5),
        (2, "label-model", False): Decimal(4),
    }
    first = [r for r in rows if r["charge_period_start"].hour == 0 and r["cost"] > 0]  # type: ignore[attr-defined, operator]
    assert [r["used_gib_seconds"] for r in first] == [pytest.approx(1200), pytest.approx(2400)]
    assert [r["observed_seconds"] for r in first] == [pytest.approx(1200), pytest.approx(2400)]
    missing = [f for f in place.rows(table="findings") if f["code"] == "model_counters_missing"]
    assert [(f["subject"], f["count"], f["period_start"].hour) for f in missing] == [("ns/p", 1, 2)]  # type: ignore[attr-defined]
    per_model = {r["model"]: r["cost"] for r in place.rows(table="team_model") if r["bucket"] == "workload"}
    assert per_model == {"a": Decimal("2.999999996"), "b": Decimal("5.999999992"), "label-model": Decimal(9)}


def test_without_the_setting_no_counter_is_read_and_with_it_the_run_is_another(tmp_path: Path) -> None:
    lines = (
        gpu("a", "GPU-1", "p", (0, 1)) + tokens("a", "prompt", [(0, 5), (10, 15)]) + tokens("a", "generation", [(0, 5), (10, 15)])
    )
    place = Place(tmp_path, lines, [line("i-1", (0, 1), "9")], nodes=[NODE])
    store = TableStore(str(tmp_path / "out"))
    ids = []
    for owners, more in (({}, ()), ({"model_split": {}}, ()), ({"model_split": {}}, ("prompt",)), ({}, ("prompt",))):
        place.values["owners"] = owners
        place.save()
        if more:
            place.metrics(lines + tokens("b", "prompt", [(0, 5), (10, 15)]) + tokens("b", "generation", [(0, 5), (10, 15)]))
        assert place.run() == 0
        assert (store.read_beside("samples", Partition(DAY, "prod"), "counters") is not None) == bool(owners)
        ids.append(place.rows()[0]["run_id"])
        if more and owners:
            assert sorted(str(r["model"]) for r in place.rows()) == ["a", "b"]
    assert len({*ids}) == 3
    assert ids[0] == ids[3], "counters that nobody asks for are no input"


def test_a_mapping_that_cannot_be_used_ends_the_run_before_anything_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owners = {"team": ["mapping"], "mapping": {"path": "mapping.csv"}}
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)), [line("i-1", (0, 1), "9")], nodes=[NODE], owners=owners)
    (tmp_path / "mapping.csv").write_text("namespace,taem\nns,red\n", encoding="utf-8")
    assert cli.main(["run", str(tmp_path / "chargeback.yaml"), "--from", "2026-10-01", "--until", "2026-10-02"]) == 2
    assert "unknown column 'taem'; did you mean 'team'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "mapping.csv").write_text("namespace,team\nns,red\n", encoding="utf-8")
    assert place.run() == 0
    assert [r["team"] for r in place.rows() if r["bucket"] == "workload"] == ["red"]


def test_each_field_that_nobody_names_is_told_with_its_money(tmp_path: Path) -> None:
    owners = {name: ["label:none"] for name in ("team", "model", "cost_center")}
    place = Place(tmp_path, gpu("a", "GPU-1", "p", (0, 1)), [line("i-1", (0, 1), "9")], nodes=[NODE], owners=owners)
    assert place.run() == 0
    told = [f for f in place.rows(table="findings") if f["code"] == "unowned"]
    assert [(f["subject"], f["cost_at_risk"]) for f in told] == [("ns/p", Decimal(9))] * 3
    assert sorted(str(f["evidence"]).split(" (")[0] for f in told) == [
        f"no rule and no source names a {name}" for name in ("cost_center", "model", "team")
    ]


def test_a_custom_server_with_one_counter_is_weighed_by_that_one() -> None:
    one = entry(custom={"generation": {"metric": "made_total"}}, servers=["custom"])
    assert split_of(one).servers == {"custom": {"generation": 10**6}}
    assert metrics_of(one) == ("made_total",)


@pytest.mark.parametrize(
    ("custom", "weights", "text"),
    [
        ({"prompt": {"metric": "m"}, "generation": {"metric": "m"}}, {}, "name one metric"),
        ({"prompt": {"metric": "m"}}, {"prompt": 0}, "weighs 0"),
    ],
)
def test_a_custom_server_that_could_never_split_is_refused(custom: dict[str, object], weights: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        entry(custom=custom, weights=weights, servers=["custom"])
