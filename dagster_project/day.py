"""One day of one cluster, put together from the walk for assets that run one after another.

What is measured rests in the store between two assets, a file a shard, with its findings and a mark of all that it depends on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.findings import as_json, from_json
from allocation.money import nanos_column
from allocation.schemas import BILL_CLUSTER
from allocation.usage import Measured
from pipelines.clusters import ClusterDay, Plan, gathered, nothing_charged, plan_of
from pipelines.day_bill import DayBill, read_day
from pipelines.owner_entries import OwnersEntry
from pipelines.partition import Partition
from pipelines.results import Results
from pipelines.run_ids import run_id_of
from pipelines.samples import Fetched, listed
from pipelines.shards import Charged, Method, Task, charge_shard, measure_shard
from pipelines.stages import Computing, compute_of, open_day
from pipelines.steps import COMPUTED, Step
from pipelines.walk import Walk


@dataclass(frozen=True)
class Day:
    """A day whose bill is read and whose series stand in the store."""

    walk: Walk
    partition: Partition
    read: DayBill
    fetched: Mapping[str, Fetched]

    @cached_property
    def computing(self) -> Computing:
        """The day with the homes of its lines."""
        return compute_of(self.walk, self.read, self.fetched)

    @property
    def measured_id(self) -> str:
        """The run's id without the owners: changing them leaves what was measured as it is."""
        unowned = replace(self.walk, settings=self.walk.settings.model_copy(update={"owners": OwnersEntry()}))
        return run_id_of(unowned, self.partition, self.computing.bill, self.fetched)

    @property
    def plan(self) -> Plan:
        """How the partition is computed."""
        return plan_of(self.walk, self.computing.scope, self.partition, self.computing.members[self.partition.cluster])

    def tasks(self, plan: Plan) -> Iterator[Task]:
        """The partition's shards."""
        return plan.tasks(self.walk.store.part_files("samples", self.partition))


def fetched_day(walk: Walk, partition: Partition, *, as_kept: bool = True) -> Day:
    """The day with the series of every cluster: read from the store, else fetched, the partition's own cluster first.

    Only the own cluster is asked again where the walk says so. ``as_kept``: what is kept of a day that was not over is taken as
    it is, so that all steps of a run see the same.
    """
    bill = read_day(walk, partition.day)
    clusters = walk.settings.clusters
    found = {}
    for cluster in sorted(clusters, key=lambda c: c.name != partition.cluster):
        again = walk.refetch and cluster.name == partition.cluster
        with open_day(walk, bill, cluster, again=again, as_kept=as_kept) as arrival:
            found[cluster.name] = arrival.finish()
    return Day(walk, partition, bill, {c.name: found[c.name] for c in clusters})


def own_lines(day: Day) -> pa.Table:
    """The day's lines of the partition's cluster, each with the part of its cost that belongs to the day as ``day_cost``."""
    lines = day.computing.scope.lines
    mine = lines.filter(pc.equal(lines["cluster"], day.partition.cluster))
    return mine.append_column("day_cost", nanos_column(mine["day_nanos"].to_numpy()))


def measure(day: Day) -> str:
    """Writes the weights of the partition's lines, with what was noticed; nothing for ``_bill``.

    Returns:
        The mark of what they rest on.
    """
    measured_id = day.measured_id
    shards = list[list[dict[str, object]]]()

    def parts() -> Iterator[pa.Table]:
        if day.partition.cluster == BILL_CLUSTER:
            return
        plan = day.plan
        for found in day.walk.engine.map(partial(measure_shard, plan.method), day.tasks(plan)):
            shards.append([as_json(finding) for finding in found.findings])
            day.walk.watch(Step(COMPUTED, str(day.partition), len(found.usage), len(shards)))
            yield found.usage

    def told() -> dict[str, object]:
        _refuse_other_samples(day)
        return {"measured_id": measured_id, "findings": shards}

    day.walk.store.write_parts("usage", day.partition, parts(), told)
    return measured_id


def _refuse_other_samples(day: Day) -> None:
    commit, own = day.walk.store.commit("samples", day.partition), day.fetched.get(day.partition.cluster)
    if own and (commit is None or commit.detail.get("fingerprint") != own.samples_fingerprint):
        raise ChargebackError(
            f"{day.partition}: another run replaced the samples while they were measured; run the partition again"
        )


def charge(day: Day) -> Results:
    """The result tables of the partition, from weights that were measured of the very same day."""
    commit = day.walk.store.commit("usage", day.partition)
    if commit is None or commit.detail.get("measured_id") != day.measured_id:
        raise ChargebackError(
            f"{day.partition}: bill, series or policy changed since usage was measured; materialise usage first"
        )
    if day.partition.cluster == BILL_CLUSTER:
        return day.computing.finish(day.partition, nothing_charged())
    plan, files = day.plan, day.walk.store.part_files("usage", day.partition)
    shards = zip(day.tasks(plan), files, listed(commit.detail.get("findings")), strict=True)
    charged = day.walk.engine.map(partial(_charge_kept, plan.method), shards)
    found = gathered(day.walk, day.partition, charged, len(files))
    return day.computing.finish(day.partition, ClusterDay(found.rows, found.sums, (*plan.findings, *found.findings)))


def _charge_kept(method: Method, shard: tuple[Task, str, list[dict[str, object]]]) -> Charged:
    task, usage, findings = shard
    return charge_shard(method, task, Measured(method.store.read_file(usage), tuple(map(from_json, findings))))
