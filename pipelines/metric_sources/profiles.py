"""What the series of an exporter mean: which metric plays which role, in which unit, and which label says what.

Here belong declarations, one constant or function a profile, and the one rule that reads a series' labels by them. Here
do not belong queries, files or samples.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from allocation.errors import SettingsError
from pipelines.settings import CustomProfile, MetricsEntry

UNITS = {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_HOLDER_ROLES = ("pod_memory", "declared")


class Identity(NamedTuple):
    """The columns of the table ``samples`` that name a series, in their order."""

    role: str
    level: str
    metric: str
    includes_reserved: bool
    node: str
    gpu_uuid: str
    gpu_instance: str
    mig_profile: str
    gpu_model: str
    namespace: str
    pod: str
    pod_uid: str
    container: str


class Holder(NamedTuple):
    """The labels that say who holds; all empty on a device's own row."""

    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""


@dataclass(frozen=True)
class HolderLabels:
    """Which labels name the holder, the first that is there counts."""

    namespace: tuple[str, ...]
    pod: tuple[str, ...]
    pod_uid: tuple[str, ...]
    container: tuple[str, ...]


@dataclass(frozen=True)
class DeviceLabels:
    """Which labels name the device, the first that is there counts."""

    node: tuple[str, ...]
    gpu: tuple[str, ...]
    instance: tuple[str, ...]
    profile: tuple[str, ...]
    model: tuple[str, ...]


@dataclass(frozen=True)
class SeriesRule:
    """What a metric says. ``without_pod`` is the role of a holder's metric on a row without a pod; None: no role."""

    role: str
    metric: str
    unit: str
    includes_reserved: bool = False
    without_pod: str | None = None


@dataclass(frozen=True)
class Profile:
    """One exporter.

    ``exported`` names the holder where the server has moved the exporter's own labels aside (``exported_pod``): for a
    metric that does so anywhere, the plain labels name the exporter. A pod whose name contains ``exporter_pod`` is no
    holder.
    """

    name: str
    level: str
    rules: tuple[SeriesRule, ...]
    device: DeviceLabels
    holder: HolderLabels
    exported: HolderLabels | None = None
    exporter_pod: str = ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics, each once."""
        return tuple(dict.fromkeys(rule.metric for rule in self.rules))

    def identify(self, metric: str, labels: Mapping[str, str], *, exported: bool) -> list[tuple[Identity, float]]:
        """What a series stands for, and the bytes of its unit: one identity for each role of the metric.

        Empty where the labels name no node or no device, or where a row without a pod says nothing.
        """
        node, gpu = _first(labels, self.device.node), _first(labels, self.device.gpu)
        if not node or not gpu:
            return []
        instance, profile, model = (_first(labels, n) for n in (self.device.instance, self.device.profile, self.device.model))
        found = []
        for rule in self.rules:
            role, holder = self._role(rule, labels, exported=exported) if rule.metric == metric else (None, Holder())
            if role is not None:
                reserved = rule.includes_reserved and role == "used"
                identity = Identity(role, self.level, metric, reserved, node, gpu, instance, profile, model, *holder)
                found.append((identity, UNITS[rule.unit]))
        return found

    def _role(self, rule: SeriesRule, labels: Mapping[str, str], *, exported: bool) -> tuple[str | None, Holder]:
        if rule.role not in _HOLDER_ROLES:
            return rule.role, Holder()
        holder = self._holder(labels, self.exported if exported and self.exported else self.holder)
        return (rule.role if holder.pod else rule.without_pod), holder

    def _holder(self, labels: Mapping[str, str], names: HolderLabels) -> Holder:
        pod = _first(labels, names.pod)
        if not pod or (self.exporter_pod and self.exporter_pod in pod):
            return Holder()
        namespace, uid, container = (_first(labels, n) for n in (names.namespace, names.pod_uid, names.container))
        return Holder(namespace, pod, uid, container)


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first of these labels that is there and not empty."""
    return next((value for name in names if (value := labels.get(name))), "")


_DCGM_HOLDER = HolderLabels(
    namespace=("namespace", "pod_namespace"),
    pod=("pod", "pod_name"),
    pod_uid=("pod_uid",),
    container=("container", "container_name"),
)

DCGM = Profile(
    name="dcgm",
    level="device",
    rules=(
        SeriesRule("pod_memory", "DCGM_FI_DEV_FB_USED", "MiB", without_pod="used"),
        SeriesRule("free", "DCGM_FI_DEV_FB_FREE", "MiB"),
        SeriesRule("reserved", "DCGM_FI_DEV_FB_RESERVED", "MiB"),
        SeriesRule("total", "DCGM_FI_DEV_FB_TOTAL", "MiB"),
    ),
    device=DeviceLabels(
        node=("node", "Hostname", "hostname"),
        gpu=("UUID", "uuid"),
        instance=("GPU_I_ID",),
        profile=("GPU_I_PROFILE",),
        model=("modelName",),
    ),
    holder=_DCGM_HOLDER,
    exported=replace(
        _DCGM_HOLDER,
        namespace=("exported_namespace", *_DCGM_HOLDER.namespace),
        pod=("exported_pod",),
        pod_uid=("exported_pod_uid", *_DCGM_HOLDER.pod_uid),
        container=("exported_container", *_DCGM_HOLDER.container),
    ),
    exporter_pod="dcgm-exporter",
)


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


def profile_of(entry: MetricsEntry, cluster: str) -> Profile:
    """The profile that a metrics entry asks for."""
    if entry.custom is not None:
        return custom(entry.custom)
    if entry.profile == DCGM.name:
        return DCGM
    raise SettingsError(f"clusters.{cluster}.metrics.profile: {entry.profile!r} has no series; use dcgm or custom")
