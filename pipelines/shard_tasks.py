"""A cluster's day cut into tasks, one a stored file of series: each has all that its machines need and nothing else.

A machine is in one task only. Those that had several node names, whose series may lie in several files, and those without
series come last, by key. Tasks in their order give rows in one order, however many nodes a file has.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.chargeback import LINE_COLUMNS
from pipelines.shards import Task
from pipelines.storage import TableStore

REST_PER_TASK = 256
"""So many machines without series are one task."""
_LABELS = ["node", "namespace", "pod", "pod_uid"]
_NAME = ["namespace", "pod"]


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
        self._name_of = names.drop_duplicates("node_key").set_index("node_key").node
        self._pods = _PodIndex(self.pods)
        self._with_renames: list[str] = []

    def tasks(self, files: Iterable[str]) -> Iterator[Task]:
        """The tasks over these files of series, each as soon as its file is there."""
        for place in files:
            labels = self.store.read_file(place, _LABELS)
            names = set(labels["node"].unique().to_pylist())
            if names & self._renames:
                self._with_renames.append(place)
            keys = set(self.nodes.node_key[self.nodes.node.isin(names)]) - self._renamed
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
            renames = sorted(set(self.nodes.node[self.nodes.node_key.isin(keys & self._renamed)]))
            files = self._with_renames if renames else []
            labels = [self.store.read_file(place, _LABELS) for place in files]
            task = self._task(keys, files, tuple(renames), pa.concat_tables(labels) if labels else None)
            if task:
                yield task

    def _task(self, keys: set[str], files: Sequence[str], only: tuple[str, ...] | None, labels: pa.Table | None) -> Task | None:
        """The inputs of these machines, None where no line names any."""
        periods = self.periods[self.periods.node_key.isin(keys)]
        if periods.empty:
            return None
        named = set(self.nodes.node[self.nodes.node_key.isin(keys)])
        nodes = self.nodes[self.nodes.node_key.isin(keys) | self.nodes.node.isin(named)]
        if labels is not None and only is not None:
            labels = labels.filter(pc.is_in(labels["node"], pa.array(only, pa.string())))
        pods = self._pods.of(nodes.node, labels)
        parts, lines = self._money(keys)
        return Task(tuple(files), only, nodes, pods, periods, parts, lines, self._counted(pods, labels))

    def _money(self, keys: set[str]) -> tuple[pd.DataFrame, pa.Table]:
        """The parts of lines that these machines pay, by node name, and their lines."""
        parts = self.parts[self.parts.node_key.isin(keys)]
        order = parts.node_key.map(self._name_of).fillna(parts.node_key).argsort(kind="stable")
        parts = parts.iloc[order.to_numpy()].reset_index(drop=True)
        rows, number = np.unique(parts.line.to_numpy(np.int64), return_inverse=True)
        return parts.assign(line=number), self.lines.select(LINE_COLUMNS).take(pa.array(rows))

    def _counted(self, pods: pa.Table, labels: pa.Table | None) -> pa.Table | None:
        """The counters of the shard's pods, by their names."""
        if self.counters is None:
            return None
        names = pd.concat([t.select(_NAME).to_pandas() for t in (pods, labels) if t is not None]).drop_duplicates()
        theirs = self.counters.select(_NAME).to_pandas().merge(names, on=_NAME, how="left", indicator=True)
        return self.counters.filter(pa.array((theirs["_merge"] == "both").to_numpy()))


class _PodIndex:
    """Rows of the table ``pods`` by node, by name and by uid."""

    def __init__(self, pods: pa.Table) -> None:
        self._pods = pods
        keys = pods.select(_LABELS).to_pandas()
        self._node, self._uid = keys.node, keys.pod_uid
        self._names = pd.MultiIndex.from_frame(keys[_NAME])

    def of(self, nodes: Iterable[str], labels: pa.Table | None) -> pa.Table:
        """The rows of pods on these nodes or with these labels, and all others of their names, in the order of the table."""
        mine = self._node.isin(set(nodes)).to_numpy()
        wanted = self._names[mine]
        if labels is not None:
            told = labels.select(["namespace", "pod", "pod_uid"]).to_pandas().drop_duplicates()
            mine = mine | self._uid.isin(set(told.pod_uid) - {"", None}).to_numpy()
            wanted = wanted.append(pd.MultiIndex.from_frame(told[_NAME]))
        return self._pods.filter(pa.array(mine | _among(self._names, wanted)))


def _among(names: pd.MultiIndex, wanted: pd.MultiIndex) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = names.isin(wanted.unique())
    return found
