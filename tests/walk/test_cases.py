"""Every worked example in ``tests/cases`` through the whole walk, against figures that were derived by hand."""

import csv
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import ChargebackError
from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk

CASES = Path(__file__).parents[1] / "cases"
SHARED = Path(__file__).parents[3] / "shared" / "cases"
MONEY = ("used_cost", "overhead_cost", "idle_cost", "cost")
MEASURES = ("used_gib_seconds", "overhead_gib_seconds", "idle_gib_seconds", "observed_seconds", "imputed_seconds")
NANO = Decimal(1).scaleb(-9)


def names() -> list[str]:
    return sorted(p.name for p in CASES.iterdir() if (p / "chargeback.yaml").is_file())


def rows_of(case: str, file: str) -> list[dict[str, str]]:
    with (CASES / case / file).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def window_of(case: str) -> tuple[date, date]:
    path = CASES / case / "window.txt"
    first, until = path.read_text(encoding="utf-8").split() if path.is_file() else ("2026-10-01", "2026-10-02")
    return date.fromisoformat(first), date.fromisoformat(until)


def run(case: str, output: Path) -> list[Results]:
    settings = load_settings(CASES / case / "chargeback.yaml").model_copy(update={"output": str(output)})
    walk = open_walk(settings)
    first, until = window_of(case)
    return [r for n in range((until - first).days) for r in run_day(walk, date.fromordinal(first.toordinal() + n))]


def as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)


def sums_of(rows: list[dict[str, object]], keys: list[str], columns: list[str]) -> dict[tuple[str, ...], dict[str, Decimal]]:
    sums: dict[tuple[str, ...], dict[str, Decimal]] = {}
    for row in rows:
        group = sums.setdefault(tuple(as_text(row[k]) for k in keys), dict.fromkeys(columns, Decimal(0)))
        for column in columns:
            group[column] += Decimal(str(row[column]))
    return sums


def check_rows(case: str, results: list[Results]) -> None:
    expected = rows_of(case, "expected.csv")
    header = list(expected[0])
    columns = [c for c in header if c in MONEY or c in MEASURES]
    keys = [c for c in header if c not in columns]
    rows = [row | {"cluster": r.partition.cluster} for r in results for row in r.chargeback.to_pylist()]
    got = sums_of(rows, keys, columns)
    wanted = sums_of([dict(row) for row in expected], keys, columns)
    for key, sums in wanted.items():
        assert key in got, f"{key} is not in {sorted(got)}"
        for column in columns:
            off = abs(got[key][column] - sums[column])
            assert off <= (NANO if column in MONEY else Decimal("1e-6")), f"{key} {column}: {got[key][column]} for {sums[column]}"
    for key in got.keys() - wanted.keys():
        assert not any(got[key].values()), f"unexpected {key}: {got[key]}"
    assert sum(s["cost"] for s in got.values()) == sum(s["cost"] for s in wanted.values())


def check_findings(case: str, results: list[Results]) -> None:
    got = [(f["code"], f["subject"]) for r in results for f in r.findings.to_pylist()]
    for row in rows_of(case, "expected-findings.csv"):
        assert any(code == row["code"] and row["subject"] in subject for code, subject in got), f"{row} is not in {got}"


def check_reconciliation(case: str, results: list[Results]) -> None:
    rows = [row | {"cluster": r.partition.cluster} for r in results for row in r.reconciliation.to_pylist()]
    keys, columns = ["cluster", "state", "rule"], ["cost_in", "cost_out"]
    wanted = sums_of([dict(row) for row in rows_of(case, "expected-reconciliation.csv")], keys, columns)
    assert sums_of(rows, keys, columns) == wanted


@pytest.mark.parametrize("case", names())
def test_case(case: str, tmp_path: Path) -> None:
    refused = CASES / case / "expected-error.txt"
    if refused.is_file():
        code, *texts = refused.read_text(encoding="utf-8").splitlines()
        with pytest.raises(ChargebackError) as error:
            run(case, tmp_path / "out")
        assert error.value.exit_code == int(code)
        assert [t for t in texts if t not in str(error.value)] == []
        assert list(tmp_path.glob("out/chargeback/**/*.parquet")) == []
        return
    results = run(case, tmp_path / "out")
    check_rows(case, results)
    for file, check in (("expected-findings.csv", check_findings), ("expected-reconciliation.csv", check_reconciliation)):
        if (CASES / case / file).is_file():
            check(case, results)
    for r in results:
        reconciled = r.reconciliation
        assert not any(reconciled["difference"].to_pylist())
        assert sum(reconciled["cost_out"].to_pylist(), Decimal(0)) == sum(r.chargeback["cost"].to_pylist(), Decimal(0))


def test_cases_equal_the_shared_ones() -> None:
    if not SHARED.is_dir():
        pytest.skip("the shared cases are not beside this checkout")
    for folder in sorted(p for p in SHARED.iterdir() if p.is_dir()):
        for path in sorted(folder.iterdir()):
            assert (CASES / folder.name / path.name).read_bytes() == path.read_bytes(), f"{folder.name}/{path.name} differs"


def test_a_repeated_value_tells_what_a_naive_sum_would_have_charged(tmp_path: Path) -> None:
    """Case 21: three rows of 60 GiB on a card of 80 at 90 USD: 67.50 for the memory, and three times as much by a naive sum."""
    findings = run("21-time-sliced-300-percent", tmp_path / "out")[0].findings.to_pylist()
    (repeated,) = (f for f in findings if f["code"] == "repeated_device_values")
    assert "would have charged 202.50 USD where 67.50 is right" in repeated["evidence"]
    assert repeated["cost_at_risk"] == Decimal("67.50")


def test_tables_are_typed(tmp_path: Path) -> None:
    chargeback = run("09-mig-stranded", tmp_path / "out")[0].chargeback
    assert chargeback.schema.field("cost").type == pa.decimal128(38, 9)
    assert chargeback.schema.field("charge_period_start").type == pa.timestamp("us", tz="UTC")
