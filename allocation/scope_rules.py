"""What a configuration overrules of a bill's scope: lines taken out (``exclude``) or in (``include``) (R14).

Here belongs what a rule matches and what it may change, before it is known whose a line is. Here does not belong how rules are
written (``pipelines.scope_settings``).
"""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT

Bools = npt.NDArray[np.bool_]
Rule = Mapping[str, str]
"""Patterns like a shell's by field; all must fit, whatever the case. A cell without a value fits none."""
FIELDS = {
    "service": "service",
    "usage_type": "usage_type",
    "line_type": "line_type",
    "charge_category": "charge_category",
    "resource": "resource_id",
    "sub_account": "sub_account",
    "region": "region",
    "rule": "scope_rule",
}
"""The fields of a rule, with the column of ``line_items`` that each looks at."""
EXCLUDED = "excluded"
COPIES = ("split_copy", "provider_split")
"""Rules of lines that repeat a part of others: never taken in, or money would count twice."""
NO_RESOURCE = "no_resource"


@dataclass(frozen=True)
class ScopeRules:
    """The rules of one billing entry; ``exclude`` goes first, so that ``include`` may take a part back."""

    exclude: Sequence[Rule] = ()
    include: Sequence[Rule] = ()


@dataclass(frozen=True)
class Overruled:
    """``lines`` with their ``scope_rule`` as overruled; ``idle``: source, list and rule of each that changed nothing, and why."""

    lines: pa.Table
    idle: tuple[tuple[str, str, Rule, str], ...]


def overruled_scope(lines: pa.Table, rules_by_source: Mapping[str, ScopeRules]) -> Overruled:
    """Takes lines out of scope and in.

    A line without a resource and a pool, and a copy of others' parts, keeps its rule where ``include`` names it.

    Args:
        lines: table ``line_items``.
        rules_by_source: the rules of each billing entry, by ``source_id``.
    """
    told = _Told(lines)
    was = told.text("scope_rule")
    now = was.copy()
    copy = np.isin(was.astype(str), COPIES)
    bare = was == NO_RESOURCE
    own = np.where(bare, np.full(len(was), NO_RESOURCE, object), np.full(len(was), None, object))
    idle: list[tuple[str, str, Rule, str]] = []
    for source, rules in rules_by_source.items():
        mine = told.fits("source_id", source)
        lists = (("exclude", rules.exclude, ~copy), ("include", rules.include, ~copy & ~bare & ~pd.isna(was)))
        for name, some, may in lists:
            for rule in some:
                matched = told.matched(rule) & mine
                hit = matched & (may | (now == EXCLUDED))
                now[hit] = EXCLUDED if name == "exclude" else own[hit]
                if mine.any() and not hit.any():
                    idle.append((source, name, rule, _why(matched)))
    place = lines.schema.get_field_index("scope_rule")
    column = pa.array(np.where(now == was, told.stored, now), TEXT, from_pandas=True)
    return Overruled(lines.set_column(place, lines.schema.field(place), column), tuple(idle))


def _why(matched: Bools) -> str:
    if not matched.any():
        return "no line of the day fits it"
    return "the lines that fit it are split already, name no resource, or repeat a part of other lines"


class _Told:
    """A table's columns by their distinct values, each encoded once."""

    def __init__(self, lines: pa.Table) -> None:
        self._lines = lines
        self._encoded: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.object_]]] = {}
        self.stored = lines["scope_rule"].to_pandas().astype("object").to_numpy()

    def _column(self, name: str) -> pa.ChunkedArray:
        column = self._lines[name]
        if name != "scope_rule":
            return column
        bare = pc.and_(pc.is_null(self._lines["node_key"]), pc.is_null(self._lines["pool"]))
        return pc.if_else(pc.and_(bare, pc.is_null(column)), NO_RESOURCE, column)

    def _distinct(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.object_]]:
        """The number of each row's value (the last: none) and the values."""
        if name not in self._encoded:
            column = self._column(name).combine_chunks()
            whole = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
            encoded = whole.dictionary_encode().combine_chunks()
            array = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
            values = np.array(array.dictionary.to_pylist(), object)
            self._encoded[name] = pc.fill_null(array.indices, len(values)).to_numpy().astype(np.int64), values
        return self._encoded[name]

    def text(self, name: str) -> npt.NDArray[np.object_]:
        """Each row's value, None where there is none."""
        codes, values = self._distinct(name)
        return np.append(values, [None])[codes]

    def fits(self, name: str, value: str) -> Bools:
        """Which rows have that very value."""
        codes, values = self._distinct(name)
        return np.append(values == value, [False]).astype(np.bool_)[codes]

    def matched(self, rule: Rule) -> Bools:
        """Which rows fit all patterns of a rule."""
        found = np.ones(len(self._lines), np.bool_)
        for field, pattern in rule.items():
            codes, values = self._distinct(FIELDS[field])
            lower = pd.Series(values, dtype=object).str.lower()
            fits = lower.str.match(fnmatch.translate(pattern.lower())).to_numpy(np.bool_) if len(values) else []
            found &= np.append(fits, [False]).astype(np.bool_)[codes]
        return found
