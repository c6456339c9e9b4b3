"""Which of several stretches speaks when: the latest sample wins.

A stretch speaks from its first sight on; where it ends inside another that goes on, that one speaks again. Here does not belong
what the stretches say.
"""

import numpy as np
import pandas as pd

from allocation.compiled import kernel
from pipelines.inventory.stretches import Int64


def changes(group: Int64, first_ms: Int64, last_ms: Int64, content: Int64) -> pd.DataFrame:
    """When what is said of a group changes, in order of group and time.

    Args:
        group: of whom each stretch speaks.
        first_ms: its first sight.
        last_ms: its last sight.
        content: what it says; equal numbers say the same.

    Returns:
        One row a change: ``group``, ``at_ms``, ``stretch`` (its row), ``content``; neighbours of a group differ in content.
    """
    order = np.lexsort((content, last_ms, first_ms, group))
    who, at = _speakers(group[order], first_ms[order], last_ms[order])
    stretch = order[who]
    said = pd.DataFrame({"group": group[stretch], "at_ms": at, "stretch": stretch, "content": content[stretch]})
    said = said.drop_duplicates(["group", "at_ms"], keep="last")
    same = (said.group == said.group.shift()) & (said.content == said.content.shift())
    return said[~same].reset_index(drop=True)


@kernel
def _speakers(group: Int64, first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """Stretches in order of group and first sight into (stretch, time from which it speaks), in order."""
    n = len(group)
    who, at = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    open_ones = np.empty(n, np.int64)
    found, depth = 0, 0
    for k in range(n + 1):
        ends = k == n or (k > 0 and group[k] != group[k - 1])
        while depth > 0 and (ends or last[open_ones[depth - 1]] < first[k]):
            depth -= 1
            if depth > 0:
                who[found], at[found] = open_ones[depth - 1], last[open_ones[depth]] + 1
                found += 1
        if k == n:
            break
        while depth > 0 and last[open_ones[depth - 1]] <= last[k]:
            depth -= 1
        open_ones[depth] = k
        depth += 1
        who[found], at[found] = k, first[k]
        found += 1
    return who[:found], at[:found]
