"""A cluster's day of series on its way into the store: shard by shard, each readable as soon as it is there.

Here does not belong what is kept of it (``samples``) or how series are read (``metric_sources``).
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.findings import Finding, as_json, from_json
from pipelines import clock
from pipelines.inventory import inventory_table, overruled, sections_of
from pipelines.metric_sources.base import Window
from pipelines.metric_sources.gather import all_notices, all_places, groups_of, one_shard
from pipelines.metric_sources.model_servers import gather
from pipelines.partition import Partition
from pipelines.samples import Fetched, counters_asked, derive, inventory_metrics, listed, query_id, sources_of, tables_of
from pipelines.series_digest import Told, fingerprint
from pipelines.settings import ClusterEntry, Settings
from pipelines.steps import FETCHED, Step, Watch, unwatched
from pipelines.storage import TableStore

KEEPS_AT_LEAST = 0.95


def open_series(
    settings: Settings,
    cluster: ClusterEntry,
    partition: Partition,
    window: Window,
    store: TableStore,
    *,
    again: bool,
    as_kept: bool = False,
    accept_less: bool = False,
    watch: Watch = unwatched,
) -> "Arrival":
    """The day's series and inventory, kept in the store already or about to be fetched.

    What servers told before the window was over is asked for again, unless ``as_kept``. With ``again`` the sources are asked
    anyway, for all of it.
    """
    query = query_id(cluster, window, settings.owners.model_split, settings.policy)
    kept = store.commit("samples", partition)
    whole = kept is not None and (as_kept or bool(kept.detail.get("window_over", True)))
    if kept is not None and whole and not again and kept.detail.get("query") == query:
        return Kept(settings, cluster, partition, store)
    before = 0.0 if kept is None or accept_less else float(str(kept.detail.get("known_seconds", 0)))
    return Coming(settings, cluster, partition, store, window=window, query=query, before=before, again=again, watch=watch)


class Arrival(ABC):
    """One cluster's day of series: files that can be read as soon as each is there, then all that follows from them.

    ``fresh``: whether they are asked for now. Left without ``finish``, the store has what it had.
    """

    fresh: bool

    def __init__(self, settings: Settings, cluster: ClusterEntry, partition: Partition, store: TableStore) -> None:
        self.settings, self.cluster, self.partition, self.store = settings, cluster, partition, store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()

    @abstractmethod
    def files(self) -> Iterator[str]:
        """The places of its files below the store, in order."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many files it has."""

    @abstractmethod
    def expected(self) -> "Expected":
        """What its inventory tells, before its series are there."""

    @abstractmethod
    def finish(self) -> Fetched:
        """All of it in the store.

        Raises:
            ChargebackError: the sources tell less than 95 % of what is kept; what is kept stays.
        """

    @abstractmethod
    def leave(self) -> None:
        """Ends it; what was fetched of a day that is over is found again by the next run."""


@dataclass(frozen=True)
class Expected:
    """A cluster's day as its inventory and the index of its sources tell it; see ``Fetched``, ``build_nodes``, ``build_pods``."""

    nodes: pa.Table
    pods: pa.Table
    with_series: tuple[str, ...]
    overruled: Mapping[str, str]
    counters: pa.Table | None


class Kept(Arrival):
    """Series that stand in the store."""

    fresh = False

    def files(self) -> Iterator[str]:
        """The places of its files."""
        yield from self.store.part_files("samples", self.partition)

    @property
    def count(self) -> int:
        """How many files it has."""
        return len(self.store.part_files("samples", self.partition))

    def expected(self) -> Expected:
        """As they stand."""
        done = self.finish()
        nodes, pods = (self.store.read(name, self.partition) for name in ("nodes", "pods"))
        counters = self.store.read_beside("samples", self.partition, "counters")
        return Expected(nodes, pods, done.nodes, done.overruled, counters)

    def finish(self) -> Fetched:
        """Nodes and pods as they follow from what is kept and from the configuration of now."""
        return self._derived

    @cached_property
    def _derived(self) -> Fetched:
        self.store.clean("samples", self.partition)
        return derive(self.settings, self.cluster, self.partition, self.store, reused=True)

    def leave(self) -> None:
        """Nothing is to be ended."""


