"""What the labels of one profile's series say before anything is read: which nodes they name and by which label.

Most rows name their node, so a server need only list the label's values. Rows that do not are listed one by one, and only they.
Here do not belong samples, or where a row is (``placing``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipelines.metric_sources.base import SeriesStore, Wanted, Window
from pipelines.metric_sources.placing import Places, Sight, is_name
from pipelines.metric_sources.profiles import Profile

EXPORTED_POD = "exported_pod"
"""Where a row of a metric has this label, the metric's plain labels name the exporter."""


@dataclass(frozen=True)
class NodeLabel:
    """One label that tells the node where the labels ``absent`` are not there, and what it says."""

    label: str
    absent: tuple[str, ...]
    values: frozenset[str]


@dataclass(frozen=True)
class Loose:
    """A row whose node no label names by itself, and how a store is asked for it."""

    metric: str
    labels: Mapping[str, str]
    wanted: Wanted


@dataclass(frozen=True)
class Survey:
    """What the series of a profile say in a window."""

    profile: Profile
    exported: frozenset[str]
    """The metrics on which the server has moved the exporter's own labels aside."""
    labels: tuple[NodeLabel, ...]
    unnamed: tuple[Loose, ...]
    """Rows with none of the labels."""
    by_place: bool
    """Whether rows name their device by its place on the node alone."""

    @property
    def empty(self) -> bool:
        """Whether there are no series at all."""
        return not self.unnamed and not any(label.values for label in self.labels)

    @property
    def told(self) -> bool:
        """Whether every row names node and device by itself."""
        addresses = any(v for label in self.labels for v in label.values if not is_name(self.profile, {label.label: v}))
        return not self.unnamed and not self.by_place and not addresses


def survey(store: SeriesStore, profile: Profile, window: Window) -> Survey:
    """Asks the store what the labels say."""
    everything = wanted_of(profile)
    exported = frozenset[str]()
    if profile.exported is not None:
        exported = frozenset(store.values("__name__", _with(everything, EXPORTED_POD), window))
    found: list[NodeLabel] = []
    absent: tuple[str, ...] = ()
    for label in (*profile.device.node, *profile.device.address):
        values = store.values(label, [replace(w, absent=absent) for w in _with(everything, label)], window)
        found.append(NodeLabel(label, absent, frozenset(filter(None, values))))
        absent = (*absent, label)
    unnamed = [replace(w, absent=absent) for w in everything]
    there = set(store.values("__name__", unnamed, window))
    loose = _loose(store, profile, [w for w in unnamed if w.metric in there], window) if there else ()
    by_place = any(
        store.values(label, [replace(w, absent=profile.device.gpu) for w in _with(everything, label)], window)
        for label in profile.device.place
    )
    return Survey(profile, exported, tuple(found), tuple(loose), by_place)


def wanted_of(profile: Profile) -> list[Wanted]:
    """All series of the profile, by metric.

    What every row that counts has in its labels is asked for: what all rules of the metric want, and the device's label where
    there is only one, since others may use the same name.
    """
    device = (*profile.device.gpu, *profile.device.place)
    found = []
    for metric in profile.metrics:
        conditions = [dict(rule.where) for rule in profile.rules if rule.metric == metric]
        same = conditions[0] if all(c == conditions[0] for c in conditions) else {}
        among = tuple((name, frozenset((value,))) for name, value in sorted(same.items()))
        found.append(Wanted(metric, present=device if len(device) == 1 else (), among=among))
    return found


def _with(wanted: Iterable[Wanted], label: str) -> list[Wanted]:
    """The same where this label has a value."""
    return [replace(w, present=(*w.present, label)) for w in wanted]


def _loose(store: SeriesStore, profile: Profile, wanted: Sequence[Wanted], window: Window) -> Iterator[Loose]:
    """The rows of these series that name a device, one by one."""
    by_metric = {w.metric: w for w in wanted}
    for metric, labels in store.label_sets(wanted, window):
        if profile.device_of(labels) is not None:
            yield Loose(metric, labels, _narrowed(by_metric[metric], profile, labels))


