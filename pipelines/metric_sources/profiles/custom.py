"""A source whose series and labels the configuration names."""

from pipelines.metric_sources.profiles.base import DeviceLabels, HolderLabels, Profile, SeriesRule
from pipelines.metrics_entries import CustomProfile


def custom(named: CustomProfile) -> Profile:
    """The profile of a source whose series and labels the configuration names.

    A node that is told by the label ``instance`` is an address, so it loses its port.
    """
    level, names = named.pod_memory.level, named.labels
    by_address = names.node == "instance"
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
        device=DeviceLabels(
            node=() if by_address else (names.node,),
            gpu=(names.gpu,),
            instance=(names.instance,),
            profile=(names.profile,),
            model=(names.model,),
            address=(names.node,) if by_address else (),
        ),
        holder=HolderLabels((names.namespace,), (names.pod,), (names.pod_uid,), (names.container,)),
    )
