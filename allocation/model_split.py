"""One server's row over the models that it served: by what its counters grew in the row's period, exactly.

Here belongs how much each model weighs and the division of rows. Here do not belong the growth of a counter (``counters``) or
the names of servers and metrics (``pipelines.metric_sources.model_servers``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation import wide
from allocation.compiled import kernel, read_only
from allocation.counters import holes, increases
from allocation.findings import Code, Finding, Severity
from allocation.shares import divide_groups
from allocation.times import from_ms, milliseconds

Int64 = npt.NDArray[np.int64]
_UNITS = {
    "prompt": "prompt tokens", "generation": "generation tokens", "requests": "requests",
    "compute_time": "microseconds of compute time",
}  # fmt: skip
_TOKENS = ("prompt", "generation")
Texts = npt.NDArray[np.object_]


@dataclass(frozen=True)
class ModelSplit:
    """For each server, in order of precedence, what its models are weighed by: the weight of a unit of each kind, in 10^-6."""

    servers: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Served:
    """What model servers told: the table ``counters``, how it is used, and the time (ms) over which a counter may be silent."""

    counters: pa.Table
    split: ModelSplit
    max_gap_ms: int


def _nothing() -> Int64:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Shares:
    """The weight of each model of each holder that is split, in order of holder and of the model's name.

    ``high`` and ``low`` are wide numbers above 0. ``model`` is empty where the counter names none. ``tokens``: what its counters
    of tokens grew, -1 where none are read. ``unnamed``: holders that are not split, as no model of theirs is named, and their
    tokens.
    """

    holder: Int64
    model: Texts
    server: Texts
    high: Int64
    low: Int64
    findings: tuple[Finding, ...] = ()
    tokens: Int64 = field(default_factory=_nothing)
    unnamed: Int64 = field(default_factory=_nothing)
    unnamed_tokens: Int64 = field(default_factory=_nothing)


NOTHING = _nothing()
NOBODY = Shares(NOTHING, np.empty(0, object), np.empty(0, object), NOTHING, NOTHING)
"""No holder is split."""


def model_shares(holders: pd.DataFrame, pods: pa.Table, served: Served) -> Shares:
    """How the rows of each holder are split over models.

    A period of a pod takes the first server that has a sample in it. A model that weighs nothing has no share. A holder is
    not split, and goes by its label, where nothing grew or no model is named; with a finding where a counter is missing: one of
    the kinds that the server is weighed by of a model that grew, or all of them in that period.

    Args:
        holders: ``bucket``, ``namespace``, ``pod``, ``pod_uid``, ``start_ms``, ``end_ms``, one row a holder and period.
        pods: table ``pods``; where a name stood for several pods, it says when for which.
        served: what was counted.
    """
    mine = np.flatnonzero((holders.bucket == "workload").to_numpy())
    periods = own_time(holders.iloc[mine].reset_index(drop=True), pods)
    weights = _weights(served.split)
    told = increases(served.counters, periods, served.max_gap_ms).merge(weights, on=["server", "kind"])
    if not len(told):
        return NOBODY
    silent = told.groupby("period").samples.sum()
    told = told[told.samples > 0]
    told = told[told["rank"] == told.groupby("period")["rank"].transform("min")]
    models = told.groupby(["period", "server", "model"], as_index=False).agg(kinds=("kind", "nunique"), most=("grown", "max"))
    models = models.merge(weights.groupby("server").size().rename("needed"), on="server")
    lacking = models[(models.most > 0) & (models.kinds < models.needed)]
    findings = _missing(periods, silent[silent == 0].index.to_numpy(), lacking, told, served.split)
    findings += _lost(periods, served, weights)
    named = models.period[(models.most > 0) & (models.model != "")]
    whole = models[(models.most > 0) & ~models.period.isin(lacking.period)]
    kept = whole[whole.period.isin(named)].sort_values(["period", "model"], ignore_index=True)
    alone = whole[~whole.period.isin(named)].sort_values("period", ignore_index=True)
    parts = _of_models(told, kept)
    high, low = _weigh(*(read_only(parts[name].to_numpy(np.int64)) for name in ("share", "grown", "ppm")), len(kept))
    holder, model, server = mine[kept.period.to_numpy()], kept.model.to_numpy(object), kept.server.to_numpy(object)
    tokens, unnamed_tokens = _tokens(parts, len(kept)), _tokens(_of_models(told, alone), len(alone))
    return Shares(holder, model, server, high, low, findings, tokens, mine[alone.period.to_numpy()], unnamed_tokens)


def _of_models(told: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """What was counted of these models, with each one's place as ``share``."""
    return told.merge(models[["period", "model"]].assign(share=np.arange(len(models))), on=["period", "model"])


