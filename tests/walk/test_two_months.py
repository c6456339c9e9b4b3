"""Two months of a company: October is run, closed, and changed afterwards in every way; all sums tie at each step."""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines import cli, clock
from pipelines.months import Month, month_rows
from pipelines.results import RESULT_TABLES
from pipelines.storage import TableStore
from tests.months import NOVEMBER, OCTOBER, Company, days

Run = Callable[..., Any]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the clock."""

    def put(moment: str) -> None:
        then = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        monkeypatch.setattr(clock, "now", lambda: then)

    return put


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command and reads what it says as JSON."""

    def run(*argv: str, code: int = 0) -> Any:  # noqa: ANN401
        found = cli.main([*argv, "--format", "json"])
        said = capsys.readouterr()
        assert found == code, said.err
        return json.loads(said.out) if said.out else said.err

    return run


def window(first: date, count: int = 1) -> tuple[str, ...]:
    return "--from", str(first), "--until", str(first + timedelta(days=count))


def bytes_of(store: Path, month: str) -> dict[str, str]:
    files = [f for name in RESULT_TABLES for f in (store / name).glob(f"date={month}-*/*/*")]
    return {str(f.relative_to(store)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def by_team(rows: pa.Table) -> dict[str | None, Decimal]:
    sums = rows.group_by(["team"]).aggregate([("cost", "sum")])
    found = dict(zip(sums["team"].to_pylist(), sums["cost_sum"].to_pylist(), strict=True))
    return {team: cost for team, cost in found.items() if cost}


def owners(store: TableStore, period: date) -> list[tuple[object, ...]]:
    """All money of a billing period by day and owner, whatever month it is booked in; nothing that came to 0."""
    rows = pa.concat_tables([month_rows(store, month) for month in (Month(OCTOBER), Month(NOVEMBER))])
    rows = rows.filter(pc.equal(rows["billing_period"], pa.scalar(period)))
    keys = ["date", "cluster", "team", "model", "namespace", "bucket", "basis"]
    figures = ["used_cost", "overhead_cost", "idle_cost", "cost", "used_gib_hours", "gpu_hours"]
    sums = rows.group_by(keys).aggregate([(name, "sum") for name in figures])
    found = [tuple(row.values()) for row in sums.sort_by([(k, "ascending") for k in keys]).to_pylist()]
    return [row for row in found if any(row[len(keys) :])]


def test_two_months(tmp_path: Path, at: Callable[[str], None], call: Run, capsys: pytest.CaptureFixture[str]) -> None:
    company = Company(tmp_path / "one").write()
    config, out = str(company.config), tmp_path / "one" / "out"
    store = TableStore(str(out))
    for day in company.days:
        at(f"{day + timedelta(days=1)}T04:00:00")
        call("run", config, *window(day))
    # 31 days of 2 hours at 4 dollars: 3 of 4 are train's
    assert by_team(month_rows(store, Month(OCTOBER))) == {"train-team": Decimal(186), "chat-team": Decimal(62)}

    at("2026-11-05T23:59:59")
    [early] = call("close", config, "2026-10", code=3)["obstacles"]
    assert early["kind"] == "bill_not_final"
    at("2026-11-06T00:00:00")
    entry = json.loads(Path(call("close", config, "2026-10", "--by", "controller")["entry"]).read_text(encoding="utf-8"))
    assert entry["totals"] == [
        {"entry": "charge", "cost_metric": "billed", "currency": "USD", "cost": "248.000000000"},
    ]
    # the invoice: 248 of machines and 31 fees of 7
    [tie] = entry["tie"]
    assert (tie["bill"], tie["charged"], tie["out_of_scope"], tie["later"], tie["lines"]) == (
        "465.000000000", "248.000000000", "217.000000000", "0.000000000", 93,
    )  # fmt: skip
    closed = bytes_of(out, "2026-10")
    assert len(closed) == 31 * 2 * len(RESULT_TABLES) * 2

    # a day that runs again changes nothing, and books nothing
    again = call("run", config, *window(OCTOBER))
    assert [p["booked"]["legs"] for p in again["partitions"]] == [0, 0]
    assert not store.partitions("adjustments")

    # 9 November: the 15th of October was billed too low by a dollar an hour
    company.days += days(NOVEMBER, 8)
    company.price[date(2026, 10, 15)] = "5"
    company.write()
    at("2026-11-09T04:00:00")
    call("run", config, *window(NOVEMBER, 8))
    told = call("run", config, *window(date(2026, 10, 15)))["partitions"][0]["booked"]
    assert (told["cause"], told["date"]) == ("bill_restated", "2026-11-09")
    assert [row["cost"] for row in told["net"]] == ["2.000000000"]
    november = month_rows(store, Month(NOVEMBER))
    corrections = november.filter(pc.equal(november["entry"], "adjustment"))
    assert by_team(corrections) == {"train-team": Decimal("1.5"), "chat-team": Decimal("0.5")}

    # 12 November: from the 20th of October on, train belonged to research
    rule = {"match": {"namespace": "train-team"}, "team": "research", "from": "2026-10-20"}
    company.owners = {"rules": [rule]}
    company.write()
    at("2026-11-12T04:00:00")
    partitions = call("run", config, *window(date(2026, 10, 18), 14))["partitions"]
    assert {p["date"]: p["booked"]["legs"] for p in partitions if p["booked"]["legs"]} == {
        str(day): 4 for day in days(date(2026, 10, 20), 12)
    }
    assert {p["booked"]["cause"] for p in partitions if p["booked"]["legs"]} == {"owner_rule_changed"}
    assert {row["cost"] for p in partitions for row in p["booked"]["net"]} == {"0.000000000"}
    november = month_rows(store, Month(NOVEMBER))
    corrections = november.filter(pc.equal(november["entry"], "adjustment"))
    assert by_team(corrections) == {"train-team": Decimal("1.5") - 72, "research": Decimal(72), "chat-team": Decimal("0.5")}

    # 20 November: metrics of the 25th came late, chat held as much as train
    company.memory_gib[date(2026, 10, 25), "chat"] = 30
    company.write()
    at("2026-11-20T04:00:00")
    told = call("run", config, *window(date(2026, 10, 25)), "--refetch")["partitions"][0]["booked"]
    assert told["cause"] == "late_metrics"
    corrections = month_rows(store, Month(NOVEMBER))
    corrections = corrections.filter(pc.equal(corrections["entry"], "adjustment"))
    assert by_team(corrections) == {"train-team": Decimal("1.5") - 72, "research": Decimal(70), "chat-team": Decimal("2.5")}

    # closed rows are those that were closed, and with the adjustments they are what a company would have that knew all of it
    assert bytes_of(out, "2026-10") == closed
    [proof] = call("verify", config)
    assert (proof["month"], proof["files"], proof["faults"]) == ("2026-10", len(closed) + 4, [])  # and two marts of the month
    knowing = Company(tmp_path / "two", company.days, company.price, company.memory_gib, company.owners).write()
    call("run", str(knowing.config), *window(OCTOBER, 31))
    assert owners(store, OCTOBER) == owners(TableStore(str(tmp_path / "two" / "out")), OCTOBER)
    legs = store.read("adjustments", store.partitions("adjustments")[0])
    assert legs is not None
    assert set(legs["closed_run_id"].to_pylist()) == {entry["rests_on"]["2026-10-15|prod"]["run_id"]}

    # opened again for a reason, October is written as it is known now, and what was booked is taken back
    assert cli.main(["reopen", config, "2026-10", "--reason", "auditors asked"]) == 0
    assert "2026-10 is open again" in capsys.readouterr().out
    at("2026-11-25T04:00:00")
    partitions = call("run", config, *window(date(2026, 10, 15), 17))["partitions"]
    assert {p["booked"]["cause"] for p in partitions if p["booked"]} == {"reopened"}
    corrections = month_rows(store, Month(NOVEMBER))
    assert not by_team(corrections.filter(pc.equal(corrections["entry"], "adjustment")))
    assert by_team(month_rows(store, Month(OCTOBER))) == {
        "train-team": Decimal(114) + Decimal("1.5"), "research": Decimal(70), "chat-team": Decimal("64.5"),
    }  # fmt: skip
    assert owners(store, OCTOBER) == owners(TableStore(str(tmp_path / "two" / "out")), OCTOBER)
