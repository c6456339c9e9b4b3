"""Which profiles there are, by name. What each of them says stands in its own file."""

from allocation.errors import SettingsError, nearest
from pipelines.metric_sources.profiles.amd import AMD
from pipelines.metric_sources.profiles.aws_container_insights import AWS_CONTAINER_INSIGHTS
from pipelines.metric_sources.profiles.base import Profile
from pipelines.metric_sources.profiles.custom import custom
from pipelines.metric_sources.profiles.dcgm import DCGM
from pipelines.metric_sources.profiles.gke import GKE
from pipelines.metric_sources.profiles.hami import HAMI
from pipelines.metric_sources.profiles.nvidia_smi import NVIDIA_SMI
from pipelines.metric_sources.profiles.runai import RUNAI
from pipelines.metrics_entries import MetricsEntry

PROFILES = {profile.name: profile for profile in (DCGM, HAMI, RUNAI, GKE, AWS_CONTAINER_INSIGHTS, AMD, NVIDIA_SMI)}
"""All profiles but ``custom``, which the configuration makes; of two that measure the same, the earlier is preferred."""


def profile_of(entry: MetricsEntry, cluster: str) -> Profile:
    """The profile that a metrics entry names; ``auto`` names none (see ``recognise``) and is refused like any other word."""
    if entry.custom is not None:
        return custom(entry.custom)
    if entry.profile in PROFILES:
        return PROFILES[entry.profile]
    known = nearest(entry.profile, [*PROFILES, "custom"])
    raise SettingsError(f"clusters.{cluster}.metrics.profile: {entry.profile!r} has no series; {known}")
