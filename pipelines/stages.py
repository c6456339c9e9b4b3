"""The walk, one function an arrow: bills and series of a day in, exact tables out. The command line and Dagster call the same.

read_day -> fetch -> scope -> measure -> charge -> reconcile -> publish
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cached_property

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import chargeback as chargeback_tables
from allocation import findings as finding_rows
from allocation.errors import ChargebackError, ConservationError
from allocation.findings import Code, Finding, Severity
from allocation.hours import LONGEST_WHOLE_MS
from allocation.model_split import Served
from allocation.money import NO_MONEY
from allocation.owners import Owners
from allocation.policy import FROM_LIST_PRICES, Policy
from allocation.pricing import price
from allocation.schemas import BILL_CLUSTER, CHARGEBACK, SAMPLES, USAGE
from allocation.scope import DayLines, day_lines, expected_ms
from allocation.times import DAY_MS, milliseconds, to_ms
from allocation.usage import measure
from billing_adapters.gcp_machines import MachinePrices
from pipelines.billed_twice import billed_twice
from pipelines.bills import Bill, discover, mixed_currencies, read_lines
from pipelines.cards import card_names, cards_of, lines_of_cards, with_models
from pipelines.inputs import inputs_of
from pipelines.inventory import catalogue, nodes_frame, pods_frame, with_billed_types
from pipelines.overruled import idle_rules, overruled, rules_of
from pipelines.owner_settings import owners_of
from pipelines.prices import machine_prices, with_list_shares
from pipelines.reused_names import reused_names
from pipelines.samples import Fetched, fetch, window_of
from pipelines.settings import ClusterEntry, Settings, day_start
from pipelines.storage import Partition, TableStore
from pipelines.unused_settings import unused_settings
from pipelines.version import VERSION

DAY = timedelta(days=1)
RESULT_TABLES = ("chargeback", "team_model", "reconciliation", "findings")


@dataclass(frozen=True)
class Walk:
    """One run's settings, store and choices."""

    settings: Settings
    store: TableStore
    refetch: bool = False
    accept_less_metrics: bool = False

    @property
    def policy(self) -> Policy:
        """The method's choices."""
        return self.settings.policy.policy()

    @cached_property
    def owners(self) -> Owners:
        """Who owns what; the mapping file is read once a run."""
        return owners_of(self.settings.owners)

    @cached_property
    def prices(self) -> MachinePrices:
        """Google's list prices, read once a run; asked for only where the policy needs them."""
        return machine_prices(self.settings)

    @property
    def prices_id(self) -> str:
        """A mark of the list prices by which machines are divided; empty where none are."""
        return self.prices.price_id if self.policy.chooses(FROM_LIST_PRICES) else ""


def open_walk(settings: Settings, *, refetch: bool = False, accept_less_metrics: bool = False) -> Walk:
    """A run over the settings' store; a mapping file that cannot be used ends it before anything is fetched."""
    store = TableStore(settings.output, endpoint_url=settings.storage.endpoint_url, region=settings.storage.region)
    walk = Walk(settings, store, refetch, accept_less_metrics)
    _ = walk.owners
    return walk


@dataclass(frozen=True)
class DayBill:
    """The lines of one UTC day, before anybody knows whose they are."""

    day: date
    lines: pa.Table
    deliveries: tuple[str, ...]
    """Those whose lines touch the day."""
    discovered: tuple[str, ...] = ()
    """All that stood then: a later one that is not among them may change the day."""
    findings: tuple[Finding, ...] = ()
    cards: tuple[Bill, ...] = ()
    """Rate cards whose lines are not among ``lines`` yet: they need the nodes."""

    @property
    def until(self) -> datetime:
        """The end of the last line that is split whole: series are read up to there."""
        midnight = day_start(self.day) + DAY
        start, end = milliseconds(self.lines["charge_period_start"]), milliseconds(self.lines["charge_period_end"])
        own = (start >= to_ms(day_start(self.day))) & (end - start <= LONGEST_WHOLE_MS)
        latest = int(end[own].max()) if own.any() else 0
        return midnight + DAY if latest > to_ms(midnight) else midnight


def read_day(walk: Walk, day: date, bills: Sequence[Bill] | None = None) -> DayBill:
    """All lines that touch the day, from every configured bill."""
    bills = discover(walk.settings) if bills is None else bills
    delivered, noticed = read_lines(bills, walk.store, day)
    scoped = overruled(walk.settings, delivered)
    lines, noticed = scoped.lines, [*noticed, *idle_rules(scoped, day)]
    touching = tuple(sorted(lines["delivery_id"].unique().to_pylist()))
    return DayBill(day, lines, touching, tuple(sorted(b.delivery.delivery_id for b in bills)), tuple(noticed), cards_of(bills))


