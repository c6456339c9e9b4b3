"""Versions of a pod's labels and annotations over time (R37: the last seen in the period).

Here does not belong what a label means; `allocation.owners` and `pod_requests` say that.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.inventory.pod_sights import PodSights
from pipelines.inventory.timeline import changes

_SORTS = {"kube_pod_labels": "label_", "kube_pod_annotations": "annotation_"}


def label_versions(sights: PodSights) -> tuple[pd.DataFrame, pa.Array, pa.Array]:
    """Each version of each pod: ``pod``, ``from_ms`` (0 for the first), its labels and its annotations, in order of both.

    A pod without either has one version with empty maps. The first that is known of one sort counts for the time before it.
    """
    pods = len(sights.pods)
    every = pd.DataFrame({"pod": np.arange(pods), "from_ms": np.full(pods, -1)})
    changed, maps = [every], []
    for metric, prefix in _SORTS.items():
        contents, number = sights.series[metric].content(prefix)
        said = sights.of(metric)
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
    return versions.assign(from_ms=np.where(first, 0, versions.from_ms))[["pod", "from_ms"]], taken[0], taken[1]


def _joined(changed: pd.DataFrame) -> pd.DataFrame:
    """Changes of both sorts as one sequence a pod: each row has the state of both, neighbours differ."""
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
