"""One cluster's day, charged shard by shard over whatever engine the run has.

Here does not belong what a shard does (``shards``), how a day is cut into them (``shard_tasks``) or the day as a whole
(``stages``).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial

import pandas as pd
import pyarrow as pa

from allocation.errors import ChargebackError
from allocation.findings import Code, Finding, Severity, of_shards
from allocation.policy import FROM_LIST_PRICES
from allocation.pricing import DayMoney
from allocation.schemas import CHARGEBACK
from allocation.scope import DayLines, expected_ms
from allocation.sums import DaySums, added, sums_of
from pipelines.arrivals import Expected
from pipelines.cards import with_models
from pipelines.day_bill import DAY
from pipelines.frugal import give_back
from pipelines.inventory import catalogue, nodes_frame, with_billed_types
from pipelines.partition import Partition
from pipelines.prices import with_list_shares
from pipelines.samples import Fetched
from pipelines.settings import day_start
from pipelines.shard_tasks import Planner
from pipelines.shards import Charged, Method, Task, run_shard
from pipelines.spool import Spool
from pipelines.steps import COMPUTED, Step
from pipelines.walk import Walk


@dataclass(frozen=True)
class Members:
    """What a cluster's day consists of, beside its series.

    ``nodes``: as the method reads them, with ``has_series`` and ``seen_models``; ``pods``: the table; ``overruled``: see
    ``Fetched``; ``counters``: its model servers', None where there are none.
    """

    nodes: pd.DataFrame
    pods: pa.Table
    overruled: Mapping[str, str]
    counters: pa.Table | None

    def same_as(self, other: "Members") -> bool:
        """Whether the other has the very same."""
        counters = self.counters is other.counters or (
            self.counters is not None and other.counters is not None and self.counters.equals(other.counters)
        )
        return (
            counters
            and dict(self.overruled) == dict(other.overruled)
            and self.pods.equals(other.pods)
            and self.nodes.drop(columns="seen_models").equals(other.nodes.drop(columns="seen_models"))
        )


def kept_members(walk: Walk, day: date, name: str, fetched: Fetched) -> Members:
    """What the store has of a cluster."""
    partition = Partition(day, name)
    tables = {table: walk.store.read(table, partition) for table in ("nodes", "pods")}
    for table, data in tables.items():
        if data is None:
            raise ChargebackError(f"{walk.store.place(table)}: the partition {partition} is not there; run its samples first")
    nodes = with_models(nodes_frame(tables["nodes"], fetched.nodes), fetched.node_models)
    return Members(nodes, tables["pods"], fetched.overruled, walk.store.read_beside("samples", partition, "counters"))


def expected_members(expected: Expected) -> Members:
    """What a cluster will have, by its inventory."""
    nodes = with_models(nodes_frame(expected.nodes, expected.with_series), {})
    return Members(nodes, expected.pods, expected.overruled, expected.counters)


@dataclass(frozen=True)
class ClusterDay:
    """A charged day of one cluster: rows of ``chargeback`` without their run's id, what they add up to, and what was noticed."""

    rows: Spool
    sums: DaySums
    findings: tuple[Finding, ...] = ()


def nothing_charged() -> ClusterDay:
    """A day without rows."""
    return ClusterDay(Spool(CHARGEBACK.arrow()), sums_of(CHARGEBACK.empty()))


@dataclass(frozen=True)
class Plan:
    """How one cluster's day is computed: what its shards have in common, and the tasks over files of series."""

    method: Method
    planner: Planner
    findings: tuple[Finding, ...]

    def tasks(self, files: Iterable[str]) -> Iterator[Task]:
        """One a file, then the rest."""
        return self.planner.tasks(files)


def plan_of(walk: Walk, scope: DayLines, partition: Partition, members: Members) -> Plan:
    """The plan of one cluster's day."""
    parts = scope.parts[scope.parts.cluster == partition.cluster].reset_index(drop=True)
    nodes = with_billed_types(members.nodes, scope.lines, catalogue(walk.settings.instance_types))
    periods, findings = periods_of(walk, parts, scope, nodes, partition.day)
    money = DayMoney.of(scope.lines.take(pa.array(parts.line.unique())))
    method = Method(walk.store, walk.policy, walk.owners, partition.cluster, money)
    planner = Planner(walk.store, scope.lines, parts, nodes, members.pods, periods, members.counters)
    return Plan(method, planner, (*findings, *_without_bill(nodes, parts, partition.day)))


def charge_cluster(
    walk: Walk, scope: DayLines, partition: Partition, members: Members, files: Iterable[str], count: int
) -> ClusterDay:
    """Everything of one cluster's day, over files of series that may still be coming; ``count``: how many they are."""
    plan = plan_of(walk, scope, partition, members)
    charged = walk.engine.map(partial(run_shard, plan.method), plan.tasks(files))
    found = gathered(walk, partition, charged, count)
    return ClusterDay(found.rows, found.sums, (*plan.findings, *found.findings))


def gathered(walk: Walk, partition: Partition, charged: Iterable[Charged], expected: int) -> ClusterDay:
    """The shards of a day together; ``expected``: how many they are, as far as is known."""
    give_back()
    day = nothing_charged()
    sums, findings, count = [day.sums], list[Finding](), 0
    for count, shard in enumerate(charged, 1):
        day.rows.add(shard.rows)
        sums.append(shard.sums)
        findings += shard.findings
        walk.watch(Step(COMPUTED, str(partition), len(shard.rows), max(count, expected)))
    found = ClusterDay(day.rows, added(sums), tuple(of_shards(findings)))
    give_back()
    return found


def periods_of(
    walk: Walk, parts: pd.DataFrame, scope: DayLines, nodes: pd.DataFrame, day: date
) -> tuple[pd.DataFrame, list[Finding]]:
    """One row a frame as ``measure`` reads it, with the GPUs' part where list prices tell it."""
    periods = expected_ms(parts, scope.lines, nodes)
    if not walk.policy.chooses(FROM_LIST_PRICES):
        return periods, []
    return with_list_shares(periods, nodes, walk.prices, walk.policy, day)


def _without_bill(nodes: pd.DataFrame, parts: pd.DataFrame, day: date) -> list[Finding]:
    """Nodes with series that no line of the day names."""
    period = (day_start(day), day_start(day) + DAY)
    names = sorted(set(nodes[nodes.has_series & ~nodes.node_key.isin(parts.node_key)].node))
    evidence = "the node has series and no line of the day's bill names it; nothing is split. Is the bill's export complete?"
    return [Finding(Code.NODE_WITHOUT_BILL, Severity.WARNING, str(name), evidence, period) for name in names]
