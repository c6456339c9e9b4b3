"""Who owns a row: what decided each name, and what the settings of today give where that is something else.

Here belongs the comparison of a stored row with today's owners. Asking for today's is ``explain_today``'s, the division over
models ``explain_models``'.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from allocation.owners import FIELDS
from pipelines.explain_models import HolderSplit, is_stored, split_document
from pipelines.explain_slices import KINDS, Checks, nanos_text

NOT_KEPT = "counters that the store does not keep"
"""What decides a model where only a run could tell."""
Named = tuple[str | None, str | None]
"""A name, and what decided it."""


@dataclass(frozen=True)
class Today:
    """What the settings and the kept inputs give now for the holder of a row.

    ``names``: of each field its name and what decided it, before any division over models. ``split``: that division, None where
    there is none. ``counted``: False where the settings divide by counters that the store does not keep.
    """

    names: Mapping[str, Named]
    split: HolderSplit | None
    counted: bool

    def models(self) -> list[Named]:
        """The models over which the holder's row is divided, in order."""
        if self.split is None:
            return [self.names["model"]]
        by = f"counters of {self.split.server}"
        return [(counted, by) if counted else self.names["model"] for counted in self.split.shares.model.tolist()]


@dataclass(frozen=True)
class Owned:
    """The document's ``owner`` and ``model_split``, and what of the division does not come out again (empty: nothing)."""

    owner: Mapping[str, Any]
    model_split: Mapping[str, Any] | None
    wrong: str


def owned(
    row: Mapping[str, Any], today: Today, own: "pd.Series[Any]", stored: Sequence[Mapping[str, Any]], checks: Checks
) -> Owned:
    """What a row's names and its part of its holder come from.

    Args:
        row: the stored row.
        today: what the settings give now.
        own: the holder's row of usage with its nanos: the whole before it is divided over models.
        stored: the stored rows of the holder on this device, in order.
        checks: to which the sums are added.
    """
    models = today.models()
    names = [name for name, _ in models]
    nanos = [int(own.nanos)] if today.split is None else _sums(today.split, own)
    whole = len(stored) == 1 and today.counted
    same = whole if today.split is None else is_stored(today.split, names, own, stored)
    place = next(n for n, one in enumerate(stored) if one["place"] == row["place"]) if same else None
    split = None if today.split is None else split_document(today.split, names, own, place, checks)
    owner = {name: _field(row[name], today.names[name], int(own.nanos)) for name in FIELDS if name != "model"}
    owner["model"] = _model(row, models, nanos, place, counted=today.counted)
    wrong = ""
    if today.counted and not same:
        was = _listed((one["model"], f"{one['cost']:f}") for one in stored)
        wrong = f"its models had {was} and have {_listed(zip(names, map(nanos_text, nanos), strict=True))} now"
    return Owned({name: owner[name] for name in FIELDS}, split, wrong)


def _sums(split: HolderSplit, own: "pd.Series[Any]") -> list[int]:
    """The cost of each model, nanos."""
    parts: list[int] = split.divided([int(own[f"{kind}_nanos"]) for kind in KINDS]).columns.sum(axis=1).tolist()
    return parts


def _listed(models: Iterable[tuple[str | None, str]]) -> str:
    return ", ".join(f"{name or '-'} {cost}" for name, cost in models)


def _field(name: str | None, now: Named, nanos: int) -> dict[str, Any]:
    if name == now[0]:
        return {"name": name, "by": now[1], "today": None}
    return {"name": name, "by": None, "today": [_today(now, nanos)]}


def _model(
    row: Mapping[str, Any], models: Sequence[Named], nanos: Sequence[int], place: int | None, *, counted: bool
) -> dict[str, Any]:
    """The model; of a row that is not what today's settings give, all rows that they give in its holder's place."""
    if not counted and row["bucket"] == "workload":
        return {"name": row["model"], "by": None, "today": [{"name": None, "by": NOT_KEPT, "cost": None}]}
    if place is not None and row["model"] == models[place][0]:
        return {"name": row["model"], "by": models[place][1], "today": None}
    today = [_today(named, cost) for named, cost in zip(models, nanos, strict=True)]
    return {"name": row["model"], "by": None, "today": today}


def _today(named: Named, nanos: int) -> dict[str, Any]:
    return {"name": named[0], "by": named[1], "cost": nanos_text(nanos)}
