"""The quick start's day priced by a card in an object store: run, Dagster, explain and doctor say the same."""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import dagster as dg
import pytest
import yaml

from allocation.errors import ChargebackError
from pipelines.checks import Check
from pipelines.doctor import diagnose
from pipelines.explain import Query, document, explain
from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk
from tests.dagster_project.places import Place, copied
from tests.pipelines.explained import check_walk
from tests.servers import s3_server

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
DAY = date(2026, 10, 1)
BUCKET = "example-bucket"
CARD = """
currency: USD
rates:
  - {name: small, match: {gpu_model: "*a10g"}, per: gpu-hour, amount: 1.00}
  - {name: large, match: {node: "gpu-[bc]"}, parts: {power: {kw: 5, price_per_kwh: 0.2}, support: {amount: 744, per: month}}}
"""
# gpu-a: 4 GPUs at 1.00 (only the series tell their model); gpu-b and gpu-c: 1.00 of power, 744 / 744 of support.
# 24 x (4 + 2 + 2):
WHOLE = Decimal(192)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return priced(tmp_path / "copy", [{"kind": "rate-card", "path": "card.yaml", "name": "own"}])


def priced(folder: Path, billing: list[dict[str, str]], card: str = CARD) -> Place:
    place = copied(QUICKSTART, folder)
    values = yaml.safe_load(place.config.read_text(encoding="utf-8"))
    place.config.write_text(yaml.safe_dump(values | {"billing": billing}), encoding="utf-8")
    (folder / "card.yaml").write_text(card, encoding="utf-8")
    return place


def run(place: Place) -> list[Results]:
    return run_day(open_walk(load_settings(place.config)), DAY)


def total(results: list[Results]) -> Decimal:
    return sum((row["cost"] for r in results for row in r.chargeback.to_pylist()), Decimal(0))


def found(results: list[Results], code: str) -> list[tuple[str, Decimal | None]]:
    rows = [row for r in results for row in r.findings.to_pylist()]
    return [(row["subject"], row["cost_at_risk"]) for row in rows if row["code"] == code]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as url:
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        client.put_object(Bucket=BUCKET, Key="prices/card.yaml", Body=CARD.encode())
        yield url


def test_from_the_bucket_to_the_rows(tmp_path: Path, s3: str) -> None:
    entry = {"kind": "rate-card", "path": f"s3://{BUCKET}/prices/card.yaml", "endpoint_url": s3, "region": "us-east-1"}
    results = run(priced(tmp_path / "copy", [entry]))
    assert total(results) == WHOLE
    assert found(results, "node_without_bill") == found(results, "unused_setting") == []


def test_dagster_writes_what_the_walk_gives(place: Place) -> None:
    expected = run(place)
    with dg.DagsterInstance.ephemeral() as instance:
        for result in expected:
            assert place.run(instance, result.partition.cluster).success
    for result in expected:
        assert place.rows("chargeback", result.partition.cluster).to_pylist() == result.chargeback.to_pylist()
        assert place.rows("findings", result.partition.cluster).to_pylist() == result.findings.to_pylist()


def test_a_changed_card_is_another_run(place: Place) -> None:
    first = run(place)
    (place.folder / "card.yaml").write_text(CARD.replace("amount: 1.00", "amount: 2.00"), encoding="utf-8")
    second = run(place)
    assert total(second) == WHOLE + 24 * 4
    assert [r.run_id for r in first] != [r.run_id for r in second]
    assert [r.deliveries for r in first] != [r.deliveries for r in second]


def test_explain_walks_back_to_the_card(place: Place) -> None:
    run(place)
    walk = open_walk(load_settings(place.config))
    told: dict[str, Any] = json.loads(json.dumps(document(explain(walk, Query(DAY, pod="support/tagger-5b77-p9wlc")))))
    assert told["rows"]
    for one in told["rows"]:
        check_walk(one)
    assert {one["line"]["source_file"] for one in told["rows"]} == {"card.yaml"}
    (place.folder / "card.yaml").write_text(CARD.replace("amount: 1.00", "amount: 2.00"), encoding="utf-8")
    with pytest.raises(ChargebackError, match="run the day again"):
        explain(walk, Query(DAY, pod="support/tagger-5b77-p9wlc"))


def test_a_machine_with_a_bill_and_a_card_is_told(tmp_path: Path) -> None:
    card = "currency: USD\nrates: [{name: a, match: {node: gpu-a}, per: node-hour, amount: 0.50}]\n"
    entries = [
        {"kind": "focus", "path": "bill.csv", "cost": "effective", "name": "cloud"},
        {"kind": "rate-card", "path": "card.yaml", "name": "own"},
    ]
    results = run(priced(tmp_path / "copy", entries, card))
    assert found(results, "billed_twice") == [("i-0a1f3c5e7d9b2a4c6", Decimal(12))]
    # What the quick start's bill splits, and 24 hours at 0.50.
    assert total(results) == Decimal("490.656") + 12


def test_doctor_reads_the_card_and_joins_its_nodes(place: Place) -> None:
    told = [(c.name, c.status.value, c.what) for c in diagnose(load_settings(place.config), date(2026, 10, 2))]
    (bill,) = [what for name, status, what in told if (name, status) == ("bill own", "ok")]
    assert bill.startswith("rate card in USD with 2 rates of 3 parts")
    # gpu-c has no exporter in the quick start.
    assert [(status, what) for name, status, what in told if name == "nodes prod"] == [
        ("ok", "on the bill: 2 of 2 nodes with series: gpu-a, gpu-b"),
        ("warn", "on the bill, without series: gpu-c"),
    ]
    (place.folder / "card.yaml").write_text(CARD.replace("gpu-hour", "gpu"), encoding="utf-8")
    broken: list[Check] = diagnose(load_settings(place.config), date(2026, 10, 2))
    assert [(c.name, c.status.value) for c in broken if c.name.startswith("bill")] == [("bill own", "fail")]
