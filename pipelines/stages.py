"""The walk, one function an arrow: bills and series of a day in, exact tables out. The command line and Dagster call the same.

read_day -> open_day -> scope -> charge_cluster -> reconcile -> publish
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from allocation import chargeback as chargeback_tables
from allocation import findings as finding_rows
from allocation.errors import ConservationError
from allocation.findings import Code, Finding, Severity
from allocation.money import NO_MONEY
from allocation.policy import FROM_LIST_PRICES
from allocation.pricing import price
from allocation.schemas import BILL_CLUSTER
from allocation.scope import DayLines, day_lines
from allocation.sums import DaySums
from allocation.times import DAY_MS, to_ms
from pipelines.arrivals import Arrival, open_series
from pipelines.billed_twice import billed_twice
from pipelines.bills import Bill
from pipelines.cards import card_names
from pipelines.clusters import ClusterDay, Members, charge_cluster, expected_members, kept_members, nothing_charged
from pipelines.day_bill import DAY, DayBill, read_day, with_cards, without_lines
from pipelines.frugal import give_back
from pipelines.partition import Partition
from pipelines.publishing import publish
from pipelines.results import Results
from pipelines.reused_names import reused_names
from pipelines.run_ids import run_id_of
from pipelines.samples import Fetched, window_of
from pipelines.settings import ClusterEntry, day_start
from pipelines.unused_settings import unused_settings
from pipelines.walk import Walk


def open_day(walk: Walk, bill: DayBill, cluster: ClusterEntry, *, again: bool = False, as_kept: bool = False) -> Arrival:
    """The day's series and inventory of one cluster, in the store or on their way there; arguments as of ``open_series``."""
    window = window_of(walk.settings, day_start(bill.day), bill.until)
    return open_series(
        walk.settings,
        cluster,
        Partition(bill.day, cluster.name),
        window,
        walk.store,
        again=again,
        as_kept=as_kept,
        accept_less=walk.accept_less_metrics,
        watch=walk.watch,
    )


def scope_day(walk: Walk, bill: DayBill, members: Mapping[str, Members]) -> DayLines:
    """Whose each line is, over all clusters."""
    start = to_ms(day_start(bill.day))
    not_believed = {key: node for one in members.values() for key, node in one.overruled.items()}
    nodes = {name: one.nodes for name, one in members.items()}
    return day_lines(bill.lines, nodes, start, start + DAY_MS, not_believed, walk.policy.unattributed)


@dataclass(frozen=True)
class Ahead:
    """What was computed of a day while its series came, and the members on which that rests."""

    members: Mapping[str, Members] = field(default_factory=dict)
    days: Mapping[str, ClusterDay] = field(default_factory=dict)

    def of(self, members: Mapping[str, Members]) -> Mapping[str, ClusterDay]:
        """What still holds: all, where the inventory turned out as its index had let expect, else nothing."""
        if self.days and all(members[name].same_as(one) for name, one in self.members.items()):
            return self.days
        for day in self.days.values():
            day.rows.close()
        return {}


def charge_ahead(walk: Walk, bill: DayBill, arrivals: Mapping[str, Arrival], wanted: Sequence[str]) -> Ahead:
    """Charges shards as their series arrive, where whose each line is does not wait for all of them.

    The lines of rate cards and list prices need the GPU models that series name, so a day that has either is computed from the
    store.
    """
    needs_models = bool(bill.cards) or walk.policy.chooses(FROM_LIST_PRICES)
    if needs_models or not any(arrivals[name].fresh for name in wanted):
        return Ahead()
    members = {name: expected_members(arrival.expected()) for name, arrival in arrivals.items()}
    scope, days = scope_day(walk, bill, members), dict[str, ClusterDay]()
    for name in wanted:
        partition, arrival = Partition(bill.day, name), arrivals[name]
        days[name] = charge_cluster(walk, scope, partition, members[name], arrival.files(), arrival.count)
    return Ahead(members, days)


def compute(
    walk: Walk, bill: DayBill, fetched: Mapping[str, Fetched], clusters: Sequence[str], ahead: Ahead | None = None
) -> Iterator[Results]:
    """The results of the named clusters (and of ``_bill`` where named), nothing written."""
    day = compute_of(walk, bill, fetched)
    done = ahead.of(day.members) if ahead else {}
    for name in clusters:
        partition = Partition(bill.day, name)
        charged = nothing_charged() if name == BILL_CLUSTER else done.get(name)
        if charged is None:
            files = walk.store.part_files("samples", partition)
            charged = charge_cluster(walk, day.scope, partition, day.members[name], files, len(files))
        yield day.finish(partition, charged)


