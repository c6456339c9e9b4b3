"""Doctor's look at one source of series: is it reached, which profile's series has it, how many stand behind each role.

A server is asked for one hour, a file for a whole day. What is read for this also tells which nodes have samples.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from allocation.errors import ChargebackError
from allocation.findings import Code, Finding, Severity, set_of
from allocation.schemas import COUNTERS
from pipelines.checks import Check, Status, failed, some
from pipelines.inventory import EARLIEST, LATEST
from pipelines.metric_sources.base import InfoSeries, MetricSource, RoleCount, Window
from pipelines.metric_sources.gather import all_places
from pipelines.metric_sources.model_servers import gather
from pipelines.metric_sources.placing import Places
from pipelines.metric_sources.registry import load_metric_source
from pipelines.metrics_entries import MetricsEntry
from pipelines.settings import ClusterEntry, Settings, day_start

HOUR = timedelta(hours=1)
EVER = Window(EARLIEST, LATEST)
_WITHOUT_PODS = (
    "Unless nothing ran: let the exporter name pods (dcgm-exporter: DCGM_EXPORTER_KUBERNETES=true), "
    "and let scraping keep its pod labels."
)
_WITHOUT_DEVICE = "Memory that no pod explains stays unseen; export the device's own used memory where it can be had."
_DEVICE_ROLES = ("used", "free", "total", "reserved")


@dataclass(frozen=True)
class Moment:
    """The time that is looked at: a day, the instant up to which a server is asked, and whether a bill chose them."""

    day: date
    end: datetime
    from_bill: bool

    def window(self, entry: MetricsEntry) -> Window:
        """The whole day of a file, the last hour of a server."""
        if entry.path is not None:
            return Window(day_start(self.day), day_start(self.day) + timedelta(days=1))
        return Window(self.end - HOUR, self.end)


@dataclass(frozen=True)
class SeriesSeen:
    """What one source holds in its window: nodes whose devices have samples, the inventory's series, model servers' counters."""

    window: Window
    nodes: frozenset[str]
    inventory: tuple[InfoSeries, ...]
    counters: pa.Table
    """Table ``counters``, empty where no split over models is configured."""
    noticed: tuple[Finding, ...] = ()
    """While the counters were gathered."""
    models: frozenset[tuple[str, str]] = frozenset()
    """Nodes with the GPU models that series name on them."""


@dataclass(frozen=True)
class _Reached:
    """A source that answers, under its name and place, with the inventory's series."""

    entry: MetricsEntry
    name: str
    where: str
    source: MetricSource
    window: Window
    inventory: tuple[InfoSeries, ...]


def check_sources(settings: Settings, cluster: ClusterEntry, moment: Moment) -> tuple[list[Check], list[SeriesSeen]]:
    """The checks of a cluster's sources, and what each of those holds that could be read.

    All are reached before any is looked at closely: where a row is, another source may know.
    """
    checks: list[Check] = []
    reached: list[_Reached] = []
    for number in range(len(cluster.metrics)):
        found = _reach(settings, cluster, number, moment)
        (reached if isinstance(found, _Reached) else checks).append(found)  # type: ignore[arg-type]
    places = _places(cluster, reached)
    seen: list[SeriesSeen] = []
    for one in reached:
        try:
            told, holds = _look(settings, cluster, one, places)
        except ChargebackError as error:
            checks.append(failed(f"metrics {one.name}", one.where, error))
        else:
            checks += told
            seen.append(holds)
    return checks, seen


def _reach(settings: Settings, cluster: ClusterEntry, number: int, moment: Moment) -> _Reached | Check:
    """A source, or the check of what ended it."""
    entry = cluster.metrics[number]
    name = f"{cluster.name}[{number}]" if len(cluster.metrics) > 1 else cluster.name
    where = f"clusters.{cluster.name}.metrics[{number}] {entry.path or shown(entry.url)}"
    try:
        source = load_metric_source(entry, cluster.name, settings.policy.max_gap)
        window = EVER if entry.path is not None and not moment.from_bill else moment.window(entry)
        return _Reached(entry, name, where, source, window, tuple(source.inventory(window)))
    except ChargebackError as error:
        return failed(f"metrics {name}", where, error)


def _places(cluster: ClusterEntry, reached: Sequence[_Reached]) -> Places:
    """What the sources together say of where rows are; one that fails at this says nothing and is told of later."""
    series = [told for one in reached for told in one.inventory]
    configured = [node.name for node in cluster.nodes]
    asked = [(one.source, one.window) for one in reached]
    try:
        return all_places(asked, series, configured)
    except ChargebackError:
        return all_places([], series, configured)


