"""Whether what is asked for can be exported: every day of every cluster is there, no error stands, the cost metric is clear."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from allocation.errors import ChargebackError, SettingsError, nearest
from allocation.schemas import BILL_CLUSTER
from billing_adapters.base import COST_METRICS
from pipelines.accepted import blocking, ensure_codes
from pipelines.partition import Partition
from pipelines.settings import Settings
from pipelines.storage import TableStore


@dataclass(frozen=True)
class Asked:
    """What is to be exported: whole days of all clusters, under one cost metric."""

    settings: Settings
    store: TableStore
    days: Sequence[date]
    cost_metric: str

    def partitions(self, day: date) -> list[Partition]:
        """A day's, in the configured order of clusters."""
        return [Partition(day, cluster.name) for cluster in self.settings.clusters]


def ask(settings: Settings, store: TableStore, days: Sequence[date], cost_metric: str | None, accepted: Collection[str]) -> Asked:
    """The export, once it is sure that it can be written.

    Raises:
        SettingsError: a cost metric or a code that does not exist, or several metrics and none chosen.
        ChargebackError: a day of a cluster is missing, an error stands, or the metric has no rows.
    """
    _ensure_known(cost_metric, accepted)
    wanted = [Partition(day, cluster.name) for day in days for cluster in settings.clusters]
    _ensure_there(store, wanted)
    _ensure_no_errors(store, [*wanted, *(Partition(day, BILL_CLUSTER) for day in days)], accepted)
    return Asked(settings, store, days, cost_metric or _only_metric(store, wanted))


def _ensure_known(cost_metric: str | None, accepted: Collection[str]) -> None:
    if cost_metric is not None and cost_metric not in COST_METRICS:
        raise SettingsError(f"--cost-metric {cost_metric!r} is no cost metric; {nearest(cost_metric, COST_METRICS)}")
    ensure_codes(accepted)


def _ensure_there(store: TableStore, wanted: Sequence[Partition]) -> None:
    there = set(store.partitions("chargeback"))
    missing = [partition for partition in wanted if partition not in there]
    if missing:
        first, last = missing[0], missing[-1]
        more = f" and {len(missing) - 1} more up to {last.day} of {last.cluster}" if len(missing) > 1 else ""
        raise ChargebackError(
            f"{store.place('chargeback')}: {first.day} of cluster {first.cluster!r} is not there{more}; compute it with "
            f"`gpu-chargeback run CONFIG --from {first.day} --until {last.day + timedelta(days=1)}`"
        )


def _ensure_no_errors(store: TableStore, wanted: Sequence[Partition], accepted: Collection[str]) -> None:
    standing = list(_errors(store, wanted, accepted))
    if standing:
        partition, found = standing[0]
        more = f" ({len(standing) - 1} more stand in the window)" if len(standing) > 1 else ""
        raise ChargebackError(
            f"{partition.day}, cluster {partition.cluster!r}: the finding {found['code']} ({found['subject']}) is an error and "
            f"blocks the export{more}: {found['evidence']}. Mend it and run the day again, or say --accept {found['code']}"
        )


def _errors(
    store: TableStore, wanted: Sequence[Partition], accepted: Collection[str]
) -> Iterator[tuple[Partition, dict[str, str]]]:
    for partition in wanted:
        findings = store.read("findings", partition)
        if findings is not None:
            yield from ((partition, row) for row in blocking(findings, accepted))


def _only_metric(store: TableStore, wanted: Sequence[Partition]) -> str:
    """The metric of all rows; the first of the bills' where there is no row at all."""
    found: set[str] = set()
    for partition in wanted:
        for file in store.part_files("team_model", partition):
            found |= set(store.read_file(file, ["cost_metric"])["cost_metric"].unique().to_pylist())
    if len(found) > 1:
        raise SettingsError(
            f"the rows stand under several cost metrics ({', '.join(sorted(found))}); choose one with --cost-metric"
        )
    return next(iter(found), COST_METRICS[0])
