"""What pods declared to need of a device, from the inventory where the source has no such series (R43).

Memory in bytes comes first, else the fraction of the card's memory. Where nobody tells the card's memory and every pod that is
ever seen on the device declared a fraction, the fractions themselves are the weights. What a pod declares can change: at each
instant what it declared last counts.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation.lives import DECLARED, POD_KEY, among
from allocation.pieces import Pieces

Int64 = npt.NDArray[np.int64]
_PLACE = ["machine", "gpu_uuid", "gpu_instance"]
_WHOLE = 2**40
"""What a fraction of 1 weighs where the card's memory is not known."""


def with_declared(pieces: Pieces, lives: pd.DataFrame, told: pd.DataFrame, machines: pd.DataFrame) -> Pieces:
    """The pieces and, for each holder of a device that several hold, a piece of what it declared, at its own samples' times.

    Args:
        pieces: of all series.
        lives: one row a pod; see ``lives.pod_lives``.
        told: what pods declared by time; see ``lives.declarations``.
        machines: the shard's machines.
    """
    if not told[DECLARED].notna().to_numpy().any():
        return pieces
    told = told[told[DECLARED].notna().any(axis=1).groupby([told[c] for c in POD_KEY]).transform("any")]
    if told.empty:
        return pieces
    table = pieces.table
    rows = table[(table.role == "pod_memory") & (table.pod != "")]
    rows = rows[~among(rows, lives[lives.is_reservation])]
    holders = rows.drop_duplicates([*_PLACE, *POD_KEY])
    shared = holders.groupby(_PLACE).pod.transform("size") > 1
    by_series = table[table.role == "declared"][[*_PLACE, *POD_KEY]].drop_duplicates().assign(by_series=True)
    holders = holders[shared].merge(by_series, on=[*_PLACE, *POD_KEY], how="left").reset_index(names="holder")
    versions = holders.merge(told, on=POD_KEY, how="left")
    versions = versions.assign(weight=_weights(versions, machines))
    some = versions.weight.notna().groupby(versions.holder).transform("any")
    versions = versions[some & versions.by_series.isna()]
    if versions.empty:
        return pieces
    return _with_amounts(pieces, rows, versions)


def _weights(versions: pd.DataFrame, machines: pd.DataFrame) -> "pd.Series[float]":
    """What each holder declared in bytes, NaN where nothing can be said."""
    memory = versions.machine.map(machines.gpu_memory_bytes).astype("float64").where(versions.gpu_instance == "")
    fractions = versions.by_series.isna() & versions.declared_memory_bytes.isna() & versions.declared_fraction.notna()
    only = fractions.groupby([versions[c] for c in _PLACE]).transform("all")
    size = memory.fillna(only.map({True: float(_WHOLE), False: np.nan}))
    return versions.declared_memory_bytes.fillna(versions.declared_fraction * size).round()


def _with_amounts(pieces: Pieces, rows: pd.DataFrame, versions: pd.DataFrame) -> Pieces:
    """For each holder a piece of what it declared at every time at which any of its rows has a sample; without it no sample."""
    wanted = versions.drop_duplicates("holder").drop(columns=[*DECLARED, "declared_from_ms", "weight"]).reset_index(drop=True)
    number = wanted[[*_PLACE, *POD_KEY]].reset_index(names="number")
    rows = rows.merge(number, on=[*_PLACE, *POD_KEY]).sort_values("number", ignore_index=True)
    count = (rows.hi - rows.lo).to_numpy(np.int64)
    before = np.concatenate(([0], np.cumsum(count)[:-1]))
    times = pieces.ts[np.repeat(rows.lo.to_numpy(np.int64) - before, count) + np.arange(count.sum())]
    whose = np.repeat(rows.number.to_numpy(np.int64), count)
    if rows.number.duplicated().any():
        order = np.lexsort((times, whose))
        times, whose = times[order], whose[order]
        fresh = np.concatenate(([True], (times[1:] != times[:-1]) | (whose[1:] != whose[:-1])))
        times, whose = times[fresh], whose[fresh]
    values = _at(times, whose, versions)
    there = ~np.isnan(values)
    times, whose, values = times[there], whose[there], values[there]
    ends = np.searchsorted(whose, np.arange(len(wanted) + 1))
    life = rows.groupby("number")
    more = wanted.assign(
        role="declared",
        level="container",
        metric="declared by " + wanted.namespace + "/" + wanted.pod + "/" + wanted.pod_uid,
        container="",
        includes_reserved=False,
        from_ms=life.from_ms.min(),
        until_ms=life.until_ms.max(),
        lo=ends[:-1],
        hi=ends[1:],
    )
    return pieces.with_more(more[more.lo < more.hi], times, values.astype(np.int64))


def _at(times: Int64, whose: Int64, versions: pd.DataFrame) -> npt.NDArray[np.float64]:
    """What each numbered holder declared at each time; NaN: nothing."""
    holder = np.searchsorted(versions.holder.unique(), versions.holder)
    told = pd.DataFrame({"whose": holder, "at": versions.declared_from_ms.astype("int64"), "weight": versions.weight})
    asked = pd.DataFrame({"whose": whose, "at": times, "place": np.arange(len(times))})
    found = pd.merge_asof(asked.sort_values("at", kind="stable"), told.sort_values("at"), on="at", by="whose")
    values: npt.NDArray[np.float64] = found.sort_values("place").weight.to_numpy(np.float64)
    return values
