"""What rows of ``chargeback`` stand for beside money: times of GPUs, memory over time and tokens, each counted once.

Several lines bill the same time of a machine, and each has a row for all that the machine did in it. Of one cost metric only one
line's rows count. All quantities are whole numbers, so that they add up the same in any order. Here does not belong what the sums
are shown as (``marts``).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import wide
from allocation.apportion import weights_of
from allocation.coded import coded, combined
from allocation.compiled import read_only
from allocation.frame_rows import LAST_ORDINAL
from allocation.model_split import Shares
from allocation.shares import divide_groups
from allocation.sums import PARTS_OF_A_GIB_SECOND, PARTS_OF_A_MS

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
GIB_MS = float(2**30 * 1000)
_BYTE_TIMES = ("used_byte_ms", "overhead_byte_ms", "idle_byte_ms")


def counted_parts(parts: pd.DataFrame, metric: Int64, first: Int64, of_host: Bools) -> Bools:
    """Which parts of lines count: of each cost metric one for each moment of a machine.

    Of the parts over one frame that is the one with the largest amount, the first of equal ones. Of frames that overlap it is the
    shortest: a longer one counts where no shorter one of its machine does. A machine's host is apart from its GPUs where the
    frame tells them apart.

    Args:
        parts: as of ``chargeback.charge``.
        metric: the number of each part's cost metric.
        first: the first row of its frame.
        of_host: whether that frame has the host's rows only.
    """
    start, end, nanos = (parts[name].to_numpy(np.int64) for name in ("start_ms", "end_ms", "nanos"))
    order = np.lexsort((-np.abs(nanos), first, metric))
    chosen = order[_fresh(metric[order], first[order])]
    machine = coded(parts.node_key)
    group = combined([(metric, int(metric.max(initial=0)) + 1), (machine.codes, len(machine.values)), (of_host * 1, 2)])
    found = np.zeros(len(parts), np.bool_)
    found[chosen[_shortest(group[chosen], start[chosen], end[chosen])]] = True
    return found


def _fresh(*columns: Int64) -> Bools:
    """Where a row differs from the one before."""
    found = np.ones(len(columns[0]), np.bool_)
    found[1:] = np.any([np.diff(column) != 0 for column in columns], axis=0)
    return found


def _shortest(group: Int64, start: Int64, end: Int64) -> Bools:
    """Which periods are kept so that none of a group overlap: shorter ones first, earlier ones first among equal lengths."""
    if not len(group):
        return np.zeros(0, np.bool_)
    span = int(end.max() - start.min()) + 1
    group = np.unique(group, return_inverse=True)[1]
    begin, stop = group * span + (start - start.min()), group * span + (end - start.min())
    order = np.argsort(begin, kind="stable")
    latest = np.maximum.accumulate(stop[order])
    crowded = np.isin(group, group[order][1:][begin[order][1:] < latest[:-1]])
    kept = ~crowded
    for length in np.unique((stop - begin)[crowded]):
        mine = np.flatnonzero(crowded & (stop - begin == length))
        mine = mine[np.argsort(begin[mine], kind="stable")]
        taken = [np.sort(edge[kept]) for edge in (begin, stop)]
        free = np.searchsorted(taken[0], stop[mine]) == np.searchsorted(taken[1], begin[mine], side="right")
        kept[_one_after_another(mine[free], begin, int(length))] = True
    return kept


def _one_after_another(mine: Int64, begin: Int64, length: int) -> Int64:
    """Of periods of one length, in order of their begin, those that do not overlap one that is kept before."""
    while True:
        near = np.diff(begin[mine], prepend=np.iinfo(np.int64).min // 2) < length
        if not near.any():
            return mine
        mine = mine[~(near & ~np.append([False], near[:-1]))]


def of_usage(usage: pa.Table, frames: pd.DataFrame, holder: Int64, requested: npt.NDArray[np.float64]) -> Int64:
    """Quantities of each row of ``usage``, in the order of ``sums.QUANTITIES`` without tokens.

    A GPU's expected time is divided over its rows as its money is. What pods requested counts over the time that they held
    devices, an equal part on each of their rows.

    Args:
        usage: table ``usage``.
        frames: ``first``, ``last``, ``expected_ms`` and ``gpus`` (0: unknown) of each of its frames, in order.
        holder: the number of each row's holder, -1 where nobody asks for the row.
        requested: GPUs that each holder requested, NaN where unknown.
    """
    frame = np.repeat(np.arange(len(frames)), frames["last"].to_numpy(np.int64) - frames["first"].to_numpy(np.int64))
    workload = pc.equal(usage["bucket"], "workload").to_numpy(zero_copy_only=False)
    held = np.where(workload, usage["observed_ms"].to_numpy() + usage["imputed_ms"].to_numpy(), 0)
    mine = np.flatnonzero((held > 0) & (holder >= 0))
    number = pd.factorize(combined([(frame[mine], len(frames)), (holder[mine], len(requested))]))[0]
    of_row = np.zeros(len(usage))
    asked = np.nan_to_num(np.append(requested, [0.0])[holder[mine]])
    of_row[mine] = asked * held[mine] / np.bincount(number)[number]
    columns = [_gpu_time(usage, frame, frames), held * PARTS_OF_A_MS, np.rint(of_row * PARTS_OF_A_MS).astype(np.int64)]
    for name in _BYTE_TIMES:
        gib_seconds = wide.to_float(*wide.from_decimal_column(usage[name])) / GIB_MS
        columns.append(np.rint(gib_seconds * PARTS_OF_A_GIB_SECOND).astype(np.int64))
    return np.column_stack(columns)


def _gpu_time(usage: pa.Table, frame: Int64, frames: pd.DataFrame) -> Int64:
    """Each GPU's expected time over its devices and their rows, exactly; a host has none."""
    if not len(usage):
        return np.empty(0, np.int64)
    gpu, device = (usage[name].to_numpy().astype(np.int64) for name in ("gpu_ordinal", "device_ordinal"))
    of_gpu, of_device = np.flatnonzero(_fresh(frame, gpu)), np.flatnonzero(_fresh(frame, gpu, device))
    count = np.ones(len(usage), np.int64)
    unseen = pc.fill_null(pc.equal(usage["reason"], "node_without_metrics"), False).to_numpy(zero_copy_only=False)
    count[unseen] = frames["gpus"].to_numpy(np.int64)[frame[unseen]]
    count[gpu == LAST_ORDINAL] = 0
    whole = (frames["expected_ms"].to_numpy(np.int64)[frame] * count * PARTS_OF_A_MS)[of_gpu]
    if len(of_device) > len(of_gpu):
        weight = wide.from_decimal_column(usage["device_weight"])
        offsets = np.append(np.searchsorted(of_device, of_gpu), len(of_device))
        whole = _divided(whole, offsets, weight[0][of_device], weight[1][of_device])
    if len(usage) == len(of_device):
        alone: Int64 = whole
        return alone
    high, low = _sum_of_weights(usage)
    return _divided(whole, np.append(of_device, len(usage)), high, low)


