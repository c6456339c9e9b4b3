"""A cluster's day cut into tasks, one a stored file of series: each has all that its machines need and nothing else.

A machine is in one task only. Those that had several node names, whose series may lie in several files, and those without
series come last, by key. Tasks in their order give rows in one order, however many nodes a file has. What a task takes out of
the day's tables is looked up by number (``row_index``), so that a task costs by its own size.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.chargeback import LINE_COLUMNS
from pipelines.row_index import Int64, RowIndex, joined, united
from pipelines.shards import Task
from pipelines.storage import TableStore

REST_PER_TASK = 256
"""So many machines without series are one task."""
_LABELS = ["node", "namespace", "pod", "pod_uid"]


@dataclass
class Planner:
    """The tasks of one cluster's day.

    ``lines``, ``parts``: the day's lines and the parts of them that are this cluster's; ``nodes``: all its stays; ``pods``: its
    table; ``periods``: a row a frame; ``counters``: its model servers', None where there are none.
    """

    store: TableStore
    lines: pa.Table
    parts: pd.DataFrame
    nodes: pd.DataFrame
    pods: pa.Table
    periods: pd.DataFrame
    counters: pa.Table | None
    _seen: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        names = self.nodes[["node_key", "node"]].drop_duplicates()
        several = names[names.node_key.duplicated(keep=False)]
        self._renamed, self._renames = set(several.node_key), set(several.node)
        self._stays = _Stays(self.nodes)
        self._periods = RowIndex(self.periods.node_key)
        self._money = _Money(self.lines, self.parts, names)
        self._pods = _Pods(self.pods)
        self._counters = None if self.counters is None else _Counters(self.counters)
        self._with_renames: list[str] = []

    def tasks(self, files: Iterable[str]) -> Iterator[Task]:
        """The tasks over these files of series, each as soon as its file is there."""
        for place in files:
            labels = self.store.read_file(place, _LABELS)
            names = set(labels["node"].unique().to_pylist())
            if names & self._renames:
                self._with_renames.append(place)
            keys = self._stays.keys_of(names) - self._renamed
            self._seen |= keys
            task = self._task(keys, [place], None, labels)
            if task:
                yield task
        yield from self._rest()

    def _rest(self) -> Iterator[Task]:
        """Machines of several names, or without series."""
        left = sorted(set(self.periods.node_key) - self._seen)
        for first in range(0, len(left), REST_PER_TASK):
            keys = set(left[first : first + REST_PER_TASK])
            renames = sorted(self._stays.names_of(keys & self._renamed))
            files = self._with_renames if renames else []
            labels = [self.store.read_file(place, _LABELS) for place in files]
            task = self._task(keys, files, tuple(renames), pa.concat_tables(labels) if labels else None)
            if task:
                yield task

    def _task(self, keys: set[str], files: Sequence[str], only: tuple[str, ...] | None, labels: pa.Table | None) -> Task | None:
        """The inputs of these machines, None where no line names any."""
        frames = self._periods.of(keys)
        if not len(frames):
            return None
        if labels is not None and only is not None:
            labels = labels.filter(pc.is_in(labels["node"], pa.array(only, pa.string())))
        nodes = self.nodes.iloc[self._stays.rows_of(keys)]
        pods = self._pods.of(nodes.node, labels)
        parts, lines = self._money.of(keys)
        counted = None if self._counters is None else self._counters.of([t for t in (pods, labels) if t is not None])
        return Task(tuple(files), only, nodes, pods, self.periods.iloc[frames], parts, lines, counted)


class _Stays:
    """Rows of the table ``nodes`` by key and by name."""

    def __init__(self, nodes: pd.DataFrame) -> None:
        self._keys, self._names = nodes.node_key.to_numpy(object), nodes.node.to_numpy(object)
        self._by_key, self._by_name = RowIndex(nodes.node_key), RowIndex(nodes.node)

    def keys_of(self, names: Iterable[str]) -> set[str]:
        """The machines that had one of these names."""
        return set(self._keys[self._by_name.of(names)])

    def names_of(self, keys: Iterable[str]) -> set[str]:
        """The names that these machines had."""
        return set(self._names[self._by_key.of(keys)])

    def rows_of(self, keys: Iterable[str]) -> Int64:
        """The stays of these machines, and all others under their names."""
        mine = self._by_key.of(keys)
        return united(mine, self._by_name.of(self._names[mine]))


class _Money:
    """The parts of lines that machines pay, by node name, and their lines."""

    def __init__(self, lines: pa.Table, parts: pd.DataFrame, names: pd.DataFrame) -> None:
        name_of = names.drop_duplicates("node_key").set_index("node_key").node
        payer = parts.node_key.map(name_of).fillna(parts.node_key)
        self._rank = np.unique(payer.to_numpy(object), return_inverse=True)[1]
        self._lines, self._parts, self._by_key = lines.select(LINE_COLUMNS).combine_chunks(), parts, RowIndex(parts.node_key)
        self._line = parts.line.to_numpy(np.int64)

    def of(self, keys: Iterable[str]) -> tuple[pd.DataFrame, pa.Table]:
        """Those of these machines."""
        mine = self._by_key.of(keys)
        mine = mine[np.argsort(self._rank[mine], kind="stable")]
        rows, number = np.unique(self._line[mine], return_inverse=True)
        parts = self._parts.iloc[mine].reset_index(drop=True)
        return parts.assign(line=number), self._lines.take(pa.array(rows))


class _Pods:
    """Rows of the table ``pods`` by node, by name and by uid."""

    def __init__(self, pods: pa.Table) -> None:
        self._pods = pods.combine_chunks()
        self._by_node, self._by_uid = (RowIndex(pods[name]) for name in ("node", "pod_uid"))
        self._name = joined(pods)
        self._by_name = RowIndex(self._name)

    def of(self, nodes: Iterable[str], labels: pa.Table | None) -> pa.Table:
        """The rows of pods on these nodes or with these labels, and all others of their names, in the order of the table."""
        there = self._by_node.of(nodes)
        mine = united(there, self._by_name.of(self._name[there]))
        if labels is not None:
            mine = united(mine, self._by_name.of(joined(labels)), self._by_uid.of(labels["pod_uid"].unique().to_pylist()))
        return self._pods.take(pa.array(mine))


class _Counters:
    """Rows of model servers' counters by the name of the pod."""

    def __init__(self, counters: pa.Table) -> None:
        self._counters, self._by_name = counters.combine_chunks(), RowIndex(joined(counters))

    def of(self, named: Iterable[pa.Table]) -> pa.Table:
        """Those of the pods that these tables name."""
        return self._counters.take(pa.array(self._by_name.of(np.concatenate([joined(table) for table in named]))))
