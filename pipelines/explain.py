"""From a stored figure back to what it is made of: which rows are asked for, and the answer as one document.

Here belongs the question. ``explain_kept`` reads the store, ``explain_row`` puts one row's walk together, ``explain_text`` shows
it. A row that the kept inputs do not give again is refused, with what changed since.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError, SettingsError, nearest
from allocation.money import exact_sum
from allocation.schemas import BILL_CLUSTER
from pipelines import inputs
from pipelines.explain_kept import Kept, kept_day, open_kept, part_key, parts_of
from pipelines.explain_row import row_document
from pipelines.explain_slices import money_text
from pipelines.explain_today import owners_today
from pipelines.partition import Partition
from pipelines.walk import Walk

METRICS = ("billed", "effective", "contracted", "list")
SHOWN_NAMES = 8
_ORDER = ("charge_period_start", "line_item_id", "cost_metric", "node", "gpu_uuid", "gpu_instance", "bucket", "namespace", "pod",
          "pod_uid", "model", "place")  # fmt: skip


@dataclass(frozen=True)
class Query:
    """Which rows of a day; all that is named must hold. At least one of pod, team, model, line item and GPU is named."""

    day: date
    cluster: str | None = None
    pod: str | None = None
    team: str | None = None
    model: str | None = None
    line_item: str | None = None
    gpu: str | None = None
    cost_metric: str | None = None

    def named(self) -> dict[str, str]:
        """What is asked for, by the option's name."""
        told = {k: v for k, v in asdict(self).items() if k not in ("day", "cluster", "cost_metric") and v is not None}
        return {("line-item" if k == "line_item" else k): str(v) for k, v in told.items()}


@dataclass(frozen=True)
class Explained:
    """The answer: the rows that the query names (table ``chargeback`` with ``cluster``), and the walks of the first of them."""

    query: Mapping[str, Any]
    matched: pa.Table
    walks: Sequence[Mapping[str, Any]]
    totals: Sequence[Mapping[str, Any]]


def explain(walk: Walk, query: Query, limit: int | None = None) -> Explained:
    """The walk of every row that the query names, or of the first ``limit``; see ``docs/explain.md``.

    Raises:
        SettingsError: the query is wrong or can mean several things.
        ChargebackError: there is no such partition or row, or a row cannot be computed again.
    """
    _ensure_clear(query)
    names = [walk.settings.cluster(query.cluster).name] if query.cluster else [c.name for c in walk.settings.clusters]
    kept = [kept_day(walk, query.day, name) for name in names]
    tables = [(k, _matching(k.table, query)) for k in kept]
    if not any(len(t) for _, t in tables):
        raise ChargebackError(_nothing(walk, query, kept))
    rows = pa.concat_tables([t.append_column("cluster", pa.repeat(k.cluster, len(t))) for k, t in tables])
    _ensure_one_metric(rows, query)
    rows = rows.sort_by([(name, "ascending") for name in _ORDER])
    shown = rows if limit is None else rows.slice(0, limit)
    found: dict[int, dict[str, Any]] = {}
    for k in kept:
        mine = np.flatnonzero(pc.equal(shown["cluster"], k.cluster).to_numpy(zero_copy_only=False))
        if len(mine):
            found |= zip(mine.tolist(), _walked(walk, k, shown.take(pa.array(mine))), strict=True)
    metric = rows["cost_metric"][0].as_py()
    asked = {"date": query.day.isoformat(), "clusters": names, "cost_metric": metric, **query.named()}
    return Explained(asked, rows, [found[n] for n in sorted(found)], _totals(rows))


def document(found: Explained) -> dict[str, Any]:
    """The answer for machines."""
    adds_up = all(check["ok"] for row in found.walks for check in row["adds_up"])
    counted = {"rows_matched": len(found.matched), "rows": list(found.walks), "totals": list(found.totals), "adds_up": adds_up}
    return {"query": dict(found.query), **counted}


def _ensure_clear(query: Query) -> None:
    if not query.named():
        raise SettingsError("say which figure: --pod NAMESPACE/POD, --team, --model, --line-item or --gpu")
    if query.cost_metric is not None and query.cost_metric not in METRICS:
        raise SettingsError(f"--metric {query.cost_metric!r} is no cost metric; {nearest(query.cost_metric, METRICS)}")
    if query.pod is not None and not all(query.pod.partition("/")):
        raise SettingsError(f"--pod {query.pod!r} names no namespace or no pod; write it like NAMESPACE/POD")


