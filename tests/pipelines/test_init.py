"""What ``init`` writes is read back by ``load_settings`` as it was meant."""

from datetime import date
from pathlib import Path

import pytest

from allocation.errors import SettingsError
from pipelines.init_config import InitAnswers, render_config
from pipelines.settings import PolicyEntry, Settings, load_settings


def read_back(folder: Path, answers: InitAnswers) -> Settings:
    path = folder / "chargeback.yaml"
    path.write_text(render_config(answers), encoding="utf-8")
    return load_settings(path)


def test_prometheus_and_a_data_export(tmp_path: Path) -> None:
    answers = InitAnswers(
        cluster="prod: eu",
        metrics_place="https://metrics.example:9090",
        match={"cluster": "yes", "env": 'a"b'},
        bearer_env="METRICS_TOKEN",
        billing_kind="aws-cur2",
        billing_path="s3://bills/exports/cur",
        currency="USD",
        output="s3://results/chargeback",
        start=date(2026, 10, 1),
    )
    settings = read_back(tmp_path, answers)
    (cluster,) = settings.clusters
    (metrics,) = cluster.metrics
    assert cluster.name == "prod: eu"
    assert (metrics.kind, metrics.url, metrics.profile) == ("prometheus", "https://metrics.example:9090", "dcgm")
    assert metrics.match == {"cluster": "yes", "env": 'a"b'}
    assert metrics.auth.bearer is not None
    assert metrics.auth.bearer.env == "METRICS_TOKEN"
    (bill,) = settings.billing
    assert (bill.kind, bill.path, bill.cost, bill.currency) == (
        "aws-cur2",
        "s3://bills/exports/cur",
        "effective",
        "USD",
    )
    assert (settings.output, settings.start) == ("s3://results/chargeback", date(2026, 10, 1))
    assert settings.owners.team == ["label:team", "namespace"]


def test_files_and_focus(tmp_path: Path) -> None:
    answers = InitAnswers(
        metrics_kind="openmetrics",
        metrics_place="series of one day.om",
        profile="custom",
        billing_path="bills",
        cost="billed",
    )
    settings = read_back(tmp_path, answers)
    (metrics,) = settings.clusters[0].metrics
    assert metrics.path == tmp_path / "series of one day.om"
    assert metrics.custom is not None
    assert metrics.custom.pod_memory.metric == "pod_gpu_memory_bytes"
    assert (settings.billing[0].path, settings.billing[0].cost) == (str(tmp_path / "bills"), "billed")
    assert settings.billing[0].currency is None
    assert settings.output == str(tmp_path / "out")
    assert settings.start is None


def test_the_policy_that_is_written_out_is_the_default(tmp_path: Path) -> None:
    assert read_back(tmp_path, InitAnswers()).policy == PolicyEntry()


def test_a_password_and_a_token_file_are_named_and_not_held(tmp_path: Path) -> None:
    basic = read_back(tmp_path, InitAnswers(basic_user="reader", basic_password_env="METRICS_PASSWORD"))
    signed = basic.clusters[0].metrics[0].auth.basic
    assert signed is not None
    assert (signed.username, signed.password.env) == ("reader", "METRICS_PASSWORD")
    filed = read_back(tmp_path, InitAnswers(bearer_file="token"))
    assert filed.clusters[0].metrics[0].auth.bearer_file == tmp_path / "token"
    with pytest.raises(SettingsError, match="basic auth needs both"):
        render_config(InitAnswers(basic_user="reader"))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (InitAnswers(metrics_kind="promtheus"), r"kind of metrics 'promtheus'; did you mean 'prometheus'\?"),
        (InitAnswers(profile="dcmg"), r"profile 'dcmg'; did you mean 'dcgm'\?"),
        (InitAnswers(billing_kind="aws-curr"), r"kind of bill 'aws-curr'; did you mean 'aws-cur'\?"),
        (InitAnswers(cost="efective"), r"cost 'efective'; did you mean 'effective'\?"),
    ],
)
def test_an_unknown_answer_names_the_nearest(answers: InitAnswers, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        render_config(answers)


@pytest.mark.parametrize("name", ["null", "1e3", "on", "a: b", "#x", "x #y", "-", "{a}", 'q"u', "end:", "ü", "two\nlines"])
def test_names_stay_what_they_are(name: str, tmp_path: Path) -> None:
    assert read_back(tmp_path, InitAnswers(cluster=name)).clusters[0].name == name
