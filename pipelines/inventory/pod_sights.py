"""Which stretch of which series is about which pod.

Here belong identity (R20): namespace, name and uid, and to whom a series without a uid belongs. Here does not belong what a
series says.
"""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.inventory.sections import Sections
from pipelines.inventory.stretches import Int64, Stretches, last_of, numbered, text_column
from pipelines.metric_sources.base import INVENTORY_METRICS, REQUEST_METRICS

POD_METRICS = tuple(dict.fromkeys(name for name in (*INVENTORY_METRICS, *REQUEST_METRICS) if name.startswith("kube_pod_")))
_KEY = ["namespace", "pod", "pod_uid"]
_OF = ["pod", "first_ms", "last_ms", "row"]


class PodSights:
    """All pods of an inventory, and the stretches that tell of each.

    ``pods``: one row a pod in order of ``namespace``, ``pod``, ``pod_uid``, with its first and last sight (``first_ms``,
    ``last_ms``).
    """

    def __init__(self, sections: Sections) -> None:
        self.series = {metric: sections.of(metric) for metric in POD_METRICS}
        sights, texts = _sights(self.series)
        number = numbered(texts)
        distinct = np.unique(number, return_index=True)[1]
        names = pa.table([text.take(pa.array(distinct)) for text in texts], _KEY)
        del texts
        sights["pod"] = _in_order(names)[number]
        ordered = names.sort_by([(name, "ascending") for name in _KEY]).to_pandas()
        ordered["name"] = numbered([text_column(ordered.namespace), text_column(ordered.pod)])
        ordered = ordered.join(sights.groupby("pod").agg(first_ms=("first_ms", "min"), last_ms=("last_ms", "max")))
        sights = _placed(sights, ordered)
        kept = np.sort(sights.pod.unique())
        self.pods = ordered.iloc[kept].drop(columns="name").reset_index(drop=True)
        sights["pod"] = np.searchsorted(kept, sights.pod)
        if not sights.metric.is_monotonic_increasing:
            sights = sights.sort_values("metric", kind="stable")
        begins = np.searchsorted(sights.metric.to_numpy(), np.arange(len(POD_METRICS) + 1, dtype=np.int16))
        self._sights = [sights[_OF].iloc[a:b] for a, b in pairwise(begins.tolist())]

    def of(self, metric: str, *labels: str) -> pd.DataFrame:
        """What a metric says: ``pod`` (row of ``pods``), ``first_ms``, ``last_ms``, ``value``, ``row`` (stretch), the labels."""
        series = self.series[metric]
        found = self._sights[POD_METRICS.index(metric)].reset_index(drop=True)
        row = found.row.to_numpy(np.int64)
        texts = {label: pd.Series(series.texts(label).take(pa.array(row)).to_pandas()) for label in labels}
        return found.assign(value=series.value[row], **texts)


def _sights(series: dict[str, Stretches]) -> tuple[pd.DataFrame, list[pa.ChunkedArray]]:
    """Every stretch that names a pod, with the texts of its key."""
    frames, keys = [], []
    for number, stretches in enumerate(series.values()):
        pod = stretches.texts("pod")
        there = pc.not_equal(pod, "")
        rows = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        times = {"first_ms": stretches.first_ms[rows], "last_ms": stretches.last_ms[rows]}
        frames.append(pd.DataFrame({**times, "metric": np.full(len(rows), number, np.int16), "row": rows}))
        texts = (stretches.texts("namespace"), pod, stretches.texts("uid"))
        keys.append([text if len(rows) == len(text) else text.filter(there) for text in texts])
    return pd.concat(frames, ignore_index=True), [pa.chunked_array(parts, pa.string()) for parts in zip(*keys, strict=True)]


def _in_order(names: pa.Table) -> Int64:
    """The rank of each row among distinct rows."""
    order = pc.sort_indices(names, [(name, "ascending") for name in _KEY]).to_numpy().astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _placed(sights: pd.DataFrame, pods: pd.DataFrame) -> pd.DataFrame:
    """Gives stretches without a uid to the pods of their name that had come last when they were first and last seen.

    What a pod's own series of that metric say goes before; a name without any uid stays a pod of its own.
    """
    named = pods[pods.pod_uid != ""].assign(target=lambda d: d.index).sort_values("first_ms")[["name", "first_ms", "target"]]
    loose = (pods.pod_uid == "").to_numpy() & pods.name.isin(named.name).to_numpy()
    mine = loose[sights.pod.to_numpy()]
    if not mine.any():
        return sights
    unnamed = sights[mine].assign(name=lambda d: pods.name.to_numpy()[d.pod])
    first_of_name = named.drop_duplicates("name").set_index("name").target
    found = []
    for moment in ("first_ms", "last_ms"):
        asked = unnamed.assign(at_ms=unnamed[moment]).sort_values("at_ms")
        near = pd.merge_asof(asked, named.rename(columns={"first_ms": "came_ms"}), left_on="at_ms", right_on="came_ms", by="name")
        found.append(near.assign(pod=near.target.fillna(near.name.map(first_of_name)).astype("int64")))
    given = pd.concat(found, ignore_index=True).drop_duplicates(["metric", "row", "pod"])[sights.columns]
    own = sights[~mine]
    spoken, told = (rows.metric.astype("int64") * len(pods) + rows.pod for rows in (own, given))
    given = given[~told.isin(spoken)]
    return pd.concat([own, given], ignore_index=True)


def latest(said: pd.DataFrame, column: str, pods: int) -> "pd.Series[str]":
    """The last non-blank text of each pod, null where there is none."""
    told = last_of(said[said[column] != ""], "pod", ["last_ms", "first_ms", column])
    return told.set_index("pod")[column].astype("object").reindex(range(pods))
