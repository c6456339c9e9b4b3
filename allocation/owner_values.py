"""What the inventory says of each holder: its row of the table ``pods``, and the value of each source of owners.

Here belongs the look-up, all holders at once. Here do not belong which source counts (``owners``), patterns
(``owner_rules``) or the mapping file (``owner_mapping``).
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.coded import Coded, coded, nothing, united
from allocation.pod_places import KEY, pod_places
from allocation.text_maps import TextMaps

Int64 = npt.NDArray[np.int64]

_OF_ROW = ("namespace", "pod", "node", "cluster")
_OF_POD = {"workload": "workload_name", "workload_kind": "workload_kind"}
_MAPS = {"label": "labels", "annotation": "annotations", "namespace_label": "namespace_labels"}
PLAIN_SOURCES = (*_OF_ROW, *_OF_POD)
"""Sources that are a word."""
KEYED_SOURCES = tuple(_MAPS)
"""Sources that are written ``label:KEY``."""


def label_spellings(key: str) -> tuple[str, ...]:
    """How kube-state-metrics may spell a label's key: other characters become ``_``, camelCase becomes snake_case.

    >>> label_spellings("app.kubernetes.io/modelName")
    ('app_kubernetes_io_modelName', 'app_kubernetes_io_model_name')
    """
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    snake = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", plain).lower()
    return (plain,) if plain == snake else (plain, snake)


class Said:
    """What each source says of each of the holders, looked up once a source.

    Args:
        holders: ``namespace``, ``pod``, ``pod_uid`` (empty where unknown), ``end_ms``; ``node`` and ``cluster``, where these are
            known.
        pods: table ``pods``, one row a pod and version of its labels.
    """

    def __init__(self, holders: pd.DataFrame, pods: pa.Table) -> None:
        self._holders, self._pods = holders, pods
        self._known: dict[str, Coded] = {}
        self._maps: dict[str, TextMaps] = {}
        self.place: Int64 = pod_places([self(name) for name in KEY[:2]], holders, pods)
        """Each holder's row of ``pods``, -1 for none."""
        there = np.zeros(len(pods) + 1, np.bool_)
        there[self.place] = True
        self._asked = np.flatnonzero(there[:-1])
        self._of_asked = np.append(np.cumsum(there[:-1]) - 1, [-1])[self.place]

    def __len__(self) -> int:
        return len(self._holders)

    def __call__(self, source: str) -> Coded:
        """One text a holder; none where the source says nothing or nothing but an empty text."""
        if source not in self._known:
            self._known[source] = self._look_up(source)
        return self._known[source]

    def _look_up(self, source: str) -> Coded:
        if source in _OF_ROW:
            return coded(self._holders[source]) if source in self._holders else nothing(len(self))
        if source in _OF_POD:
            return coded(self._of_pods(_OF_POD[source])).at(self._of_asked)
        kind, _, key = source.partition(":")
        if kind not in self._maps:
            self._maps[kind] = TextMaps(self._of_pods(_MAPS[kind]))
        told = [self._maps[kind].of(spelling) for spelling in label_spellings(key)]
        found = united(told, np.where(told[0].codes < 0, 1, 0)) if len(told) > 1 else told[0]
        return found.at(self._of_asked)

    def _of_pods(self, column: str) -> pa.Array:
        """What the pods say that are some holder's."""
        values = self._pods[column]
        if len(self._asked) < len(values):
            values = values.take(pa.array(self._asked))
        return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
