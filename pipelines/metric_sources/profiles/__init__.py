"""Profiles of exporters: which metric plays which role, in which unit, and which label says what.

Here belong declarations, one small file an exporter, and the choice among them. Here do not belong queries, files or
samples.
"""

from pipelines.metric_sources.profiles.base import (
    UNITS,
    Device,
    DeviceLabels,
    Holder,
    HolderLabels,
    Identity,
    Profile,
    SeriesRule,
)
from pipelines.metric_sources.profiles.dcgm import DCGM
from pipelines.metric_sources.profiles.known import PROFILES, profile_of
from pipelines.metric_sources.profiles.recognise import Recognition, Seen, interesting, label_names, recognise

__all__ = [
    "DCGM",
    "PROFILES",
    "UNITS",
    "Device",
    "DeviceLabels",
    "Holder",
    "HolderLabels",
    "Identity",
    "Profile",
    "Recognition",
    "Seen",
    "SeriesRule",
    "interesting",
    "label_names",
    "profile_of",
    "recognise",
]
