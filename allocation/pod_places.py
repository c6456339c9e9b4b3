"""Which row of the table ``pods`` each holder is.

A pod has a row for each version of its labels. A holder gets the one that was last seen before its period ended (before the
first: the first). A holder without a uid, or one whose uid the inventory does not have, is the pod of that name that came last
before then. Here does not belong what the row says (``owner_values``).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.coded import Coded, coded, combined, text_column
from allocation.lookup import rows_before
from allocation.times import milliseconds

Int64 = npt.NDArray[np.int64]
KEY = ("namespace", "pod", "pod_uid")


class _Keys(NamedTuple):
    """The parts of the key of each row, as numbers that mean the same for holders and pods."""

    parts: Sequence[Int64]
    sizes: Sequence[int]

    def of(self, rows: Int64, names: int) -> list[tuple[Int64, int]]:
        """The first parts of these rows."""
        return [(part[rows], size) for part, size in zip(self.parts[:names], self.sizes, strict=False)]


def pod_places(names: Sequence[Coded], holders: pd.DataFrame, pods: pa.Table) -> Int64:
    """Each holder's row of ``pods``, -1 for none.

    Args:
        names: the holders' namespace and pod.
        holders: ``pod_uid`` (empty where unknown), ``end_ms``.
        pods: table ``pods``.
    """
    mine = [*names, coded(holders["pod_uid"])]
    sizes = [len(part.values) for part in mine]
    theirs = _Keys([part.numbers_of(text_column(pods[name])) for part, name in zip(mine, KEY, strict=True)], sizes)
    asked, end = _Keys([part.codes for part in mine], sizes), holders["end_ms"].to_numpy(np.int64)
    named = (theirs.parts[0] > -2) & (theirs.parts[1] > -2)
    version = milliseconds(pods["labels_from"])
    uid = theirs.parts[2]
    place = _last_before(asked, np.arange(len(end)), end, theirs, np.flatnonzero(named & (uid > -2)), version, len(KEY))
    came = np.maximum(version, milliseconds(pods["seen_from"]))
    lost = place < 0
    for rows, known in (
        (np.flatnonzero(lost & (asked.parts[2] < 0)), np.flatnonzero(named)),
        (np.flatnonzero(lost & (asked.parts[2] >= 0)), np.flatnonzero(named & (uid == -1))),
    ):
        place[rows] = _last_before(asked, rows, end, theirs, known, came, len(KEY) - 1)
    return place


def _last_before(asked: _Keys, rows: Int64, end: Int64, theirs: _Keys, known: Int64, from_ms: Int64, names: int) -> Int64:
    """For each of these holders the last of the known pods with the same key and ``from_ms`` before ``end``, else the first."""
    if not len(known) or not len(rows):
        return np.full(len(rows), -1, np.int64)
    both = zip(theirs.of(known, names), asked.of(rows, names), strict=True)
    group, distinct = pd.factorize(combined([(np.concatenate((one, other)), size) for (one, size), (other, _) in both]))
    whose, mine = group[: len(known)], group[len(known) :]
    order = np.lexsort((from_ms[known], whose))
    count = np.bincount(whose, minlength=len(distinct))
    first = np.cumsum(count) - count
    at = first[mine]
    several = np.flatnonzero(count[mine] > 1)
    if len(several):
        before = rows_before(whose[order], from_ms[known][order], mine[several], end[rows[several]]) - 1
        at[several] = np.maximum(before, at[several])
    found: Int64 = known[order][np.minimum(at, len(order) - 1)]
    return np.where(count[mine] > 0, found, -1)
