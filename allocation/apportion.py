"""The only place where money meets usage: each line over the rows of its machine and period.

Line -> GPUs (and host) by weight, GPU -> instances (and stranded) by weight, device -> the used, overhead and idle parts of its
rows; each division is by largest remainder on whole nano-units. Rules R12, R26.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from allocation import wide
from allocation.compiled import inner, kernel, read_only
from allocation.errors import ConservationError
from allocation.frame_rows import LAST_ORDINAL
from allocation.shares import Rests, divide, make_rests

Int64 = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Rows of usage in order of division, with wide weights.

    Ordinals of GPU and device, their weights, shape (rows, 2), and the row's used, overhead and idle weights, shape (rows, 3, 2).
    """

    gpu: Int64
    device: Int64
    gpu_weight: Int64
    device_weight: Int64
    flat: Int64


class Room(NamedTuple):
    """Room for one division over up to as many weights, and for the parts of each of the three."""

    high: Int64
    low: Int64
    rests: Rests
    of_gpu: Int64
    of_device: Int64
    cells: Int64


@kernel
def _make_room(rows: int) -> Room:
    n = 3 * rows
    words = np.empty(n, np.int64), np.empty(n, np.int64)
    return Room(words[0], words[1], make_rests(n), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))


@inner
def _end_of(ordinal: Int64, a: int, b: int) -> int:
    """Where the stretch of equal ordinals that begins at a ends."""
    value = ordinal[a]
    while a < b and ordinal[a] == value:
        a += 1
    return a


@inner
def _level(whole: int, ordinal: Int64, weight: Int64, a: int, b: int, room: Room, parts: Int64) -> bool:
    """Divides over the distinct ordinals of the rows ``a:b``, by the weight at each one's first row; one part an ordinal."""
    n, row = 0, a
    while row < b:
        room.high[n], room.low[n] = weight[row, 0], weight[row, 1]
        row = _end_of(ordinal, row, b)
        n += 1
    return divide(whole, n, room.high, room.low, room.rests, parts)


@inner
def _device(whole: int, flat: Int64, a: int, b: int, room: Room, out: Int64, at: int) -> bool:
    """Divides over the three columns of the rows ``a:b``, which are one device's, into ``out`` from row ``at`` on."""
    for row in range(a, b):
        for column in range(3):
            cell = 3 * (row - a) + column
            room.high[cell], room.low[cell] = flat[row, column, 0], flat[row, column, 1]
    fine = divide(whole, 3 * (b - a), room.high, room.low, room.rests, room.cells)
    for row in range(b - a):
        for column in range(3):
            out[at + row, column] = room.cells[3 * row + column]
    return fine or whole == 0


@inner
def _line(cost: int, rows: Rows, a: int, b: int, room: Room, out: Int64, at: int) -> bool:
    """One line over the rows ``a:b`` of its frame, into ``out`` from row ``at`` on; whether it could be divided."""
    fine = _level(cost, rows.gpu, rows.gpu_weight, a, b, room, room.of_gpu)
    row, gpu = a, 0
    while row < b:
        gpu_end, device = _end_of(rows.gpu, row, b), 0
        fine = _level(room.of_gpu[gpu], rows.device, rows.device_weight, row, gpu_end, room, room.of_device) and fine
        while row < gpu_end:
            device_end = _end_of(rows.device, row, gpu_end)
            fine = _device(room.of_device[device], rows.flat, row, device_end, room, out, at + row - a) and fine
            row, device = device_end, device + 1
        gpu += 1
    return fine


@kernel
def _lines(cost: Int64, first: Int64, last: Int64, start: Int64, rows: Rows, out: Int64) -> int:
    """All lines, line k into ``out`` from row ``start[k]`` on; the number of a line whose weights are all 0, or -1."""
    longest = 0
    for k in range(len(cost)):
        longest = max(longest, last[k] - first[k])
    room = _make_room(longest)
    for k in range(len(cost)):
        if not _line(cost[k], rows, first[k], last[k], room, out, start[k]):
            return k
    return -1


def apportion(cost_nanos: Int64, first: Int64, last: Int64, usage: pa.Table) -> tuple[Int64, Int64, Int64]:
    """Divides lines over rows of ``usage``.

    Args:
        cost_nanos: cost of each line.
        first: first row of each line's frame in ``usage``; the frame's rows are adjacent and in order of division.
        last: one past its last row.
        usage: table ``usage``.

    Returns:
        For each part: the line's number, the usage row's number, and its used, overhead and idle nanos, shape (parts, 3).

    Raises:
        ConservationError: a line's parts do not add up to it.
    """
    count = last - first
    start = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
    line = np.repeat(np.arange(len(cost_nanos)), count)
    row = np.repeat(first - start[:-1], count) + np.arange(start[-1])
    out = np.zeros((start[-1], 3), np.int64)
    gpu, device = (usage.column(c).to_numpy().astype(np.int64) for c in ("gpu_ordinal", "device_ordinal"))
    of_gpu, of_device = (np.stack(wide.from_decimal_column(usage.column(c)), axis=1) for c in ("gpu_weight", "device_weight"))
    rows = Rows(*map(read_only, (gpu, device, of_gpu, of_device, weights_of(usage))))
    bad = _lines(*map(read_only, (cost_nanos, first, last, start)), rows, out)
    sums = np.add.reduceat(out.sum(axis=1), start[:-1]) if len(cost_nanos) and len(out) else np.empty(0, np.int64)
    wrong = np.flatnonzero(sums != cost_nanos) if len(sums) else np.flatnonzero(cost_nanos != 0)
    if bad >= 0 or len(wrong):
        raise ConservationError(f"line {bad if bad >= 0 else wrong[0]} of the day is not split exactly; please report this")
    return line, row, out


def weights_of(usage: pa.Table) -> Int64:
    """Shape (rows, 3, 2): used, overhead and idle weights. Unmeasured weight is overhead in the host's part, else idle."""
    flat = np.zeros((len(usage), 3, 2), np.int64)
    for at, column in enumerate(("used_byte_ms", "overhead_byte_ms", "idle_byte_ms")):
        flat[:, at, 0], flat[:, at, 1] = wide.from_decimal_column(usage.column(column))
    high, low = wide.from_decimal_column(usage.column("unmeasured_weight"))
    place = np.where(usage.column("gpu_ordinal").to_numpy() == LAST_ORDINAL, 1, 2)
    rows = np.arange(len(usage))
    some = (high > 0) | (low > 0)
    flat[rows[some], place[some], 0], flat[rows[some], place[some], 1] = high[some], low[some]
    return flat
