"""A holder's row over the models that it serves: the counters' growth, each model's weight, and the division to the nano.

Here belongs the part of the document that stands in ``model_split``. The growth and the division are those of the method.
"""

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from allocation import wide
from allocation.counter_trace import stretches
from allocation.counters import increases
from allocation.model_split import Divided, Served, Shares, divide
from allocation.money import decimal_to_nanos
from allocation.quantities import GIB_MS
from pipelines.explain_slices import KINDS, Checks, nanos_text, time_text

Metrics = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(frozen=True)
class HolderSplit:
    """One holder's division over models in one period.

    ``shares``: the models with their weights, of holder 0. ``period``: the time in which its counters count (ms). ``ppm``: what a
    unit of each kind counts for, 10^-6. ``metrics``: the names under which each kind is read. ``grown``: ``model``, ``kind``,
    ``grown``. ``stretches``: see ``counter_trace``.
    """

    server: str
    period: tuple[int, int]
    shares: Shares
    ppm: Mapping[str, int]
    metrics: Mapping[str, Sequence[str]]
    grown: pd.DataFrame
    stretches: pd.DataFrame

    @property
    def weights(self) -> list[int]:
        """The models' weights, whole numbers of 10^-6."""
        high, low = self.shares.high.tolist(), self.shares.low.tolist()
        return [h * (1 << wide.BITS) + w for h, w in zip(high, low, strict=True)]

    def divided(self, nanos: Sequence[int]) -> Divided:
        """Used, overhead and idle nanos of the whole over the models."""
        return divide(np.zeros(1, np.int64), np.array([nanos], np.int64), self.shares)


def splits_of(shares: Shares, periods: pd.DataFrame, served: Served, metrics: Metrics) -> dict[int, HolderSplit]:
    """The division of each holder that has shares; ``periods`` are indexed by the holder's number."""
    holders = periods.index.tolist()
    grown = increases(served.counters, periods.reset_index(drop=True), served.max_gap_ms)
    told = stretches(served.counters, periods.reset_index(drop=True), served.max_gap_ms)
    found = {}
    for n, holder in enumerate(holders):
        mine = np.flatnonzero(shares.holder == holder)
        server = str(shares.server[mine[0]])
        ppm = {kind: weight for kind, weight in served.split.servers[server].items() if weight}
        own = Shares(np.zeros(len(mine), np.int64), shares.model[mine], shares.server[mine], shares.high[mine], shares.low[mine])
        of_server = [
            t[(t.period == n) & (t.server == server) & t.kind.isin(list(ppm))].reset_index(drop=True) for t in (grown, told)
        ]
        period = (int(periods.start_ms.iloc[n]), int(periods.end_ms.iloc[n]))
        found[holder] = HolderSplit(server, period, own, ppm, metrics[server], *of_server)
    return found


def is_stored(
    split: HolderSplit, names: Sequence[str | None], own: "pd.Series[Any]", stored: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether the division gives the stored rows of a holder: their models, money and byte-time, in their order."""
    if [row["model"] for row in stored] != list(names):
        return False
    got = split.divided([int(own[f"{kind}_nanos"]) for kind in KINDS])
    was = [[decimal_to_nanos(row[f"{kind}_cost"]) for kind in KINDS] for row in stored]
    if got.columns.tolist() != was:
        return False
    return all(
        math.isclose(row[f"{kind}_gib_seconds"], own[f"{kind}_byte_ms"] / GIB_MS * part, rel_tol=1e-9, abs_tol=1e-9)
        for row, part in zip(stored, got.part.tolist(), strict=True)
        for kind in KINDS
    )


def split_document(
    split: HolderSplit, names: Sequence[str | None], own: "pd.Series[Any]", this: int | None, checks: Checks
) -> dict[str, Any]:
    """Counters, weights and parts; ``names`` are the rows' models, ``this`` the place of the row among them, None for none."""
    counters = _counters(split)
    weights, whole = split.weights, [int(own[f"{kind}_nanos"]) for kind in KINDS]
    parts = split.divided(whole).columns.tolist()
    unit = "us" if "compute_time" in split.ppm else "requests" if "requests" in split.ppm else "tokens"
    by_stretch = sum(int(s["grown"]) for c in counters for s in c["stretches"])
    checks.count(f"growth of {split.server}'s counters, stretch by stretch", by_stretch, int(split.grown.grown.sum()), unit)
    weighed = sum(int(c["grown"]) * c["weight_ppm"] for c in counters)
    checks.count("growth x weight of all counters = the models' weights", weighed, sum(weights), f"{unit} x 10^-6")
    for at, kind in enumerate(KINDS):
        checks.money(f"{kind} of the models = {kind} of the whole row", sum(p[at] for p in parts), whole[at])
    models = [
        {
            "model": name,
            "counted_as": counted,
            "weight": str(weight),
            "share": weight / sum(weights),
            **{f"{kind}_cost": nanos_text(part[at]) for at, kind in enumerate(KINDS)},
            "cost": nanos_text(sum(part)),
            "this": n == this,
        }
        for n, (name, counted, weight, part) in enumerate(zip(names, split.shares.model.tolist(), weights, parts, strict=True))
    ]
    start, end = (time_text(ms) for ms in split.period)
    return {
        "server": split.server, "start": start, "end": end, "as_stored": this is not None, "unit": unit, "counters": counters,
        "weights_total": str(sum(weights)), "models": models,
    }  # fmt: skip


def _counters(split: HolderSplit) -> list[dict[str, Any]]:
    """Each model's counters, with how much each grew and between which samples."""
    told = []
    for counter in split.grown.sort_values(["model", "kind"]).to_dict("records"):
        model, kind = counter["model"], counter["kind"]
        own = split.stretches[(split.stretches.model == model) & (split.stretches.kind == kind)]
        rose = [_stretch(record) for record in own.to_dict("records")]
        told.append(
            {
                "model": model,
                "kind": kind,
                "metrics": list(split.metrics[kind]),
                "weight_ppm": split.ppm[kind],
                "grown": str(counter["grown"]),
                "resets": sum(s["began"] == "reset" for s in rose),
                "stretches": rose,
            }
        )
    return told


def _stretch(record: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "labels": _labels(record["instance"]),
        "pod_uid": record["pod_uid"] or None,
        "copies": record["copies"],
        "began": record["began"],
        "from_at": time_text(record["from_ms"]),
        "from_value": str(record["from_value"]),
        "until_at": time_text(record["until_ms"]),
        "until_value": str(record["until_value"]),
        "samples": record["samples"],
        "grown": str(record["grown"]),
    }


def _labels(instance: str) -> dict[str, str]:
    """The labels by which a series is told from others of its pod and model, as ``counters`` keeps them."""
    return dict(ast.literal_eval(instance)) if instance else {}
