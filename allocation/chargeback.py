"""Parts of lines into the table ``chargeback``, and its sums (``sums``) into ``team_model`` and ``reconciliation``."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import money, wide
from allocation.apportion import apportion
from allocation.coded import coded
from allocation.findings import Code, Finding, Severity
from allocation.frame_rows import LAST_ORDINAL
from allocation.holders import holders_of
from allocation.hours import LONGEST_WHOLE_MS
from allocation.model_split import NOBODY, Divided, Served, Shares, divide, model_shares
from allocation.owners import FIELDS, UNOWNED, Owners, assign
from allocation.quantities import GIB_MS, counted_parts, of_usage, tokens_of
from allocation.schemas import CHARGEBACK, RECONCILIATION, TEAM_MODEL, conform
from allocation.summed import summed
from allocation.sums import COSTS, MEASURES, QUANTITIES, gib_seconds
from allocation.times import milliseconds, time_column

Int64 = npt.NDArray[np.int64]
_OF_LINE = (
    "billing_period",
    "provider",
    "billing_account",
    "sub_account",
    "region",
    "line_item_id",
    "charge_category",
    "pricing_category",
    "cost_metric",
    "currency",
)
_OF_USAGE = (
    "node",
    "node_id",
    "gpu_uuid",
    "gpu_model",
    "gpu_instance",
    "mig_profile",
    "bucket",
    "reason",
    "namespace",
    "pod",
    "pod_uid",
    "coverage",
    "basis",
)
LINE_COLUMNS = [*_OF_LINE, "instance_type", "machine_part", "charge_period_start", "charge_period_end"]
"""The columns of lines that ``charge`` reads."""
_FRAME = ["node_key", "start_ms", "end_ms"]
_SIDES = pa.array(["gpu", "host"])
_HOST_SIDE = 1
_BOTH_SIDES = -1


@dataclass(frozen=True)
class Stamp:
    """What the figures depend on, on every row."""

    policy_id: str
    run_id: str


@dataclass(frozen=True)
class Rows:
    """Rows of ``chargeback``, and ``beside`` them what ``sums.sums_of`` adds up and the table does not hold."""

    table: pa.Table
    beside: pa.Table


def _text(values: Sequence[object] | npt.NDArray[np.object_], index: Int64) -> pa.Array:
    return pa.array(values, pa.string(), from_pandas=True).take(pa.array(index))


def charge(
    lines: pa.Table,
    parts: pd.DataFrame,
    usage: pa.Table,
    pods: pa.Table,
    owners: Owners,
    stamp: Stamp,
    *,
    cluster: str = "",
    served: Served | None = None,
    periods: pd.DataFrame | None = None,
) -> tuple[Rows, list[Finding]]:
    """The table ``chargeback`` of one day and cluster.

    Args:
        lines: the day's lines (see ``scope.DayLines``).
        parts: their parts in this cluster: ``line``, ``node_key``, ``start_ms``, ``end_ms``, ``nanos``.
        usage: table ``usage`` with a frame for each part's machine and period.
        pods: table ``pods``.
        owners: who owns what.
        stamp: ids for every row.
        cluster: the cluster's name, for rules that ask for it.
        served: what model servers counted; without it no row is split over models.
        periods: ``node_key``, ``start_ms``, ``end_ms``, ``expected_ms`` of each frame, ``gpus`` that the machine must have (0:
            unknown); without it each frame is expected whole.
    """
    frames = frames_in(usage, periods)
    first, last = rows_of(parts, lines, frames)
    part, row, nanos = apportion(parts.nanos.to_numpy(np.int64), first, last, usage)
    start, end = (parts[name].to_numpy(np.int64)[part] for name in ("start_ms", "end_ms"))
    holders, number = holders_of(usage.take(pa.array(row)), start, end, cluster)
    known = assign(holders, pods, owners)
    shares = NOBODY if served is None else model_shares(holders, pods, served)
    metric = coded(lines["cost_metric"]).codes[parts.line.to_numpy(np.int64)]
    counts = counted_parts(parts, metric, first, frames.side.to_numpy()[np.searchsorted(frames["first"], first)] == _HOST_SIDE)
    quantities = _quantities(usage, frames, row, number, _requested(known, pods))[row] * counts[part, None]
    split = divide(number, np.column_stack((nanos, quantities)), shares)
    start, end, number, part, row = (values[split.row] for values in (start, end, number, part, row))
    index, of_usage = pa.array(parts.line.to_numpy(np.int64)[part]), usage.take(pa.array(row))
    columns: dict[str, object] = {name: lines[name].take(index) for name in (*_OF_LINE, "instance_type")}
    columns |= {name: of_usage[name] for name in _OF_USAGE}
    columns |= {"charge_period_start": time_column(start), "charge_period_end": time_column(end)}
    columns |= _owned(known, number, pods, split, shares)
    columns |= _figures(of_usage, split)
    columns["policy_id"] = pa.repeat(stamp.policy_id, len(row))
    columns["run_id"] = pa.repeat(stamp.run_id, len(row))
    table = conform(pa.table({c.name: columns[c.name] for c in CHARGEBACK.columns}), CHARGEBACK, source="apportion")
    host = of_usage["gpu_ordinal"].to_numpy() == LAST_ORDINAL
    tokens = tokens_of((metric[part], number), split.share, shares, counts[part], host)
    return Rows(table, _beside(lines, index, split, tokens)), list(shares.findings)


def _requested(known: pd.DataFrame, pods: pa.Table) -> npt.NDArray[np.float64]:
    """GPUs that each holder requested, NaN where unknown."""
    told = np.append(pods["requested_gpus"].to_numpy(), [np.nan])
    place = known.place.to_numpy(np.int64) if len(known) else np.empty(0, np.int64)
    return told[np.where(place < 0, len(told) - 1, place)]


def _quantities(usage: pa.Table, frames: pd.DataFrame, row: Int64, number: Int64, requested: npt.NDArray[np.float64]) -> Int64:
    """See ``quantities.of_usage``; ``row`` and ``number`` are the row of usage and the holder of each row to be."""
    holder = np.full(len(usage), -1, np.int64)
    holder[row] = number
    return of_usage(usage, frames, holder, requested)


def _beside(lines: pa.Table, index: pa.Array, split: Divided, tokens: pa.Array) -> pa.Table:
    """``amortised`` and QUANTITIES of each row; ``index`` is its line."""
    length = milliseconds(lines["charge_period_end"]) - milliseconds(lines["charge_period_start"])
    columns = {"amortised": pa.array(length > LONGEST_WHOLE_MS).take(index)}
    columns |= {name: pa.array(split.columns[:, 3 + at]) for at, name in enumerate(QUANTITIES[:-1])}
    return pa.table({**columns, QUANTITIES[-1]: tokens})


def _figures(of_usage: pa.Table, split: Divided) -> dict[str, pa.Array]:
    """Money, byte-time and seconds of each row, its part of them where it is split over models."""
    columns = {}
    for name, nanos in zip(COSTS, (*split.columns[:, :3].T, split.columns[:, :3].sum(axis=1)), strict=True):
        columns[name] = money.nanos_column(np.ascontiguousarray(nanos))
    for name, source in zip(MEASURES, ("used_byte_ms", "overhead_byte_ms", "idle_byte_ms"), strict=True):
        columns[name] = pa.array(wide.to_float(*wide.from_decimal_column(of_usage[source])) / GIB_MS * split.part)
    for name in ("observed", "imputed"):
        columns[f"{name}_seconds"] = pa.array(of_usage[f"{name}_ms"].to_numpy() / 1000.0 * split.part)
    return columns


def frames_in(usage: pa.Table, periods: pd.DataFrame | None = None) -> pd.DataFrame:
    """The frames of ``usage`` in order: machine and period, ``side``, ``first`` row and one past the ``last``.

    With them goes what ``periods`` tells (see ``charge``). ``side`` tells the GPUs' rows from the host's where lines are told
    apart by their part (``for_part``).
    """
    start, end = milliseconds(usage["period_start"]), milliseconds(usage["period_end"])
    side = pc.fill_null(pc.index_in(usage["for_part"], _SIDES), _BOTH_SIDES).to_numpy().astype(np.int64)
    fresh = np.ones(len(usage), np.bool_)
    fresh[1:] = np.any([np.diff(part) != 0 for part in (coded(usage["node_key"]).codes, start, end, side)], axis=0)
    begins = np.flatnonzero(fresh)
    frames = pd.DataFrame({"node_key": usage["node_key"].take(pa.array(begins)).to_pandas()}).assign(
        start_ms=start[begins], end_ms=end[begins], side=side[begins], first=begins, last=np.append(begins, len(usage))[1:]
    )
    if periods is None:
        return frames.assign(expected_ms=frames.end_ms - frames.start_ms, gpus=0)
    return frames.merge(periods[[*_FRAME, "expected_ms", "gpus"]], on=_FRAME, how="left")


def rows_of(parts: pd.DataFrame, lines: pa.Table, frames: pd.DataFrame) -> tuple[Int64, Int64]:
    """First row, and one past the last, of ``usage`` that each part of a line is divided over; arguments as of ``charge``.

    That is its machine's and period's frame (see ``frames_in``). Where the frame tells parts of a machine apart, a line of cores
    or memory takes the host's rows, any other one those of the GPUs (R48).
    """
    wanted = parts[_FRAME].assign(part=np.arange(len(parts)), own=np.where(_of_host(parts, lines), _HOST_SIDE, 1 - _HOST_SIDE))
    joined = wanted.merge(frames, on=_FRAME, how="left")
    other = (joined.side != _BOTH_SIDES) & joined.side.notna() & (joined.side != joined.own)
    joined = joined[~other].sort_values("part")
    return joined["first"].to_numpy(np.int64), joined["last"].to_numpy(np.int64)


def _of_host(parts: pd.DataFrame, lines: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether each part is of a line for cores or memory."""
    told = lines["machine_part"].take(pa.array(parts.line.to_numpy(np.int64)))
    is_host: npt.NDArray[np.bool_] = pc.is_in(told, pa.array(["core", "memory"])).to_numpy(zero_copy_only=False)
    return is_host