def _sum_of_weights(usage: pa.Table) -> tuple[Int64, Int64]:
    flat = weights_of(usage)
    high, low = flat[:, 0, 0], flat[:, 0, 1]
    for column in (1, 2):
        low = low + flat[:, column, 1]
        high, low = high + flat[:, column, 0] + (low >> wide.BITS), low & wide.MASK
    return high, low


def _divided(whole: Int64, offsets: Int64, high: Int64, low: Int64) -> Int64:
    parts: Int64 = divide_groups(*map(read_only, (whole, offsets.astype(np.int64), high, low)))
    return parts


def tokens_of(keys: Sequence[Int64], share: Int64, shares: Shares, may_count: Bools, is_host: Bools) -> pa.Array:
    """Tokens on the first row that counts of each holder and model, one of a GPU if there is any; null elsewhere.

    Args:
        keys: the number of each row's cost metric, and of its holder.
        share: of each row, -1 where it is not split over models.
        shares: with what was counted.
        may_count: whether the row's line counts.
        is_host: whether the row divides the host's part.
    """
    size, number = len(share), keys[-1]
    if not len(shares.tokens) and not len(shares.unnamed):
        return pa.nulls(size, pa.int64())
    of_share = np.append(shares.tokens, [-1])[share]
    of_holder = np.full(int(number.max(initial=0)) + 1, -1, np.int64)
    of_holder[shares.unnamed] = shares.unnamed_tokens
    tokens = np.where(share >= 0, of_share, of_holder[number])
    rows = np.flatnonzero(may_count & (tokens >= 0))
    rows = rows[np.argsort(is_host[rows], kind="stable")]
    key = combined([*((k[rows], int(k.max(initial=0)) + 1) for k in keys), (share[rows], len(shares.model))])
    once = np.zeros(size, np.bool_)
    once[rows[~pd.Series(key).duplicated().to_numpy()]] = True
    return pa.array(np.where(once, tokens, 0), mask=~once)
