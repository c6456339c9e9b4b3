"""Which partitions a night computes, with a fixed time."""

from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest

from allocation.schemas import CHARGEBACK
from billing_adapters.base import Delivery
from dagster_project.build import build_definitions
from dagster_project.schedules import due_days
from pipelines.partition import Partition
from pipelines.settings import load_settings
from pipelines.storage import TableStore
from tests.dagster_project.places import TWO_CLUSTERS, Place, copied

FOUR = datetime(2026, 10, 6, 4, tzinfo=UTC)
LAST_THREE = [date(2026, 10, 3), date(2026, 10, 4), date(2026, 10, 5)]
OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return copied(TWO_CLUSTERS, tmp_path / "two")


def night(place: Place, instance: dg.DagsterInstance) -> list[dict[str, str]]:
    definitions = build_definitions(place.config)
    repository = definitions.get_repository_def()
    made = dg.build_schedule_context(
        instance=instance, scheduled_execution_time=FOUR, repository_def=repository, resources=definitions.resources
    )
    with made as context:
        tick = repository.get_schedule_def("nightly").evaluate_tick(context)
    assert tick.run_requests is not None
    assert len({r.run_key for r in tick.run_requests}) == len(tick.run_requests)
    found = [r.partition_key for r in tick.run_requests]
    return [dict(key.keys_by_dimension) for key in found if isinstance(key, dg.MultiPartitionKey)]


def keys(*days: date) -> list[dict[str, str]]:
    return [{"date": day.isoformat(), "cluster": cluster} for day in days for cluster in ("prod", "dev", "_bill")]


def test_the_last_three_days_and_days_whose_bill_changed(place: Place) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert night(place, instance) == keys(*LAST_THREE)
        assert place.run(instance, "prod").success
        assert night(place, instance) == keys(*LAST_THREE)
        bill = place.folder / "bill.csv"
        bill.write_text(bill.read_text(encoding="utf-8").replace(",0.50,", ",0.60,"), encoding="utf-8")
        assert night(place, instance) == keys(*LAST_THREE, date(2026, 10, 1))
        assert place.run(instance, "prod").success
        assert night(place, instance) == keys(*LAST_THREE)


def test_days_before_the_first_are_left_alone(place: Place) -> None:
    later = place.config.read_text(encoding="utf-8").replace("start: 2026-10-01", "start: 2026-10-05")
    place.config.write_text(later, encoding="utf-8")
    with dg.DagsterInstance.ephemeral() as instance:
        assert night(place, instance) == keys(date(2026, 10, 5))


@pytest.mark.parametrize(
    ("told", "now", "due"),
    [
        (["a"], [Delivery("a", (), OCTOBER)], False),
        (["a"], [Delivery("b", (), OCTOBER)], True),
        (["a"], [Delivery("a", (), OCTOBER), Delivery("b", ())], True),
        (["a"], [Delivery("a", (), OCTOBER), Delivery("n", (), NOVEMBER)], False),
        (["a"], [Delivery("a", ()), Delivery("d", (), days=(date(2026, 10, 2), date(2026, 10, 3)))], True),
        (["a"], [Delivery("a", ()), Delivery("d", (), days=(date(2026, 10, 3), date(2026, 10, 4)))], False),
        (["a", "gone"], [Delivery("a", (), OCTOBER)], True),
    ],
    ids=[
        "same",
        "replaced",
        "one more of no month",
        "one more of a later month",
        "one more of that day",
        "one more of other days",
        "one less",
    ],
)
def test_a_delivery_concerns_the_days_of_its_month_and_later_ones(
    place: Place, told: list[str], now: list[Delivery], due: bool
) -> None:
    settings = load_settings(place.config)
    store = TableStore(str(place.output))
    store.write("chargeback", Partition(date(2026, 10, 2), "dev"), CHARGEBACK.empty(), {"deliveries": told})
    store.write("chargeback", Partition(date(2026, 10, 2), "a cluster that is gone"), CHARGEBACK.empty(), {"deliveries": ["old"]})
    days = due_days(settings, store, now, date(2026, 10, 20))
    assert days[:3] == [date(2026, 10, 17), date(2026, 10, 18), date(2026, 10, 19)]
    assert days[3:] == ([date(2026, 10, 2)] if due else [])
