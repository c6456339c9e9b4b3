"""Double entry: what was charged and what is right, per owner, to the last nano-unit."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from allocation.ledger import CHARGED, OWNER, RESTATED, legs, net
from allocation.marts import FIGURES
from allocation.schemas import DAILY_MART
from tests.pipelines.test_months import row

OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
AMOUNTS = st.integers(-(10**30), 10**30)


def mart(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), DAILY_MART.arrow())


def owned(team: str | None, nanos: int, booked: date = OCTOBER) -> dict[str, object]:
    return {**row(booked, "0"), "team": team, "cost": Decimal(nanos).scaleb(-9), "tokens": None}


def costs(table: pa.Table) -> list[tuple[str, str | None, Decimal]]:
    return [(r["leg"], r["team"], r["cost"]) for r in table.select(["leg", "team", "cost"]).to_pylist()]


def test_only_owners_whose_figures_differ_have_legs() -> None:
    found = legs([mart(owned("red", 10), owned(None, 5))], mart(owned("red", 7), owned(None, 5), owned("new", 1)))
    nano = Decimal("0.000000001")
    assert costs(found) == [
        (CHARGED, "new", 0 * nano), (RESTATED, "new", nano), (CHARGED, "red", -10 * nano), (RESTATED, "red", 7 * nano),
    ]  # fmt: skip
    assert net(found)["cost"].to_pylist() == [-2 * nano]


def test_the_month_of_booking_makes_no_difference() -> None:
    assert len(legs([mart(owned("red", 10))], mart(owned("red", 10, NOVEMBER)))) == 0
    assert len(legs([], mart())) == 0


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", None]), AMOUNTS), min_size=1, max_size=4))
def test_closed_rows_and_all_legs_are_the_last_truth(truths: list[dict[str | None, int]]) -> None:
    """Each correction is taken against the closed rows and the legs before it; an equal truth books nothing."""
    first, booked = mart(*(owned(t, n) for t, n in truths[0].items())), list[pa.Table]()
    for truth in truths[1:]:
        booked.append(legs([first, *booked], mart(*(owned(t, n) for t, n in truth.items()))))
    alike = first.select([*OWNER, *FIGURES]).schema
    everything = pa.concat_tables([table.select(alike.names).cast(alike) for table in (first, *booked)])
    sums = everything.group_by(["team"]).aggregate([("cost", "sum")]).to_pylist()
    assert {r["team"]: r["cost_sum"] for r in sums if r["cost_sum"]} == {
        team: Decimal(n).scaleb(-9) for team, n in truths[-1].items() if n
    }
    last = mart(*(owned(t, n) for t, n in truths[-1].items()))
    assert len(legs([first, *booked], last)) == 0
