"""Which exporters a source has series of, and which of them to read: the choice behind ``profile: auto``.

Here belongs the choice and its reasons in words. Here do not belong asking a source for its names, or reading series.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pipelines.metric_sources.profiles.base import Profile
from pipelines.metric_sources.profiles.known import PROFILES

_OTHERS = {
    "kube-state-metrics": r"kube_(pod|node|namespace)_.+",
    "vllm": r"vllm:.+",
    "sglang": r"sglang:.+",
    "tgi": r"tgi_.+",
    "triton": r"nv_inference_.+|nv_trt_llm_.+",
    "trtllm": r"trtllm_.+",
}
_SHOWN = 3


@dataclass(frozen=True)
class Seen:
    """One exporter of which there are series.

    ``usable``: some of its memory metrics are there with labels that tell the device. ``with_pods``: one of them names pods.
    ``metrics`` are the names it was told by, ``why`` what became of it, as a sentence.
    """

    name: str
    usable: bool
    level: str
    with_pods: bool
    metrics: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class Recognition:
    """What was chosen, by names of profiles.

    ``profiles`` are to be read, the one of container level first; none if nothing usable is there. ``pods`` are those that
    pods' memory comes from, ``device`` those that a device's own values come from. ``others`` are seen beside the exporters:
    the inventory and model servers. ``sentences`` say why, one for each thing seen.
    """

    profiles: tuple[str, ...]
    pods: tuple[str, ...]
    device: tuple[str, ...]
    seen: tuple[Seen, ...]
    others: tuple[str, ...]
    sentences: tuple[str, ...]


def interesting(names: Iterable[str]) -> list[str]:
    """Of a source's metric names those whose label names decide something, sorted."""
    metrics = {metric for profile in PROFILES.values() for metric in profile.metrics}
    vague = "|".join(sign for profile in PROFILES.values() if profile.needs_labels for sign in profile.signs)
    return sorted(name for name in set(names) if name in metrics or re.fullmatch(vague, name))


def label_names(series: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, frozenset[str]]:
    """For each metric the names of the labels that have a value on any of its series."""
    found: dict[str, set[str]] = {}
    for metric, labels in series:
        found.setdefault(metric, set()).update(name for name, value in labels.items() if value)
    return {metric: frozenset(names) for metric, names in found.items()}


def recognise(metrics: Mapping[str, frozenset[str]]) -> Recognition:
    """The exporters behind these metrics, and the choice among them. The order of the metrics makes no difference.

    A source of container level tells pods' own memory; beside it one of device level tells the device's values. Of two of
    device level that tell of one vendor's devices the one with pods is read, then the earlier in ``PROFILES``.

    Args:
        metrics: Metric name to the names of the labels that have a value on any of its series. Only for the names of
            ``interesting`` do the labels matter.
    """
    seen = [found for profile in PROFILES.values() if (found := _seen(profile, metrics)) is not None]
    container = next((s for s in seen if s.usable and s.level == "container" and s.with_pods), None)
    devices = _best_of_each_vendor(seen, container)
    chosen = [*([container] if container else []), *devices]
    covered = {_vendor(container)} if container else set()
    pods = tuple(s.name for s in chosen if s is container or (s.with_pods and _vendor(s) not in covered))
    vendors = {_vendor(s) for s in devices}
    alone = (container.name,) if container and _vendor(container) not in vendors and _device_values(container) else ()
    device = (*alone, *(s.name for s in devices))
    told = tuple(_explained(s, pods, device, chosen) for s in seen)
    others = tuple(name for name, sign in _OTHERS.items() if any(re.fullmatch(sign, metric) for metric in metrics))
    sentences = (*(f"{s.name}: {s.why}" for s in told), *(f"{name}: {_other(name)}" for name in others))
    return Recognition(tuple(s.name for s in chosen), pods, device, told, others, sentences)


def _seen(profile: Profile, metrics: Mapping[str, frozenset[str]]) -> Seen | None:
    """What there is of one exporter, None if nothing."""
    needs, signs = frozenset(profile.needs_labels), "|".join(profile.signs)
    there = [m for m in sorted(metrics) if (not needs or needs & metrics[m]) and (m in profile.metrics or re.fullmatch(signs, m))]
    if not there:
        return None
    device = frozenset((*profile.device.gpu, *profile.device.place))
    used = [metric for metric in there if device & metrics[metric] and _readable(profile, metric, metrics[metric])]
    told = frozenset(rule.metric for rule in profile.rules if rule.role == "pod_memory")
    with_pods = any(metric in told and _pod_labels(profile) & metrics[metric] for metric in used)
    return Seen(profile.name, bool(used), profile.level, with_pods, tuple(used or there))


def _readable(profile: Profile, metric: str, labels: frozenset[str]) -> bool:
    """Whether a rule reads series with these labels; a value that a rule asks for is taken to be the right one."""
    rules = (rule for rule in profile.rules if rule.metric == metric)
    return any(all((name in labels) == bool(value) for name, value in rule.where.items()) for rule in rules)


def _pod_labels(profile: Profile) -> frozenset[str]:
    holders = [profile.holder, *([profile.exported] if profile.exported else [])]
    by_uid = [name for holder in holders for name in holder.pod_uid] if profile.holder_by_uid else []
    return frozenset((*(name for holder in holders for name in holder.pod), *by_uid))


def _best_of_each_vendor(seen: list[Seen], container: Seen | None) -> list[Seen]:
    """For each vendor the source of the devices' own values; one of container level only where there is no other."""
    best: dict[str, Seen] = {}
    for found in sorted((s for s in seen if s.usable and s is not container), key=_preference):
        if found.level == "device" or container is None:
            best.setdefault(_vendor(found), found)
    return [s for s in seen if s in best.values()]


def _preference(found: Seen) -> tuple[bool, bool]:
    return found.level == "container", not found.with_pods


def _vendor(found: Seen) -> str:
    return PROFILES[found.name].vendor


def _device_values(found: Seen) -> bool:
    """Whether a source of container level also tells a device's own values."""
    return any(rule.metric in found.metrics and rule.role in ("used", "total") for rule in PROFILES[found.name].rules)


def _explained(found: Seen, pods: tuple[str, ...], device: tuple[str, ...], chosen: list[Seen]) -> Seen:
    """The same with the reason in words."""
    parts = [text for names, text in ((pods, "pods' memory"), (device, "the devices' own values")) if found.name in names]
    listed = ", ".join(found.metrics[:_SHOWN]) + (" and more" if len(found.metrics) > _SHOWN else "")
    if found in chosen:
        why = f"read for {' and '.join(parts)}, by {listed}" + ("" if found.with_pods else "; it names no pods")
    elif not found.usable:
        why = f"seen by {listed}, but none of its memory metrics with labels of a device is there"
    else:
        same = [s.name for s in chosen if _vendor(s) == _vendor(found)]
        tell = "tell" if len(same) > 1 else "tells"
        why = f"left out: {' and '.join(same)} {tell} of the same devices" + ("" if found.with_pods else ", and it names no pods")
    return replace(found, why=why)


def _other(name: str) -> str:
    if name == "kube-state-metrics":
        return "seen; nodes and pods are read from it"
    return "seen; a model server, whose counters can split a pod's cost over its models"
