"""A store of series read by profiles: what every kind of source does, whatever it reads from.

Here belongs the order in which a store is asked. Here do not belong files and servers, or which profile fits (``choice``).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from allocation.errors import SourceUnavailableError
from allocation.findings import Code, Finding, Severity
from pipelines.metric_sources.base import INVENTORY_METRICS, InfoSeries, Raw, RoleCount, SeriesStore, Shard, Wanted, Window
from pipelines.metric_sources.choice import AUTO, Choice, choose, nothing_found, silent_roles
from pipelines.metric_sources.normalise import InfoReducer, ShardBuilder, count_roles, node_groups
from pipelines.metric_sources.placing import Places, Sight
from pipelines.metric_sources.profiles import profile_of
from pipelines.metric_sources.refusals import located
from pipelines.metric_sources.survey import Layout, Survey, sights, survey, wanted_of
from pipelines.metrics_entries import MetricsEntry

_REMEMBERED = 4
_USUAL_HOLD_MS = 120_000


class ProfiledSource:
    """See ``MetricSource``."""

    def __init__(self, store: SeriesStore, entry: MetricsEntry, cluster: str, max_gap_ms: int) -> None:
        self.nodes_per_shard = entry.nodes_per_shard
        self._store = store
        self._cluster = cluster
        self._max_gap_ms = max_gap_ms
        self._named = None if entry.profile == AUTO else Choice((profile_of(entry, cluster),))
        self._chosen = lru_cache(_REMEMBERED)(self._choose)
        self._surveys = lru_cache(_REMEMBERED)(self._survey)
        self._known: dict[tuple[Window, int], tuple[Places, list[Layout]]] = {}

    def raw(self, window: Window, metrics: Sequence[str]) -> Iterator[Raw]:
        """All series of these metrics in the window, unreduced; the pieces of one series in time order."""
        return self._store.read([Wanted(metric) for metric in metrics], window)

    def inventory(self, window: Window, metrics: Sequence[str] = INVENTORY_METRICS) -> Sequence[InfoSeries]:
        """These series of kube-state-metrics in the window, reduced piece by piece."""
        reducer = InfoReducer(self._max_gap_ms)
        for piece in self.raw(window, metrics):
            reducer.add(*piece)
        return reducer.result()

    def profiles(self, window: Window) -> Sequence[str]:
        """The profiles by which it is read."""
        return [profile.name for profile in self._chosen(window).profiles]

    def needs_sights(self, window: Window) -> bool:
        """Whether it has rows that do not name their node or their device by themselves."""
        return not all(found.told for found in self._surveys(window))

    def sights(self, window: Window, places: Places) -> set[Sight]:
        """Which device its rows show on which node."""
        seen = set[Sight]()
        for found in self._surveys(window):
            seen |= sights(found, Layout(found, places, self._store, window), self._store, window, places)
        return seen

    def nodes(self, window: Window, places: Places | None = None) -> Sequence[str]:
        """Names of the nodes whose devices have series in the window, sorted.

        A server answers by blocks of its index: a node whose last sample lies shortly before the window may be there.
        """
        return sorted(set[str]().union(*(layout.nodes for layout in self._layouts(window, places)[1])))

    def pour(self, builder: ShardBuilder, window: Window, places: Places, group: Sequence[str]) -> None:
        """The device series of this group of nodes into the builder."""
        try:
            for found, layout in zip(self._surveys(window), self._layouts(window, places)[1], strict=True):
                for piece in self._store.read(list(layout.wanted(group)), window):
                    builder.add(found.profile, piece, exported=piece[0] in found.exported)
        except SourceUnavailableError as error:
            raise located(error, nodes_in_words(group)) from error

    def shards(self, window: Window, nodes: Sequence[str], places: Places | None = None) -> Iterator[Shard]:
        """The device series of these nodes, ``nodes_per_shard`` nodes at a time; one shard is in memory at a time."""
        known = self._layouts(window, places)[0]
        findings = self.notices(window, known)
        for group in node_groups(nodes, self.nodes_per_shard):
            builder = ShardBuilder(known, group, _USUAL_HOLD_MS)
            self.pour(builder, window, known, group)
            yield builder.shard(findings)
            findings = ()

    def notices(self, window: Window, places: Places | None = None) -> Sequence[Finding]:
        """What stands out of its series as a whole: the profile that was chosen, nothing found, rows that belong nowhere."""
        told = list(self._chosen(window).findings)
        for found, layout in zip(self._surveys(window), self._layouts(window, places)[1], strict=True):
            if found.empty:
                told.append(nothing_found(self._store, found.profile, self._cluster, window))
            else:
                told += silent_roles(self._store, found.profile, window)
            told += self._unplaced(found, layout)
        return [*told, *self._store.notices()]

    def roles(self, window: Window, places: Places | None = None) -> Sequence[RoleCount]:
        """How many series stand behind each role in the window, by the store's index."""
        known, _ = self._layouts(window, places)
        counts: list[RoleCount] = []
        for found in self._surveys(window):
            rows = self._store.label_sets(wanted_of(found.profile), window)
            counts += count_roles(found.profile, ((m, labels, m in found.exported) for m, labels in rows), known)
        return counts

    def _choose(self, window: Window) -> Choice:
        return self._named or choose(self._store, self._cluster, window)

    def _survey(self, window: Window) -> tuple[Survey, ...]:
        return tuple(survey(self._store, profile, window) for profile in self._chosen(window).profiles)

    def _layouts(self, window: Window, places: Places | None) -> tuple[Places, list[Layout]]:
        """The places, and where the series of each survey lie by them; without places, by what this source shows itself."""
        key = window, id(places)
        if key not in self._known:
            known = places
            if known is None:
                known = Places()
                if self.needs_sights(window):
                    known = known.with_sights(self.sights(window, known))
            layouts = [Layout(found, known, self._store, window) for found in self._surveys(window)]
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known, layouts
        return self._known[key]

    def _unplaced(self, found: Survey, layout: Layout) -> Iterator[Finding]:
        """A finding for each metric that has series which lead to no node: nothing can be charged on them."""
        rows: dict[str, list[Mapping[str, str]]] = {}
        for row in layout.unplaced:
            rows.setdefault(row.metric, []).append(row.labels)
        labels = ", ".join((*found.profile.device.node, *found.profile.device.address))
        for metric, series in sorted(rows.items()):
            text = (
                f"cluster {self._cluster}: {len(series)} series belong to no node: they carry none of the labels {labels}, and "
                f"neither another row of their device nor kube_pod_info leads to exactly one; add one when scraping. Example: "
                f"{dict(sorted(series[0].items()))}"
            )
            yield Finding(Code.NO_SERIES, Severity.WARNING, metric, text, count=len(series))


def nodes_in_words(nodes: Sequence[str]) -> str:
    """A group of nodes, as it may stand in a message.

    >>> nodes_in_words(["gpu-a", "gpu-b", "gpu-p"])
    'nodes gpu-a to gpu-p (3)'
    """
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {nodes[0]} to {nodes[-1]} ({len(nodes)})" if nodes else "no nodes"
