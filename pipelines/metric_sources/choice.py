"""Which profiles a store is read by, and what to say where nothing is found under their names.

Here belongs the looking; what gives an exporter away stands in ``profiles``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from allocation.findings import Code, Finding, Severity
from pipelines.metric_sources.base import SeriesStore, Wanted, Window
from pipelines.metric_sources.profiles import PROFILES, Profile, interesting, recognise

AUTO = "auto"
CUSTOM = "custom"
_NEAREST = 5


@dataclass(frozen=True)
class Choice:
    """The profiles, and why these where nobody named them."""

    profiles: tuple[Profile, ...]
    findings: tuple[Finding, ...] = ()


def choose(store: SeriesStore, cluster: str, window: Window) -> Choice:
    """What the store's own metrics say that it should be read by; the same series always give the same answer."""
    names = store.names(window)
    recognition = recognise(dict.fromkeys(names, frozenset[str]()) | dict(store.label_names(interesting(names), window)))
    why = ". ".join(recognition.sentences)
    if recognition.profiles:
        told = Finding(Code.PROFILE_CHOSEN, Severity.INFO, cluster, f"{', '.join(recognition.profiles)}: {why}")
    else:
        reach = "" if names else store.reach()
        none = f"profile auto recognises no exporter of GPU memory among {len(names)} metrics"
        evidence = f"{none}{f' ({reach})' if reach else ''}. {why}".rstrip()
        told = Finding(Code.NO_SERIES, Severity.WARNING, cluster, evidence)
    return Choice(tuple(PROFILES[name] for name in recognition.profiles), (told,))


def nothing_found(store: SeriesStore, profile: Profile, cluster: str, window: Window) -> Finding:
    """What to say where a profile has no series: the names that were looked for and the nearest that exist."""
    names = store.names(window)
    exist = _nearest(profile.metrics, names)
    if not names:
        reach = store.reach()
        exist = f"there is no series of any name in the window{f' ({reach})' if reach else ''}; "
        exist += "check url or path, match labels and retention"
    evidence = f"profile {profile.name}: no series of {', '.join(profile.metrics)}; {exist}"
    return Finding(Code.NO_SERIES, Severity.WARNING, cluster, evidence)


def silent_roles(store: SeriesStore, profile: Profile, window: Window) -> Iterator[Finding]:
    """A finding for each metric that the configuration names a role for and that says nothing.

    Either there is no series of it, or none has the labels without which a row says nothing: the device's, and on containers' own
    values the pod's. An exporter's profile names metrics of several versions, so only ``custom`` promises each of its roles.
    """
    if profile.name != CUSTOM:
        return
    there = set(store.values("__name__", [Wanted(metric) for metric in profile.metrics], window))
    for metric in profile.metrics:
        rules = [rule for rule in profile.rules if rule.metric == metric]
        roles = " and ".join(f"`{rule.role}`" for rule in rules)
        if metric not in there:
            told = _nearest([metric], store.names(window))
            evidence = f"profile custom: no series of {metric} for the role {roles}; {told}"
            yield Finding(Code.NO_SERIES, Severity.WARNING, metric, evidence)
            continue
        needed = [*profile.device.gpu]
        if all(rule.role in ("pod_memory", "declared") and not rule.without_pod for rule in rules):
            needed += profile.holder.pod
        if not store.values("__name__", [Wanted(metric, present=tuple(needed))], window):
            labels = sorted(store.label_names([metric], window)[metric])
            evidence = (
                f"profile custom: no series of {metric} for the role {roles} has the labels {' and '.join(needed)}; "
                f"the labels that exist: {', '.join(labels) or 'none'}"
            )
            yield Finding(Code.NO_SERIES, Severity.WARNING, metric, evidence)


def _nearest(wanted: Sequence[str], names: Sequence[str]) -> str:
    near = nearest_names(wanted, names)
    return f"the nearest of {len(names)} names that exist: {', '.join(near)}" if near else "no name that exists is near"


def nearest_names(wanted: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names that are most like the wanted ones, the best of each first.

    >>> nearest_names(["gpu_memory_used"], ["gpu_mem_used", "node_cpu"])
    ['gpu_mem_used']
    """
    found = [get_close_matches(name, names, n=_NEAREST, cutoff=0.7) for name in wanted]
    ranked = [name for rank in range(_NEAREST) for near in found for name in near[rank : rank + 1]]
    return list(dict.fromkeys(ranked))[:_NEAREST]
