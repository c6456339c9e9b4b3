"""Several bills of one day: nothing is lost, nothing merged, whatever ids they share."""

import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from allocation.errors import SettingsError
from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import Walk, open_walk

CASE = Path(__file__).parents[1] / "cases" / "32-egress-and-volume"


def test_two_entries_with_equal_rows_are_two_lines_each(tmp_path: Path) -> None:
    shutil.copytree(CASE, tmp_path / "case")
    path = tmp_path / "case" / "chargeback.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    bill = (tmp_path / "case" / "bill.csv").read_text(encoding="utf-8")
    (tmp_path / "case" / "more.csv").write_text(bill + bill.splitlines()[-1].replace("0.50", "0.25") + "\n", encoding="utf-8")
    values["billing"].append(values["billing"][0] | {"path": "more.csv"})
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    results = run_day(open_walk(load_settings(path)), date(2026, 10, 1))
    lines = [row for r in results for row in r.reconciliation.to_pylist()]
    assert len({row["line_item_id"] for row in lines}) == len(lines) == 11
    assert sum(row["cost_in"] for row in lines) == Decimal("33.25")
    assert sum(row["cost"] for r in results for row in r.chargeback.to_pylist()) == Decimal("20.00")
    found = [row for r in results for row in r.findings.to_pylist() if row["code"] == "billed_twice"]
    told = [(row["subject"], row["cost_at_risk"], row["currency"]) for row in found]
    assert told == [("i-0a00000000000001a", Decimal(10), "USD")]


def test_a_delivery_is_parsed_once(tmp_path: Path) -> None:
    shutil.copytree(CASE, tmp_path / "case")
    walk = open_walk(load_settings(tmp_path / "case" / "chargeback.yaml"))
    run_day(walk, date(2026, 10, 1))
    kept = list((tmp_path / "case" / "out" / "line_items").glob("*.parquet"))
    written = [p.stat().st_mtime_ns for p in kept]
    run_day(walk, date(2026, 10, 2))
    assert len(kept) == 1
    assert [p.stat().st_mtime_ns for p in kept] == written


def walk_of(folder: Path, **billing: object) -> Walk:
    """The case's walk, its folder copied once, with other settings of its one billing entry."""
    if not (folder / "case").exists():
        shutil.copytree(CASE, folder / "case")
    path = folder / "case" / "chargeback.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    values["billing"][0] |= billing
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return open_walk(load_settings(path))


def written(folder: Path) -> dict[str, bytes]:
    tables = ("chargeback", "team_model", "reconciliation", "findings")
    out = folder / "case" / "out"
    return {str(p.relative_to(out)): p.read_bytes() for name in tables for p in sorted((out / name).rglob("*.parquet"))}


def test_the_same_delivery_twice_changes_nothing_and_another_one_replaces_the_month(tmp_path: Path) -> None:
    day = date(2026, 10, 1)
    ids = {r.run_id for r in run_day(walk_of(tmp_path), day)}
    first = written(tmp_path)
    run_day(walk_of(tmp_path), day)
    assert written(tmp_path) == first
    bill = tmp_path / "case" / "bill.csv"
    text = bill.read_text(encoding="utf-8")
    bill.write_text("\n".join(text.splitlines()[:-1]) + "\n", encoding="utf-8")
    results = run_day(walk_of(tmp_path), day)
    # The tax of 0.50 was taken back by the new delivery.
    assert sum(row["cost_in"] for r in results for row in r.reconciliation.to_pylist()) == Decimal("16.00")
    assert ids.isdisjoint(r.run_id for r in results)
    bill.write_text(text, encoding="utf-8")
    run_day(walk_of(tmp_path), day)
    assert written(tmp_path) == first


def test_every_table_holds_each_of_several_metrics_and_never_their_sum(tmp_path: Path) -> None:
    day = date(2026, 10, 1)
    alone = {}
    for cost in ("billed", "list"):
        results = run_day(walk_of(tmp_path / cost, cost=cost), day)
        alone[cost] = {name: rows_of(results, name) for name in ("chargeback", "team_model", "reconciliation")}
    results = run_day(walk_of(tmp_path / "both", cost=["billed", "list"]), day)
    for name in ("chargeback", "team_model", "reconciliation"):
        both = rows_of(results, name)
        assert [r for r in both if r["cost_metric"] == "billed"] == alone["billed"][name]
        assert [r for r in both if r["cost_metric"] == "list"] == alone["list"][name]
        assert len(both) == len(alone["billed"][name]) + len(alone["list"][name])
    lines = [row for r in results for row in r.reconciliation.to_pylist()]
    assert sum(row["cost_in"] for row in lines if row["cost_metric"] == "billed") == Decimal("16.50")


def rows_of(results: list[Results], table: str) -> list[dict[str, object]]:
    """All rows of one table of a day, without what names the run."""
    rows = [row for r in results for row in getattr(r, table).to_pylist()]
    return sorted(({k: v for k, v in row.items() if k != "run_id"} for row in rows), key=str)


def test_a_bill_of_a_header_alone_is_kept_and_the_day_is_open(tmp_path: Path) -> None:
    walk_of(tmp_path)
    bill = tmp_path / "case" / "bill.csv"
    bill.write_text(bill.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    for _ in range(2):
        results = run_day(walk_of(tmp_path), date(2026, 10, 1))
        assert [f["code"] for r in results for f in r.findings.to_pylist() if f["code"] == "no_lines"] == ["no_lines"]
        assert sum(len(r.chargeback) + len(r.reconciliation) for r in results) == 0


def test_a_currency_in_other_letters_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"billing\.0\.currency: 'usd' is no currency code of ISO 4217; write USD"):
        walk_of(tmp_path, currency="usd")
