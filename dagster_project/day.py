"""One day of one cluster, put together from ``pipelines.stages`` for assets that run one after another.

What is measured rests in the store between two assets, with its findings and with a mark of all that it depends on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.findings import Finding, as_json, from_json
from allocation.money import nanos_column
from allocation.schemas import BILL_CLUSTER, USAGE
from allocation.scope import DayLines
from dagster_project.io_manager import Kept
from pipelines import stages
from pipelines.owner_entries import OwnersEntry
from pipelines.samples import Fetched
from pipelines.storage import Partition


@dataclass(frozen=True)
class Day:
    """A day whose bill is read and whose series stand in the store."""

    walk: stages.Walk
    partition: Partition
    bill: stages.DayBill
    fetched: Mapping[str, Fetched]

    @cached_property
    def nodes(self) -> dict[str, pd.DataFrame]:
        """The nodes of every cluster."""
        return stages.cluster_nodes(self.walk, self.bill.day, self.fetched)

    @cached_property
    def scope(self) -> DayLines:
        """Whose each line of the day is."""
        return stages.scope_day(self.bill, self.nodes, self.fetched, self.walk.policy)

    @property
    def run_id(self) -> str:
        """The hash of all that the partition's figures depend on."""
        return stages.run_id_of(self.walk, self.partition, self.bill, self.fetched)

    @property
    def measured_id(self) -> str:
        """The same without the owners: changing them leaves what was measured as it is."""
        unowned = replace(self.walk, settings=self.walk.settings.model_copy(update={"owners": OwnersEntry()}))
        return stages.run_id_of(unowned, self.partition, self.bill, self.fetched)


def open_day(walk: stages.Walk, partition: Partition) -> Day:
    """The day with the series of every cluster: read from the store, else fetched, the partition's own cluster first.

    Only the own cluster is asked again where the walk says so.
    """
    bill = stages.read_day(walk, partition.day)
    clusters = walk.settings.clusters
    found = {}
    for cluster in sorted(clusters, key=lambda c: c.name != partition.cluster):
        again = walk.refetch and cluster.name == partition.cluster
        found[cluster.name] = stages.fetch_day(walk, bill, cluster, again=again)
    fetched = {c.name: found[c.name] for c in clusters}
    bill = stages.with_cards(bill, stages.cluster_nodes(walk, bill.day, fetched)) if bill.cards else bill
    return Day(walk, partition, bill, fetched)


def own_lines(day: Day) -> pa.Table:
    """The day's lines of the partition's cluster, each with the part of its cost that belongs to the day as ``day_cost``."""
    lines = day.scope.lines
    mine = lines.filter(pc.equal(lines["cluster"], day.partition.cluster))
    return mine.append_column("day_cost", nanos_column(mine["day_nanos"].to_numpy()))


def measure(day: Day) -> Kept:
    """The weights of the partition's lines, with what was noticed; nothing for ``_bill``."""
    name = day.partition.cluster
    if name == BILL_CLUSTER:
        return Kept(USAGE.empty(), _told(day, ()))
    measured = stages.measure_day(day.walk, day.scope, name, day.partition.day, day.nodes[name])
    commit = day.walk.store.commit("samples", day.partition)
    if commit is None or commit.detail.get("fingerprint") != day.fetched[name].samples_fingerprint:
        raise ChargebackError(
            f"{day.partition}: another run replaced the samples while they were measured; run the partition again"
        )
    return Kept(measured.usage, _told(day, measured.findings))


def charge(day: Day, usage: Kept) -> stages.Results:
    """The four result tables of the partition, from weights that were measured of the very same day."""
    name = day.partition.cluster
    if usage.detail.get("measured_id") != day.measured_id:
        raise ChargebackError(
            f"{day.partition}: bill, series or policy changed since usage was measured; materialise usage first"
        )
    if name == BILL_CLUSTER:
        return next(iter(stages.compute(day.walk, day.bill, day.fetched, [BILL_CLUSTER])))
    measured = stages.ClusterDay(usage.table, _findings(usage.detail))
    chargeback, noticed = stages.charge_day(day.walk, day.scope, name, measured, day.partition.day, day.run_id)
    more = [*noticed, *day.fetched[name].findings, *stages.without_series(name, day.fetched[name], day.partition.day)]
    return stages.finish(day.scope, measured, chargeback, more, day.bill, day.partition, day.run_id)


def _told(day: Day, findings: Sequence[Finding]) -> dict[str, object]:
    return {"measured_id": day.measured_id, "findings": [as_json(f) for f in findings]}


def _findings(detail: Mapping[str, object]) -> tuple[Finding, ...]:
    """The findings that were told of a table."""
    told = detail["findings"]
    assert isinstance(told, list)  # noqa: S101
    return tuple(from_json(f) for f in told)
