"""What a machine must have and nothing tells of: GPUs without metrics, and the part of its price that is not the GPUs'.

Rules R16-R18, R48.
"""

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.board import Board
from allocation.compiled import inner
from allocation.frame_rows import (
    DEVICE_WEIGHT,
    GPU_ORDINAL,
    GPU_SHARE,
    GPU_WEIGHT,
    GPU_WITHOUT_METRICS,
    HOST,
    LAST_ORDINAL,
    NOTE_GPU,
    NOTE_MORE,
    UNALLOCATED,
    UNMEASURED,
    Frame,
    Output,
    Topology,
    add_note,
    add_row,
    book_times,
)
from allocation.instant import ABSENT
from allocation.intervals import Runs
from allocation.times import DAY_MS

Int64 = npt.NDArray[np.int64]


@inner
def seen_gpu(topology: Topology, gpu: int, frame: Frame) -> bool:
    """Whether the GPU had a sample in a UTC day that the frame touches (R17, R18)."""
    for k in range(topology.day_offsets[gpu], topology.day_offsets[gpu + 1]):
        if frame.start // DAY_MS <= topology.days[k] <= (frame.end - 1) // DAY_MS:
            return True
    return False


@inner
def add_missing(topology: Topology, frame: Frame, sizes: Int64, out: Output) -> int:
    """Rows for GPUs that must exist and of which nothing is known: by uuid where seen that day, else without one.

    ``sizes`` holds K of each known GPU, 0 where nothing is known. Returns the sum of what the missing ones weigh.
    """
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    count = topology.gpu_count[frame.machine]
    found, size, _ = known_sizes(sizes)
    if found == 0:
        size = _fallback_size(topology, g0, g1)
    missing = count - found if count > 0 else g1 - g0
    if count > 0 and found > count:
        add_note(out, frame, ABSENT, NOTE_MORE, (found, count, 0, 0))
    ordinal, written = g1 - g0, 0
    for g in range(g0, g1):
        if written < missing and sizes[g - g0] == 0 and seen_gpu(topology, g, frame):
            _missing_row(out, frame, g, topology.device_offsets[g], ordinal + written, size)
            written += 1
    while count > 0 and written < missing:
        _missing_row(out, frame, ABSENT, ABSENT, ordinal + written, size)
        written += 1
    if written > 0:
        add_note(out, frame, ABSENT, NOTE_GPU, (written, found, count, 0))
    return int(written * size)


@inner
def known_sizes(sizes: Int64) -> tuple[int, int, int]:
    """How many GPUs are known, the largest K of them, and the sum."""
    found, largest, total = 0, 0, 0
    for size in sizes:
        found += size > 0
        largest = max(largest, size)
        total += size
    return found, largest, total


@inner
def _fallback_size(topology: Topology, g0: int, g1: int) -> int:
    for g in range(g0, g1):
        for size in (topology.configured[g], topology.nameplate[g]):
            if size > 0:
                return int(size)
    return 1


@inner
def _missing_row(out: Output, frame: Frame, gpu: int, device: int, ordinal: int, size: int) -> None:
    r = add_row(out, frame, gpu, device, UNALLOCATED, GPU_WITHOUT_METRICS, ABSENT)
    row = out.rows[r]
    row[GPU_ORDINAL], row[GPU_WEIGHT + 1], row[DEVICE_WEIGHT + 1], row[UNMEASURED + 1] = ordinal, size, 1, 1


@inner
def add_host(runs: Runs, topology: Topology, desk: Board, frame: Frame, first_row: int, total: int, out: Output) -> None:
    """Leaves a part of the node's price to the host: GPUs weigh K x share, the host what is left of their sum."""
    for r in range(first_row, out.count[0]):
        out.rows[r, GPU_WEIGHT], out.rows[r, GPU_WEIGHT + 1] = wide.multiply(out.rows[r, GPU_WEIGHT + 1], frame.gpu_share_ppb)
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    s0, s1 = topology.series_offsets[topology.device_offsets[g0]], topology.series_offsets[topology.device_offsets[g1]]
    r = add_row(out, frame, ABSENT, ABSENT, HOST, GPU_SHARE, ABSENT)
    row = out.rows[r]
    row[GPU_ORDINAL], row[DEVICE_WEIGHT + 1], row[UNMEASURED + 1] = LAST_ORDINAL, 1, 1
    row[GPU_WEIGHT], row[GPU_WEIGHT + 1] = wide.multiply(total, 10**9 - frame.gpu_share_ppb)
    book_times(runs, topology, desk, s0, s1, frame, row)