def _owned(known: pd.DataFrame, number: Int64, pods: pa.Table, split: Divided, shares: Shares) -> dict[str, pa.Array]:
    """Owner and workload columns of each row from those of each holder; the model is the one that was served."""
    place = known.place.to_numpy()[number] if len(known) else np.empty(0, np.int64)
    pod_row = pa.array(place, mask=place < 0)
    columns = {name: _text(known[name].to_numpy(), number) for name in FIELDS}
    if len(shares.model):
        served = np.append(shares.model, [""])[split.share]
        columns["model"] = pc.if_else(pa.array(served != ""), pa.array(served, pa.string()), columns["model"])
    columns |= {name: pods[name].take(pod_row) for name in ("workload_kind", "workload_name", "requested_gpus")}
    return columns


def unowned(holders: pa.Table) -> list[Finding]:
    """One finding a pod and field that no rule names, with its money; ``holders`` as of ``DaySums``."""
    found = []
    for name in FIELDS:
        rows = holders.filter(pc.equal(holders[name], UNOWNED))
        sums = (
            rows.group_by(["namespace", "pod", "currency", "cost_metric"])
            .aggregate([("cost", "sum")])
            .sort_by([("namespace", "ascending"), ("pod", "ascending")])
        )
        for row in sums.to_pylist():
            cost = money.decimal_to_nanos(row["cost_sum"])
            evidence = f"no rule and no source names a {name} ({row['cost_metric']} cost); label the pod or add a rule"
            subject = f"{row['namespace']}/{row['pod']}"
            found.append(Finding(Code.UNOWNED, Severity.WARNING, subject, evidence, None, 1, cost, row["currency"]))
    return found