class Coming(Arrival):
    """Series that are asked for shard by shard, written to the store, and made its partition when all are there.

    One file a shard, the inventory's series and counters beside them, one commit. A shard that an ended run brought is not
    asked for again where the day was over then and servers told it.
    """

    fresh = True

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterEntry,
        partition: Partition,
        store: TableStore,
        *,
        window: Window,
        query: str,
        before: float,
        again: bool,
        watch: Watch,
    ) -> None:
        super().__init__(settings, cluster, partition, store)
        self._query, self._window, self._before, self._watch = query, window, before, watch
        self._told, self._done, self._there = Told(settings.policy), False, 0
        servers = [entry for entry in cluster.metrics if entry.url]
        self._over = not servers or clock.now() >= window.end
        resumes = self._over and len(servers) == len(cluster.metrics)
        sources = sources_of(cluster, settings)
        self._asked = [(source, window) for source in sources]
        series = [told for source in sources for told in source.inventory(window, inventory_metrics(settings.policy))]
        self._inventory = inventory_table(series)
        self._places = all_places(self._asked, series, [entry.name for entry in cluster.nodes])
        self._groups = groups_of(self._asked, self._places)
        self._counters, noticed = None, tuple[Finding, ...]()
        if settings.owners.model_split is not None:
            self._counters, noticed = gather(sources, window, settings.owners.model_split)
        self._told.findings += noticed
        self._arriving = store.arriving("samples", partition, query)
        if again or not resumes:
            self._arriving.drop()
            self._arriving = store.arriving("samples", partition, query)
        self._resumes, self._files = resumes, self._fetch()

    def files(self) -> Iterator[str]:
        """The place of each file, written when it is asked for."""
        yield from self._files

    @property
    def count(self) -> int:
        """How many files it will have."""
        return len(self._groups)

    def expected(self) -> Expected:
        """What the inventory says now; nodes by the index of the sources."""
        told, names = sections_of(self._inventory), [name for group in self._groups for name in group]
        nodes, pods = tables_of(self.settings, self.cluster, told, names)
        return Expected(nodes, pods, tuple(names), overruled(told, self.cluster.nodes, nodes), self._counters)

    def _fetch(self) -> Iterator[str]:
        for number, group in enumerate(self._groups):
            kept = self._arriving.kept(number) if self._resumes else None
            if kept and kept[1]["nodes"] == list(group):
                place, findings = kept[0], [from_json(told) for told in listed(kept[1]["findings"])]
                samples = self.store.read_file(place)
            else:
                shard = one_shard(self._asked, self._places, group, self.settings.policy.max_hold)
                samples, findings = shard.samples, list(shard.findings)
                place = self._arriving.add(number, samples, {"nodes": list(group), "findings": [as_json(f) for f in findings]})
            self._told.add(samples, findings)
            count = pc.sum(pc.list_value_length(samples["timestamps_ms"])).as_py() or 0
            self._watch(Step(FETCHED, str(self.partition), count, self.count))
            self._there += 1
            yield place

    def finish(self) -> Fetched:
        """The rest of the shards, the commit, and nodes and pods as they follow."""
        if not self._done:
            deque(self._files, maxlen=0)
            self._commit()
            self._done = True
        return derive(self.settings, self.cluster, self.partition, self.store, reused=False)

    def _commit(self) -> None:
        told = self._told
        if self._there != len(self._groups):
            raise ChargebackError(f"{self.partition}: {self._there} of {len(self._groups)} shards are there; run the day again")
        if told.known_seconds < self._before * KEEPS_AT_LEAST:
            self._arriving.drop()
            self._done = True
            raise ChargebackError(
                f"{self.partition}: the series tell {told.known_seconds:g} s of device time now and told {self._before:g} s when "
                "they were kept; retention may have passed. What is kept stays; accept the loss with --accept-less-metrics"
            )
        told.findings += all_notices(self._asked, self._places)
        detail = told.detail(self._query, [list(source.profiles(self._window)) for source, _ in self._asked])
        self._arriving.add_beside("inventory", self._inventory)
        if self._counters is not None and self.settings.owners.model_split is not None:
            self._arriving.add_beside("counters", self._counters)
            detail["counters"] = fingerprint(self._counters)
            detail["counters_asked"] = counters_asked(self.settings.owners.model_split)
        self._arriving.commit(detail | {"window_over": self._over})

    def leave(self) -> None:
        """Ends it."""
        if self._done:
            return
        self._done = True
        if self._resumes:
            self._arriving.leave()
        else:
            self._arriving.drop()
