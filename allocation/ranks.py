"""Texts and keys of several parts as whole numbers in their order, so that small tables are put in order without a data frame.

Here does not belong what the texts mean.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation.coded import coded, text_column

Int64 = npt.NDArray[np.int64]


def ranks(texts: "pd.Series[str]") -> Int64:
    """A number for each text, in the order of the texts; 0 is the empty one."""
    column = text_column(texts).dictionary_encode()
    known = column.dictionary.to_numpy(zero_copy_only=False)
    order = np.argsort(known)
    place = np.empty(len(known), np.int64)
    place[order] = np.arange(len(known)) + (0 if len(known) and known[order[0]] == "" else 1)
    rank: Int64 = place[column.indices.to_numpy()]
    return rank


def numbers_of(texts: "pd.Series[str]", meaning: Mapping[str, int]) -> Int64:
    """What each text stands for."""
    column = text_column(texts).dictionary_encode()
    found: Int64 = np.array([meaning[text] for text in column.dictionary.to_pylist()], np.int64)[column.indices.to_numpy()]
    return found


def distinct(*parts: Int64) -> tuple[Int64, Int64]:
    """A number for each row, equal for rows whose parts are all equal and in the order of the parts; the first row of each."""
    count = len(parts[0])
    order = np.lexsort(parts[::-1])
    fresh = np.zeros(count, np.bool_)
    fresh[:1] = True
    for part in parts:
        ordered = part[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    number = np.empty(count, np.int64)
    number[order] = np.cumsum(fresh) - 1
    return number, order[fresh]


def places_in(asked: pd.DataFrame, known: pd.DataFrame, names: Sequence[str], numbers: Sequence[str] = ()) -> Int64:
    """The row of ``known`` that has the same texts (and whole numbers) as each row of ``asked``, -1 where none has.

    No two rows of ``known`` have the same.
    """
    parts = []
    for name in names:
        text = coded(known[name])
        parts.append((text.codes, np.maximum(text.numbers_of(text_column(asked[name])), -2)))
    parts += [(known[name].to_numpy(np.int64), asked[name].to_numpy(np.int64)) for name in numbers]
    number, first = distinct(*(np.concatenate(part) for part in parts))
    place = np.full(len(first), -1, np.int64)
    place[number[: len(known)]] = np.arange(len(known))
    found: Int64 = place[number[len(known) :]]
    return found
