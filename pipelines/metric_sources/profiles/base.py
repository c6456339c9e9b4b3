"""What a profile is, and the one rule that reads a series' labels by it.

Here belong the words in which a profile is declared. Here do not belong the exporters themselves (one file each beside
this one), queries, files or samples.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

UNITS = {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_HOLDER_ROLES = ("pod_memory", "declared")
_BARE_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PLACE = re.compile(r"(?:nvidia|gpu|card)?([0-9]+)")
_TOLERANCE = 0.005


class Identity(NamedTuple):
    """The columns of the table ``samples`` that name a series, in their order; ``metric`` is the family."""

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


class Device(NamedTuple):
    """What a row's labels say of the device.

    ``node`` is empty where no label names one, and may be an address or the exporter's pod where the label says that.
    ``local``: ``gpu`` is no id but a place on the node, so it tells a device only together with its node. ``place`` is that
    place as a number in text, empty where no label says it; it joins local rows to rows that carry an id too.
    """

    node: str
    gpu: str
    instance: str
    profile: str
    model: str
    place: str
    local: bool


class Holder(NamedTuple):
    """The labels that say who holds; all empty on a device's own row."""

    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""


@dataclass(frozen=True)
class HolderLabels:
    """Which labels name the holder, the first that is there counts."""

    namespace: tuple[str, ...] = ()
    pod: tuple[str, ...] = ()
    pod_uid: tuple[str, ...] = ()
    container: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceLabels:
    """Which labels name the device, the first that is there counts.

    ``node`` are labels with a node's name, ``address`` those with the scraped address, read only where no name is there.
    ``gpu`` are labels with an id, ``place`` those with the place on the node, which stands for the id where there is none.
    """

    node: tuple[str, ...]
    gpu: tuple[str, ...]
    instance: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    address: tuple[str, ...] = ()
    place: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeriesRule:
    """What a metric says.

    ``without_pod`` is the role of a holder's metric on a row without a pod; None: no role. ``family`` is the name that old
    and new names of the metric share, by default its own. ``level`` is the profile's unless said. A series counts only if
    its labels have the values of ``where``.
    """

    role: str
    metric: str
    unit: str
    includes_reserved: bool = False
    without_pod: str | None = None
    family: str = ""
    level: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """One exporter.

    ``exported`` names the holder where the server has moved the exporter's own labels aside (``exported_pod``): for a
    metric that does so anywhere, the plain labels name the exporter. A pod whose name contains ``exporter_pod`` is no
    holder. ``holder_by_uid``: a row that names its pod by uid alone is a holder's, its name is to be looked up.
    ``uuid_prefix`` is put before an id that is a bare UUID.

    ``signs`` are patterns of whole metric names that give the exporter away, also where none of its memory metrics is
    there; ``needs_labels``: a sign or metric counts only with a value for one of these, for names that others use too.
    ``vendor`` is whose devices it can tell of. ``decimal_totals_mib``: totals in MiB of devices that some versions state in
    millions of bytes under the same name (see ``scale``).
    """

    name: str
    level: Literal["container", "device"]
    rules: tuple[SeriesRule, ...]
    device: DeviceLabels
    holder: HolderLabels = HolderLabels()
    exported: HolderLabels | None = None
    exporter_pod: str = ""
    holder_by_uid: bool = False
    uuid_prefix: str = ""
    signs: tuple[str, ...] = ()
    needs_labels: tuple[str, ...] = ()
    vendor: str = ""
    decimal_totals_mib: tuple[int, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all metrics, each once."""
        return tuple(dict.fromkeys(rule.metric for rule in self.rules))

    def device_of(self, labels: Mapping[str, str]) -> Device | None:
        """The device of a row, or None where no label names one."""
        names = self.device
        place, given = _first(labels, names.place), _first(labels, names.gpu)
        gpu, number = given or place, _PLACE.fullmatch(place)
        if not gpu or (self.needs_labels and not _first(labels, self.needs_labels)):
            return None
        if self.uuid_prefix and _BARE_UUID.fullmatch(gpu):
            gpu = self.uuid_prefix + gpu
        node = _first(labels, names.node) or _without_port(_first(labels, names.address))
        instance, profile, model = (_first(labels, each) for each in (names.instance, names.profile, names.model))
        return Device(node, gpu, instance, profile, model, number[1] if number else "", number is not None and not given)

    def identify(self, metric: str, labels: Mapping[str, str], *, exported: bool) -> list[tuple[Identity, float]]:
        """What a series stands for, and the bytes of its unit: one identity for each role of the metric.

        Empty where the labels name no device, or where a row without a pod says nothing. The node is empty where no label
        names it.
        """
        device = self.device_of(labels)
        if device is None:
            return []
        found = []
        for rule in self.rules:
            if rule.metric != metric or any(labels.get(name, "") != value for name, value in rule.where.items()):
                continue
            role, holder = self._role(rule, labels, exported=exported)
            if role is not None:
                reserved = rule.includes_reserved and role == "used"
                series = (role, rule.level or self.level, rule.family or metric, reserved)
                found.append((Identity(*series, *device[:5], *holder), UNITS[rule.unit]))
        return found

    def scale(self, total_bytes: float) -> float:
        """The factor for all values of a device whose ``total`` was read as this many bytes.

        >>> amd = Profile("amd", "device", (), DeviceLabels((), ()), decimal_totals_mib=(65520,))
        >>> round(amd.scale(68702 * 2**20) * 68702), amd.scale(65520 * 2**20)
        (65519, 1.0)
        """
        decimal = UNITS["MB"] / UNITS["MiB"]
        stated = total_bytes / UNITS["MiB"]
        near = [abs(stated / total - 1) <= _TOLERANCE for total in self.decimal_totals_mib]
        near_decimal = [abs(stated * decimal / total - 1) <= _TOLERANCE for total in self.decimal_totals_mib]
        return decimal if any(near_decimal) and not any(near) else 1.0

    def _role(self, rule: SeriesRule, labels: Mapping[str, str], *, exported: bool) -> tuple[str | None, Holder]:
        if rule.role not in _HOLDER_ROLES:
            return rule.role, Holder()
        holder = self._holder(labels, self.exported if exported and self.exported else self.holder)
        return (rule.role if holder.pod or holder.pod_uid else rule.without_pod), holder

    def _holder(self, labels: Mapping[str, str], names: HolderLabels) -> Holder:
        pod, uid = _first(labels, names.pod), _first(labels, names.pod_uid)
        if not pod:
            return Holder(pod_uid=uid) if self.holder_by_uid else Holder()
        if self.exporter_pod and self.exporter_pod in pod:
            return Holder()
        return Holder(_first(labels, names.namespace), pod, uid, _first(labels, names.container))


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first of these labels that is there and not empty."""
    return next((value for name in names if (value := labels.get(name))), "")


def _without_port(address: str) -> str:
    """The host of an address.

    >>> [_without_port(a) for a in ("10.0.0.5:9400", "gpu-a", "[fd00::5]:9400", "fd00::5")]
    ['10.0.0.5', 'gpu-a', 'fd00::5', 'fd00::5']
    """
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address
