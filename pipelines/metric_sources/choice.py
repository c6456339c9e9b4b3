"""Which profiles a store is read by, and what to say where nothing is found under their names.

Here belongs the looking; what gives an exporter away stands in ``profiles``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from allocation.findings import Code, Finding, Severity
from pipelines.metric_sources.base import SeriesStore, Window
from pipelines.metric_sources.profiles import PROFILES, Profile, interesting, recognise

AUTO = "auto"
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
    why = " ".join(recognition.sentences)
    if recognition.profiles:
        told = Finding(Code.PROFILE_CHOSEN, Severity.INFO, cluster, f"{', '.join(recognition.profiles)}: {why}")
    else:
        evidence = f"profile auto recognises no exporter of GPU memory among {len(names)} metrics. {why}".rstrip()
        told = Finding(Code.NO_SERIES, Severity.WARNING, cluster, evidence)
    return Choice(tuple(PROFILES[name] for name in recognition.profiles), (told,))


def nothing_found(store: SeriesStore, profile: Profile, cluster: str, window: Window) -> Finding:
    """What to say where a profile has no series: the names that were looked for and the nearest that exist."""
    names = store.names(window)
    near = nearest_names(profile.metrics, names)
    exist = f"the nearest of {len(names)} names that exist: {', '.join(near)}" if near else "no name that exists is near"
    if not names:
        exist = "there is no series of any name in the window; check url or path, match labels and retention"
    evidence = f"profile {profile.name}: no series of {', '.join(profile.metrics)}; {exist}"
    return Finding(Code.NO_SERIES, Severity.WARNING, cluster, evidence)


def nearest_names(wanted: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names that are most like the wanted ones, the best of each first.

    >>> nearest_names(["gpu_memory_used"], ["gpu_mem_used", "node_cpu"])
    ['gpu_mem_used']
    """
    found = [get_close_matches(name, names, n=_NEAREST, cutoff=0.7) for name in wanted]
    ranked = [name for rank in range(_NEAREST) for near in found for name in near[rank : rank + 1]]
    return list(dict.fromkeys(ranked))[:_NEAREST]
