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

from allocation.model_split import ModelSplit
from allocation.owner_mapping import OwnerMapping
from allocation.owner_rules import Rule, matching, named
from allocation.owner_values import Said, describe

Texts = npt.NDArray[np.object_]
FIELDS = ("team", "model", "cost_center")
UNOWNED = "unowned"
Found = Mapping[str, tuple[Texts, Texts]]
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
    rows = describe(rows.reset_index(drop=True), pods)
    workload = (rows.bucket == "workload").to_numpy()
    said = Said(rows, pods)
    found: dict[str, tuple[Texts, Texts]] = {}
    for name in sorted(FIELDS, key=lambda name: MAPPING in owners.sources.get(name, ())):
        found[name] = _decide(name, rows, workload, said, owners, found)
    for name in FIELDS:
        for column, texts in zip((name, f"{name}_by"), found[name], strict=True):
            rows[column] = pd.Series(texts, rows.index, dtype=object)
    return rows


def _decide(
    name: str,
    rows: pd.DataFrame,
    workload: npt.NDArray[np.bool_],
    said: Said,
    owners: Owners,
    found: Found,
) -> tuple[Texts, Texts]:
    """One field of all holders, and what decided it; ``found`` are the fields that the mapping may have as keys."""
    names, by = np.full(len(rows), None, object), np.full(len(rows), "", object)
    start_ms = rows.start_ms.to_numpy(np.int64)

    def take(told: Texts, decided: Texts | str) -> None:
        new = workload & np.asarray(pd.isna(names) & ~pd.isna(told), np.bool_)
        names[new] = told[new]
        by[new] = decided if isinstance(decided, str) else decided[new]

    rules = [(number, rule) for number, rule in enumerate(owners.rules) if name in rule.names]
    for number, rule in rules:
        told = named(rule, name, said)
        told[~matching(rule, said, start_ms)] = None
        take(told, f"rules[{number}]")
    for source in owners.sources.get(name, ()):
        if source == MAPPING and owners.mapping is not None:
            take(*_mapped(name, owners.mapping, said, found, start_ms))
        else:
            take(said(source), source)
    if rules or owners.sources.get(name):
        take(np.full(len(rows), UNOWNED, object), FALLBACK)
    for bucket, stand_in in owners.buckets.items():
        mine = (rows.bucket == bucket).to_numpy()
        names[mine], by[mine] = stand_in.get(name), f"buckets.{bucket}" if stand_in.get(name) else ""
    return names, by


def _mapped(name: str, mapping: OwnerMapping, said: Said, found: Found, start_ms: npt.NDArray[np.int64]) -> tuple[Texts, Texts]:
    """What the mapping says of a field, and by which of its rows."""
    place = mapping.find(name, {key: found[key][0] if key in found else said(key) for key in mapping.keys}, start_ms)
    told = np.append(mapping.names[name], [None])[place]
    return told, np.char.add("mapping row ", np.append(mapping.rows, [0])[place].astype(str)).astype(object)