def _tokens(parts: pd.DataFrame, count: int) -> Int64:
    """The tokens of each share, -1 where none are counted."""
    mine = parts[parts.kind.isin(_TOKENS)]
    share = mine.share.to_numpy(np.int64)
    found = np.zeros(count, np.int64)
    np.add.at(found, share, mine.grown.to_numpy(np.int64))
    return np.where(np.bincount(share, minlength=count) > 0, found, -1)


def _weights(split: ModelSplit) -> pd.DataFrame:
    """What each server is weighed by: ``rank`` of the server, ``server``, ``kind``, ``ppm``."""
    ranked = enumerate(split.servers.items())
    rows = [(rank, server, kind, ppm) for rank, (server, kinds) in ranked for kind, ppm in kinds.items() if ppm]
    return pd.DataFrame(rows, columns=["rank", "server", "kind", "ppm"])


@kernel
def _weigh(share: Int64, grown: Int64, ppm: Int64, count: int) -> tuple[Int64, Int64]:
    """The sums of grown times weight of each share, as wide numbers."""
    high, low = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for i in range(len(share)):
        h, w = wide.multiply(grown[i], ppm[i])
        high[share[i]], low[share[i]] = wide.add(high[share[i]], low[share[i]], h, w)
    return high, low


def own_time(holders: pd.DataFrame, pods: pa.Table) -> pd.DataFrame:
    """The holders' periods; where one name stood for several uids, each from its own first sight to that of the next."""
    known = pods.select(["namespace", "pod", "pod_uid"]).to_pandas()
    started = pods["started_at"].cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy() // 1000
    known["from_ms"] = np.minimum(milliseconds(pods["seen_from"]), started)
    known = known[known.pod_uid != ""].groupby(["namespace", "pod", "pod_uid"], as_index=False).from_ms.min()
    known = known.sort_values(["namespace", "pod", "from_ms", "pod_uid"], ignore_index=True)
    of_name = known.groupby(["namespace", "pod"]).from_ms
    known = known.assign(until_ms=of_name.shift(-1), from_ms=known.from_ms.where(of_name.cumcount() > 0))
    lives = holders.merge(known, on=["namespace", "pod", "pod_uid"], how="left")
    start, end = lives.start_ms.to_numpy(np.float64), lives.end_ms.to_numpy(np.float64)
    start, end = np.fmax(start, lives.from_ms.to_numpy(np.float64)), np.fmin(end, lives.until_ms.to_numpy(np.float64))
    return holders.assign(start_ms=start.astype(np.int64), end_ms=np.maximum(start, end).astype(np.int64))


def _missing(
    periods: pd.DataFrame, silent: Int64, lacking: pd.DataFrame, told: pd.DataFrame, split: ModelSplit
) -> tuple[Finding, ...]:
    """One finding for each pod, server and way in which its counters are not whole."""
    gone = periods.iloc[silent].assign(period=silent, why="no sample of a counter that has samples at other times")
    rows = lacking.merge(periods.assign(period=np.arange(len(periods))), on="period")
    there = told.groupby(["period", "model"]).kind.agg(lambda kinds: " and ".join(sorted(set(kinds))))
    rows = rows.merge(there.rename("there").reset_index(), on=["period", "model"])
    needed = pd.Series({s: " and ".join(k for k in kinds if kinds[k]) for s, kinds in split.servers.items()}, dtype=object)
    rows = rows.assign(why=rows.server + " counts " + rows.there + " of a model and needs " + rows.server.map(needed))
    both = pd.concat([gone, rows]) if len(rows) else gone
    findings = []
    for (namespace, pod, why), of_pod in both.groupby(["namespace", "pod", "why"]):
        count = int(of_pod.period.nunique())
        evidence = f"{why}, in {count} charge periods; there the rows go by the model's label"
        period = (from_ms(of_pod.start_ms.min()), from_ms(of_pod.end_ms.max()))
        findings.append(Finding(Code.MODEL_COUNTERS_MISSING, Severity.WARNING, f"{namespace}/{pod}", evidence, period, count))
    return tuple(findings)


