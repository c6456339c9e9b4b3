"""The day's marts of worked examples: all the money of ``chargeback``, and quantities worked out by hand."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.walk.test_cases import run

MONEY = ("used_cost", "overhead_cost", "idle_cost", "cost")
KEYS = (
    "billing_period",
    "cost_metric",
    "currency",
    "team",
    "model",
    "cost_center",
    "namespace",
    "gpu_model",
    "bucket",
    "reason",
    "basis",
)
CASES = ("09-mig-stranded", "18-credit-mirror", "21-time-sliced-300-percent", "35-two-currencies", "85-model-split",
         "95-spot-and-on-demand-two-metrics", "109-share-by-sku")  # fmt: skip


def added(rows: list[dict[str, object]], figures: tuple[str, ...]) -> dict[tuple[object, ...], list[Decimal]]:
    sums: dict[tuple[object, ...], list[Decimal]] = {}
    for row in rows:
        of_key = sums.setdefault(tuple(row[key] for key in KEYS), [Decimal(0)] * len(figures))
        for at, name in enumerate(figures):
            of_key[at] += Decimal(str(row[name]))
    return sums


@pytest.mark.parametrize("case", CASES)
def test_marts_have_all_the_money_of_chargeback_to_the_nano(case: str, tmp_path: Path) -> None:
    results = [result for result in run(case, tmp_path) if len(result.chargeback)]
    assert results
    for result in results:
        assert added(result.daily_mart.to_pylist(), MONEY) == added(result.chargeback.to_pylist(), MONEY)


def test_tokens_of_two_models_over_a_restart(tmp_path: Path) -> None:
    """Case 85: llama 600, mistral 200 of one GPU's hour; serve-0 has 60 of its 80 GiB, embed-0 has no counters and 20."""
    (result,) = (result for result in run("85-model-split", tmp_path) if len(result.chargeback))
    rows = result.daily_mart.to_pylist()
    tokens = {row["model"]: row["tokens"] for row in rows}
    assert {model: count for model, count in tokens.items() if count is not None} == {"llama": 600, "mistral": 200}
    hours = sorted(row["gpu_hours"] for row in rows)
    assert sum(hours) == 1
    assert hours == [Decimal("0.1875"), Decimal("0.25"), Decimal("0.5625")]


def test_google_s_cores_and_memory_have_no_gpu_hours(tmp_path: Path) -> None:
    """Case 109: one GPU for an hour, of one team, however many rows pay for it and for its host."""
    (result,) = (result for result in run("109-share-by-sku", tmp_path) if len(result.chargeback))
    rows = result.daily_mart.to_pylist()
    assert sorted(row["gpu_hours"] for row in rows if row["gpu_hours"]) == [1]
    assert {row["bucket"] for row in rows if row["gpu_hours"] == 0} == {"host"}
