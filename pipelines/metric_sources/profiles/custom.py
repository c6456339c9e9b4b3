"""A source whose series and labels the configuration names."""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule
from pipelines.settings import CustomProfile


def custom(named: CustomProfile) -> Profile:
    """The profile of a source whose series and labels the configuration names."""
    level, names = named.pod_memory.level, named.labels
    rules = []
    for role in ("pod_memory", "declared", "used", "free", "reserved", "total"):
        series = getattr(named, role)
        if series is not None:
            without_pod = "used" if role == "pod_memory" and level == "device" else None
            rules.append(SeriesRule(role, series.metric, series.unit, series.includes_reserved, without_pod))
    return Profile(
        name="custom",
        level=level,
        rules=tuple(rules),
        device=DeviceLabels((names.node,), (names.gpu,), (names.instance,), (names.profile,), (names.model,)),
        holder=HolderLabels((names.namespace,), (names.pod,), (names.pod_uid,), (names.container,)),
    )