def _narrowed(wanted: Wanted, profile: Profile, labels: Mapping[str, str]) -> Wanted:
    """What a store is asked for to get this row and few others: by its device's id, else by its pod, else by its place."""
    names = profile.exported or profile.holder
    candidates = (*profile.device.gpu, *names.pod_uid, *names.pod, *profile.device.place)
    label = next(name for name in candidates if labels.get(name))
    gone = tuple(name for name in candidates[: candidates.index(label)] if name not in wanted.absent)
    return replace(wanted, absent=(*wanted.absent, *gone), among=(*wanted.among, (label, frozenset((labels[label],)))))


class Layout:
    """Which series of a survey lie on which node: what a store is asked for a group of nodes."""

    def __init__(self, found: Survey, places: Places, store: SeriesStore, window: Window) -> None:
        self._named: list[tuple[NodeLabel, dict[str, str]]] = []
        self._loose: dict[str, list[Loose]] = {}
        self.unplaced: list[Loose] = []
        self._everything = wanted_of(found.profile)
        loose = list(found.unnamed)
        for label in found.labels:
            node_of, unsure = _resolved(label, found.profile, places)
            self._named.append((label, node_of))
            if unsure:
                asked = [_among(replace(w, absent=label.absent), label.label, unsure) for w in self._everything]
                loose += _loose(store, found.profile, asked, window)
        for row in loose:
            node = _node(row, found, places)
            if node:
                self._loose.setdefault(node, []).append(row)
            else:
                self.unplaced.append(row)

    @property
    def nodes(self) -> set[str]:
        """All nodes with series."""
        return {node for _, node_of in self._named for node in node_of.values()} | self._loose.keys()

    def wanted(self, group: Sequence[str]) -> Iterator[Wanted]:
        """The series of these nodes; a row of another node may be among them where it names none."""
        here = set(group)
        for wanted in self._everything:
            for label, node_of in self._named:
                values = {value for value, node in node_of.items() if node in here}
                if values:
                    yield _among(replace(wanted, absent=label.absent), label.label, values)
        yield from _joined(row.wanted for node in sorted(here) for row in self._loose.get(node, ()))

    def rows(self) -> Iterator[Wanted]:
        """The series that name their node."""
        for wanted in self._everything:
            for label, node_of in self._named:
                if node_of:
                    yield _among(replace(wanted, absent=label.absent), label.label, set(node_of))

    def placed(self) -> Iterator[tuple[str, Loose]]:
        """The rows that do not name their node, with the one they are on."""
        return ((node, row) for node, rows in self._loose.items() for row in rows)


def sights(found: Survey, layout: Layout, store: SeriesStore, window: Window, places: Places) -> set[Sight]:
    """Which device the rows show on which node, where a label or the holder's pod says the node."""
    rows = [*store.label_sets(list(layout.rows()), window), *((row.metric, row.labels) for _, row in layout.placed())]
    seen = set()
    for metric, labels in rows:
        device = found.profile.device_of(labels)
        if device is not None and not device.local and found.profile.identify(metric, labels, exported=metric in found.exported):
            node = places.node(found.profile, device, labels, exported=metric in found.exported)
            if node:
                seen.add(Sight(device.gpu, node, device.place))
    return seen


def _resolved(label: NodeLabel, profile: Profile, places: Places) -> tuple[dict[str, str], set[str]]:
    """The node that each of the label's values means, and the values that mean none by themselves."""
    node_of, unsure = {}, set()
    for value in label.values:
        node = places.named(value)
        if node or is_name(profile, {label.label: value}):
            node_of[value] = node or value
        else:
            unsure.add(value)
    return node_of, unsure


def _node(row: Loose, found: Survey, places: Places) -> str:
    device = found.profile.device_of(row.labels)
    exported = row.metric in found.exported
    return places.node(found.profile, device, row.labels, exported=exported) if device else ""


def _among(wanted: Wanted, label: str, values: Iterable[str]) -> Wanted:
    return replace(wanted, among=(*wanted.among, (label, frozenset(values))))


def _joined(wanted: Iterable[Wanted]) -> Iterator[Wanted]:
    """The same series by fewer questions: those that differ in the last label's values alone become one."""
    merged: dict[tuple[Wanted, str], set[str]] = {}
    for one in wanted:
        label, values = one.among[-1]
        merged.setdefault((replace(one, among=one.among[:-1]), label), set()).update(values)
    return (_among(one, label, values) for (one, label), values in merged.items())
