"""Months out of days: sums, ratios of sums, which days are missing. Figures are worked out by hand."""

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.marts import monthly_mart
from allocation.money import per_unit
from allocation.schemas import DAILY_MART, MONTHLY_MART
from pipelines import cli, clock
from pipelines.partition import Partition
from pipelines.storage import TableStore

OCTOBER = date(2026, 10, 1)
CONFIG = """version: 1
output: {out}
start: 2026-10-01
clusters:
  - name: prod
    metrics: [{{kind: openmetrics, path: metrics.om, profile: dcgm}}]
billing: [{{kind: focus, path: bill.csv, cost: billed}}]
owners: {{team: [namespace]}}
"""


def row(team: str, cost: str, hours: str, tokens: int | None, booked: date = OCTOBER) -> dict[str, object]:
    figures = {c.name: Decimal(0) for c in DAILY_MART.columns if pa.types.is_decimal(c.type)}
    texts = {c.name: "x" for c in DAILY_MART.columns if pa.types.is_string(c.type)}
    own = {"team": team, "cost": Decimal(cost), "gpu_hours": Decimal(hours), "tokens": tokens, "booked_period": booked}
    return {**texts, **figures, "billing_period": OCTOBER, **own}


def days(store: TableStore, **of_day: list[dict[str, object]]) -> None:
    for name, rows in of_day.items():
        day = date(2026, 10, int(name.removeprefix("d")))
        for cluster in ("prod", "_bill"):
            table = pa.Table.from_pylist(rows if cluster == "prod" else [], DAILY_MART.arrow())
            store.write("daily_mart", Partition(day, cluster), table)


def test_ratios_are_those_of_sums() -> None:
    """30 + 10 for 10 + 2 hours: 40 / 12, not the mean of 3 and 5. Tokens 3 and none: 40 by 3 tokens."""
    rows = pa.Table.from_pylist(
        [row("a", "30", "10", 3), row("a", "10", "2", None), row("b", "7", "0", None)], DAILY_MART.arrow()
    )
    rows = rows.append_column("entry", pa.repeat("charge", 3))
    first, second = monthly_mart(rows, [OCTOBER, date(2026, 10, 2)], False).to_pylist()
    assert (first["team"], first["cost"], first["tokens"]) == ("a", 40, 3)
    assert first["cost_per_gpu_hour"] == Decimal("3.333333333")
    assert first["cost_per_million_tokens"] == Decimal("13333333.333333333")
    assert (first["days"], first["last_day"], first["final"]) == (2, date(2026, 10, 2), False)
    assert (second["cost_per_gpu_hour"], second["cost_per_held_gpu_hour"], second["cost_per_million_tokens"]) == (None,) * 3


def test_a_ratio_is_rounded_half_to_even() -> None:
    amounts = pa.chunked_array([pa.array([Decimal("0.000000001"), Decimal("0.000000003"), Decimal("-12345678901.5")]).cast(
        pa.decimal128(38, 9))])  # fmt: skip
    units = pa.chunked_array([pa.array([2, 2, 1])])
    assert per_unit(amounts, units).to_pylist() == [Decimal(0), Decimal("0.000000002"), Decimal("-12345678901.5")]


def test_a_month_to_date_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five days are over on the 6th; the third is missing, so the month is whole through the second."""
    config, store = tmp_path / "c.yaml", TableStore(str(tmp_path / "out"))
    config.write_text(CONFIG.format(out=tmp_path / "out"), encoding="utf-8")
    monkeypatch.setattr(clock, "today", lambda: date(2026, 10, 6))
    assert cli.main(["marts", str(config), "--month", "2026-10"]) == 1
    assert "no day of 2026-10 is in" in capsys.readouterr().err
    days(store, d1=[row("a", "2", "1", None)], d2=[row("a", "3", "1", None)], d4=[row("b", "5", "1", None)], d5=[])
    late = pa.Table.from_pylist([row("a", "100", "1", None, date(2026, 11, 1))], DAILY_MART.arrow())
    store.write("daily_mart", Partition(date(2026, 11, 1), "prod"), late)
    assert cli.main(["marts", str(config), "--month", "2026-10", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["through"], told["final"]) == ("2026-10-02", False)
    assert told["clusters"] == [{"cluster": c, "days": 4, "missing": ["2026-10-03"]} for c in ("prod", "_bill")]
    assert [(t["cost"], t["gpu_hours"], t["cost_per_gpu_hour"]) for t in told["totals"]] == [
        ("10.000000000", "3.000000000", "3.333333333")
    ]
    kept = store.read("monthly_mart", Partition(OCTOBER, "prod"))
    assert kept is not None
    assert kept.schema.names == MONTHLY_MART.names
    assert kept.select(["team", "entry", "cost", "days"]).to_pylist() == [
        {"team": "a", "entry": "charge", "cost": Decimal(5), "days": 4},
        {"team": "b", "entry": "charge", "cost": Decimal(5), "days": 4},
    ]
    assert cli.main(["marts", str(config), "--month", "2026-10"]) == 0
    text = capsys.readouterr().out
    assert "2026-10: computed through 2026-10-02, not closed" in text
    assert "prod: 4 of 31 days; missing: 2026-10-03" in text


def test_what_is_no_month_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.format(out=tmp_path), encoding="utf-8")
    assert cli.main(["marts", str(config), "--month", "October"]) != 0
    assert "is no month" in capsys.readouterr().err
