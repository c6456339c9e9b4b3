"""Months as billing periods, and what is booked in one."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import SettingsError
from allocation.schemas import DAILY_MART
from pipelines.months import Month, month_rows
from pipelines.partition import Partition
from pipelines.storage import TableStore


def test_a_month_knows_its_days_and_neighbours() -> None:
    december = Month.parse("2026-12")
    assert (december.first, december.next, december.before) == (date(2026, 12, 1), Month.parse("2027-01"), Month.parse("2026-11"))
    assert len(december.days) == 31
    assert december.days[-1] == date(2026, 12, 31)
    assert len(Month.parse("2028-02").days) == 29
    assert str(Month.of(date(2026, 2, 28))) == "2026-02"


@pytest.mark.parametrize("text", ["2026-13", "2026", "October", "2026-10-01", ""])
def test_what_is_no_month(text: str) -> None:
    with pytest.raises(SettingsError, match="is no month; write it like 2026-10"):
        Month.parse(text)


def row(booked: date, cost: str) -> dict[str, object]:
    figures = {c.name: Decimal(0) for c in DAILY_MART.columns if pa.types.is_decimal(c.type)}
    texts = {c.name: "x" for c in DAILY_MART.columns if pa.types.is_string(c.type)}
    return {
        **texts,
        **figures,
        "tokens": None,
        "billing_period": date(2026, 10, 1),
        "booked_period": booked,
        "cost": Decimal(cost),
    }


def test_rows_stand_in_the_month_they_are_booked_in(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    october, november = date(2026, 10, 1), date(2026, 11, 1)
    for day, rows in {date(2026, 10, 31): [row(october, "1"), row(november, "2")], november: [row(october, "4")]}.items():
        store.write("daily_mart", Partition(day, "prod"), pa.Table.from_pylist(rows, DAILY_MART.arrow()))
    found = month_rows(store, Month(october))
    assert found.select(["date", "cluster", "entry", "cost"]).to_pylist() == [
        {"date": date(2026, 10, 31), "cluster": "prod", "entry": "charge", "cost": Decimal("1.000000000")},
        {"date": november, "cluster": "prod", "entry": "charge", "cost": Decimal("4.000000000")},
    ]
    assert month_rows(store, Month(november))["cost"].to_pylist() == [Decimal(2)]
    assert len(month_rows(store, Month.parse("2026-12"))) == 0