def _matching(table: pa.Table, query: Query) -> pa.Table:
    namespace, _, pod = (query.pod or "").partition("/")
    wanted = {
        "namespace": namespace or None, "pod": pod or None, "team": query.team, "model": query.model,
        "line_item_id": query.line_item, "gpu_uuid": query.gpu, "cost_metric": query.cost_metric,
    }  # fmt: skip
    for name, value in wanted.items():
        if value is not None:
            table = table.filter(pc.fill_null(pc.equal(table[name], value), False))
    return table


def _nothing(walk: Walk, query: Query, kept: Sequence[Kept]) -> str:
    """Why no row is found, with the nearest names that are there."""
    asked = " and ".join(f"{name} {value!r}" for name, value in query.named().items())
    where = f"no row of {query.day} in {', '.join(k.cluster for k in kept)} has {asked}"
    if query.cost_metric:
        where += f" under cost metric {query.cost_metric!r}"
    outside = _outside(walk, query, kept) if query.line_item else ""
    if outside:
        return f"{where}; {outside}"
    if not any(len(k.table) for k in kept):
        return f"{where}; the day has no rows at all"
    hints = []
    for name, value in query.named().items():
        there = sorted({n for k in kept for n in _names(k.table, name)})
        if value in there:
            continue
        close = get_close_matches(value, there, n=3) or there[:SHOWN_NAMES]
        rest = f" and {len(there) - len(close)} more" if len(there) > len(close) else ""
        hints.append(f"{name}s there: {', '.join(map(repr, close)) or 'none'}{rest}")
    metrics = sorted({m for k in kept for m in k.table["cost_metric"].unique().to_pylist()})
    if query.cost_metric is not None and query.cost_metric not in metrics:
        hints.append(f"cost metrics there: {', '.join(metrics) or 'none'}")
    return f"{where}; " + ("; ".join(hints) or "each is there, but not together")


def _names(table: pa.Table, option: str) -> list[str]:
    if option == "pod":
        column = pc.binary_join_element_wise(table["namespace"], table["pod"], "/")
    else:
        column = table[{"line-item": "line_item_id", "gpu": "gpu_uuid"}.get(option, option)]
    return [str(name) for name in column.unique().drop_null().to_pylist()]


def _outside(walk: Walk, query: Query, kept: Sequence[Kept]) -> str:
    """What the reconciliation says of a line that is not split."""
    for cluster in (*(k.cluster for k in kept), BILL_CLUSTER):
        table = walk.store.read("reconciliation", Partition(query.day, cluster))
        if table is not None:
            lines = table.filter(pc.equal(table["line_item_id"], query.line_item)).to_pylist()
            if lines and lines[0]["state"] == "out_of_scope":
                first = lines[0]
                cost = f"{first['cost_in']:f} {first['currency']} {first['cost_metric']}"
                return (
                    f"the line ({first['source_file']}, row {first['source_row']}, {cost}) is out of scope by rule "
                    f"{first['rule']}: it is not split and stands in reconciliation of {cluster}"
                )
    return ""


def _ensure_one_metric(rows: pa.Table, query: Query) -> None:
    metrics = sorted(rows["cost_metric"].unique().to_pylist())
    if query.cost_metric is None and len(metrics) > 1:
        raise SettingsError(f"the rows stand under several cost metrics ({', '.join(metrics)}); choose one with --metric")


def _totals(rows: pa.Table) -> list[dict[str, Any]]:
    """Sums over all matching rows, one a currency."""
    told = []
    for currency in sorted(rows["currency"].unique().to_pylist()):
        mine = rows.filter(pc.equal(rows["currency"], currency))
        sums = {c: money_text(exact_sum(mine[c])) for c in ("used_cost", "overhead_cost", "idle_cost", "cost")}
        told.append({"currency": currency, "rows": len(mine), **sums})
    return told


def _walked(walk: Walk, kept: Kept, rows: pa.Table) -> Iterator[dict[str, Any]]:
    """The documents of some rows of one partition."""
    now = inputs.inputs_of(walk.settings, walk.store, kept.partition, walk.owners.owners_id, walk.prices_id)
    changed = inputs.changed(kept.detail.get("inputs"), now)
    day = open_kept(walk, kept)
    told = rows.to_pylist()
    keys = [part_key(r) for r in told]
    parts = parts_of(walk, kept, day, set(keys), changed)
    owners = owners_today(walk, kept, told, changed)
    for row, key, today in zip(told, keys, owners, strict=True):
        yield row_document(row, parts[key], today, changed)