def team_model(holders: pa.Table, run_id: str) -> pa.Table:
    """The day's money per team, model and bucket; ``holders`` as of ``DaySums``."""
    keys = ["billing_period", "cost_metric", "currency", "team", "model", "bucket"]
    sums = summed(holders, keys, (*COSTS, *MEASURES), in_order=True)
    columns = {name: sums[name] for name in (*keys, *COSTS)} | {name: gib_seconds(sums[name]) for name in MEASURES}
    columns["run_id"] = pa.repeat(run_id, len(sums))
    return conform(pa.table({name: columns[name] for name in TEAM_MODEL.names}), TEAM_MODEL, source="team_model")


def reconcile(lines: pa.Table, charged: pa.Table, from_ms: int, run_id: str) -> pa.Table:
    """Each line of the day and what became of it.

    Args:
        lines: one cluster's (or `_bill`'s), a row a line and rule.
        charged: what each line's rows add up to, ``lines`` as of ``DaySums``.
        from_ms: the day's midnight.
        run_id: the id for every row.
    """
    sums = charged.drop_columns("cost").to_pandas().assign(out_nanos=money.column_nanos(charged["cost"]))
    keys = lines.select(["line_item_id", "cost_metric"]).to_pandas()
    joined = keys.merge(sums, on=["line_item_id", "cost_metric"], how="left")
    out_of_scope = lines["rule"].is_valid().to_numpy()
    cost_in = lines["day_nanos"].to_numpy()
    cost_out = np.where(out_of_scope, 0, joined.out_nanos.astype("Int64").fillna(0).to_numpy(np.int64))
    measured = joined.measured.fillna(False).astype("bool").to_numpy()
    state = np.where(out_of_scope, "out_of_scope", np.where(measured, "allocated", "unallocated"))
    begins_today = pa.array(milliseconds(lines["charge_period_start"]) >= from_ms)
    columns = {name: lines[name] for name in RECONCILIATION.names if name in lines.column_names}
    columns |= {
        "line_cost": money.nanos_column(lines["cost_nanos"].to_numpy()),
        "cost_in": money.nanos_column(cost_in),
        "cost_out": money.nanos_column(cost_out),
        "rounding": pc.if_else(begins_today, lines["cost_residue"], money.NO_RESIDUE),
        "difference": money.nanos_column(np.where(out_of_scope, 0, cost_in - cost_out)),
        "state": pa.array(state.astype(object), pa.string()),
        "run_id": pa.repeat(run_id, len(lines)),
    }
    table = pa.table({name: columns[name] for name in RECONCILIATION.names})
    return conform(table, RECONCILIATION, source="reconcile").sort_by(
        [(name, "ascending") for name in ("charge_period_start", "line_item_id", "cost_metric", "rule")]
    )
