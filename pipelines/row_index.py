"""Rows of a table by the text in one of its columns, found by number so that a look-up costs by what it finds.

Here does not belong which rows a task needs (``shard_tasks``).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

Int64 = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]
_BETWEEN = "\x00"


class RowIndex:
    """The rows of each text; empty texts and nulls have none."""

    def __init__(self, texts: "pd.Series[str] | pa.ChunkedArray | Texts") -> None:
        codes, known = pd.factorize(_texts(texts))
        self._known = pd.Index(known, dtype=object)
        self._order = np.argsort(codes, kind="stable")
        self._begins = np.searchsorted(codes[self._order], np.arange(len(known) + 1))

    def of(self, texts: Iterable[str]) -> Int64:
        """The rows that have one of these texts, in order."""
        wanted = pd.unique(np.array([*texts], object))
        places = self._known.get_indexer(wanted) if len(wanted) else np.empty(0, np.int64)
        places = places[places >= 0]
        begins, counts = self._begins[places], self._begins[places + 1] - self._begins[places]
        first = np.cumsum(counts) - counts
        return np.sort(self._order[np.repeat(begins - first, counts) + np.arange(counts.sum())])


def united(*rows: Int64) -> Int64:
    """Rows that are in any of these, in order."""
    found: Int64 = np.unique(np.concatenate(rows))
    return found


def joined(table: pa.Table) -> Texts:
    """Namespace and pod of each row as one text, None where there is no pod."""
    namespace, pod = (table[name].to_numpy() for name in ("namespace", "pod"))
    both: Texts = namespace + _BETWEEN + pod
    both[pod == ""] = None
    return both


def _texts(texts: "pd.Series[str] | pa.ChunkedArray | Texts") -> Texts:
    values = texts if isinstance(texts, np.ndarray) else texts.to_numpy()
    values = values.astype(object)
    values[values == ""] = None
    return values
