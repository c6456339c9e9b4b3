"""Team, model and cost centre of each row: ordered rules with a validity, then ordered sources, then `unowned` (R37).

A bucket has no owner unless the configuration names who stands for it; a field with neither rule nor source is null.
"""

import fnmatch
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

FIELDS = ("team", "model", "cost_center")
UNOWNED = "unowned"


@dataclass(frozen=True)
class Rule:
    """Names fields for pods that match all patterns while the rule is valid, judged at the charge period's start (ms)."""

    match: Mapping[str, str]
    names: Mapping[str, str]
    from_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True)
class Owners:
    """All there is to say about owners.

    Sources and match keys are ``label:KEY``, ``annotation:KEY``, ``namespace``, ``pod`` and ``workload``.
    """

    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    buckets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def owners_id(self) -> str:
        """A hash of the rules."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True, default=dict).encode()).hexdigest()[:16]


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

    A holder without a uid, or one whose uid the inventory does not have, is the pod of that name that was seen last.
    """
    known = pods.select(["namespace", "pod", "pod_uid", "seen_until"]).to_pandas().assign(place=np.arange(len(pods)))
    exact = holders.merge(known[["namespace", "pod", "pod_uid", "place"]], on=["namespace", "pod", "pod_uid"], how="left").place
    last = known.sort_values("seen_until").drop_duplicates(["namespace", "pod"], keep="last")[
        ["namespace", "pod", "pod_uid", "place"]
    ]
    named = holders.merge(last.rename(columns={"pod_uid": "last_uid"}), on=["namespace", "pod"], how="left")
    fits = (holders.pod_uid.to_numpy() == "") | (named.last_uid.to_numpy() == "")
    loose = named.place.where(fits)
    return holders.assign(place=exact.fillna(loose.set_axis(exact.index)).fillna(-1).astype("int64").to_numpy())


def _values(source: str, holders: pd.DataFrame, pods: pa.Table) -> "pd.Series[str]":
    """What one source says of each holder; null where it says nothing."""
    if source in ("namespace", "pod"):
        return holders[source].astype("object")
    place = pa.array(holders.place.to_numpy(), mask=(holders.place < 0).to_numpy())
    if source == "workload":
        return _objects(pods["workload_name"].take(place))
    kind, _, key = source.partition(":")
    found: pd.Series[str] = pd.Series(np.full(len(holders), None, dtype=object))
    for spelling in label_spellings(key):
        column = pods["labels" if kind == "label" else "annotations"]
        said = pc.map_lookup(column.combine_chunks(), pa.scalar(spelling), "first") if len(pods) else pa.array([], pa.string())
        found = found.where(found.notna(), _objects(said.take(place)))
    return found.mask(found == "")


def _objects(column: pa.Array | pa.ChunkedArray) -> "pd.Series[str]":
    return pd.Series(np.array(column.to_pylist(), dtype=object), dtype="object")


def assign(rows: pd.DataFrame, pods: pa.Table, owners: Owners) -> pd.DataFrame:
    """Owners of distinct holders at distinct period starts.

    Args:
        rows: distinct ``bucket``, ``namespace``, ``pod``, ``pod_uid`` (empty where null), ``start_ms``.
        pods: table ``pods``.
        owners: rules and sources.

    Returns:
        The rows with ``place`` and a column for each of FIELDS (object, null for none).
    """
    rows = describe(rows.reset_index(drop=True), pods)
    workload = (rows.bucket == "workload").to_numpy()
    for name in FIELDS:
        named: pd.Series[str] = pd.Series(np.full(len(rows), None, dtype=object))
        rules = [r for r in owners.rules if name in r.names]
        for rule in rules:
            hit = workload & _matches(rule, rows, pods) & named.isna().to_numpy()
            named[hit] = rule.names[name]
        for source in owners.sources.get(name, ()):
            named = named.where(named.notna() | ~workload, _values(source, rows, pods))
        if rules or owners.sources.get(name):
            named = named.mask(workload & named.isna().to_numpy(), UNOWNED)
        for bucket, stand_in in owners.buckets.items():
            named = named.mask((rows.bucket == bucket).to_numpy(), stand_in.get(name))
        rows[name] = named.where(named.notna(), None)
    return rows


def _matches(rule: Rule, rows: pd.DataFrame, pods: pa.Table) -> np.ndarray:
    hit = np.ones(len(rows), np.bool_)
    if rule.from_ms is not None:
        hit &= (rows.start_ms >= rule.from_ms).to_numpy()
    if rule.until_ms is not None:
        hit &= (rows.start_ms < rule.until_ms).to_numpy()
    for source, pattern in rule.match.items():
        said = _values(source, rows, pods)
        hit &= said.fillna("").astype("str").str.match(fnmatch.translate(pattern)).to_numpy(np.bool_) & said.notna().to_numpy()
    return hit
