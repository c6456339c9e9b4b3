"""A column of texts as its distinct values and a number a row, so that what is asked of a text is asked once a value.

Here belongs that form, however the texts come. Here does not belong what they mean.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]
_FITS = 2**62


class Coded(NamedTuple):
    """Texts of many rows: the place in ``values`` of each row's, -1 for none. Values are distinct; no row has an empty text."""

    codes: Int64
    values: pa.Array

    def fits(self, of_value: Bools) -> Bools:
        """Which rows have a value of which something holds; none that has no value."""
        hit: Bools = np.append(of_value, [False])[self.codes]
        return hit

    def tested(self, test: Callable[[str], object]) -> Bools:
        """Which rows pass a test, made once a value."""
        return self.fits(np.fromiter((bool(test(value)) for value in self.values.to_pylist()), np.bool_, len(self.values)))

    def at(self, places: Int64) -> "Coded":
        """The texts of these rows, -1 for a row that is not there."""
        return Coded(np.append(self.codes, [-1])[places], self.values)

    def texts(self, none: str | None = None) -> Texts:
        """One text a row, and ``none`` for none."""
        told: Texts = np.append(self.values.to_numpy(zero_copy_only=False), [none])[self.codes]
        return told

    def column(self) -> pa.Array:
        """One text a row, null for none."""
        return self.values.take(pa.array(self.codes, mask=self.codes < 0))

    def numbers_of(self, texts: pa.Array) -> Int64:
        """The code of each of these texts: -1 for none, -2 for one that is not among the values."""
        codes = _codes(pc.index_in(texts, value_set=self.values), -2)
        empty: Int64 = np.where(pc.equal(texts, "").to_numpy(zero_copy_only=False), -1, codes)
        return empty


def nothing(rows: int) -> Coded:
    """So many rows without a text."""
    return Coded(np.full(rows, -1, np.int64), pa.array([], pa.string()))


def always(text: str | None, rows: int) -> Coded:
    """One text in each row; none where it is empty."""
    return Coded(np.zeros(rows, np.int64), pa.array([text], pa.string())) if text else nothing(rows)


def coded(texts: "pa.Array | pa.ChunkedArray | pd.Series[str]") -> Coded:
    """A column of texts; what is null or empty is none."""
    column = text_column(texts).dictionary_encode()
    codes, empty = _codes(column.indices), pc.index(column.dictionary, "").as_py()
    return Coded(np.where(codes == empty, -1, codes) if empty >= 0 else codes, column.dictionary)


def text_column(texts: "pa.Array | pa.ChunkedArray | pd.Series[str]") -> pa.Array:
    """The texts in one piece of Arrow's type string."""
    column = texts
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        column = pa.array(column, from_pandas=True)
    if column.type != pa.string():
        column = column.cast(pa.string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _codes(indices: pa.Array, none: int = -1) -> Int64:
    numbers: Int64 = pc.fill_null(indices, none).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def numbered(number: Int64) -> tuple[Int64, Int64]:
    """Whole numbers counted from 0 in order of appearance, and the first row of each."""
    counted, distinct = pd.factorize(number)
    first = np.empty(len(distinct), np.int64)
    first[counted[::-1]] = np.arange(len(counted))[::-1]
    return counted.astype(np.int64), first


def united(parts: Sequence[Coded], take: Int64) -> Coded:
    """The text of one of several columns in each row: ``take`` is the column's number, -1 for none."""
    values = pa.chunked_array([part.values for part in parts], pa.string()).combine_chunks().dictionary_encode()
    number, begin = np.append(_codes(values.indices), [-1]), 0
    codes = np.full(len(take), -1, np.int64)
    for k, part in enumerate(parts):
        rows = np.flatnonzero(take == k)
        mine = part.codes[rows]
        codes[rows] = number[np.where(mine < 0, -1, mine + begin)]
        begin += len(part.values)
    return Coded(codes, values.dictionary)


def combined(columns: Sequence[tuple[Int64, int]]) -> Int64:
    """A number for each row that is equal for equal rows only.

    Args:
        columns: numbers of each row from -1 on, and how many different ones above -1 there may be.
    """
    number, most = columns[0][0], columns[0][1]
    for codes, count in columns[1:]:
        if (most + 1) * (count + 1) >= _FITS:
            number, distinct = pd.factorize(number)
            most = len(distinct)
        number = number * (count + 1) + codes
        most = (most + 1) * (count + 1)
    return number.astype(np.int64)
