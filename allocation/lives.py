"""Pods as the sharing modes read them: when each was alive, what it asked for, and whether it only keeps a GPU for others.

Here belongs what follows from the inventory alone. What series say of pods stands in ``standins``, ``declared`` and ``inferred``.
"""

import numpy as np
import pandas as pd

from allocation.intervals import NEVER
from allocation.ranks import distinct, ranks

POD_KEY = ["namespace", "pod", "pod_uid"]
DECLARED = ["declared_memory_bytes", "declared_fraction"]
RESERVATION_NAMESPACES = ("kai-resource-reservation", "runai-reservation")
_RESERVATION_NAME = r"(?:gpu-reservation|runai-reservation-gpu)-"
_DEFAULTS: dict[str, object] = {
    "node": "",
    "seen_until_ms": np.nan,
    "requested_gpus": np.nan,
    "declared_memory_bytes": np.nan,
    "declared_fraction": np.nan,
    "declared_from_ms": 0,
    "gpu_group": "",
    "gpu_resource": "",
    "has_claim": False,
    "reserves_index": "",
}
"""What an inventory that does not tell a column says in it."""


def pod_lives(pods: pd.DataFrame, max_hold_ms: int) -> pd.DataFrame:
    """One row a pod, with ``alive_from`` and ``alive_until`` in ms, half-open, and ``is_reservation``; what it declared last.

    A pod lives from its known start, else from its first sight; until its known end, else ``max_hold`` after its last sight.
    """
    lives = _whole(pods)
    number, first = distinct(*(ranks(lives[name]) for name in POD_KEY))
    last = np.empty(len(first), np.int64)
    last[number] = np.arange(len(lives))
    lives = lives.iloc[np.sort(last)].reset_index(drop=True)
    text = ["node", "gpu_group", "gpu_resource", "reserves_index"]
    numbers = ["requested_gpus", *DECLARED]
    lives = lives.assign(
        **{c: lives[c].astype("object").fillna("").astype(str) for c in text},
        **{c: lives[c].astype("float64") for c in numbers},
        has_claim=lives.has_claim.astype("bool"),
    )
    return lives.assign(
        alive_from=lives.started_ms.fillna(lives.seen_ms).astype("int64"),
        alive_until=lives.ended_ms.fillna(lives.seen_until_ms + max_hold_ms).fillna(NEVER).astype("int64"),
        is_reservation=names_reservation(lives.namespace, lives.pod) | (lives.reserves_index != ""),
    )


def declarations(pods: pd.DataFrame) -> pd.DataFrame:
    """What pods declared of a device, by time: the pod's key, ``declared_from_ms`` and the two amounts, in order of time."""
    return _whole(pods)[[*POD_KEY, *DECLARED, "declared_from_ms"]].astype(dict.fromkeys(DECLARED, "float64"))


def _whole(pods: pd.DataFrame) -> pd.DataFrame:
    return pods.assign(**{name: value for name, value in _DEFAULTS.items() if name not in pods.columns})


def names_reservation(namespace: "pd.Series[str]", pod: "pd.Series[str]") -> "pd.Series[bool]":
    """Pods that hold a whole GPU for the fractions that a scheduler (KAI, Run:ai) places on it."""
    theirs = namespace.isin(RESERVATION_NAMESPACES)
    return theirs & pod.where(theirs, "").astype("object").astype(str).str.match(_RESERVATION_NAME)


def among(table: pd.DataFrame, keys: pd.DataFrame) -> "pd.Series[bool]":
    """Which rows of a table name one of the pods in ``keys``."""
    wanted = pd.MultiIndex.from_frame(keys[POD_KEY])
    return pd.Series(pd.MultiIndex.from_frame(table[POD_KEY]).isin(wanted), index=table.index)