def _look(settings: Settings, cluster: ClusterEntry, one: _Reached, places: Places) -> tuple[list[Check], SeriesSeen]:
    """The checks of one source, and what it holds."""
    roles = one.source.roles(one.window, places)
    checks = [Check(f"metrics {one.name}", Status.OK, "read" if one.entry.path else "the server answers", one.where)]
    findings = list(one.source.notices(one.window, places))
    checks += _profile(settings, cluster, one, roles, findings)
    pairs: set[tuple[str, str]] = set()
    for shard in one.source.shards(one.window, one.source.nodes(one.window, places), places):
        told_of = shard.samples.group_by(["node", "gpu_model"]).aggregate([])
        pairs.update(zip(told_of["node"].to_pylist(), told_of["gpu_model"].to_pylist(), strict=True))
        findings.extend(shard.findings)
    told = [f for f in set_of(findings) if f.severity is not Severity.INFO and f.subject != cluster.name]
    checks += [Check(f"series {one.name}", Status.WARN, f"{f.subject}: {f.evidence}", one.where) for f in told]
    split = settings.owners.model_split
    counters, noticed = (COUNTERS.empty(), ()) if split is None else gather([one.source], one.window, split)
    return checks, SeriesSeen(
        one.window, frozenset(node for node, _ in pairs), one.inventory, counters, noticed, frozenset(pairs)
    )


def shown(url: str | None) -> str:
    """A URL without user and password."""
    scheme, slashes, rest = (url or "").partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"


def _profile(
    settings: Settings, cluster: ClusterEntry, one: _Reached, roles: Sequence[RoleCount], findings: Sequence[Finding]
) -> list[Check]:
    """Which profile's series are there, why, and a check for each role of it."""
    name = f"profile {one.name}"
    total = sum(role.series for role in roles)
    chosen = [f.evidence for f in findings if f.code is Code.PROFILE_CHOSEN]
    if total:
        told = f"{one.entry.profile}: {total} series {spoken(one.window)}" + "".join(f"; {why}" for why in chosen)
        return [Check(name, Status.OK, told, one.where), *_roles(one.name, roles, one.where)]
    missing = [f.evidence for f in findings if f.code is Code.NO_SERIES and f.subject == cluster.name]
    what = f"no series of profile {one.entry.profile} {spoken(one.window)}"
    others = _other_profiles(settings, cluster, one)
    if others:
        todo = f"Set profile: {others[0]}." if len(others) == 1 else f"Set profile: auto, which finds {' and '.join(others)}."
    elif one.entry.path is not None:
        todo = _other_days(settings, cluster, one.entry)
    else:
        todo = "Check match labels, the exporter's scrape job, and whether retention still reaches that hour."
    looked_for = [Check(f"series {one.name}", Status.WARN, evidence, one.where) for evidence in missing]
    return [Check(name, Status.FAIL, what, one.where, todo), *looked_for]


def _other_profiles(settings: Settings, cluster: ClusterEntry, one: _Reached) -> list[str]:
    """What `profile: auto` would choose for the same source."""
    if one.entry.profile == "auto":
        return []
    tried = one.entry.model_copy(update={"profile": "auto", "custom": None})
    with suppress(ChargebackError):
        return list(load_metric_source(tried, cluster.name, settings.policy.max_gap).profiles(one.window))
    return []


def _other_days(settings: Settings, cluster: ClusterEntry, entry: MetricsEntry) -> str:
    source = load_metric_source(entry, cluster.name, settings.policy.max_gap)
    if any(role.series for role in source.roles(EVER)):
        return "The file has samples of other days only: record one that covers the bill's newest day."
    return "The file has none at any time: check match labels, profile and what was recorded."


def spoken(window: Window) -> str:
    """A window in words."""
    if window == EVER:
        return "in the whole file"
    if window.end - window.start == timedelta(days=1):
        return f"on {window.start:%Y-%m-%d}"
    return f"from {window.start.astimezone(UTC):%Y-%m-%d %H:%M} to {window.end.astimezone(UTC):%H:%M} UTC"


def _roles(name: str, roles: Sequence[RoleCount], where: str) -> list[Check]:
    found = {role.role for role in roles if role.series}
    checks = []
    for role in dict.fromkeys(r.role for r in roles):
        parts = [r for r in roles if r.role == role]
        todo = _WITHOUT_PODS if role == "pod_memory" and role not in found else ""
        optional = "" if role in found or todo else "; optional"
        what = ", ".join(f"{r.series} series of {r.metric}" for r in parts) + optional
        checks.append(Check(f"role {name} {role}", Status.WARN if todo else Status.OK, what, where, todo))
    if not found.intersection(_DEVICE_ROLES):
        missing = f"no series of {some(_DEVICE_ROLES)}: only pods' own memory is known"
        checks.append(Check(f"role {name} device", Status.WARN, missing, where, _WITHOUT_DEVICE))
    return checks
