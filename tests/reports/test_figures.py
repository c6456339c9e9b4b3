"""Figures of a month against ones worked out by hand."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from allocation.errors import ChargebackError
from allocation.schemas import BILL_CLUSTER
from pipelines.months import Month
from pipelines.reports.figures import MonthFigures, month_figures, pairs
from pipelines.reports.gather import gather
from pipelines.storage import TableStore
from tests.reports.months import charge, finding, line, write_adjustments, write_day

SEPTEMBER = date(2026, 9, 1)


def figures(folder: Path, metric: str = "billed", currency: str = "USD") -> MonthFigures:
    return month_figures(gather(TableStore(str(folder)), Month.parse("2026-10"), ["prod"], [], closed=False), metric, currency)


def column(table: object, name: str, *keys: str) -> dict[object, Decimal]:
    rows = table.to_pylist()  # type: ignore[attr-defined]
    return {tuple(r[k] for k in keys) if len(keys) > 1 else r[keys[0]]: r[name] for r in rows}


def test_the_report_ties_to_the_bill(tmp_path: Path) -> None:
    """A line of 30 lies on three days, of which one is computed; 4 are a tax and 1.5 a disk."""
    split = line("30", cost_in=Decimal(10), cost_out=Decimal(10))
    write_day(tmp_path, [charge("10"), charge("7", "blue")], [split, line("7")])
    outside = [line("4", state="out_of_scope", rule="no_resource", cost_out=Decimal(0))]
    outside += [line("1.5", state="out_of_scope", rule="service_not_compute", cost_out=Decimal(0))]
    write_day(tmp_path, [], outside, cluster=BILL_CLUSTER)
    tie = figures(tmp_path).tie.to_pylist()
    assert [(r["side"], r["what"], r["rule"], r["cost"]) for r in tie] == [
        ("bill", "charged", None, Decimal(17)),
        ("bill", "out of scope", "no_resource", Decimal(4)),
        ("bill", "out of scope", "service_not_compute", Decimal("1.5")),
        ("bill", "on other days", None, Decimal(20)),
        ("bill", "bill lines of the month", None, Decimal("42.5")),
        ("bill", "difference", None, Decimal(0)),
        ("report", "charged", None, Decimal(17)),
        ("report", "this report", None, Decimal(17)),
        ("report", "difference", None, Decimal(0)),
    ]


def test_a_line_of_two_days_or_clusters_counts_once(tmp_path: Path) -> None:
    half = line("20", cost_in=Decimal(10), cost_out=Decimal(10))
    for day in (date(2026, 10, 1), date(2026, 10, 2)):
        write_day(tmp_path, [charge("10")], [half], day=day)
    tie = column(figures(tmp_path).tie, "cost", "side", "what")
    assert (tie["bill", "bill lines of the month"], tie["bill", "on other days"]) == (Decimal(20), Decimal(0))


def test_money_that_does_not_tie_is_told(tmp_path: Path) -> None:
    write_day(tmp_path, [charge("10"), charge("1")], [line("10")])
    assert column(figures(tmp_path).tie, "cost", "side", "what")["report", "difference"] == Decimal(1)


def test_thirds_add_up_as_shown(tmp_path: Path) -> None:
    third = "3.333333333"
    write_day(tmp_path, [charge(third, "a"), charge(third, "b"), charge("3.333333334", "c")], [line("10")])
    found = figures(tmp_path)
    assert column(found.teams, "cost", "team") == {"a": Decimal("3.33"), "b": Decimal("3.33"), "c": Decimal("3.34")}
    assert column(found.models, "cost", "team") == column(found.teams, "cost", "team")
    assert column(found.teams, "cost_exact", "team")["c"] == Decimal("3.333333334")


def test_what_changed_and_why(tmp_path: Path) -> None:
    """red: 10 h at 1 become 15 h at 1.20: 5 for volume, 3 for price. blue is new, green gone; the bucket was never measured."""
    write_day(
        tmp_path, [charge("18", "red", gpu_hours=Decimal(15)), charge("4", "blue"), charge("9", None, bucket="unallocated")]
    )
    last = {"billing_period": SEPTEMBER, "booked_period": SEPTEMBER}
    before = [charge("10", "red", gpu_hours=Decimal(10), **last), charge("6", "green", **last)]
    write_day(tmp_path, [*before, charge("7", None, bucket="unallocated", **last)], day=SEPTEMBER)
    found = {row["team"]: row for row in figures(tmp_path).changes.to_pylist()}
    told = {team: {k: int(v) for k, v in row.items() if k != "team" and v and "_exact" not in k} for team, row in found.items()}
    assert told == {
        "red": {"before": 10, "now": 18, "volume": 5, "price": 3, "change": 8},
        "blue": {"now": 4, "new": 4, "change": 4},
        "green": {"before": 6, "gone": -6, "change": -6},
        None: {"before": 7, "now": 9, "other": 2, "change": 2},
    }


def test_without_gpu_hours_memory_over_time_is_the_volume(tmp_path: Path) -> None:
    write_day(tmp_path, [charge("30", used_gib_hours=Decimal(20), idle_gib_hours=Decimal(10))])
    last = {"billing_period": SEPTEMBER, "booked_period": SEPTEMBER}
    write_day(tmp_path, [charge("10", used_gib_hours=Decimal(10), **last)], day=SEPTEMBER)
    (row,) = figures(tmp_path).changes.to_pylist()
    assert (row["volume"], row["price"]) == (Decimal(20), Decimal(0))


def test_corrections_of_earlier_months_stand_apart(tmp_path: Path) -> None:
    write_day(tmp_path, [charge("10")], [line("10")])
    original = {"original_date": date(2026, 9, 14), "billing_period": SEPTEMBER, "cause": "late_metrics"}
    write_adjustments(tmp_path, [charge("-5", **original), charge("5.5", **original)], date(2026, 10, 20))
    found = figures(tmp_path)
    assert found.total == 10_500_000_000
    assert column(found.adjustments, "cost", "original_month", "cause") == {("2026-09", "late_metrics"): Decimal("0.5")}
    tie = column(found.tie, "cost", "side", "what")
    assert (tie["report", "corrections"], tie["report", "difference"]) == (Decimal("0.5"), Decimal(0))
    assert column(found.days, "cost", "day") == {"2026-10-01": Decimal(10), "corrections": Decimal("0.5")}


def test_how_sure_and_what_it_paid_for(tmp_path: Path) -> None:
    used = {"used_cost": Decimal(3), "overhead_cost": Decimal(2), "idle_cost": Decimal(5), "basis": "estimated_even"}
    write_day(tmp_path, [charge("10", **used), charge("4", None, bucket="idle", basis="none"), charge("1", basis="inferred")])
    found = figures(tmp_path)
    assert column(found.kinds, "cost", "kind") == {"in use": 4, "overhead": 2, "free, held": 5, "idle": 4}
    assert column(found.sure, "cost", "sure") == {"estimated": 10, "not measured": 4, "inferred": 1}


def test_findings_by_money(tmp_path: Path) -> None:
    many = [
        finding("unowned", risk="2"),
        finding("unowned", risk="3", subject="x"),
        finding("low_coverage", risk="4"),
        finding("no_series"),
    ]
    write_day(tmp_path, [charge("10")], findings=many)
    rows = figures(tmp_path).findings.to_pylist()
    assert [(r["code"], r["findings"], r["at_risk"], r["largest_subject"]) for r in rows] == [
        ("unowned", 2, Decimal(5), "x"),
        ("low_coverage", 1, Decimal(4), "gpu-a"),
        ("no_series", 1, Decimal(0), "gpu-a"),
    ]


def test_metrics_and_currencies_are_never_added_up(tmp_path: Path) -> None:
    write_day(tmp_path, [charge("10"), charge("20", cost_metric="list"), charge("3000", currency="JPY")])
    gathered = gather(TableStore(str(tmp_path)), Month.parse("2026-10"), ["prod"], [], closed=False)
    assert pairs(gathered) == [("billed", "JPY"), ("billed", "USD"), ("list", "USD")]
    assert [figures(tmp_path, *pair).shown for pair in pairs(gathered)] == [3000, 1000, 2000]


def test_missing_days_are_named_and_an_absent_month_is_refused(tmp_path: Path) -> None:
    write_day(tmp_path, [charge("10")])
    missing = figures(tmp_path).missing
    assert len(missing) == 30
    assert missing[0] == (date(2026, 10, 2), "prod")
    with pytest.raises(ChargebackError, match="no day of 2026-12 is there; compute it with"):
        gather(TableStore(str(tmp_path)), Month.parse("2026-12"), ["prod"], [], closed=False)


def test_sums_beyond_64_bits(tmp_path: Path) -> None:
    write_day(tmp_path, [charge("9000000000", "a"), charge("9000000000", "b", model="x"), charge("9000000000", "b")])
    assert figures(tmp_path).total == 27 * 10**18
