"""Which lines of a day are split, on which node, and which stand outside and why; decided once over all clusters.

Rules R14-R16, R19, R38, R46.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import hours, money, times
from allocation.errors import ChargebackError
from allocation.findings import Code, Finding, Severity
from allocation.schemas import BILL_CLUSTER
from allocation.split_rows import settled

Int64 = npt.NDArray[np.int64]
GPU_FAMILIES = re.compile(
    r"^(ml\.)?(p[2-9]\w*|g[3-9]\w*|gr6\w*|inf\d\w*|trn\d\w*|dl1)[-.]|^(a2|a3|a4|a4x|g2|g4)-|^Standard_N[CDV]"
)
"""Instance families that carry accelerators, for types that no catalogue knows. Source: the clouds' own lists."""


@dataclass(frozen=True)
class DayLines:
    """The lines of one day.

    ``lines``: their rows of ``line_items`` with ``cluster``, ``rule`` (null: split), ``node``, ``node_id``, ``day_nanos``.
    ``parts``: what is split: ``line`` (row of ``lines``), ``node_key``, ``start_ms``, ``end_ms``, ``nanos``, ``cluster``.
    """

    lines: pa.Table
    parts: pd.DataFrame
    findings: tuple[Finding, ...]


def day_lines(
    lines: pa.Table, nodes: Mapping[str, pd.DataFrame], from_ms: int, until_ms: int, overruled: Mapping[str, str] | None = None
) -> DayLines:
    """Cuts lines to the window and decides where each belongs.

    Args:
        lines: table ``line_items`` of all deliveries, of lines that touch the window.
        nodes: table ``nodes`` of each cluster.
        from_ms: UTC midnight that starts the window.
        until_ms: UTC midnight that ends it.
        overruled: machines (keys) that were named for a node beside another one that is believed, with the node's name.

    Raises:
        ChargebackError: two clusters claim one machine, or a provider's split leaves open what counts.
    """
    lines = settled(lines)
    start, end = times.milliseconds(lines["charge_period_start"]), times.milliseconds(lines["charge_period_end"])
    line, begins, ends, nanos = hours.cut(lines["cost_nanos"].to_numpy(), start, end, from_ms, until_ms)
    kept, number = np.unique(line, return_inverse=True)
    lines = lines.take(pa.array(kept))
    overruled = overruled or {}
    homes = _homes(lines, nodes, overruled)
    parts = pd.DataFrame({"line": number, "start_ms": begins, "end_ms": ends, "nanos": nanos})
    day = np.zeros(len(kept), np.int64)
    np.add.at(day, number, nanos)
    for name in ("cluster", "rule", "node", "node_id"):
        lines = lines.append_column(name, pa.array(homes[name], pa.string(), from_pandas=True))
    lines = lines.append_column("day_nanos", pa.array(day))
    in_scope = homes.rule.isna().to_numpy()
    parts = parts[in_scope[parts.line]]
    parts = parts.assign(node_key=homes.node_key.to_numpy()[parts.line], cluster=homes.cluster.to_numpy()[parts.line])
    findings = (*_findings(lines, in_scope, from_ms, until_ms), *_contradicted(lines, overruled, from_ms, until_ms))
    return DayLines(lines, parts.reset_index(drop=True), findings)