def _lost(periods: pd.DataFrame, served: Served, weights: pd.DataFrame) -> tuple[Finding, ...]:
    """One finding for each pod and server whose counters grew in a hole that ends in one of its periods."""
    found = holes(served.counters, served.max_gap_ms).merge(weights[["server", "kind"]], on=["server", "kind"])
    found = found.assign(hole=np.arange(len(found)))
    pairs = found.rename(columns={"pod_uid": "of_uid"}).merge(periods, on=["namespace", "pod"])
    same = (pairs.of_uid == "") | (pairs.pod_uid == "") | (pairs.of_uid == pairs.pod_uid)
    pairs = pairs[same & (pairs.start_ms <= pairs.until_ms) & (pairs.until_ms < pairs.end_ms)]
    found = found[found.hole.isin(pairs.hole)]
    findings = []
    for (namespace, pod, server), of_pod in found.groupby(["namespace", "pod", "server"]):
        sums = of_pod.groupby("kind").lost.sum()
        grown = " and ".join(f"{amount} {_UNITS[kind]}" for kind, amount in sums.items())
        spans = of_pod[["from_ms", "until_ms"]].drop_duplicates()
        first, last = spans.loc[(spans.until_ms - spans.from_ms).idxmax()]
        evidence = (
            f"{server}: {grown} grew while a counter was silent for longer than max_gap ({len(spans)} times, longest from "
            f"{from_ms(first).isoformat()} to {from_ms(last).isoformat()}); nobody knows in which period, so they weigh nothing"
        )
        period = (from_ms(of_pod.from_ms.min()), from_ms(of_pod.until_ms.max()))
        subject = f"{namespace}/{pod}"
        findings.append(Finding(Code.MODEL_COUNTERS_MISSING, Severity.WARNING, subject, evidence, period, len(spans)))
    return tuple(findings)


@dataclass(frozen=True)
class Divided:
    """Rows after the split: the row each comes from, its share (-1: not split), its columns, and its part of what it measures."""

    row: Int64
    share: Int64
    columns: Int64
    part: npt.NDArray[np.float64]


def divide(holder: Int64, columns: Int64, shares: Shares) -> Divided:
    """Each row over the models of its holder: each column by largest remainder, in order of the models' names.

    Args:
        holder: number of each row's holder.
        columns: used, overhead and idle nanos, and what else is to be divided, a column each.
        shares: the weights.
    """
    if not len(shares.holder):
        return Divided(np.arange(len(holder)), np.full(len(holder), -1), columns, np.ones(len(holder)))
    count = np.bincount(shares.holder, minlength=int(holder.max(initial=-1)) + 1)
    first = np.cumsum(count) - count
    models = np.maximum(count[holder], 1)
    offsets = np.concatenate(([0], np.cumsum(models)))
    row = np.repeat(np.arange(len(holder)), models)
    share = first[holder][row] + np.arange(len(row)) - offsets[row]
    share = np.where(count[holder][row] > 0, share, -1)
    high, low = np.append(shares.high, [0])[share], np.append(shares.low, [1])[share]
    parts = [divide_groups(*map(read_only, (columns[:, c], offsets, high, low))) for c in range(columns.shape[1])]
    weight = wide.to_float(high, low)
    part = weight / np.add.reduceat(weight, offsets[:-1])[row] if len(row) else weight
    return Divided(row, share, np.stack(parts, axis=1), part)