def with_cards(bill: DayBill, nodes: Mapping[str, pd.DataFrame]) -> DayBill:
    """The same day with the lines of its rate cards. Each card counts among the deliveries, as it may charge any day."""
    if not bill.cards:
        return bill
    own = lines_of_cards(bill.cards, nodes, bill.day)
    lines = pa.concat_tables([bill.lines, own.lines])
    period = (day_start(bill.day), day_start(bill.day) + DAY)
    told = [f for f in bill.findings if f.code is not Code.MIXED_CURRENCIES]
    told += [*mixed_currencies(lines, period), *own.findings]
    deliveries = {*bill.deliveries, *(card.delivery.delivery_id for card in bill.cards)}
    return replace(bill, lines=lines, deliveries=tuple(sorted(deliveries)), findings=tuple(told), cards=())


def fetch_day(walk: Walk, bill: DayBill, cluster: ClusterEntry, *, again: bool = False) -> Fetched:
    """The day's series and inventory of one cluster into the store; refused where much less is told than is kept."""
    window = window_of(walk.settings, day_start(bill.day), bill.until)
    partition = Partition(bill.day, cluster.name)
    accept_less = walk.accept_less_metrics
    return fetch(walk.settings, cluster, partition, window, walk.store, again=again, accept_less=accept_less)


def cluster_nodes(walk: Walk, day: date, fetched: Mapping[str, Fetched]) -> dict[str, pd.DataFrame]:
    """The nodes of every cluster, from the store."""
    frames = {name: nodes_frame(_read(walk, "nodes", day, name), f.nodes) for name, f in fetched.items()}
    return {name: with_models(frame, fetched[name].node_models) for name, frame in frames.items()}


def scope_day(bill: DayBill, nodes: Mapping[str, pd.DataFrame], fetched: Mapping[str, Fetched], policy: Policy) -> DayLines:
    """Whose each line is, over all clusters."""
    start = to_ms(day_start(bill.day))
    not_believed = {key: node for one in fetched.values() for key, node in one.overruled.items()}
    return day_lines(bill.lines, nodes, start, start + DAY_MS, not_believed, policy.unattributed)


@dataclass(frozen=True)
class ClusterDay:
    """What was measured of one cluster's day."""

    usage: pa.Table
    findings: tuple[Finding, ...]


def measure_day(walk: Walk, scope: DayLines, cluster: str, day: date, nodes: pd.DataFrame) -> ClusterDay:
    """The weights of every period that a line of the cluster names, shard by shard."""
    parts = scope.parts[scope.parts.cluster == cluster]
    nodes = with_billed_types(nodes, scope.lines, catalogue(walk.settings.instance_types))
    periods, findings = periods_of(walk, parts, scope, nodes, day)
    pods = pods_frame(_read(walk, "pods", day, cluster))
    tables = [USAGE.empty()]
    seen: set[str] = set()
    renamed, renames = _of_several_names(nodes)
    apart = [SAMPLES.empty()]
    for samples in _shards(walk, day, cluster):
        apart.append(samples.filter(pc.is_in(samples["node"], pa.array(sorted(renames), pa.string()))))
        names = set(samples["node"].unique().to_pylist())
        keys = set(nodes[nodes.node.isin(names)].node_key) - renamed
        seen |= keys
        wanted = periods[periods.node_key.isin(keys)]
        if len(wanted):
            result = measure(samples, nodes, pods, wanted, walk.policy)
            tables.append(result.usage)
            findings += result.findings
    rest = periods[~periods.node_key.isin(seen)]
    if len(rest):
        result = measure(pa.concat_tables(apart), nodes, pods, rest, walk.policy)
        tables.append(result.usage)
        findings += result.findings
    findings += _without_bill(nodes, parts, day)
    return ClusterDay(pa.concat_tables(tables), tuple(findings))


def periods_of(
    walk: Walk, parts: pd.DataFrame, scope: DayLines, nodes: pd.DataFrame, day: date
) -> tuple[pd.DataFrame, list[Finding]]:
    """One row a frame as ``measure`` reads it, with the GPUs' part where list prices tell it."""
    periods = expected_ms(parts, scope.lines, nodes)
    if not walk.policy.chooses(FROM_LIST_PRICES):
        return periods, []
    return with_list_shares(periods, nodes, walk.prices, walk.policy, day)


