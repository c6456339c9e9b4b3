"""Proof of each part of a configuration: bills, series, the join of both, labels and output, each by itself.

A part that fails is one check and hides no other. Nothing but a probe file is written, and that is removed. What each
part looks at stands in the modules ``checks_*``; here are their order and how they are shown.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, timedelta

import pyarrow as pa
from rich import box
from rich.table import Table
from rich.text import Text

from allocation.errors import ChargebackError
from pipelines.cards import billed_by_cards, with_models
from pipelines.checks import Check, Status, count, failed, worst
from pipelines.checks_bills import BillDays, check_bill
from pipelines.checks_labels import check_inventory, check_labels
from pipelines.checks_metrics import Moment, SeriesSeen, check_sources, spoken
from pipelines.checks_models import check_models
from pipelines.checks_nodes import ClusterNodes, billed_machines, check_claims, check_join, check_strangers, nodes_of
from pipelines.engines import ensure_usable
from pipelines.inventory import catalogue, nodes_frame
from pipelines.metric_sources.base import Window
from pipelines.owner_settings import owners_of
from pipelines.settings import ClusterEntry, Settings, day_start
from pipelines.storage import TableStore
from pipelines.walk import open_store

__all__ = ["Check", "Status", "diagnose", "exit_code", "render", "worst"]

_EXIT_CHECK_FAILED = 3
_COLOURS = {Status.OK: "green", Status.OPEN: "cyan", Status.WARN: "yellow", Status.FAIL: "red"}
_DAY = timedelta(days=1)


def diagnose(settings: Settings, today: date) -> list[Check]:
    """All checks of a configuration, in the order of the walk. Raises nothing that a user can cause.

    Args:
        settings: The configuration.
        today: The UTC day that is not over yet; bills are expected up to the day before.
    """
    output, store = _output(settings)
    checks: list[Check] = [*_mapping(settings), *_engine(settings)]
    bills: list[BillDays] = []
    for number in range(len(settings.billing)):
        told, days = check_bill(settings, number, today, store)
        checks += told
        bills += [days] if days else []
    moment = _moment(bills, today)
    clusters: list[ClusterNodes] = []
    for cluster in settings.clusters:
        told, nodes = _cluster(settings, cluster, moment, bills)
        checks += told
        clusters += [nodes] if nodes else []
    checks += check_claims(clusters)
    if len(clusters) == len(settings.clusters):
        checks += _strangers(clusters, bills)
    return [*checks, output]


def _engine(settings: Settings) -> Iterable[Check]:
    """Whether an engine that needs more than this package has it."""
    if settings.engine.kind == "local":
        return
    where = f"engine {settings.engine.kind}"
    try:
        ensure_usable(settings.engine)
    except ChargebackError as error:
        yield failed("engine", where, error)
        return
    yield Check("engine", Status.OK, "what it needs on this machine is installed; it is started by a run", where)


def _mapping(settings: Settings) -> Iterable[Check]:
    """Whether the mapping file can be read, where one is configured."""
    if settings.owners.mapping is None:
        return
    where = str(settings.owners.mapping.path)
    try:
        owners_of(settings.owners)
    except ChargebackError as error:
        yield failed("owners.mapping", where, error)
    else:
        yield Check("owners.mapping", Status.OK, "the mapping file can be read", where)


def exit_code(checks: Iterable[Check]) -> int:
    """0, or 3 where a check failed. Warnings and open days are no failure."""
    return _EXIT_CHECK_FAILED if worst(checks) is Status.FAIL else 0


def render(checks: Sequence[Check]) -> Table:
    """The checks as a table for a terminal, with place and remedy where a check is not ok."""
    table = Table("status", "check", "what", box=box.SIMPLE_HEAD, pad_edge=False)
    for check in checks:
        what = Text(check.what)
        if check.status is not Status.OK:
            what.append(f"\n{check.where}", "dim")
        if check.todo:
            what.append(f"\n-> {check.todo}", "bold")
        table.add_row(Text(check.status.value, _COLOURS[check.status]), Text(check.name), what)
    return table


def _output(settings: Settings) -> tuple[Check, TableStore | None]:
    where = f"output {settings.output}"
    try:
        store = open_store(settings)
    except ChargebackError as error:
        return failed("output", where, error), None
    try:
        store.check_writable()
    except ChargebackError as error:
        return failed("output", where, error), store
    return Check("output", Status.OK, "can be written", where), store


def _moment(bills: Sequence[BillDays], today: date) -> Moment:
    """The last complete day of the bills, else the newest that has lines, else the last of coarse lines, else yesterday."""
    complete = [bill.complete for bill in bills if bill.complete]
    if complete:
        return Moment(max(complete), day_start(max(complete)) + _DAY, from_bill=True)
    reached = [(bill.newest, bill.reaches) for bill in bills if bill.newest and bill.reaches]
    if reached:
        day, reaches = max(reached)
        return Moment(day, min(reaches, day_start(day) + _DAY), from_bill=True)
    coarse = [bill.reaches.date() - _DAY for bill in bills if bill.reaches]
    if coarse:
        day = min(max(coarse), today - _DAY)
        return Moment(day, day_start(day) + _DAY, from_bill=True)
    return Moment(today - _DAY, day_start(today), from_bill=any(bill.cards for bill in bills))


def _cluster(
    settings: Settings, cluster: ClusterEntry, moment: Moment, bills: Sequence[BillDays]
) -> tuple[list[Check], ClusterNodes | None]:
    """Sources, inventory, labels and join of one cluster; the join needs all of its sources and a bill."""
    checks, seen = check_sources(settings, cluster, moment)
    where = f"clusters.{cluster.name}"
    if seen:
        series = [info for s in seen for info in s.inventory]
        checks += check_inventory(cluster, series, where)
        checks += check_labels(cluster.name, settings.owners, series, where, _mapped(settings))
        checks += _models(settings, cluster, seen, where)
    if len(seen) < len(cluster.metrics) or not seen:
        return [*checks, _unjoined(cluster, where, "not all series could be read", "See the checks of metrics.")], None
    nodes = nodes_of(cluster, seen, settings.policy.max_hold, catalogue(settings.instance_types))
    if not moment.from_bill:
        what = f"there is no bill line to join {count(len(nodes.with_series), 'node', 'nodes')} with series to"
        return [*checks, _unjoined(cluster, where, what, "See the checks of bills.")], nodes
    place = _place(where, nodes.window)
    try:
        charged = _charged(nodes, moment, bills)
    except ChargebackError as error:
        return [*checks, failed(f"nodes {cluster.name}", place, error)], nodes
    return [*checks, *check_join(nodes, _billed(bills, nodes.window) | charged, place)], nodes


def _charged(nodes: ClusterNodes, moment: Moment, bills: Sequence[BillDays]) -> dict[str, bool]:
    """The machines that rate cards charge, with the GPUs that a node is taken to have."""
    cards = [card for bill in bills for card in bill.cards]
    known = {nodes.cluster.name: with_models(nodes_frame(nodes.table, nodes.with_series), nodes.models)}
    return dict.fromkeys(billed_by_cards(cards, known, moment.day) if cards else (), True)


def _mapped(settings: Settings) -> list[str]:
    """The key columns of the mapping file; none where it cannot be read, which is a check of its own."""
    with suppress(ChargebackError):
        mapping = owners_of(settings.owners).mapping
        return [] if mapping is None else [key for key, cells in mapping.keys.items() if (cells != "").any()]
    return []


def _models(settings: Settings, cluster: ClusterEntry, seen: Sequence[SeriesSeen], where: str) -> list[Check]:
    """The counters of all sources, where rows are split over models."""
    split = settings.owners.model_split
    if split is None:
        return []
    noticed = [finding for one in seen for finding in one.noticed]
    return check_models(cluster.name, split, pa.concat_tables([one.counters for one in seen]), noticed, where)


def _unjoined(cluster: ClusterEntry, where: str, what: str, todo: str) -> Check:
    return Check(f"nodes {cluster.name}", Status.OPEN, f"not joined: {what}", where, todo)


def _billed(bills: Sequence[BillDays], window: Window) -> dict[str, bool]:
    return billed_machines([bill.lines for bill in bills], window)


def _place(where: str, window: Window) -> str:
    return f"{where}, {spoken(Window(window.start.astimezone(UTC), window.end.astimezone(UTC)))}"


def _strangers(clusters: Sequence[ClusterNodes], bills: Sequence[BillDays]) -> list[Check]:
    window = Window(min(c.window.start for c in clusters), max(c.window.end for c in clusters))
    return check_strangers(clusters, _billed(bills, window), _place("billing", window))
