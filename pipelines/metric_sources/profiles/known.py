"""Which profiles there are, by name. What each of them says stands in its own file."""

from allocation.errors import SettingsError, nearest
from pipelines.metric_sources.profiles.base import Profile
from pipelines.metric_sources.profiles.custom import custom
from pipelines.metric_sources.profiles.dcgm import DCGM
from pipelines.settings import MetricsEntry

PROFILES = {profile.name: profile for profile in (DCGM,)}
"""All profiles but ``custom``, which the configuration makes; of two that measure the same, the earlier is preferred."""


def profile_of(entry: MetricsEntry, cluster: str) -> Profile:
    """The profile that a metrics entry names; ``auto`` names none (see ``recognise``) and is refused like any other word."""
    if entry.custom is not None:
        return custom(entry.custom)
    if entry.profile in PROFILES:
        return PROFILES[entry.profile]
    known = nearest(entry.profile, [*PROFILES, "custom"])
    raise SettingsError(f"clusters.{cluster}.metrics.profile: {entry.profile!r} has no series; {known}")
