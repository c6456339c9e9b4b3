"""Reservation pods of KAI and Run:ai: their rows become rows of the workloads that stand behind them.

Such a scheduler gives fractions of a GPU to pods that the kubelet knows nothing of; a reservation pod holds the device, and the
exporter names it. The workloads behind it are those that carry its GPU group (label ``runai-gpu-group``) while they live. Where
it carries no group, they are the node's pods with a fraction or an amount of GPU memory, as long as the node has one reservation
pod only. While nobody is known behind it, the reservation pod stays the holder.
"""

import pandas as pd

from allocation.lives import POD_KEY, among
from allocation.pieces import Pieces, first_at

_BEHIND_KEY = [f"behind_{c}" for c in POD_KEY]


def resolved(pieces: Pieces, lives: pd.DataFrame) -> Pieces:
    """The pieces with each reservation pod's rows handed to the workloads behind it, within those workloads' lives."""
    if not lives.is_reservation.any():
        return pieces
    behind = _behind(lives)
    replaced = (pieces.table.role == "pod_memory") & among(pieces.table, behind)
    if not replaced.any():
        return pieces
    rows = pieces.table[replaced].reset_index(drop=True).reset_index(names="row")
    cover = rows.merge(behind, on=POD_KEY, how="inner")
    cover = cover.assign(
        from_ms=cover[["from_ms", "alive_from"]].max(axis=1), until_ms=cover[["until_ms", "alive_until"]].min(axis=1)
    )
    cover = cover[cover.from_ms < cover.until_ms]
    stand_ins = cover.assign(**{c: cover[f"behind_{c}"] for c in POD_KEY}, container="", level="device", own_uid=False)
    more = pd.concat([_left_over(rows, cover), stand_ins], ignore_index=True)
    more = _trimmed(Pieces(more, pieces.ts, pieces.values))
    table = pd.concat([pieces.table[~replaced], more[pieces.table.columns]], ignore_index=True)
    return Pieces(table, pieces.ts, pieces.values)


def _left_over(rows: pd.DataFrame, cover: pd.DataFrame) -> pd.DataFrame:
    """The reservation pods' own rows in the times that no workload covers."""
    cover = cover.sort_values(["row", "from_ms", "until_ms"])[["row", "from_ms", "until_ms"]]
    reach = cover.groupby("row").until_ms.cummax()
    before = pd.DataFrame({"row": cover.row, "gap_from": reach.groupby(cover.row).shift(), "gap_until": cover.from_ms})
    after = reach.groupby(cover.row).max().rename("gap_from").reset_index()
    gaps = pd.concat([before, after], ignore_index=True)
    gaps = rows.merge(gaps, on="row", how="left")
    gaps = gaps.assign(
        from_ms=gaps.gap_from.astype("Int64").fillna(gaps.from_ms).astype("int64"),
        until_ms=gaps.gap_until.astype("Int64").fillna(gaps.until_ms).astype("int64"),
    )
    return gaps[gaps.from_ms < gaps.until_ms]


def _trimmed(pieces: Pieces) -> pd.DataFrame:
    """Each piece with the samples that its life can show: from the last before it to the first after it."""
    table, ts = pieces.table, pieces.ts
    lo, hi = table.lo.to_numpy(), table.hi.to_numpy()
    first = first_at(ts, lo, hi, table.from_ms.to_numpy() + 1) - 1
    last = first_at(ts, lo, hi, table.until_ms.to_numpy()) + 1
    return table.assign(lo=first.clip(lo), hi=last.clip(max=hi)).query("lo < hi")


def _behind(lives: pd.DataFrame) -> pd.DataFrame:
    """Who stands behind each reservation pod, and when: its key, ``behind_*`` of a workload, ``alive_from``, ``alive_until``."""
    reservations, others = lives[lives.is_reservation], lives[~lives.is_reservation]
    workloads = others.rename(columns=dict(zip(POD_KEY, _BEHIND_KEY, strict=True)))
    told = workloads.assign(gpu_group=workloads.gpu_group.str.split(",")).explode("gpu_group")
    told = told[told.gpu_group != ""]
    by_group = reservations[reservations.gpu_group != ""][[*POD_KEY, "gpu_group", "node"]].merge(
        told[[*_BEHIND_KEY, "gpu_group", "node", "alive_from", "alive_until"]], on="gpu_group", suffixes=("", "_behind")
    )
    by_group = by_group[by_group.node == by_group.node_behind]
    fraction = workloads.declared_fraction.notna() | workloads.declared_memory_bytes.notna()
    loose = workloads[(workloads.gpu_group == "") & fraction & ~(workloads.requested_gpus > 0) & (workloads.node != "")]
    by_node = _alone(reservations).merge(loose[[*_BEHIND_KEY, "node", "alive_from", "alive_until"]], on="node")
    by_node = by_node.assign(
        alive_from=by_node[["alive_from", "alone_from"]].max(axis=1),
        alive_until=by_node[["alive_until", "alone_until"]].min(axis=1),
    )
    columns = [*POD_KEY, *_BEHIND_KEY, "alive_from", "alive_until"]
    found = pd.concat([by_group[columns], by_node[columns]], ignore_index=True)
    found = found.astype({"alive_from": "int64", "alive_until": "int64"})
    return found[found.alive_from < found.alive_until]


def _alone(reservations: pd.DataFrame) -> pd.DataFrame:
    """When each reservation pod without a group is the only one of its node: ``alone_from``, ``alone_until``."""
    ends = pd.concat(
        [
            pd.DataFrame({"node": reservations.node, "alone_from": reservations.alive_from, "change": 1}),
            pd.DataFrame({"node": reservations.node, "alone_from": reservations.alive_until, "change": -1}),
        ]
    )
    ends = ends.groupby(["node", "alone_from"], as_index=False).change.sum()
    alive = ends.groupby("node").change.cumsum()
    ends = ends.assign(alone_until=ends.groupby("node").alone_from.shift(-1))[alive == 1]
    spans = reservations[reservations.gpu_group == ""].merge(ends.drop(columns="change"), on="node")
    spans = spans[(spans.alive_from <= spans.alone_from) & (spans.alone_until <= spans.alive_until)]
    return spans.astype({"alone_until": "int64"})[[*POD_KEY, "node", "alone_from", "alone_until"]]