def _of_several_names(nodes: pd.DataFrame) -> tuple[set[str], set[str]]:
    """Machines that had several node names, and those names: they may lie in different shards and are measured together."""
    names = nodes.drop_duplicates(["node_key", "node"])
    several = names[names.node_key.duplicated(keep=False)]
    return set(several.node_key), set(several.node)


def _shards(walk: Walk, day: date, cluster: str) -> Iterator[pa.Table]:
    """Stored shards, each with all that the cluster's sources tell of its nodes (R25)."""
    if walk.store.commit("samples", Partition(day, cluster)) is None:
        raise ChargebackError(f"{walk.store.place('samples')}: the partition {day}|{cluster} is not there; run its samples first")
    yield from walk.store.read_parts("samples", Partition(day, cluster))


def _without_bill(nodes: pd.DataFrame, parts: pd.DataFrame, day: date) -> list[Finding]:
    """Nodes with series that no line of the day names."""
    period = (day_start(day), day_start(day) + DAY)
    names = sorted(set(nodes[nodes.has_series & ~nodes.node_key.isin(parts.node_key)].node))
    evidence = "the node has series and no line of the day's bill names it; nothing is split. Is the bill's export complete?"
    return [Finding(Code.NODE_WITHOUT_BILL, Severity.WARNING, str(name), evidence, period) for name in names]


def run_id_of(walk: Walk, partition: Partition, bill: DayBill, fetched: Mapping[str, Fetched]) -> str:
    """A hash of all that the partition's figures depend on; no clock in it."""
    owners = walk.owners.owners_id
    series: object = (
        {name: f.fingerprint for name, f in fetched.items()}
        if partition.cluster == BILL_CLUSTER
        else fetched[partition.cluster].fingerprint
    )
    if walk.settings.owners.model_split is not None and partition.cluster != BILL_CLUSTER:
        series = [series, fetched[partition.cluster].counters_fingerprint]
    nodes: list[object] = [n.model_dump(mode="json") for c in walk.settings.clusters for n in c.nodes]
    if walk.settings.instance_types:
        nodes.append({name: kind.model_dump(mode="json") for name, kind in walk.settings.instance_types.items()})
    money = [b.marks for b in walk.settings.billing]
    rules = rules_of(walk.settings)
    told = [str(partition), bill.deliveries, money, rules, series, walk.policy.policy_id, owners, nodes, VERSION]
    told += [walk.prices_id] if walk.prices_id else []
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Results:
    """The four result tables of one partition."""

    partition: Partition
    run_id: str
    chargeback: pa.Table
    team_model: pa.Table
    reconciliation: pa.Table
    findings: pa.Table
    deliveries: tuple[str, ...] = ()

    @property
    def has_errors(self) -> bool:
        """Whether a finding of severity `error` stands."""
        return bool(pc.any(pc.equal(self.findings["severity"], "error")).as_py())


def charge_day(
    walk: Walk, scope: DayLines, cluster: str, measured: ClusterDay, day: date, run_id: str
) -> tuple[pa.Table, list[Finding]]:
    """Money over weights, then owners."""
    parts = scope.parts[scope.parts.cluster == cluster].reset_index(drop=True)
    if not len(parts):
        return CHARGEBACK.empty(), []
    stamp = chargeback_tables.Stamp(walk.policy.policy_id, run_id)
    pods = _read(walk, "pods", day, cluster)
    owners = walk.owners
    served = served_of(walk, Partition(day, cluster))
    return chargeback_tables.charge(scope.lines, parts, measured.usage, pods, owners, stamp, cluster=cluster, served=served)


def served_of(walk: Walk, partition: Partition) -> Served | None:
    """What the partition's model servers counted, None where no row is to be split over models."""
    split = walk.owners.model_split
    counters = None if split is None else walk.store.read_beside("samples", partition, "counters")
    return None if split is None or counters is None else Served(counters, split, walk.policy.max_gap_ms)


def reconcile_day(scope: DayLines, cluster: str, chargeback: pa.Table, day: date, run_id: str) -> pa.Table:
    """Each line of the cluster (or of none) and what became of it; raises where a part is missing."""
    lines = scope.lines.filter(pc.equal(scope.lines["cluster"], cluster))
    table = chargeback_tables.reconcile(lines, chargeback, to_ms(day_start(day)), run_id)
    wrong = table.filter(pc.not_equal(table["difference"], NO_MONEY))
    if len(wrong):
        raise ConservationError(
            f"line {wrong['line_item_id'][0]} of {day} differs by {wrong['difference'][0]}; please report this"
        )
    return table


