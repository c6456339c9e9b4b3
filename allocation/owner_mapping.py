"""A table from finance as a source of owners: rows with keys and names; the first row that fits and names the field counts.

A cell of a key that is empty fits anything, one with ``*``, ``?`` or ``[`` is a glob, any other is the value itself. Here
belongs the look-up, all holders at once. Here does not belong reading the file (``pipelines.mapping_file``).
"""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.coded import Coded, combined, numbered

Int64 = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]
Bools = npt.NDArray[np.bool_]
ALWAYS = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
"""From and until (ms) of a row that is valid at all times."""
_GLOB = "[*?[]"


@dataclass(frozen=True, eq=False)
class OwnerMapping:
    """The rows of the file, column by column; texts are never null.

    ``keys`` are sources, or fields that were found without the mapping. ``rows`` are the rows' numbers in the file.
    ``from_ms`` and ``until_ms`` bound, half-open, the charge periods' starts for which a row is valid.
    """

    keys: Mapping[str, Texts]
    names: Mapping[str, Texts]
    rows: Int64
    from_ms: Int64
    until_ms: Int64
    digest: str
    """A hash of all of the above."""

    def find(self, field: str, said: Mapping[str, Coded], start_ms: Int64) -> Int64:
        """The place of each holder's row for that field, -1 for none.

        Args:
            field: one of ``names``.
            said: the holders' value of each key.
            start_ms: the start of each holder's charge period.
        """
        named = np.flatnonzero(self.names[field] != "")
        cells = {key: texts[named] for key, texts in self.keys.items() if (texts[named] != "").any()}
        dated = bool(((self.from_ms != ALWAYS[0]) | (self.until_ms != ALWAYS[1])).any())
        number, first = _distinct([said[key] for key in cells], start_ms if dated else np.zeros(len(start_ms), np.int64))
        holders = pd.DataFrame({key: said[key].codes[first] for key in cells}).assign(start_ms=start_ms[first])
        pattern = np.zeros(len(named), np.bool_)
        for texts in cells.values():
            pattern |= pd.Series(texts).str.contains(_GLOB).to_numpy(np.bool_)
        best = np.full(len(first), len(self.rows), np.int64)
        wanted = pd.DataFrame({"row": named, "from_ms": self.from_ms[named], "until_ms": self.until_ms[named]})
        exact = wanted[~pattern].assign(**{key: _codes(texts[~pattern], said[key]) for key, texts in cells.items()})
        _exact(exact, list(cells), holders, best)
        if pattern.any():
            _globs(wanted[pattern], {key: texts[pattern] for key, texts in cells.items()}, said, holders, best)
        place: Int64 = np.where(best == len(self.rows), -1, best)[number]
        return place


def _distinct(keys: Sequence[Coded], start_ms: Int64) -> tuple[Int64, Int64]:
    """The number of each distinct row of keys and start, and the first row of each number."""
    start, starts = pd.factorize(start_ms)
    return numbered(combined([(start.astype(np.int64), len(starts)), *((key.codes, len(key.values)) for key in keys)]))


def _codes(cells: Texts, said: Coded) -> Int64:
    """Each cell as the number that a holder must have: -2 for any, -3 for a value that no holder has."""
    codes = said.numbers_of(pa.array(cells, pa.string()))
    return np.where(codes < 0, codes - 1, codes)


def _exact(wanted: pd.DataFrame, keys: list[str], holders: pd.DataFrame, best: Int64) -> None:
    """Lowers ``best`` to the first row that fits, for rows without globs: one join for each set of filled keys."""
    filled = np.zeros(len(wanted), np.int64)
    for bit, key in enumerate(keys):
        filled |= (wanted[key].to_numpy() != -2).astype(np.int64) << bit
    for signature in np.unique(filled):
        mine = [key for bit, key in enumerate(keys) if signature >> bit & 1]
        rows = wanted[filled == signature].drop_duplicates([*mine, "from_ms", "until_ms"])
        columns = [*mine, "start_ms"]
        asked = holders[columns].assign(holder=np.arange(len(holders)))
        pairs = (
            asked.merge(rows.drop(columns=[k for k in keys if k not in mine]), on=mine) if mine else asked.merge(rows, "cross")
        )
        fits = pairs[(pairs.start_ms >= pairs.from_ms) & (pairs.start_ms < pairs.until_ms)]
        np.minimum.at(best, fits.holder.to_numpy(), fits.row.to_numpy())


def _globs(
    wanted: pd.DataFrame, cells: Mapping[str, Texts], said: Mapping[str, Coded], holders: pd.DataFrame, best: Int64
) -> None:
    """The same for rows with globs, one row after the other; what a glob fits is looked up once a key and glob."""
    values, codes = {}, {}
    for key in cells:
        order = pc.sort_indices(said[key].values)
        values[key] = pd.Index(said[key].values.take(order).to_numpy(zero_copy_only=False), dtype=object)
        rank = np.full(len(order) + 1, -1, np.int64)
        rank[order.to_numpy()] = np.arange(len(order))
        codes[key] = rank[holders[key].to_numpy()]
    starts = holders.start_ms.to_numpy()
    fitting: dict[tuple[str, str], Bools | tuple[int, int]] = {}
    for at, (row, begins, ends) in enumerate(zip(wanted.row, wanted.from_ms, wanted.until_ms, strict=True)):
        left = np.flatnonzero((best > row) & (starts >= begins) & (starts < ends))
        for key, texts in cells.items():
            if texts[at] and len(left):
                cell = (key, texts[at])
                fit = fitting[cell] if cell in fitting else fitting.setdefault(cell, _fits(texts[at], values[key]))
                mine = codes[key][left]
                left = left[(mine >= fit[0]) & (mine < fit[1]) if isinstance(fit, tuple) else fit[mine]]
        best[left] = row


def _fits(text: str, values: pd.Index) -> Bools | tuple[int, int]:
    """Which of the sorted values a cell fits: from and until, or one truth a value and False at the end (for no value)."""
    start = text.removesuffix("*")
    if not any(c in start for c in "*?["):
        first = int(values.searchsorted(start))
        if start != text:
            return first, int(values.searchsorted(start + chr(0x10FFFF)))
        return first, first + int(first < len(values) and values[first] == text)
    return np.append(pd.Series(values, dtype=object).str.match(fnmatch.translate(text)).to_numpy(np.bool_), [False])
