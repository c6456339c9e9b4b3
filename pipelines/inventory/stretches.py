"""The stretches of one metric of the inventory, read column by column: labels, times, values.

Here belong the reading of label maps and what a server does to labels (``exported_``). Here does not belong what a metric means.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import INVENTORY
from allocation.times import to_ms
from pipelines.metric_sources.base import InfoSeries

Int64: TypeAlias = npt.NDArray[np.int64]
Int32: TypeAlias = npt.NDArray[np.int32]
Float64: TypeAlias = npt.NDArray[np.float64]

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
LATEST_MS = to_ms(LATEST)
MAP = pa.map_(pa.string(), pa.string())
_EXPORTED = "exported_"


def inventory_table(series: Sequence[InfoSeries]) -> pa.Table:
    """The table ``inventory`` of these series. What is no text (half of a surrogate pair) becomes a question mark."""
    every = [s.labels for s in series]
    counts = np.fromiter(map(len, every), np.int32, len(every))
    keys, values = _texts(list(chain.from_iterable(every))), _texts(list(chain.from_iterable(m.values() for m in every)))
    order = _by_key(np.repeat(np.arange(len(every), dtype=np.int32), counts), keys)
    if order is not None:
        keys, values = keys.take(order), values.take(order)
    labels = pa.MapArray.from_arrays(np.append(np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)), keys, values)
    columns = {
        "metric": _texts([s.metric for s in series]),
        "labels": labels,
        "first_ms": pa.array([s.first_ms for s in series], pa.int64()),
        "last_ms": pa.array([s.last_ms for s in series], pa.int64()),
        "value": pa.array([s.value for s in series], pa.float64()),
    }
    return pa.table(columns, schema=INVENTORY.arrow())


def _by_key(row: Int32, keys: pa.Array) -> pa.Array | None:
    """The order of the entries in which each row has its keys in order; None where they stand so."""
    names = keys.dictionary_encode()
    rank = np.empty(len(names.dictionary), np.int32)
    rank[pc.sort_indices(names.dictionary).to_numpy()] = np.arange(len(rank), dtype=np.int32)
    place = rank[names.indices.to_numpy()]
    if ((np.diff(place) > 0) | (np.diff(row) > 0)).all():
        return None
    return pa.array(np.lexsort((place, row)))


def _texts(values: list[str]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([v.encode("utf-8", "replace").decode("utf-8") for v in values], pa.string())


def text_column(values: "pd.Series[str]") -> pa.Array:
    """A text column in one piece, null where it says nothing."""
    column = pa.array(values, pa.string(), from_pandas=True)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


class Stretches:
    """All stretches of one metric; row = stretch. A blank label and an absent one are the same.

    ``rows`` are the metric's rows of the table ``inventory``.
    """

    def __init__(self, rows: pa.Table, metric: str) -> None:
        self.metric = metric
        self.first_ms: Int64 = rows["first_ms"].to_numpy()
        self.last_ms: Int64 = rows["last_ms"].to_numpy()
        self.value: Float64 = rows["value"].to_numpy()
        labels = pa.concat_arrays(rows["labels"].chunks) if len(rows) else pa.array([], MAP)
        starts = labels.offsets.to_numpy().astype(np.int64)
        keys = labels.keys.slice(starts[0], starts[-1] - starts[0]).dictionary_encode()
        self._values = labels.items.slice(starts[0], starts[-1] - starts[0])
        self._row = np.repeat(np.arange(len(labels), dtype=np.int32), np.diff(starts))
        self._key: Int32 = keys.indices.to_numpy()
        self._names: list[str] = keys.dictionary.to_pylist()
        self._moved = self._of_any([name for name in self._names if name.startswith(_EXPORTED)])

    def __len__(self) -> int:
        return len(self.first_ms)

    def _entries(self, names: Sequence[str]) -> Int64:
        """Places of the entries with one of these names."""
        wanted = np.isin(self._names, list(names)) if names else np.zeros(len(self._names), np.bool_)
        found: Int64 = np.flatnonzero(wanted[self._key]) if len(self._key) else np.empty(0, np.int64)
        return found

    def _of_any(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        rows = np.zeros(len(self), np.bool_)
        rows[self._row[self._entries(names)]] = True
        return rows

    def texts(self, *names: str) -> pa.Array:
        """The first of these labels that a row has, else an empty text.

        Where the server moved labels of kube-state-metrics aside, ``exported_X`` stands for X, and on such a row a plain X that
        others of the metric have as ``exported_X`` is the exporter's own and says nothing.
        """
        found = None
        for name in reversed(names):
            said = self._plain(name)
            if _EXPORTED + name in self._names:
                said = pc.if_else(pa.array(self._moved), self._plain(_EXPORTED + name), said)
            found = said if found is None else pc.if_else(pc.equal(said, ""), found, said)
        return found

    def label(self, *names: str) -> "pd.Series[str]":
        """The same for pandas."""
        return pd.Series(self.texts(*names).to_pandas())

    def _plain(self, name: str) -> pa.Array:
        entries = self._entries([name])
        if len(entries) == len(self) and (self._row[entries] == np.arange(len(self))).all():
            return pc.fill_null(self._values.take(pa.array(entries)), "")
        places = np.full(len(self), -1, np.int64)
        places[self._row[entries]] = entries
        return pc.fill_null(self._values.take(pa.array(places, mask=places < 0)), "")

    def times(self) -> pd.DataFrame:
        """``first_ms``, ``last_ms`` and ``value`` of each row."""
        return pd.DataFrame({"first_ms": self.first_ms, "last_ms": self.last_ms, "value": self.value})

    def content(self, prefix: str) -> tuple[pa.Array, Int64]:
        """The labels that begin with the prefix, without it, as a map a row and then an empty one; and a number a map.

        Equal maps have equal numbers, in any inventory.
        """
        entries = self._entries([name for name in self._names if name.startswith(prefix)])
        names = pa.array([name.removeprefix(prefix) for name in self._names], pa.string())
        keys, values = names.take(pa.array(self._key[entries])), self._values.take(pa.array(entries))
        counts = np.bincount(self._row[entries], minlength=len(self) + 1)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        numbers = _numbers_of(offsets[:-1], keys, values)
        return pa.MapArray.from_arrays(offsets.astype(np.int32), keys, values), numbers

    def joined(self, prefix: str) -> pa.Array:
        """The distinct values of the labels that begin with the prefix, in order, with commas between; empty for none."""
        entries = self._entries([name for name in self._names if name.startswith(prefix)])
        said = pd.DataFrame({"row": self._row[entries], "value": self._values.take(pa.array(entries)).to_pandas()})
        said = said[said.value != ""].drop_duplicates().sort_values(["row", "value"])
        offsets = np.searchsorted(said.row.to_numpy(), np.arange(len(self) + 1, dtype=np.int32))
        lists = pa.ListArray.from_arrays(offsets.astype(np.int32), text_column(said.value))
        return pc.binary_join(lists, ",")


def _numbers_of(offsets: Int64, keys: pa.Array, values: pa.Array) -> Int64:
    """A number for each list of pairs, equal for equal lists in any order of pairs: the sum of the pairs' 64-bit hashes."""
    pair = _hashes(keys) * np.uint64(0x9E3779B97F4A7C15) + _hashes(values)
    pair = (pair ^ (pair >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(pair ^ (pair >> np.uint64(29)), dtype=np.uint64)))
    number: Int64 = (sums[offsets[1:]] - sums[offsets[:-1]]).view(np.int64)
    return number


def _hashes(texts: pa.Array) -> npt.NDArray[np.uint64]:
    distinct = texts.dictionary_encode()
    words = np.array(distinct.dictionary.to_pylist(), dtype=object)
    hashes: npt.NDArray[np.uint64] = pd.util.hash_array(words, categorize=False)[distinct.indices.to_numpy()]
    return hashes


def last_of(rows: pd.DataFrame, key: str | list[str], order: list[str]) -> pd.DataFrame:
    """The last row of each key by these columns; only keys with several rows are put in order."""
    several = rows.duplicated(key, keep=False)
    if not several.any():
        return rows
    told = rows[several].sort_values(order).drop_duplicates(key, keep="last")
    return pd.concat([rows[~several], told])


def numbered(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Int64:
    """A number for each distinct row of these columns, in order of appearance."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        words = column.dictionary_encode()
        words = words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
        part = words.indices.to_numpy().astype(np.int64)
        number = pd.factorize(number * (part.max(initial=0) + 1) + part)[0].astype(np.int64)
    return number
