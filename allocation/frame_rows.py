"""What a frame reads and writes: the shard's flat topology, the columns of rows and notes, and how they are booked.

A frame is one period of one machine. The rules that decide what is booked stand in ``frames``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import board
from allocation.agenda import PLACE_MASK, next_change
from allocation.board import Board
from allocation.compiled import inner, woven
from allocation.instant import ABSENT, DECLARED, ROWS
from allocation.intervals import Runs
from allocation.seats import seat_holders, seat_series

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
ORDER = (FRAME, GPU_ORDINAL, DEVICE_ORDINAL, BUCKET, HOLDER)
"""By these columns rows stand in the order of division (R12)."""


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
    """One period of one machine, ms.

    ``expected``: how long the machine should have been there; ``gpu_share_ppb``: the GPUs' part of its price.
    """

    number: int
    machine: int
    start: int
    end: int
    expected: int
    gpu_share_ppb: int


@inner
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


@inner
def add_note(out: Output, frame: Frame, device: int, code: int, figures: tuple[int, int, int, int]) -> None:
    """A note about a device, or about the machine where ``device`` is ABSENT."""
    n = out.count[1]
    out.count[1] += 1
    out.notes[n, 0], out.notes[n, 1], out.notes[n, 2] = frame.number, device, code
    for k in range(4):
        out.notes[n, 3 + k] = figures[k]


@woven
def open_range(runs: Runs, topology: Topology, desk: Board, first: int, last: int, period: tuple[int, int]) -> int:
    """Seats the series ``first:last`` that have something to say in the period (ms); how many."""
    known = (topology.role, topology.level, topology.includes_reserved, topology.local)
    return seat_series(runs, (first, last), period, known[0], known[1], known[2], known[3], desk.series)


@woven
def open_device(runs: Runs, topology: Topology, desk: Board, device: int, period: tuple[int, int]) -> tuple[int, int, bool]:
    """Seats a device's series and holders: how many series, how many holders, and whether they make it known (R9)."""
    n = open_range(runs, topology, desk, topology.series_offsets[device], topology.series_offsets[device + 1], period)
    known = False
    for j in range(n):
        known = known or (desk.series[j, board.ROLE] != ROWS and desk.series[j, board.ROLE] != DECLARED)
    return n, seat_holders(desk.series, n, desk.holders, desk.rests, desk.accounts), known


@inner
def known_time(
    runs: Runs, topology: Topology, desk: Board, first: int, last: int, period: tuple[int, int]
) -> tuple[int, int, int, int]:
    """The union of times at which any of the series ``first:last`` makes its device known (R9).

    Returns:
        Observed ms, imputed ms, first and last known instant (ABSENT where nothing is known).
    """
    n = open_range(runs, topology, desk, first, last, period)
    board.clear(desk)
    count = board.start_agenda(runs.start, desk.series, n, period[0], desk.agenda)
    observed, imputed, begin, end, t = 0, 0, ABSENT, ABSENT, period[0]
    while t < period[1]:
        while count > 0 and next_change(desk.agenda, count, period[0], period[1]) == t:
            j = desk.agenda[0] & PLACE_MASK
            before = desk.series[j, board.SIGHT]
            count = board.turn_first(runs, desk.series, desk.agenda, count, t, period)
            board.count_sight(desk.tally, desk.series[j, board.ROLE], before, desk.series[j, board.SIGHT])
        after = next_change(desk.agenda, count, period[0], period[1])
        if desk.tally[board.KNOWN] > 0:
            observed += after - t if desk.tally[board.FRESH] > 0 else 0
            imputed += after - t if desk.tally[board.FRESH] == 0 else 0
            begin, end = t if begin == ABSENT else begin, after
        t = after
    return observed, imputed, begin, end


@inner
def book_times(runs: Runs, topology: Topology, desk: Board, first: int, last: int, frame: Frame, row: Int64) -> None:
    """Known, observed and imputed time of the series ``first:last`` onto a row that no holder has (R16, R27)."""
    observed, imputed, _, _ = known_time(runs, topology, desk, first, last, (frame.start, frame.end))
    row[OBSERVED], row[IMPUTED], row[KNOWN] = observed, imputed, observed + imputed


@inner
def keep_rows(rows: Int64, count: int) -> int:
    """Moves the rows that weigh anything or have a holder to the front; how many."""
    n = 0
    for r in range(count):
        keep = rows[r, BUCKET] == WORKLOAD
        for column in range(USED, OBSERVED):
            keep = keep or rows[r, column] != 0
        if keep and n < r:
            for column in range(ROW_COLUMNS):
                rows[n, column] = rows[r, column]
        n += keep
    return n


@inner
def ordered(rows: Int64) -> bool:
    """Whether the rows stand in the order of division."""
    for r in range(1, len(rows)):
        for column in ORDER:
            if rows[r, column] != rows[r - 1, column]:
                if rows[r, column] < rows[r - 1, column]:
                    return False
                break
    return True
