"""Which lines of a day are split, on which nodes, and which stand outside and why; decided once over all clusters.

Here belongs the day as a whole. Whose a line is stands in ``machines``, lines that several machines pay for in ``pooled`` and
``spread``, what a configuration overrules in ``scope_rules``. Rules R14-R16, R38, R46, R47.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import money, times
from allocation.findings import Finding
from allocation.line_parts import PARTS, cut_lines
from allocation.machines import homes_of, machines_of
from allocation.policy import UnattributedPolicy
from allocation.pooled import is_pooled, pooled_parts
from allocation.scope_findings import noticed
from allocation.split_rows import settled
from allocation.spread import is_spread, spread_parts

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DayLines:
    """The lines of one day.

    ``lines``: their rows of ``line_items`` with ``cluster``, ``rule`` (null: split), ``node``, ``node_id`` (null where several
    machines pay), ``day_nanos``: one row a line, cluster and rule, with the money of that home. ``parts``: what is split:
    ``line`` (row of ``lines``), ``node_key``, ``start_ms``, ``end_ms``, ``nanos``, ``cluster``.
    """

    lines: pa.Table
    parts: pd.DataFrame
    findings: tuple[Finding, ...]


def day_lines(
    lines: pa.Table,
    nodes: Mapping[str, pd.DataFrame],
    from_ms: int,
    until_ms: int,
    overruled: Mapping[str, str] | None = None,
    unattributed: UnattributedPolicy = "out_of_scope",
) -> DayLines:
    """Cuts lines to the window and decides where each belongs.

    Args:
        lines: table ``line_items`` of all deliveries, of lines that touch the window.
        nodes: table ``nodes`` of each cluster.
        from_ms: UTC midnight that starts the window.
        until_ms: UTC midnight that ends it.
        overruled: machines (keys) that were named for a node beside another one that is believed, with the node's name.
        unattributed: whether discounts and taxes without a resource are spread (R47).

    Raises:
        ChargebackError: two clusters claim one machine, or a provider's split leaves open what counts.
    """
    lines = settled(lines)
    overruled = overruled or {}
    machines = machines_of(nodes)
    homes = homes_of(lines, machines, overruled)
    pooled = is_pooled(lines, homes)
    spread = is_spread(lines, homes) & ~pooled & (unattributed == "spread")
    alone = np.flatnonzero(~pooled & ~spread)
    shared = pooled_parts(lines, np.flatnonzero(pooled), machines, from_ms, until_ms)
    parts = [_at_home(cut_lines(lines, alone, from_ms, until_ms), homes), shared]
    if spread.any():
        named = alone[homes.rule.isna().to_numpy()[alone]]
        gpu = pd.concat([_at_home(cut_lines(lines, named, from_ms, until_ms, 0), homes), shared[shared.rule.isna()]])
        parts.append(spread_parts(lines, np.flatnonzero(spread), gpu, from_ms, until_ms))
    placed = pd.concat(parts, ignore_index=True).sort_values("line", kind="stable", ignore_index=True)
    rows, number = _rows(lines, placed, homes, pooled | spread)
    split = placed.rule.isna().to_numpy(np.bool_)
    told = placed.assign(line=number)[split].drop(columns="rule").reset_index(drop=True)
    return DayLines(rows, told, noticed(rows, overruled, (times.from_ms(from_ms), times.from_ms(until_ms))))


def _at_home(cuts: pd.DataFrame, homes: pd.DataFrame) -> pd.DataFrame:
    """Parts of lines that have one home each."""
    there = homes[["node_key", "cluster", "rule"]].iloc[cuts.line].astype("object").reset_index(drop=True)
    return pd.concat([cuts, there], axis=1)[list(PARTS)]


def _rows(lines: pa.Table, placed: pd.DataFrame, homes: pd.DataFrame, shared: npt.NDArray[np.bool_]) -> tuple[pa.Table, Int64]:
    """One row of ``lines`` a line, cluster and rule, with its money of the day; and each part's row.

    What rounding cut of a line stands on the first of its rows only, so that it counts once.
    """
    keys = placed[["line", "cluster", "rule"]].fillna({"rule": ""})
    number = keys.groupby(["line", "cluster", "rule"], sort=True).ngroup().to_numpy(np.int64)
    _, first = np.unique(number, return_index=True)
    whose = placed.iloc[first]
    line = whose.line.to_numpy(np.int64)
    rows = lines.take(pa.array(line))
    several = pd.Series(shared[line])
    for name in ("cluster", "rule"):
        rows = rows.append_column(name, pa.array(whose[name].to_numpy(object), pa.string(), from_pandas=True))
    for name in ("node", "node_id"):
        told = homes[name].astype("object").iloc[line].reset_index(drop=True).mask(several)
        rows = rows.append_column(name, pa.array(told, pa.string(), from_pandas=True))
    day = np.zeros(len(line), np.int64)
    np.add.at(day, number, placed.nanos.to_numpy(np.int64))
    once = pa.array(np.diff(line, prepend=-1) != 0)
    place = rows.schema.get_field_index("cost_residue")
    residue = pc.if_else(once, rows["cost_residue"], money.NO_RESIDUE)
    rows = rows.set_column(place, rows.schema.field(place), residue)
    return rows.append_column("day_nanos", pa.array(day)), number


def _lengths(lines: pa.Table) -> Int64:
    """How long each line's own period is, ms."""
    return times.milliseconds(lines["charge_period_end"]) - times.milliseconds(lines["charge_period_start"])


def expected_ms(parts: pd.DataFrame, lines: pa.Table, nodes: pd.DataFrame) -> pd.DataFrame:
    """One row a frame: ``node_key``, ``start_ms``, ``end_ms``, ``expected_ms`` (R16).

    The machine time that a usage line of that machine and period states, else the node's life in the inventory, else the period.
    """
    stated = lines["machine_ms"].to_pandas().to_numpy(np.float64, na_value=np.nan)[parts.line]
    own = lines["node_key"].to_pandas().astype("object").to_numpy()[parts.line] == parts.node_key.to_numpy()
    length = (parts.end_ms - parts.start_ms).to_numpy(np.int64)
    whole = _lengths(lines)[parts.line] == length
    table = parts.assign(stated=np.where(whole & own, stated, np.nan))
    frames = table.groupby(["node_key", "start_ms", "end_ms"], as_index=False).agg(stated=("stated", "max"))
    seen = (
        nodes[nodes.seen_from_ms.notna()]
        .groupby("node_key", as_index=False)
        .agg(seen_from=("seen_from_ms", "min"), seen_until=("seen_until_ms", "max"))
    )
    frames = frames.merge(seen, on="node_key", how="left")
    period = frames.end_ms - frames.start_ms
    life = np.minimum(frames.end_ms, frames.seen_until) - np.maximum(frames.start_ms, frames.seen_from)
    life = life.where(life > 0, period)
    frames["expected_ms"] = frames.stated.fillna(life).fillna(period).astype("int64")
    return frames[["node_key", "start_ms", "end_ms", "expected_ms"]]
