"""What a frame reads and writes: the shard's flat topology, the columns of rows and notes, and how they are booked.

A frame is one period of one machine. The rules that decide what is booked stand in ``frames``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation.compiled import kernel
from allocation.instant import ABSENT, DECLARED, ROWS, Series
from allocation.intervals import Runs
from allocation.sweep import open_series

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

WORKLOAD, IDLE, OVERHEAD, STRANDED, HOST, UNALLOCATED = range(6)
"""Buckets, in the contract's order."""
NO_REASON, GPU_WITHOUT_METRICS, NODE_WITHOUT_METRICS, UNKNOWN_TIME, MIG_PARTITION, GPU_SHARE = range(6)
(
    FRAME, GPU, DEVICE, BUCKET, REASON, HOLDER, GPU_ORDINAL, DEVICE_ORDINAL, GPU_WEIGHT, _, DEVICE_WEIGHT, _,
    USED, _, OVER, _, FREE, _,
    UNMEASURED, _, OBSERVED, IMPUTED, KNOWN, EXPECTED, BASIS, ROW_COLUMNS,
) = range(26)  # fmt: skip
"""Columns of a row; wide numbers take two."""
NOTE_OVER, NOTE_REPEATED, NOTE_UNMAPPED, NOTE_GUESS, NOTE_LOW, NOTE_MORE, NOTE_GPU, NOTE_NODE = range(8)
NOTE_COLUMNS = 7
"""Columns of a note: frame, device (or ABSENT), code, and four figures."""
LAST_ORDINAL = 1 << 20


class Topology(NamedTuple):
    """Machine -> GPUs -> devices -> series, flat. A GPU's first device is the whole card, its instances follow by id.

    ``holder_offsets`` ranges over each machine's holders in key order; ``device_holders`` over each device's own.
    """

    gpu_offsets: Int64
    device_offsets: Int64
    series_offsets: Int64
    is_instance: Bool
    configured: Int64
    nameplate: Int64
    reserved: Int64
    gpu_count: Int64
    day_offsets: Int64
    days: Int64
    holder_offsets: Int64
    device_holder_offsets: Int64
    device_holders: Int64
    role: Int64
    level: Int64
    includes_reserved: Bool
    local: Int64


class Output(NamedTuple):
    """Rows and notes so far; ``count`` holds how many of each."""

    rows: Int64
    notes: Int64
    count: Int64


class Frame(NamedTuple):
    """One period of one machine, ms; ``expected``: how long the machine should have been there."""

    number: int
    machine: int
    start: int
    end: int
    expected: int


@kernel
def add_row(out: Output, frame: Frame, gpu: int, device: int, bucket: int, reason: int, holder: int) -> int:
    """A new row with nothing booked yet; its number."""
    r = out.count[0]
    out.count[0] += 1
    row = out.rows[r]
    row[:] = 0
    row[FRAME], row[GPU], row[DEVICE], row[BUCKET], row[REASON], row[HOLDER] = (
        frame.number,
        gpu,
        device,
        bucket,
        reason,
        holder,
    )
    row[EXPECTED], row[BASIS] = frame.expected, ABSENT
    return r


@kernel
def add_note(out: Output, frame: Frame, device: int, code: int, figures: tuple[int, int, int, int]) -> None:
    """A note about a device, or about the machine where ``device`` is ABSENT."""
    n = out.count[1]
    out.count[1] += 1
    out.notes[n, 0], out.notes[n, 1], out.notes[n, 2] = frame.number, device, code
    for k in range(4):
        out.notes[n, 3 + k] = figures[k]


@kernel
def known_time(
    runs: Runs, topology: Topology, first: int, last: int, start: int, end: int, observed_only: bool
) -> tuple[int, int, int]:
    """The union of times at which any of the series ``first:last`` makes its device known: ms, first and last instant (R9)."""
    begins, ends = np.empty(0, np.int64), np.empty(0, np.int64)
    size = 0
    for fill in (False, True):
        n = 0
        for s in range(first, last):
            if topology.role[s] in (ROWS, DECLARED):
                continue
            a, b = runs.offsets[s], runs.offsets[s + 1]
            p = a + np.searchsorted(runs.end[a:b], start, side="right")
            while p < b and runs.start[p] < end:
                if not (observed_only and runs.imputed[p]):
                    if fill:
                        begins[n], ends[n] = max(runs.start[p], start), min(runs.end[p], end)
                    n += 1
                p += 1
        size = n
        if not fill:
            begins, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    if size == 0:
        return 0, ABSENT, ABSENT
    order = np.argsort(begins, kind="mergesort")
    total, reach = 0, begins[order[0]]
    for i in order:
        total += max(0, ends[i] - max(reach, begins[i]))
        reach = max(reach, ends[i])
    return total, begins[order[0]], reach


@kernel
def open_device(runs: Runs, topology: Topology, device: int, frame: Frame) -> tuple[Int64, Int64, Series]:
    """The series of a device that have something to say in the frame, and their state."""
    all_ids = np.arange(topology.series_offsets[device], topology.series_offsets[device + 1])
    ids, place = open_series(runs, all_ids, frame.start, frame.end)
    n = len(ids)
    known = (topology.role[ids], topology.level[ids], topology.includes_reserved[ids], topology.local[ids])
    return ids, place, Series(*known, np.zeros(n, np.bool_), np.zeros(n, np.int64), np.zeros(n, np.bool_))


@kernel
def book_times(runs: Runs, topology: Topology, first: int, last: int, frame: Frame, row: Int64) -> None:
    """Known, observed and imputed time of the series ``first:last`` onto a row that no holder has (R16, R27)."""
    known, _, _ = known_time(runs, topology, first, last, frame.start, frame.end, False)
    observed, _, _ = known_time(runs, topology, first, last, frame.start, frame.end, True)
    row[OBSERVED], row[IMPUTED], row[KNOWN] = observed, known - observed, known
