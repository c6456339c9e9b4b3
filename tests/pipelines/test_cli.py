"""The command line as a shell user meets it: help, exit codes, text for people, JSON for machines."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines import cli
from pipelines.settings import load_settings

CASE = Path(__file__).parents[1] / "cases" / "35-two-currencies"
WINDOW = ["--from", "2026-10-01", "--until", "2026-10-02"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for path in CASE.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / "chargeback.yaml"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [c for c in ("run", "doctor", "init", "schema", "warm", "export") if c not in shown] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == "0.1.0"


@pytest.mark.parametrize("argv", [["run"], ["run", "x", "--no-such-flag"], ["no-such-command"], []])
def test_wrong_usage(argv: list[str]) -> None:
    assert cli.main(argv) == 2


def test_run_in_json_holds_exact_money_per_currency(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(config), *WINDOW, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    in_scope = {r["currency"]: Decimal(r["cost_out_sum"]) for r in told["reconciliation"] if r["state"] == "allocated"}
    rows: dict[str, Decimal] = {}
    for row in told["team_model"]:
        rows[row["currency"]] = rows.get(row["currency"], Decimal(0)) + Decimal(row["cost_sum"])
    assert rows == in_scope
    assert len(rows) == 2
    assert {f["code"] for f in told["findings"]} >= {"mixed_currencies"}
    assert set(told["tables"]) == {"chargeback", "team_model", "reconciliation", "findings", "daily_mart"}


def test_run_in_text_says_where_the_files_are(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(config), *WINDOW]) == 0
    capsys.readouterr()  # the first of all runs says that it compiles
    assert cli.main(["run", str(config), *WINDOW]) == 0
    shown = capsys.readouterr()
    assert str(config.parent / "out" / "chargeback") in shown.out
    assert "billed cost in EUR" in shown.out
    assert "billed cost in USD" in shown.out
    assert shown.err == ""


def test_schema_of_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "chargeback", "--format", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    cost = next(c for c in table["columns"] if c["name"] == "used_cost")
    assert cost["type"] == "decimal128(38, 9)"


def test_schema_of_an_unknown_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "chargebak"]) == 2
    assert "chargeback" in capsys.readouterr().err


def test_doctor_in_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", str(config), "--format", "json"]) == 0
    checks = json.loads(capsys.readouterr().out)
    assert {c["status"] for c in checks} <= {"ok", "open", "warn"}


def test_doctor_fails_with_3_and_says_what_to_do(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config.parent / "bill.csv").unlink()
    assert cli.main(["doctor", str(config), "--format", "json"]) == 3
    failed = [c for c in json.loads(capsys.readouterr().out) if c["status"] == "fail"]
    assert [c for c in failed if "bill.csv" in json.dumps(c) and c["todo"]]
    assert cli.main(["doctor", str(config)]) == 3
    assert " fail " in capsys.readouterr().out


def test_init_writes_what_run_reads_and_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.yaml"
    options = [
        "--cluster",
        "dev",
        "--prometheus",
        "metrics.om",
        "--profile",
        "dcgm",
        "--billing",
        "focus",
        "--bill-path",
        "bill.csv",
    ]
    argv = ["init", str(path), *options, "--output", "tables", "--start", "2026-10-01"]
    assert cli.main(argv) == 0
    settings = load_settings(path)
    assert (settings.clusters[0].name, settings.billing[0].kind, str(settings.start)) == ("dev", "focus", "2026-10-01")
    written = path.read_bytes()
    assert cli.main(argv) == 2
    assert "--force" in capsys.readouterr().err
    assert path.read_bytes() == written


def test_init_refuses_an_unknown_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", str(tmp_path / "new.yaml"), "--profile", "dcmg"]) == 2
    assert "did you mean 'dcgm'" in capsys.readouterr().err
    assert not (tmp_path / "new.yaml").exists()


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        ("2026-10-01T06:00:00Z", "--from 2026-10-01 --until 2026-10-02"),
        ("2026-10-01T00:00:00+02:00", "--from 2026-09-30 --until 2026-10-01"),
        ("2026-10-01T23:59:59", "--from 2026-10-01 --until 2026-10-02"),
    ],
)
def test_a_window_that_is_no_whole_day_is_refused_with_the_one_that_is(
    moment: str, day: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", str(config), "--from", moment]) == 2
    assert day in " ".join(capsys.readouterr().err.split())
    assert not (config.parent / "out").exists()
