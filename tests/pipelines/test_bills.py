"""Several bills of one day: nothing is lost, nothing merged, whatever ids they share."""

import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import yaml

from pipelines.settings import load_settings
from pipelines.stages import open_walk, run_day

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


def test_a_delivery_is_parsed_once(tmp_path: Path) -> None:
    shutil.copytree(CASE, tmp_path / "case")
    walk = open_walk(load_settings(tmp_path / "case" / "chargeback.yaml"))
    run_day(walk, date(2026, 10, 1))
    kept = list((tmp_path / "case" / "out" / "line_items").glob("*.parquet"))
    written = [p.stat().st_mtime_ns for p in kept]
    run_day(walk, date(2026, 10, 2))
    assert len(kept) == 1
    assert [p.stat().st_mtime_ns for p in kept] == written
