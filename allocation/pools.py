"""Idle policy `proportional`: the idle of a node's devices over all holders of the node (R11)."""

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.compiled import kernel
from allocation.frame_rows import (
    BUCKET,
    DEVICE,
    DEVICE_ORDINAL,
    DEVICE_WEIGHT,
    FREE,
    GPU,
    GPU_ORDINAL,
    GPU_WEIGHT,
    HOLDER,
    IDLE,
    KNOWN,
    NO_REASON,
    USED,
    WORKLOAD,
    Frame,
    Output,
    Topology,
    add_row,
)
from allocation.instant import ABSENT
from allocation.shares import credit

Int64 = npt.NDArray[np.int64]


@kernel
def pool_idle(topology: Topology, frame: Frame, first_row: int, out: Output) -> None:
    """Idle policy `proportional`: each device's idle over the node's holders by their used byte-time in the frame (R11)."""
    h0, h1 = topology.holder_offsets[frame.machine], topology.holder_offsets[frame.machine + 1]
    used = np.zeros((h1 - h0, 2), np.int64)
    all_high, all_low = 0, 0
    last_row = out.count[0]
    for r in range(first_row, last_row):
        if out.rows[r, BUCKET] == WORKLOAD:
            high, low = out.rows[r, USED], out.rows[r, USED + 1]
            credit(used, out.rows[r, HOLDER] - h0, 0, high, low)
            all_high, all_low = wide.add(all_high, all_low, high, low)
    if all_high == 0 and all_low == 0:
        return
    for r in range(first_row, last_row):
        if out.rows[r, BUCKET] == IDLE:
            _share_pool(frame, out, (first_row, last_row), r, used, (all_high, all_low), h0)


@kernel
def _share_pool(
    frame: Frame, out: Output, span: tuple[int, int], pool: int, used: Int64, total: tuple[int, int], h0: int
) -> None:
    place = np.full(len(used), ABSENT, np.int64)
    for r in range(span[0], span[1]):
        if out.rows[r, BUCKET] == WORKLOAD and out.rows[r, DEVICE] == out.rows[pool, DEVICE]:
            place[out.rows[r, HOLDER] - h0] = r
    high, low = out.rows[pool, FREE], out.rows[pool, FREE + 1]
    left_high, left_low = high, low
    first = ABSENT
    for h in range(len(used)):
        if used[h, 0] == 0 and used[h, 1] == 0:
            continue
        qh, ql, _, _ = wide.scale(high, low, used[h, 0], used[h, 1], total[0], total[1])
        if place[h] == ABSENT:
            place[h] = add_row(out, frame, out.rows[pool, GPU], out.rows[pool, DEVICE], WORKLOAD, NO_REASON, h0 + h)
            for column in (GPU_ORDINAL, GPU_WEIGHT + 1, DEVICE_ORDINAL, DEVICE_WEIGHT, DEVICE_WEIGHT + 1, KNOWN):
                out.rows[place[h], column] = out.rows[pool, column]
        credit(out.rows, place[h], FREE, qh, ql)
        left_high, left_low = wide.subtract(left_high, left_low, qh, ql)
        first = place[h] if first == ABSENT else first
    credit(out.rows, first, FREE, left_high, left_low)
    out.rows[pool, FREE], out.rows[pool, FREE + 1] = 0, 0