def compute(walk: Walk, bill: DayBill, fetched: Mapping[str, Fetched], clusters: Sequence[str]) -> Iterator[Results]:
    """The results of the named clusters (and of ``_bill`` where named), nothing written."""
    nodes = cluster_nodes(walk, bill.day, fetched)
    bill = with_cards(bill, nodes)
    scope = scope_day(bill, nodes, fetched, walk.policy)
    for name in clusters:
        partition = Partition(bill.day, name)
        run_id = run_id_of(walk, partition, bill, fetched)
        measured = ClusterDay(USAGE.empty(), scope.findings + bill.findings + _of_bill(bill))
        owned: list[Finding] = []
        chargeback = CHARGEBACK.empty()
        if name != BILL_CLUSTER:
            measured = measure_day(walk, scope, name, bill.day, nodes[name])
            chargeback, owned = charge_day(walk, scope, name, measured, bill.day, run_id)
            owned += [*fetched[name].findings, *without_series(name, fetched[name], bill.day)]
        else:
            owned += unused_settings(walk.settings, fetched, nodes, bill.lines, bill.day)
            owned += billed_twice(scope.lines, card_names(walk.settings), bill.day)
            owned += reused_names(scope.lines, bill.day)
        yield finish(scope, measured, chargeback, owned, bill, partition, run_id)


def finish(
    scope: DayLines,
    measured: ClusterDay,
    chargeback: pa.Table,
    more: Sequence[Finding],
    bill: DayBill,
    partition: Partition,
    run_id: str,
) -> Results:
    """Sums, reconciliation and findings of one partition."""
    reconciliation = reconcile_day(scope, partition.cluster, chargeback, bill.day, run_id)
    rows = finding_rows.to_table(price([*measured.findings, *more], chargeback), run_id)
    totals = chargeback_tables.team_model(chargeback, run_id)
    return Results(partition, run_id, chargeback, totals, reconciliation, rows, bill.discovered)


def _of_bill(bill: DayBill) -> tuple[Finding, ...]:
    if len(bill.lines):
        return ()
    period = (day_start(bill.day), day_start(bill.day) + DAY)
    evidence = "no line of any configured bill touches the day; it is open until a delivery covers it"
    return (Finding(Code.NO_LINES, Severity.WARNING, "bill", evidence, period),)


def without_series(cluster: str, fetched: Fetched, day: date) -> list[Finding]:
    """A finding where a cluster has no series of any device, unless what was fetched says so already."""
    if fetched.nodes or any(f.code is Code.NO_SERIES and f.subject == cluster for f in fetched.findings):
        return []
    period = (day_start(day), day_start(day) + DAY)
    evidence = "no series of any device in the window; check url, match labels and profile with `gpu-chargeback doctor`"
    return [Finding(Code.NO_SERIES, Severity.WARNING, cluster, evidence, period)]


def publish(walk: Walk, results: Results) -> None:
    """Replaces the partition in all result tables."""
    inputs = inputs_of(walk.settings, walk.store, results.partition, walk.owners.owners_id, walk.prices_id)
    for name in RESULT_TABLES:
        table = getattr(results, name)
        detail = {"run_id": results.run_id, "rows": len(table), "deliveries": list(results.deliveries), "inputs": inputs}
        walk.store.write(name, results.partition, table, detail)


@dataclass
class RunSummary:
    """What a run wrote, for people and machines."""

    partitions: list[Results] = field(default_factory=list)

    @property
    def has_errors(self) -> bool:
        """Whether any partition has a finding of severity `error`."""
        return any(r.has_errors for r in self.partitions)


def run_day(walk: Walk, day: date, clusters: Sequence[str] | None = None, bills: Sequence[Bill] | None = None) -> list[Results]:
    """One UTC day from end to end: read, fetch, compute everything, then write. A failure before that leaves all as it was."""
    bill = read_day(walk, day, bills)
    wanted = [c.name for c in walk.settings.clusters] if clusters is None else list(clusters)
    fetched = {c.name: fetch_day(walk, bill, c, again=walk.refetch and c.name in wanted) for c in walk.settings.clusters}
    results = list(compute(walk, bill, fetched, [*wanted, BILL_CLUSTER]))
    for result in results:
        publish(walk, result)
    return results


def _read(walk: Walk, table: str, day: date, cluster: str) -> pa.Table:
    data = walk.store.read(table, Partition(day, cluster))
    if data is None:
        raise ChargebackError(f"{walk.store.place(table)}: the partition {day}|{cluster} is not there; run its samples first")
    return data
