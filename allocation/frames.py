"""A frame is one period of one machine: the rows of weights of all its GPUs, and of what must exist and does not.

Rules R12, R17, R18. Most rows come out in the order of division; ``usage`` sorts them where they do not.
"""

import numpy as np
import numpy.typing as npt

from allocation.board import Board, make_board
from allocation.cards import Terms, sweep_gpu
from allocation.compiled import kernel
from allocation.frame_rows import (
    DEVICE_WEIGHT,
    GPU_ORDINAL,
    GPU_WEIGHT,
    NODE_WITHOUT_METRICS,
    NOTE_NODE,
    UNALLOCATED,
    UNMEASURED,
    Frame,
    Output,
    Topology,
    add_note,
    add_row,
)
from allocation.instant import ABSENT
from allocation.intervals import Runs
from allocation.missing import add_host, add_missing, known_sizes, seen_gpu
from allocation.pools import pool_idle
from allocation.sweep import ACCOUNT_COLUMNS, PROPORTIONAL, SUM_COLUMNS

Int64 = npt.NDArray[np.int64]


@kernel
def sweep_frame(runs: Runs, topology: Topology, terms: Terms, desk: Board, frame: Frame, out: Output) -> None:
    """All rows of one period of one machine."""
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    first_row = out.count[0]
    sizes = np.zeros(g1 - g0, np.int64)
    seen = False
    for g in range(g0, g1):
        seen = seen or seen_gpu(topology, g, frame)
        row = out.count[0]
        k = sweep_gpu(runs, topology, terms, desk, frame, g, out)
        if k != ABSENT:
            sizes[g - g0] = k
            for r in range(row, out.count[0]):
                out.rows[r, GPU_WEIGHT + 1], out.rows[r, GPU_ORDINAL] = k, g - g0
    if not seen and known_sizes(sizes)[0] == 0:
        r = add_row(out, frame, ABSENT, ABSENT, UNALLOCATED, NODE_WITHOUT_METRICS, ABSENT)
        out.rows[r, GPU_WEIGHT + 1], out.rows[r, DEVICE_WEIGHT + 1], out.rows[r, UNMEASURED + 1] = 1, 1, 1
        add_note(out, frame, ABSENT, NOTE_NODE, (0, 0, 0, 0))
        return
    if terms.choice.idle == PROPORTIONAL:
        pool_idle(topology, frame, first_row, out)
    total = known_sizes(sizes)[2] + add_missing(topology, frame, sizes, out)
    if frame.gpu_share_ppb < 10**9:
        add_host(runs, topology, desk, frame, first_row, total, out)


@kernel
def _desk(topology: Topology) -> Board:
    """A board with room for any machine's series and any device's holders."""
    series, holders = 0, 0
    for machine in range(len(topology.gpu_offsets) - 1):
        first = topology.device_offsets[topology.gpu_offsets[machine]]
        last = topology.device_offsets[topology.gpu_offsets[machine + 1]]
        series = max(series, topology.series_offsets[last] - topology.series_offsets[first])
    for device in range(len(topology.device_holder_offsets) - 1):
        holders = max(holders, topology.device_holder_offsets[device + 1] - topology.device_holder_offsets[device])
    return make_board(series, holders, ACCOUNT_COLUMNS, SUM_COLUMNS)


@kernel
def sweep_frames(runs: Runs, topology: Topology, terms: Terms, frames: Int64, out: Output) -> None:
    """All frames; ``frames`` has columns machine, start, end, expected (ms), and the GPUs' part of the price (ppb)."""
    desk = _desk(topology)
    for f in range(len(frames)):
        frame = Frame(f, frames[f, 0], frames[f, 1], frames[f, 2], frames[f, 3], frames[f, 4])
        sweep_frame(runs, topology, terms, desk, frame, out)