@dataclass(frozen=True)
class Computing:
    """A day whose series are all in the store, and whose lines have their homes."""

    walk: Walk
    bill: DayBill
    fetched: Mapping[str, Fetched]
    members: Mapping[str, Members]
    scope: DayLines

    def finish(self, partition: Partition, charged: ClusterDay) -> Results:
        """Sums, reconciliation and findings of one partition."""
        run_id = run_id_of(self.walk, partition, self.bill, self.fetched)
        lines = self.scope.lines.filter(pc.equal(self.scope.lines["cluster"], partition.cluster))
        reconciliation = reconcile(lines, charged.sums, partition.day, run_id)
        holders = charged.sums.holders
        noticed = [*charged.findings, *chargeback_tables.unowned(holders), *self._noticed(partition.cluster)]
        rows = finding_rows.to_table(price(noticed, holders), run_id)
        totals = chargeback_tables.team_model(holders, run_id)
        told = self.bill.discovered, self.walk.books.closed
        return Results(partition, run_id, charged.rows, charged.sums, totals, reconciliation, rows, *told)

    def _noticed(self, cluster: str) -> Iterator[Finding]:
        """What stands out of a cluster's sources, or of the bill and the settings as a whole."""
        bill, day = self.bill, self.bill.day
        if cluster != BILL_CLUSTER:
            yield from self.fetched[cluster].findings
            yield from without_series(cluster, self.fetched[cluster], day)
            return
        yield from (*self.scope.findings, *bill.findings, *without_lines(bill))
        nodes = {name: one.nodes for name, one in self.members.items()}
        yield from unused_settings(self.walk.settings, self.fetched, nodes, bill.lines, day)
        yield from billed_twice(self.scope.lines, card_names(self.walk.settings), day)
        yield from reused_names(self.scope.lines, day)


def compute_of(walk: Walk, bill: DayBill, fetched: Mapping[str, Fetched]) -> Computing:
    """The day as it stands in the store."""
    members = {name: kept_members(walk, bill.day, name, one) for name, one in fetched.items()}
    bill = with_cards(bill, {name: one.nodes for name, one in members.items()})
    return Computing(walk, bill, fetched, members, scope_day(walk, bill, members))


def reconcile(lines: pa.Table, sums: DaySums, day: date, run_id: str) -> pa.Table:
    """Each line of the cluster (or of none) and what became of it; raises where a part is missing."""
    table = chargeback_tables.reconcile(lines, sums.lines, to_ms(day_start(day)), run_id)
    wrong = table.filter(pc.not_equal(table["difference"], NO_MONEY))
    if len(wrong):
        raise ConservationError(
            f"line {wrong['line_item_id'][0]} of {day} differs by {wrong['difference'][0]}; please report this"
        )
    return table


def without_series(cluster: str, fetched: Fetched, day: date) -> list[Finding]:
    """A finding where a cluster has no series of any device, unless what was fetched says so already."""
    if fetched.nodes or any(f.code is Code.NO_SERIES and f.subject == cluster for f in fetched.findings):
        return []
    period = (day_start(day), day_start(day) + DAY)
    evidence = "no series of any device in the window; check url, match labels and profile with `gpu-chargeback doctor`"
    return [Finding(Code.NO_SERIES, Severity.WARNING, cluster, evidence, period)]


def run_day(walk: Walk, day: date, clusters: Sequence[str] | None = None, bills: Sequence[Bill] | None = None) -> list[Results]:
    """One UTC day from end to end: read, fetch, compute everything, then write. A failure before that leaves all as it was."""
    bill = read_day(walk, day, bills)
    give_back()
    wanted = [c.name for c in walk.settings.clusters] if clusters is None else list(clusters)
    with ExitStack() as open_ones:
        arrivals = {}
        for c in walk.settings.clusters:
            arrivals[c.name] = open_ones.enter_context(open_day(walk, bill, c, again=walk.refetch and c.name in wanted))
        ahead = charge_ahead(walk, bill, arrivals, wanted)
        fetched = {name: arrival.finish() for name, arrival in arrivals.items()}
    results = list(compute(walk, bill, fetched, [*wanted, BILL_CLUSTER], ahead))
    written = []
    for result in results:
        give_back()
        written.append(publish(walk, result))
    return written
