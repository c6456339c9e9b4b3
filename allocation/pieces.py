"""Pieces of series: each series cut where its node name changes its machine (R19) and where its pod comes back (R20).

Here belongs what turns the table ``samples`` into pieces with a machine, a uid and a life. Which device they are on, and the flat
arrays, stand in ``devices``.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.compiled import kernel, read_only
from allocation.intervals import NEVER
from allocation.ranks import places_in

Int64 = npt.NDArray[np.int64]
_POD = ["namespace", "pod", "pod_uid"]
COLUMNS = [
    "role", "level", "metric", "includes_reserved", "node", "gpu_uuid", "gpu_instance", "mig_profile", "gpu_model",
    "namespace", "pod", "pod_uid", "container", "machine", "lo", "hi", "from_ms", "until_ms", "stay_from", "stay_until",
    "own_uid",
]  # fmt: skip


@dataclass(frozen=True)
class Pieces:
    """One row a piece in ``table``; its samples are ``lo:hi`` of ``ts`` (ms) and ``values`` (bytes).

    Columns of the table ``samples`` and: ``machine`` (number), ``from_ms``, ``until_ms`` (its life), ``stay_from``,
    ``stay_until`` (the machine's under that node name), ``own_uid`` (the source itself names the uid).
    """

    table: pd.DataFrame
    ts: Int64
    values: Int64

    def with_more(self, rows: pd.DataFrame, ts: Int64, values: Int64) -> "Pieces":
        """These and further pieces, whose ``lo:hi`` count from the first of the added samples."""
        rows = rows.assign(lo=rows.lo + len(self.ts), hi=rows.hi + len(self.ts))
        table = pd.concat([self.table, rows[self.table.columns]], ignore_index=True)
        return Pieces(table, np.concatenate((self.ts, ts)), np.concatenate((self.values, values)))


def pieces_of(samples: pa.Table, nodes: pd.DataFrame, pods: pd.DataFrame, machines: pd.DataFrame) -> Pieces:
    """The pieces of all series.

    Args:
        samples: table ``samples`` of the nodes in the shard.
        nodes: table ``nodes`` (of the whole cluster), times as int64 ms in ``from_ms`` and ``until_ms``.
        pods: table ``pods``, times as ms in ``seen_ms``, ``started_ms``, ``ended_ms`` (NaN where unknown).
        machines: the shard's machines; a row's number is the machine's number.
    """
    timestamps = samples.column("timestamps_ms").combine_chunks()
    ts = timestamps.values.to_numpy() if len(samples) else np.empty(0, np.int64)
    values = np.empty(len(ts), np.int64)
    if len(samples):
        np.rint(samples.column("values").combine_chunks().values.to_numpy(), out=values, casting="unsafe")
    offsets = timestamps.offsets.to_numpy().astype(np.int64) if len(samples) else np.zeros(1, np.int64)
    series = samples.drop_columns(["timestamps_ms", "values"]).to_pandas()
    return Pieces(_own_account(_pieces(series, offsets, ts, nodes, pods, machines))[COLUMNS], ts, values)


def _own_account(pieces: pd.DataFrame) -> pd.DataFrame:
    """Without what a container-level source says of a device that a device-level one tells the same of (R25).

    Its used goes where the other shows used or pods' rows; its total also where the other shows used and free.
    """
    place = ["machine", "gpu_uuid", "gpu_instance"]
    own = ((pieces.level == "container") & (pieces.role != "pod_memory")).to_numpy()
    told = pieces[pieces.level == "device"]
    if told.empty or not own.any():
        return pieces
    shows = told.assign(role=told.role.replace({"pod_memory": "used"}))[[*place, "role"]].drop_duplicates()
    sized = shows[shows.role.isin(("used", "free"))].groupby(place).role.nunique()
    whole = sized[sized == 2].reset_index()[place].assign(role="total")
    shows = pd.concat([shows, whole], ignore_index=True).drop_duplicates()
    shows = shows[shows.role != "declared"].assign(told_there=True)
    there = pieces.merge(shows, on=[*place, "role"], how="left").told_there.notna().to_numpy()
    return pieces[~(there & own)]


def _pieces(
    series: pd.DataFrame, offsets: Int64, ts: Int64, nodes: pd.DataFrame, pods: pd.DataFrame, machines: pd.DataFrame
) -> pd.DataFrame:
    """One row a piece: its sample range ``lo:hi``, its machine's number, its uid, its life in ms."""
    series = series.assign(lo=offsets[:-1], hi=offsets[1:], from_ms=-NEVER, until_ms=NEVER, own_uid=series.pod_uid != "")
    number = pd.Series(np.arange(len(machines)), index=machines.node_key)
    stays = nodes[nodes.node_key.isin(machines.node_key)].assign(machine=lambda d: d.node_key.map(number))
    stays = stays[["node", "machine", "from_ms", "until_ms"]].rename(columns={"from_ms": "stay_from", "until_ms": "stay_until"})
    pieces = series.merge(stays, on="node", how="inner")
    pieces = _cut(pieces, ts, pieces.stay_from, pieces.stay_until)
    return _with_uids(pieces, ts, pods)


def _cut(pieces: pd.DataFrame, ts: Int64, start: "pd.Series[int]", end: "pd.Series[int]") -> pd.DataFrame:
    """Each piece within its own ``[start, end)``: its samples and its life."""
    lo, hi = pieces.lo.to_numpy(), pieces.hi.to_numpy()
    pieces = pieces.assign(
        lo=first_at(ts, lo, hi, start.to_numpy(np.int64)),
        hi=first_at(ts, lo, hi, end.to_numpy(np.int64)),
        from_ms=np.maximum(pieces.from_ms, start),
        until_ms=np.minimum(pieces.until_ms, end),
    )
    return pieces[pieces.lo < pieces.hi]


def first_at(ts: Int64, lo: Int64, hi: Int64, t: Int64) -> Int64:
    """For each piece the first of its samples at or after its t."""
    first: Int64 = _first_at(*map(read_only, (ts, lo, hi, t)))
    return first


@kernel
def _first_at(ts: Int64, lo: Int64, hi: Int64, t: Int64) -> Int64:
    found = np.empty(len(lo), np.int64)
    for k in range(len(lo)):
        found[k] = lo[k] + np.searchsorted(ts[lo[k] : hi[k]], t[k], side="left")
    return found


def _alive(pieces: pd.DataFrame, place: Int64, pods: pd.DataFrame) -> pd.DataFrame:
    """Pieces within the known start and end of the pod at that row of ``pods``, -1 for none; devices' own come first."""
    started, ended = (np.append(pods[name].to_numpy(np.float64), np.nan)[place] for name in ("started_ms", "ended_ms"))
    begins, ends = (pieces[name].to_numpy(np.int64) for name in ("from_ms", "until_ms"))
    pieces = pieces.assign(
        from_ms=np.maximum(begins, np.where(np.isnan(started), -NEVER, started).astype(np.int64)),
        until_ms=np.minimum(ends, np.where(np.isnan(ended), NEVER, ended).astype(np.int64)),
    )
    return pieces.iloc[np.argsort(pieces.pod != "", kind="stable")].reset_index(drop=True)


def _with_uids(pieces: pd.DataFrame, ts: Int64, pods: pd.DataFrame) -> pd.DataFrame:
    """Uids where the source has none (R20), and each pod's known start and end.

    By the inventory at that time; where it does not know the name, the one uid that other series show the name with.
    """
    held = pieces.pod != ""
    unnamed = held & (pieces.pod_uid == "")
    if not unnamed.any() and not pods.duplicated(_POD).any():
        place = np.where(held, places_in(pieces, pods, _POD), -1)
        return _alive(pieces, place, pods)
    lives = pods[[*_POD, "seen_ms", "started_ms", "ended_ms"]].sort_values(["namespace", "pod", "seen_ms"])
    named = pieces[held & (pieces.pod_uid != "")].merge(lives.drop(columns="seen_ms"), on=_POD, how="left")
    by_name = lives.rename(columns={"pod_uid": "known_uid"})
    group = by_name.groupby(["namespace", "pod"])
    by_name["next_ms"] = group.seen_ms.shift(-1).fillna(NEVER).astype("int64")
    by_name["first_ms"] = np.where(group.cumcount() == 0, -NEVER, by_name.seen_ms)
    unnamed = pieces[unnamed].merge(by_name, on=["namespace", "pod"], how="left")
    shown = named.drop_duplicates(["namespace", "pod", "pod_uid"])
    shown = shown[~shown.duplicated(["namespace", "pod"], keep=False)].set_index(["namespace", "pod"]).pod_uid
    by_series = shown.reindex(pd.MultiIndex.from_frame(unnamed[["namespace", "pod"]])).set_axis(unnamed.index)
    unnamed["pod_uid"] = unnamed.known_uid.fillna(by_series).fillna("")
    unnamed = _cut(unnamed, ts, unnamed.first_ms.fillna(-NEVER).astype("int64"), unnamed.next_ms.fillna(NEVER).astype("int64"))
    lived = pd.concat([named, unnamed], ignore_index=True)
    lived = lived.assign(
        from_ms=np.maximum(lived.from_ms, lived.started_ms.fillna(-NEVER)).astype("int64"),
        until_ms=np.minimum(lived.until_ms, lived.ended_ms.fillna(NEVER)).astype("int64"),
    )
    return pd.concat([pieces[~held], lived], ignore_index=True)
