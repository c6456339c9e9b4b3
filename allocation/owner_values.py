"""What the inventory says of each holder: its row of the table ``pods``, and the value of each source of owners.

Here belongs the look-up, all holders at once. Here do not belong which source counts (``owners``), patterns
(``owner_rules``) or the mapping file (``owner_mapping``).
"""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.lookup import rows_before
from allocation.times import milliseconds

Int64 = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]

_OF_ROW = ("namespace", "pod", "node", "cluster")
_OF_POD = {"workload": "workload_name", "workload_kind": "workload_kind"}
_MAPS = {"label": "labels", "annotation": "annotations", "namespace_label": "namespace_labels"}
PLAIN_SOURCES = (*_OF_ROW, *_OF_POD)
"""Sources that are a word."""
KEYED_SOURCES = tuple(_MAPS)
"""Sources that are written ``label:KEY``."""
_NAME = ["namespace", "pod"]


def label_spellings(key: str) -> tuple[str, ...]:
    """How kube-state-metrics may spell a label's key: other characters become ``_``, camelCase becomes snake_case.

    >>> label_spellings("app.kubernetes.io/modelName")
    ('app_kubernetes_io_modelName', 'app_kubernetes_io_model_name')
    """
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    snake = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", plain).lower()
    return (plain,) if plain == snake else (plain, snake)


def describe(holders: pd.DataFrame, pods: pa.Table) -> pd.DataFrame:
    """What the inventory knows of each holder : the row of ``pods`` in ``place``, -1 for none.

    A pod has a row for each version of its labels. A holder gets the one that was last seen before its period ended (before
    the first: the first). A holder without a uid, or one whose uid the inventory does not have, is the pod of that name that
    came last before then.

    Args:
        holders: ``namespace``, ``pod``, ``pod_uid`` (empty where unknown), ``end_ms``; any index.
        pods: table ``pods``, one row a pod and version of its labels.
    """
    known = pods.select(["namespace", "pod", "pod_uid"]).to_pandas().assign(place=np.arange(len(pods)))
    seen = milliseconds(pods["seen_from"])
    version = milliseconds(pods["labels_from"])
    uid = holders.pod_uid.to_numpy() == ""
    place = _last_before(holders, known.assign(from_ms=version), [*_NAME, "pod_uid"])
    named = known.assign(from_ms=np.maximum(version, seen))
    loose = np.where(uid, _last_before(holders, named, _NAME), _last_before(holders, named[named.pod_uid == ""], _NAME))
    return holders.assign(place=np.where(place < 0, loose, place))


def _last_before(holders: pd.DataFrame, known: pd.DataFrame, keys: Sequence[str]) -> Int64:
    """The ``place`` of the last row of the same keys with ``from_ms`` before ``end_ms``, else of the first; -1 for none."""
    if not len(known) or not len(holders):
        return np.full(len(holders), -1, np.int64)
    both = pd.concat([known[list(keys)], holders[list(keys)]], ignore_index=True)
    group = both.groupby(list(keys), sort=False).ngroup().to_numpy()
    order = np.lexsort((known.place.to_numpy(), known.from_ms.to_numpy(), group[: len(known)]))
    of_known, begins = group[: len(known)][order], known.from_ms.to_numpy()[order]
    mine, end = group[len(known) :], holders.end_ms.to_numpy(np.int64)
    first = np.searchsorted(of_known, mine)
    until = np.searchsorted(of_known, mine, side="right")
    at = np.clip(rows_before(of_known, begins, mine, end) - 1, first, None)
    found = known.place.to_numpy()[order][np.minimum(at, len(order) - 1)]
    return np.where(until > first, found, -1).astype(np.int64)


class Said:
    """What each source says of each of the holders, looked up once a source.

    Args:
        holders: as ``describe`` returned them, with ``node`` and ``cluster`` where these are known.
        pods: table ``pods``.
    """

    def __init__(self, holders: pd.DataFrame, pods: pa.Table) -> None:
        self._holders, self._pods = holders, pods
        self._known: dict[str, Texts] = {}

    def __call__(self, source: str) -> Texts:
        """One text a holder, None where the source says nothing or nothing but an empty text."""
        if source not in self._known:
            said = self._look_up(source)
            said[said == ""] = None
            self._known[source] = said
        return self._known[source]

    def _look_up(self, source: str) -> Texts:
        if source in _OF_ROW:
            none = np.full(len(self._holders), None, object)
            return self._holders[source].to_numpy(object, copy=True) if source in self._holders else none
        if source in _OF_POD:
            return self._of_holders(_texts(self._pods[_OF_POD[source]]))
        kind, _, key = source.partition(":")
        if not len(self._pods):
            return np.full(len(self._holders), None, object)
        column = self._pods[_MAPS[kind]].combine_chunks()
        told = [_texts(pc.map_lookup(column, pa.scalar(spelling), "first")) for spelling in label_spellings(key)]
        found = told[0]
        for other in told[1:]:
            found = np.where(_empty(found), other, found)
        return self._of_holders(found)

    def _of_holders(self, of_pods: Texts) -> Texts:
        """The pods' values for the holders that have a pod."""
        told: Texts = np.append(of_pods, [None])[self._holders.place.to_numpy()]
        return told


def _texts(column: pa.Array | pa.ChunkedArray) -> Texts:
    return np.array([*column.to_pylist(), None], dtype=object)[:-1]


def _empty(said: Texts) -> npt.NDArray[np.bool_]:
    return np.asarray(pd.isna(said) | (said == ""), np.bool_)
