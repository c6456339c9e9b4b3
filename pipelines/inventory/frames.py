"""The tables ``nodes`` and ``pods`` as the method reads them: pandas, times in ms.

Here does not belong how the tables come about (`nodes`, `pods`).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.coded import coded
from pipelines.inventory.node_facts import COUNTED

_RESERVES = "run_ai_reserve_for_gpu_index"
"""The annotation in which a scheduler's reservation pod names its GPU. Source: KAI scheduler, Run:ai."""
_TEXTS = ("node", "gpu_group")
_KEY = ("namespace", "pod", "pod_uid")
_DECLARED = ("declared_memory_bytes", "declared_fraction")
_NOTHING = -1.0
_NUMBERS = ("requested_gpus", "requested_cpu_milli", "requested_memory_bytes", *_DECLARED)


def nodes_frame(nodes: pa.Table, with_series: Iterable[str] = ()) -> pd.DataFrame:
    """The table ``nodes`` with times as int64 ms, for the method; ``has_series`` marks nodes whose devices have series."""
    frame = nodes.to_pandas()
    for column, name in (("alive_from", "from_ms"), ("alive_until", "until_ms")):
        frame[name] = _column_ms(nodes, column).astype("int64")
    for column in ("seen_from", "seen_until"):
        frame[f"{column}_ms"] = _column_ms(nodes, column)
    return frame.assign(has_series=frame.node.isin(set(with_series)))


def pods_frame(pods: pa.Table) -> pd.DataFrame:
    """One row a pod and version of what it declared: its life, what it asked for, without versions of labels.

    Args:
        pods: table ``pods``, in order of its key.

    Returns:
        ``namespace``, ``pod``, ``pod_uid``, ``node`` (empty: unknown); ``seen_ms``, ``seen_until_ms`` (int64; a pod's own start
        counts as first sight where it is earlier), ``started_ms``, ``ended_ms`` (NaN: unknown); ``requested_gpus``,
        ``requested_cpu_milli``, ``requested_memory_bytes``, ``declared_memory_bytes``, ``declared_fraction`` (NaN: nothing),
        ``declared_from_ms`` (0 for the first); ``gpu_group``, ``gpu_resource`` (the one resource it counts GPUs by, empty where
        it is none or several), ``has_claim``, ``reserves_index`` (the GPU that a reservation pod names, else empty).
    """
    began = _begins(pods)
    from_ms = _column_ms(pods.filter(pa.array(began)), "labels_from").fillna(0).astype("int64").to_numpy()
    pods = pods.filter(pa.array(np.append(began[1:], [True] * (len(began) > 0)).astype(np.bool_)))
    frame = pods.select(_KEY).to_pandas()
    started, seen = _column_ms(pods, "started_at"), _column_ms(pods, "seen_from")
    frame = frame.assign(
        declared_from_ms=from_ms,
        seen_ms=np.fmin(seen, started).astype("int64"),
        seen_until_ms=_column_ms(pods, "seen_until").astype("int64"),
        started_ms=started,
        ended_ms=_column_ms(pods, "ended_at"),
        gpu_resource=_counted_by(_array(pods, "gpu_requests")),
        has_claim=pc.fill_null(pc.greater(pc.list_value_length(pods["resource_claims"]), 0), False).to_numpy(),
        reserves_index=pc.fill_null(pc.map_lookup(_array(pods, "annotations"), _RESERVES, "first"), "").to_pandas(),
    )
    for name in _TEXTS:
        frame[name] = pc.fill_null(pods[name], "").to_pandas()
    for name in _NUMBERS:
        frame[name] = pods[name].cast(pa.float64()).to_pandas().astype("float64")
    return frame


def _begins(pods: pa.Table) -> npt.NDArray[np.bool_]:
    """The rows that tell another pod or other declared memory than the row before."""
    began = np.ones(len(pods), np.bool_)
    amounts = [pc.fill_null(pods[name].cast(pa.float64()), _NOTHING).to_numpy() for name in _DECLARED]
    parts = [*(coded(pods[name]).codes for name in _KEY), *amounts]
    began[1:] = np.any([part[1:] != part[:-1] for part in parts], axis=0)
    return began


def _array(pods: pa.Table, column: str) -> pa.Array:
    chunks = pods[column].chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], pods[column].type)


def _counted_by(requests: pa.Array) -> "pd.Series[str]":
    """The one resource of each row that counts GPUs; empty where there is none or several."""
    offsets = requests.offsets.to_numpy().astype(np.int64)
    names = requests.keys.slice(offsets[0], offsets[-1] - offsets[0]).dictionary_encode()
    counted = np.array([bool(COUNTED.fullmatch(n)) for n in names.dictionary.to_pylist()], np.bool_)
    row = np.repeat(np.arange(len(requests)), np.diff(offsets))
    entries = np.flatnonzero(counted[names.indices.to_numpy()]) if len(row) else np.empty(0, np.int64)
    once = entries[np.bincount(row[entries], minlength=len(requests))[row[entries]] == 1]
    places = np.full(len(requests), -1, np.int64)
    places[row[once]] = once
    found = names.dictionary_decode().take(pa.array(places, mask=places < 0))
    return pd.Series(pc.fill_null(found, "").to_pandas())


def _column_ms(table: pa.Table, column: str) -> "pd.Series[float]":
    values = table[column].cast(pa.int64()).to_pandas(integer_object_nulls=False).astype("float64")
    return values // 1000
