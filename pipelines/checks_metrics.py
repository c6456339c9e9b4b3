"""Doctor's look at one source of series: is it reached, which profile's series has it, how many stand behind each role.

A server is asked for one hour, a file for a whole day. What is read for this also tells which nodes have samples.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import get_args

from allocation.errors import ChargebackError
from allocation.findings import Finding, Severity
from pipelines.checks import Check, Status, failed, some
from pipelines.inventory import EARLIEST, LATEST
from pipelines.metric_sources.base import InfoSeries, MetricSource, RoleCount, Window
from pipelines.metric_sources.registry import load_metric_source
from pipelines.settings import ClusterEntry, MetricsEntry, Settings, day_start

HOUR = timedelta(hours=1)
EVER = Window(EARLIEST, LATEST)
_PROFILES = [p for p in get_args(MetricsEntry.model_fields["profile"].annotation) if p not in ("custom", "auto")]
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
    """What one source holds in its window: nodes whose devices have samples, and the inventory's series."""

    window: Window
    nodes: frozenset[str]
    inventory: tuple[InfoSeries, ...]


def check_source(settings: Settings, cluster: ClusterEntry, number: int, moment: Moment) -> tuple[list[Check], SeriesSeen | None]:
    """The checks of one source; None where it could not be read."""
    entry = cluster.metrics[number]
    name = f"{cluster.name}[{number}]" if len(cluster.metrics) > 1 else cluster.name
    where = f"clusters.{cluster.name}.metrics[{number}] {entry.path or shown(entry.url)}"
    try:
        source = load_metric_source(entry, cluster.name, settings.policy.max_gap)
        window, roles = _told(source, entry, moment)
        checks = [Check(f"metrics {name}", Status.OK, "read" if entry.path else "the server answers", where)]
        checks += _profile(settings, cluster, number, window, roles, Check(f"profile {name}", Status.OK, "", where))
        seen, findings = _seen(source, window)
    except ChargebackError as error:
        return [failed(f"metrics {name}", where, error)], None
    told = [f for f in findings if f.severity is not Severity.INFO]
    return [*checks, *(Check(f"series {name}", Status.WARN, f"{f.subject}: {f.evidence}", where) for f in told)], seen


def shown(url: str | None) -> str:
    """A URL without user and password."""
    scheme, slashes, rest = (url or "").partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{slash}{path}"


def _told(source: MetricSource, entry: MetricsEntry, moment: Moment) -> tuple[Window, Sequence[RoleCount]]:
    """The window and its roles; where no bill says which day counts, a file is looked at whole."""
    window = EVER if entry.path is not None and not moment.from_bill else moment.window(entry)
    return window, source.roles(window)


def _seen(source: MetricSource, window: Window) -> tuple[SeriesSeen, list[Finding]]:
    nodes: set[str] = set()
    findings: list[Finding] = []
    for shard in source.shards(window, source.nodes(window)):
        nodes.update(shard.samples["node"].unique().to_pylist())
        findings.extend(shard.findings)
    return SeriesSeen(window, frozenset(nodes), tuple(source.inventory(window))), findings


def _profile(
    settings: Settings, cluster: ClusterEntry, number: int, window: Window, roles: Sequence[RoleCount], frame: Check
) -> list[Check]:
    """Which profile's series are there, and a check for each role of the configured one."""
    entry = cluster.metrics[number]
    total = sum(role.series for role in roles)
    name = frame.name.removeprefix("profile ")
    if total:
        told = f"{entry.profile}: {total} series {spoken(window)}"
        return [Check(frame.name, Status.OK, told, frame.where), *_roles(name, roles, frame.where)]
    others = _other_profiles(settings, cluster, entry, window)
    if others:
        todo = f"Set profile: {others[0]}."
    elif entry.path is not None:
        todo = _other_days(settings, cluster, entry)
    else:
        todo = "Check match labels, the exporter's scrape job, and whether retention still reaches that hour."
    return [Check(frame.name, Status.FAIL, f"no series of profile {entry.profile} {spoken(window)}", frame.where, todo)]


def _other_profiles(settings: Settings, cluster: ClusterEntry, entry: MetricsEntry, window: Window) -> list[str]:
    """The profiles that are not configured and have series in the window."""
    found = []
    for profile in _PROFILES:
        if profile != entry.profile:
            with suppress(ChargebackError):
                tried = entry.model_copy(update={"profile": profile, "custom": None})
                source = load_metric_source(tried, cluster.name, settings.policy.max_gap)
                if any(role.series for role in source.roles(window)):
                    found.append(profile)
    return found


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
