"""What pods declared to need of a device, from the inventory where the source has no such series (R43).

Memory in bytes comes first, else the fraction of the card's memory. Where nobody tells the card's memory and every pod that is
ever seen on the device declared a fraction, the fractions themselves are the weights.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation.lives import POD_KEY, among
from allocation.pieces import Pieces

Int64 = npt.NDArray[np.int64]
_PLACE = ["machine", "gpu_uuid", "gpu_instance"]
_WHOLE = 2**40
"""What a fraction of 1 weighs where the card's memory is not known."""


def with_declared(pieces: Pieces, lives: pd.DataFrame, machines: pd.DataFrame) -> Pieces:
    """The pieces and, for each holder of a device that several hold, a piece of what it declared, at its own samples' times."""
    known = lives[lives.declared_memory_bytes.notna() | lives.declared_fraction.notna()]
    if known.empty:
        return pieces
    table = pieces.table
    rows = table[(table.role == "pod_memory") & (table.pod != "")]
    rows = rows[~among(rows, lives[lives.is_reservation])]
    holders = rows.drop_duplicates([*_PLACE, *POD_KEY])
    shared = holders.groupby(_PLACE).pod.transform("size") > 1
    told = table[table.role == "declared"][[*_PLACE, *POD_KEY]].drop_duplicates().assign(told=True)
    holders = holders[shared].merge(told, on=[*_PLACE, *POD_KEY], how="left")
    holders = holders.merge(known[[*POD_KEY, "declared_memory_bytes", "declared_fraction"]], on=POD_KEY, how="left")
    holders = holders.assign(weight=_weights(holders, machines))
    wanted = holders[holders.weight.notna() & holders.told.isna()].reset_index(drop=True)
    if wanted.empty:
        return pieces
    return _with_constant(pieces, rows, wanted)


def _weights(holders: pd.DataFrame, machines: pd.DataFrame) -> "pd.Series[float]":
    """What each holder declared in bytes, NaN where nothing can be said."""
    memory = holders.machine.map(machines.gpu_memory_bytes).astype("float64").where(holders.gpu_instance == "")
    fractions = holders.told.isna() & holders.declared_memory_bytes.isna() & holders.declared_fraction.notna()
    only = fractions.groupby([holders[c] for c in _PLACE]).transform("all")
    size = memory.fillna(only.map({True: float(_WHOLE), False: np.nan}))
    return holders.declared_memory_bytes.fillna(holders.declared_fraction * size).round()


def _with_constant(pieces: Pieces, rows: pd.DataFrame, wanted: pd.DataFrame) -> Pieces:
    """For each wanted holder a piece of its weight at every time at which any of its rows has a sample."""
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
    values: Int64 = wanted.weight.to_numpy(np.float64).astype(np.int64)[whose]
    return pieces.with_more(more, times, values)
