"""The nightly schedule, and which days it computes. Nothing runs until the schedule is turned on."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import dagster as dg

from billing_adapters.base import Delivery
from dagster_project.partitions import clusters_of, key_of
from dagster_project.resources import ChargebackConfig
from pipelines.bills import discover
from pipelines.partition import Partition
from pipelines.settings import Settings
from pipelines.storage import TableStore

LAST_DAYS = 3
CRON = "0 4 * * *"
"""Four in the morning, UTC: the day before is over, and bills of the evening are delivered."""


def nightly(job_name: str) -> dg.ScheduleDefinition:
    """Runs the job for every cluster and ``_bill`` of the days that are due."""

    @dg.schedule(name="nightly", job_name=job_name, cron_schedule=CRON, execution_timezone="UTC")
    def schedule(context: dg.ScheduleEvaluationContext, chargeback: ChargebackConfig) -> Iterator[dg.RunRequest]:
        """The last three days, and every day whose bill changed since it was computed."""
        walk = chargeback.walk()
        today = context.scheduled_execution_time.date()
        deliveries = [bill.delivery for bill in discover(walk.settings)]
        for day in due_days(walk.settings, walk.store, deliveries, today):
            for cluster in clusters_of(walk.settings):
                key = key_of(Partition(day, cluster))
                yield dg.RunRequest(run_key=f"{today.isoformat()}|{key}", partition_key=key)

    return schedule


def due_days(settings: Settings, store: TableStore, deliveries: Sequence[Delivery], today: date) -> list[date]:
    """The last whole days, then earlier days whose bill changed, each from the first day on and before today."""
    first = settings.start or today
    recent = {today - timedelta(days=n) for n in range(1, LAST_DAYS + 1)}
    stored = [p for p in store.partitions("chargeback") if p.cluster in clusters_of(settings) and first <= p.day < today]
    changed = {p.day for p in stored if p.day not in recent and _changed(store, p, deliveries)}
    return [day for day in [*sorted(recent), *sorted(changed)] if day >= first]


def _changed(store: TableStore, partition: Partition, deliveries: Sequence[Delivery]) -> bool:
    """Whether a delivery came that the partition was not computed from and that may hold lines of its day, or one only went.

    A delivery of a billing month may hold lines of that month's days and of later ones (fees that cover more than a month).
    """
    commit = store.commit("chargeback", partition)
    told = commit.detail.get("deliveries", []) if commit else []
    known = set(told) if isinstance(told, list) else set()
    new = [d for d in deliveries if d.delivery_id not in known]
    if not new:
        return bool(known - {d.delivery_id for d in deliveries})
    return any(d.may_touch(partition.day) and (d.billing_period or partition.day) <= partition.day for d in new)
