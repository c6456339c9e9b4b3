"""Where rows are: the node, and the device on it, of rows whose labels name them by other words or not at all.

A node is told by, in this order: a label with the node's name, or with an address or a pod that the inventory places; another
row that shows the same device on a node; the holder's pod; the exporter's own pod. A name in a node label is believed where the
inventory knows nothing better. Here do not belong queries, and nothing is guessed: what two nodes claim is nobody's.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

from pipelines.metric_sources.base import InfoSeries
from pipelines.metric_sources.profiles import Device, HolderLabels, Identity, Profile

_NODE_METRICS = ("kube_node_info", "kube_node_labels", "kube_node_status_capacity")
_NOWHERE: frozenset[str] = frozenset()
_Key = TypeVar("_Key")


class Sight(NamedTuple):
    """A device that a row shows on a node; ``place`` is its number there, empty where the row does not say."""

    gpu: str
    node: str
    place: str


@dataclass(frozen=True)
class Places:
    """What is known of where things are. Each name leads to all nodes that it was seen on; only one of them is an answer."""

    names: frozenset[str] = frozenset()
    listed: bool = False
    """Whether the cluster's own inventory lists its nodes."""
    addresses: Mapping[str, frozenset[str]] = field(default_factory=dict)
    pods_by_name: Mapping[str, frozenset[str]] = field(default_factory=dict)
    pods: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    uids: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """Node, namespace and name of a pod by its uid."""
    gpus: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ids: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """The ids of the devices that were seen at a place of a node."""

    def named(self, told: str) -> str:
        """The node that a label's value means: by its name, its address, or a pod on it; empty where it means none."""
        if told in self.names:
            return told
        address, host = _address(told), _host(told)
        if host in self.names:
            return host
        return _only(self.addresses.get(address, _NOWHERE) if address else self.pods_by_name.get(host, _NOWHERE))

    def node(self, profile: Profile, device: Device, labels: Mapping[str, str], *, exported: bool) -> str:
        """The node of a row, empty where nothing leads to one."""
        told = device.node
        found = self.named(told) if told else ""
        if found or (told and is_name(profile, labels)):
            return found or told
        if not device.local:
            found = _only(self.gpus.get(device.gpu, _NOWHERE))
        return found or self._by_pod(profile, labels, exported=exported) or self._believed(told)

    def gpu(self, device: Device, node: str) -> str:
        """The device's id: where a row says only its place on the node, the one id that others show there."""
        return (_only(self.ids.get((node, device.place), _NOWHERE)) if device.local and device.place else "") or device.gpu

    def identify(
        self, profile: Profile, metric: str, labels: Mapping[str, str], *, exported: bool
    ) -> list[tuple[Identity, float]]:
        """What a series stands for (see ``Profile.identify``), with node, device and pod as they are known here.

        Node or pod are empty where nothing leads to one, the pod only where the row names it by a uid.
        """
        found = profile.identify(metric, labels, exported=exported)
        device = profile.device_of(labels) if found else None
        if device is None:
            return []
        node = self.node(profile, device, labels, exported=exported)
        gpu = self.gpu(device, node)
        return [(self._with_pod(one._replace(node=node, gpu_uuid=gpu)), unit) for one, unit in found]

    def with_sights(self, sights: Iterable[Sight]) -> "Places":
        """The same, knowing these devices too."""
        gpus, ids = {k: set(v) for k, v in self.gpus.items()}, {k: set(v) for k, v in self.ids.items()}
        for gpu, node, place in sights:
            gpus.setdefault(gpu, set()).add(node)
            if place:
                ids.setdefault((node, place), set()).add(gpu)
        return replace(self, gpus=_frozen(gpus), ids=_frozen(ids))

    def _believed(self, told: str) -> str:
        """An address that leads nowhere is a node's name only where nobody lists names: a host unless the cluster does."""
        return told if not self.names or not (self.listed or _address(told)) else ""

    def _by_pod(self, profile: Profile, labels: Mapping[str, str], *, exported: bool) -> str:
        """The node of the pod that holds, else of the exporter's own."""
        moved = profile.exported if exported and profile.exported else None
        holder = moved or profile.holder
        return self._of_pod(holder, labels) or (self._of_pod(profile.holder, labels) if moved else "")

    def _of_pod(self, names: HolderLabels, labels: Mapping[str, str]) -> str:
        uid, pod, namespace = (_first(labels, each) for each in (names.pod_uid, names.pod, names.namespace))
        if uid in self.uids:
            return self.uids[uid][0]
        return _only(self.pods.get((namespace, pod), _NOWHERE)) if pod else ""

    def _with_pod(self, identity: Identity) -> Identity:
        if identity.pod or not identity.pod_uid or identity.pod_uid not in self.uids:
            return identity
        _, namespace, pod = self.uids[identity.pod_uid]
        return identity._replace(namespace=namespace, pod=pod)


def places_of(inventory: Sequence[InfoSeries], configured: Iterable[str] = ()) -> Places:
    """What the inventory's series and the configured names of nodes say."""
    names, addresses = set(configured), dict[str, set[str]]()
    by_name, pods = dict[str, set[str]](), dict[tuple[str, str], set[str]]()
    uids: dict[str, tuple[str, str, str]] = {}
    for series in inventory:
        own = partial(_own, series.labels)
        node = own("node")
        if not node:
            continue
        if series.metric in _NODE_METRICS:
            names.add(node)
            addresses.setdefault(_address(own("internal_ip")), set()).add(node)
        elif series.metric == "kube_pod_info":
            names.add(node)
            for label in ("host_ip", "pod_ip"):
                addresses.setdefault(_address(own(label)), set()).add(node)
            by_name.setdefault(own("pod"), set()).add(node)
            pods.setdefault((own("namespace"), own("pod")), set()).add(node)
            if own("uid"):
                uids[own("uid")] = (node, own("namespace"), own("pod"))
    addresses.pop("", None)
    listed = any(series.metric in _NODE_METRICS for series in inventory)
    return Places(frozenset(names), listed, _frozen(addresses), _frozen(by_name), _frozen(pods), uids)


def is_name(profile: Profile, labels: Mapping[str, str]) -> bool:
    """Whether a label of the row names its node by a word that can be a name: no address, and no label for addresses."""
    told = _first(labels, profile.device.node)
    return bool(told) and not _address(told)


def _own(labels: Mapping[str, str], name: str) -> str:
    """A label of a series of kube-state-metrics, also where the server has moved it aside."""
    return labels.get(f"exported_{name}") or labels.get(name) or ""


def _host(text: str) -> str:
    """An address or name without its port.

    >>> [_host(t) for t in ("10.0.0.5:9400", "[fd00::5]:9400", "fd00::5", "gpu-a", "gpu-a:9400")]
    ['10.0.0.5', 'fd00::5', 'fd00::5', 'gpu-a', 'gpu-a']
    """
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _address(text: str) -> str:
    """The text as an IP address without its port, empty where it is none.

    >>> [_address(t) for t in ("10.0.0.5:9400", "FD00::5", "gpu-a")]
    ['10.0.0.5', 'fd00::5', '']
    """
    try:
        return str(ipaddress.ip_address(_host(text)))
    except ValueError:
        return ""


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := labels.get(name))), "")


def _only(found: frozenset[str]) -> str:
    """The one there is, else nothing."""
    return next(iter(found)) if len(found) == 1 else ""


def _frozen(sets: Mapping[_Key, set[str]]) -> dict[_Key, frozenset[str]]:
    return {key: frozenset(found) for key, found in sets.items()}
