"""Versions of a pod's labels and annotations over time (R37: the last seen in the period).

Here does not belong what a label means; `allocation.owners` and `pod_requests` say that.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.inventory.pod_sights import PodSights
from pipelines.inventory.stretches import Stretches
from pipelines.inventory.timeline import changes

_OF_NAMESPACE = "kube_namespace_labels"
_SORTS = {"kube_pod_labels": "label_", "kube_pod_annotations": "annotation_", _OF_NAMESPACE: "label_"}


def label_versions(sights: PodSights, of_namespaces: Stretches) -> tuple[pd.DataFrame, list[pa.Array]]:
    """Each version of each pod: ``pod``, ``from_ms`` (0 for the first); its labels, annotations and namespace's labels, in order.

    A pod without any has one version with empty maps. The first that is known of one sort counts for the time before it.
    """
    pods = len(sights.pods)
    every = pd.DataFrame({"pod": np.arange(pods), "from_ms": np.full(pods, -1)})
    changed, maps = [every], []
    for metric, prefix in _SORTS.items():
        contents, number = (of_namespaces if metric == _OF_NAMESPACE else sights.series[metric]).content(prefix)
        said = _of_pods(sights, of_namespaces) if metric == _OF_NAMESPACE else sights.of(metric)
        pod, first, last, row = (said[c].to_numpy(np.int64) for c in ("pod", "first_ms", "last_ms", "row"))
        found = changes(pod, first, last, number[row])
        changed.append(
            pd.DataFrame(
                {
                    "pod": found.group,
                    "from_ms": found.at_ms,
                    metric: row[found.stretch],
                    f"{metric}_number": found.content.astype("Int64"),
                }
            )
        )
        maps.append(contents)
    versions = _joined(pd.concat(changed, ignore_index=True))
    first = ~versions.pod.duplicated().to_numpy()
    taken = [
        contents.take(pa.array(versions[metric].fillna(len(contents) - 1).to_numpy(np.int64)))
        for metric, contents in zip(_SORTS, maps, strict=True)
    ]
    return versions.assign(from_ms=np.where(first, 0, versions.from_ms))[["pod", "from_ms"]], taken


def _of_pods(sights: PodSights, of_namespaces: Stretches) -> pd.DataFrame:
    """What is said of namespaces, as said of each of their pods: ``pod``, ``first_ms``, ``last_ms``, ``row`` (stretch)."""
    said = of_namespaces.times().assign(namespace=of_namespaces.label("namespace"), row=np.arange(len(of_namespaces)))
    pods = pd.DataFrame({"pod": np.arange(len(sights.pods)), "namespace": sights.pods.namespace.astype("object")})
    return pods.merge(said.astype({"namespace": "object"}), on="namespace")[["pod", "first_ms", "last_ms", "row"]]


def _joined(changed: pd.DataFrame) -> pd.DataFrame:
    """Changes of all sorts as one sequence a pod: each row has the state of all, neighbours differ."""
    told = [c for metric in _SORTS for c in (metric, f"{metric}_number")]
    changed = changed.sort_values(["pod", "from_ms"], kind="stable", ignore_index=True)
    state = changed.groupby("pod")[told]
    changed[told] = state.ffill()
    changed[told] = changed.groupby("pod")[told].bfill()
    changed = changed.drop_duplicates(["pod", "from_ms"], keep="last")
    numbers = [changed.pod, *(changed[f"{metric}_number"] for metric in _SORTS)]
    same = np.ones(len(changed), np.bool_)
    for column in numbers:
        before = column.shift()
        same &= ((column == before).fillna(False).astype("bool") | (column.isna() & before.isna())).to_numpy()
    return changed[~same].reset_index(drop=True)
