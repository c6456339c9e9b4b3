"""Team, model and cost centre of each row: ordered rules with a validity, then ordered sources, then `unowned` (R37).

A bucket has no owner unless the configuration names who stands for it; a field with neither rule nor source is null. Here
belongs the order in which they are asked. Here do not belong what the inventory says (``owner_values``), a rule's patterns
(``owner_rules``), the rows of the mapping (``owner_mapping``) or the models that one server serves (``model_split``).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.coded import Coded, always, coded, united
from allocation.model_split import ModelSplit
from allocation.owner_mapping import OwnerMapping
from allocation.owner_rules import Rule, matching, named
from allocation.owner_values import Said

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
FIELDS = ("team", "model", "cost_center")
UNOWNED = "unowned"
WORKLOAD = "workload"
Found = Mapping[str, tuple[Coded, Coded]]
"""Of fields: the names, and what decided them."""
MAPPING = "mapping"
"""The source that is the mapping from finance."""
FALLBACK = "fallback"
"""What decided where nothing named the field."""


@dataclass(frozen=True)
class Owners:
    """All there is to say about owners.

    Sources and match keys are ``label:KEY``, ``annotation:KEY``, ``namespace_label:KEY``, ``namespace``, ``pod``, ``node``,
    ``cluster``, ``workload`` and ``workload_kind``; a source may also be ``mapping``.
    """

    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    buckets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mapping: OwnerMapping | None = None
    model_split: ModelSplit | None = None

    @property
    def owners_id(self) -> str:
        """A hash of all that decides owners."""
        told = {
            "sources": self.sources,
            "rules": [asdict(rule) for rule in self.rules],
            "buckets": self.buckets,
            "mapping": self.mapping and self.mapping.digest,
            "model_split": self.model_split and asdict(self.model_split),
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=dict).encode()).hexdigest()[:16]


def assign(rows: pd.DataFrame, pods: pa.Table, owners: Owners) -> pd.DataFrame:
    """Owners of distinct holders in distinct periods.

    Args:
        rows: distinct ``bucket``, ``namespace``, ``pod``, ``pod_uid`` (empty where null), ``start_ms``, ``end_ms``; and
            ``node`` and ``cluster``, without which rules and sources that ask for them find nothing.
        pods: table ``pods``.
        owners: rules and sources.

    Returns:
        The rows with ``place`` (their row of ``pods``, -1 for none) and, for each of FIELDS, a column of that name (object,
        null for none) and one ``FIELD_by`` that tells what decided: ``rules[0]``, ``label:team``, ``mapping row 1``,
        ``fallback`` (nothing did: `unowned`), ``buckets.idle``, empty for a null.
    """
    said, start_ms = Said(rows, pods), rows["start_ms"].to_numpy(np.int64)
    buckets = {bucket: (rows["bucket"] == bucket).to_numpy(np.bool_) for bucket in (WORKLOAD, *owners.buckets)}
    found: dict[str, tuple[Coded, Coded]] = {}
    for name in sorted(FIELDS, key=lambda name: MAPPING in owners.sources.get(name, ())):
        found[name] = _decide(name, buckets, said, start_ms, owners, found)
    told = {"place": pd.Series(said.place)}
    for name in FIELDS:
        names, by = found[name]
        told |= {name: pd.Series(names.texts(), dtype=object), f"{name}_by": pd.Series(by.texts(""), dtype=object)}
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(told)], axis=1)


def _decide(
    name: str, buckets: Mapping[str, Bools], said: Said, start_ms: Int64, owners: Owners, found: Found
) -> tuple[Coded, Coded]:
    """One field of all holders, and what decided it; ``found`` are the fields that the mapping may have as keys."""
    told = _Told(buckets[WORKLOAD])
    rules = [(number, rule) for number, rule in enumerate(owners.rules) if name in rule.names]
    for number, rule in rules:
        told.take(named(rule, name, said, matching(rule, said, start_ms)), f"rules[{number}]")
    for source in owners.sources.get(name, ()):
        if source == MAPPING and owners.mapping is not None:
            told.take(*_mapped(name, owners.mapping, said, found, start_ms))
        else:
            told.take(said(source), source)
    if rules or owners.sources.get(name):
        told.take(always(UNOWNED, len(start_ms)), FALLBACK)
    for bucket, stand_in in owners.buckets.items():
        told.put(buckets[bucket], stand_in.get(name), f"buckets.{bucket}")
    return told.names(), told.by()


class _Told:
    """Names as they are found one after the other, the first for each holder of a workload."""

    def __init__(self, workload: Bools) -> None:
        self._open = workload.copy()
        self._taken = np.full(len(workload), -1, np.int64)
        self._names, self._by = list[Coded](), list[Coded]()

    def take(self, names: Coded, by: Coded | str) -> None:
        """Names for those who have none yet, and what decided them."""
        self._put(self._open & (names.codes >= 0), names, by)

    def put(self, rows: Bools, name: str | None, by: str) -> None:
        """One name for all of some rows, whatever they had."""
        self._put(rows, always(name, len(rows)), by if name else "")

    def _put(self, rows: Bools, names: Coded, by: Coded | str) -> None:
        self._open &= ~rows
        self._taken[rows] = len(self._names)
        self._names.append(names)
        self._by.append(always(by, len(rows)) if isinstance(by, str) else by)

    def names(self) -> Coded:
        """The name of each holder."""
        return united(self._names, self._taken)

    def by(self) -> Coded:
        """What decided it; none where nobody is named."""
        return united(self._by, self._taken)


def _mapped(name: str, mapping: OwnerMapping, said: Said, found: Found, start_ms: Int64) -> tuple[Coded, Coded]:
    """What the mapping says of a field, and by which of its rows."""
    place = mapping.find(name, {key: found[key][0] if key in found else said(key) for key in mapping.keys}, start_ms)
    rows = pd.Series(mapping.rows).astype(str)
    return coded(pa.array(mapping.names[name], pa.string())).at(place), coded("mapping row " + rows).at(place)