def _claims(nodes: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Which cluster and node each machine belongs to; one row a machine."""
    columns = ["node_key", "node", "node_id", "instance_type", "gpus", "configured", "gpu_resources", "has_series"]
    claims = pd.concat([table.assign(cluster=name) for name, table in nodes.items()], ignore_index=True)[[*columns, "cluster"]]
    shared = claims.drop_duplicates(["node_key", "cluster"]).groupby("node_key").cluster.agg(sorted)
    shared = shared[shared.map(len) > 1]
    if len(shared):
        key, names = shared.index[0], shared.iloc[0]
        raise ChargebackError(
            f"the machine {key!r} is a node of the clusters {' and '.join(names)}; its cost would be charged twice. "
            "Take it out of one of them (nodes: or the series' match labels)"
        )
    return claims.drop_duplicates("node_key")


def _homes(lines: pa.Table, nodes: Mapping[str, pd.DataFrame], overruled: Mapping[str, str]) -> pd.DataFrame:
    """Cluster, node and rule of each line."""
    wanted = pd.DataFrame({name: lines[name].to_pandas() for name in ("node_key", "scope_rule", "instance_type")})
    claims = _claims(nodes).rename(columns={"instance_type": "known_type"})
    homes = wanted.merge(claims, on="node_key", how="left")
    found = homes.cluster.notna()
    kind = homes.known_type.astype("object").where(homes.known_type.notna(), homes.instance_type)
    without_gpu = found & ~_has_gpu(homes, kind)
    rule = homes.scope_rule.astype("object").where(homes.scope_rule.notna(), None)
    rule = rule.mask(rule.isna() & homes.node_key.isna(), "no_resource")
    rule = rule.mask(rule.isna() & ~found & homes.node_key.isin(list(overruled)), "node_contradicted")
    rule = rule.mask(rule.isna() & ~found, "not_a_node").mask(rule.isna() & without_gpu, "node_without_gpu")
    return homes.assign(cluster=homes.cluster.where(found, BILL_CLUSTER), rule=rule)


def _has_gpu(homes: pd.DataFrame, kind: "pd.Series[str]") -> "pd.Series[bool]":
    """A node is a GPU node unless Kubernetes or its instance type says otherwise; a configured one always is."""
    told = homes.gpu_resources.notna()
    by_type = kind.isna() | kind.astype("str").str.match(GPU_FAMILIES.pattern)
    by_capacity = homes.gpu_resources.fillna(0).astype("int64") > 0
    shown = homes.configured.fillna(False).astype("bool") | homes.has_series.fillna(False).astype("bool")
    return shown | by_capacity | homes.gpus.notna() | (by_type & ~told)


def _lengths(lines: pa.Table) -> Int64:
    """How long each line's own period is, ms."""
    return times.milliseconds(lines["charge_period_end"]) - times.milliseconds(lines["charge_period_start"])


def expected_ms(parts: pd.DataFrame, lines: pa.Table, nodes: pd.DataFrame) -> pd.DataFrame:
    """One row a frame: ``node_key``, ``start_ms``, ``end_ms``, ``expected_ms`` (R16).

    The machine time that a usage line of that very period states, else the node's life in the inventory, else the period.
    """
    stated = lines["machine_ms"].to_pandas().to_numpy(np.float64, na_value=np.nan)[parts.line]
    length = (parts.end_ms - parts.start_ms).to_numpy(np.int64)
    whole = _lengths(lines)[parts.line] == length
    table = parts.assign(stated=np.where(whole, stated, np.nan))
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


def _findings(lines: pa.Table, in_scope: npt.NDArray[np.bool_], from_ms: int, until_ms: int) -> list[Finding]:
    period = (times.from_ms(from_ms), times.from_ms(until_ms))
    found = []
    coarse = in_scope & (_lengths(lines) > hours.LONGEST_WHOLE_MS)
    if coarse.any():
        cost = money.sum_nanos(lines["day_nanos"].to_numpy()[coarse])
        evidence = "lines of nodes are longer than 25 hours and were cut into equal hours; export by the hour"
        found.append(Finding(Code.COARSE_LINE, Severity.WARNING, "bill", evidence, period, int(coarse.sum()), cost))
    gpu_type = pc.fill_null(pc.match_substring_regex(lines["instance_type"], GPU_FAMILIES.pattern), False)
    outside = lines.filter(pc.and_(pc.fill_null(pc.equal(lines["rule"], "not_a_node"), False), gpu_type))
    costs = outside.append_column("cost", money.nanos_column(outside["day_nanos"].to_numpy())).group_by(
        ["resource_id", "currency"]
    )
    sums = costs.aggregate([("cost", "sum"), ("cost", "count")]).sort_by("resource_id")
    evidence = "a GPU instance on the bill is no node of any configured cluster; add its cluster, or its id to nodes:"
    for row in sums.to_pylist():
        cost = money.decimal_to_nanos(row["cost_sum"])
        code, subject = Code.GPU_INSTANCE_OUTSIDE_CLUSTERS, str(row["resource_id"])
        found.append(Finding(code, Severity.WARNING, subject, evidence, period, row["cost_count"], cost, row["currency"]))
    return found


def _contradicted(lines: pa.Table, overruled: Mapping[str, str], from_ms: int, until_ms: int) -> list[Finding]:
    """A finding for each machine whose lines stand outside because another machine was believed to be its node."""
    outside = lines.filter(pc.fill_null(pc.equal(lines["rule"], "node_contradicted"), False))
    costs = outside.append_column("cost", money.nanos_column(outside["day_nanos"].to_numpy()))
    sums = costs.group_by(["node_key", "currency"]).aggregate([("cost", "sum"), ("cost", "count")]).sort_by("node_key")
    period = (times.from_ms(from_ms), times.from_ms(until_ms))
    return [
        Finding(
            Code.CONTRADICTING_INVENTORY,
            Severity.WARNING,
            overruled[row["node_key"]],
            f"the bill has lines of {row['node_key']}, which was named for this node while another machine was, and that one is "
            "believed; the lines are out of scope, rule `node_contradicted`",
            period,
            row["cost_count"],
            money.decimal_to_nanos(row["cost_sum"]),
            row["currency"],
        )
        for row in sums.to_pylist()
    ]
