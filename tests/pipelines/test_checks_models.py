"""Doctor looks at the counters of model servers, and at the labels that the mapping file needs."""

from pathlib import Path

import pytest

from pipelines.checks import Check, Status
from pipelines.doctor import diagnose
from tests.pipelines.test_doctor import DAY_AFTER, bill_of, config, hour, named, one, series_file, used

POD = 'namespace="ns",pod="a"'
PROMPT = f'vllm:prompt_tokens_total{{{POD},model_name="llama"}} 9'
GENERATION = f'vllm:generation_tokens_total{{{POD},model_name="llama"}} 9'


def looked_at(folder: Path, *rows: str, **split: object) -> list[Check]:
    billing = bill_of(folder, hour("2026-10-01T23"))
    settings = config(folder, metrics=series_file(folder, used("n1"), *rows), billing=billing, owners={"model_split": split})
    return named(diagnose(settings, DAY_AFTER), "models prod")


def test_servers_are_told_with_pods_and_models(tmp_path: Path) -> None:
    other = 'vllm:generation_tokens_total{namespace="ns",pod="b",model_name="mistral"} 1'
    (check,) = looked_at(tmp_path, PROMPT, GENERATION, other)
    assert (check.status, check.what) == (Status.OK, "vllm: 3 series of 2 pods; models: llama, mistral")


def test_no_counter_at_all_is_told_with_the_names(tmp_path: Path) -> None:
    (check,) = looked_at(tmp_path, servers=["triton"], by="requests")
    assert check.status is Status.WARN
    assert check.what.endswith("any counter that model_split reads (nv_inference_request_success)")
    assert "scrape /metrics of the model servers" in check.todo


def test_a_missing_kind_and_a_misspelt_custom_counter_are_told(tmp_path: Path) -> None:
    custom = {"requests": {"metric": "llm_reqests_total"}}
    checks = looked_at(tmp_path, PROMPT, custom=custom)
    assert [(c.status, c.what) for c in checks] == [
        (Status.OK, "vllm: 1 series of 1 pod; models: llama"),
        (
            Status.WARN,
            "vllm: no series that names a pod of vllm:generation_tokens_total or vllm_generation_tokens_total",
        ),
        (Status.WARN, "custom: no series that names a pod of llm_reqests_total"),
    ]


@pytest.mark.parametrize("labels", [POD, 'namespace="ns"'])
def test_counters_without_a_model_or_a_pod_are_told(tmp_path: Path, labels: str) -> None:
    rows = [f"tgi_request_{name}_sum{{{labels}}} 1" for name in ("input_length", "generated_tokens")]
    checks = looked_at(tmp_path, *rows)
    told = "tgi: 2 series of 1 pod, and none names a model" if labels == POD else "1 series name no pod"
    assert any(told in check.what and check.status is Status.WARN for check in checks)


def test_without_a_split_nothing_is_said_of_models(tmp_path: Path) -> None:
    billing = bill_of(tmp_path, hour("2026-10-01T23"))
    settings = config(tmp_path, metrics=series_file(tmp_path, used("n1"), PROMPT), billing=billing)
    assert named(diagnose(settings, DAY_AFTER), "models prod") == []


def test_keys_of_the_mapping_file_that_no_pod_carries_are_told(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("label:project,annotation:code,team\nx,,red\n", encoding="utf-8")
    billing = bill_of(tmp_path, hour("2026-10-01T23"))
    owners = {"team": ["mapping"], "mapping": {"path": "m.csv"}}
    rows = [used("n1"), 'kube_pod_labels{namespace="ns",pod="a",label_app="x"} 1']
    checks = diagnose(config(tmp_path, metrics=series_file(tmp_path, *rows), billing=billing, owners=owners), DAY_AFTER)
    assert one(checks, "labels prod").what == "on no pod: project"
    assert named(checks, "annotations prod") == [], "a column without a value is needed by nobody"
