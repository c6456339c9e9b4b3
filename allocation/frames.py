"""A frame is one period of one machine: the sweep of all its GPUs, what must exist and does not, and the rows of weights.

Rules R9, R11, R12, R16-R18, R23. Rows come out unordered; ``usage`` sorts them into the order of division.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.board import LOCAL, Board, make_board
from allocation.capacity import Limits, told_size
from allocation.compiled import inner, kernel
from allocation.frame_rows import (
    BASIS,
    BUCKET,
    DEVICE,
    DEVICE_ORDINAL,
    DEVICE_WEIGHT,
    FREE,
    GPU,
    GPU_ORDINAL,
    GPU_SHARE,
    GPU_WEIGHT,
    GPU_WITHOUT_METRICS,
    HOLDER,
    HOST,
    IDLE,
    IMPUTED,
    KNOWN,
    LAST_ORDINAL,
    MIG_PARTITION,
    NO_REASON,
    NODE_WITHOUT_METRICS,
    NOTE_GPU,
    NOTE_GUESS,
    NOTE_LOW,
    NOTE_MORE,
    NOTE_NODE,
    NOTE_OVER,
    NOTE_REPEATED,
    NOTE_UNMAPPED,
    OBSERVED,
    OVER,
    OVERHEAD,
    STRANDED,
    UNALLOCATED,
    UNKNOWN_TIME,
    UNMEASURED,
    USED,
    WORKLOAD,
    Frame,
    Output,
    Topology,
    add_note,
    add_row,
    book_times,
    known_time,
    open_device,
)
from allocation.instant import ABSENT, UNSIZED
from allocation.intervals import Runs
from allocation.shares import credit
from allocation.sweep import (
    ACCOUNT_COLUMNS,
    BASIS_AT,
    BUCKET_IDLE,
    BUCKET_OVERHEAD,
    EXCESS,
    FIRST_MS,
    IDLE_AT,
    IMPUTED_AT,
    IMPUTED_MS,
    LAST_MS,
    MOST,
    OBSERVED_AT,
    OBSERVED_MS,
    OVER_BYTES,
    OVER_MS,
    OVERHEAD_AT,
    PROPORTIONAL,
    REPEATED_MS,
    SEPARATE,
    SUM_COLUMNS,
    UNMAPPED_MS,
    USED_AT,
    Choice,
    sweep_device,
)
from allocation.times import DAY_MS

Int64 = npt.NDArray[np.int64]


class Terms(NamedTuple):
    """The policy as frames read it."""

    choice: Choice
    spread_stranded: bool
    gpu_share_ppb: int
    min_coverage: float


@inner
def _limits(topology: Topology, gpu: int, device: int) -> Limits:
    instance = topology.is_instance[device]
    reserve = ABSENT if instance else topology.reserved[gpu]
    return Limits(topology.configured[gpu], topology.nameplate[gpu], reserve, instance)


@inner
def _device(
    runs: Runs, topology: Topology, terms: Terms, desk: Board, frame: Frame, gpu: int, device: int, out: Output
) -> tuple[int, int]:
    """Sweeps one device and writes its rows; returns K (ABSENT where nothing is known) and its known time. See ``desk.sums``."""
    period = (frame.start, frame.end)
    n, seats, known = open_device(runs, topology, desk, device, period)
    if not known:
        return ABSENT, 0
    limits = _limits(topology, gpu, device)
    k = told_size(runs, desk, n, period, limits)
    if k == ABSENT:
        sweep_device(runs, desk, n, seats, period, UNSIZED, limits.reserved, Choice(SEPARATE, SEPARATE))
        k = max(desk.sums[MOST], 1)
        add_note(out, frame, device, NOTE_GUESS, (k, 0, 0, 0))
        open_device(runs, topology, desk, device, period)
    sweep_device(runs, desk, n, seats, period, k, limits.reserved, terms.choice)
    ordinal = device - topology.device_offsets[gpu]
    first_holder = topology.device_holder_offsets[device]
    for h in range(seats):
        r = add_row(out, frame, gpu, device, WORKLOAD, NO_REASON, topology.device_holders[first_holder + desk.holders[h, LOCAL]])
        _fill(out.rows[r], desk.accounts[h])
        out.rows[r, DEVICE_ORDINAL] = ordinal
    _bucket_rows(out, frame, gpu, device, ordinal, desk.sums)
    _device_notes(out, frame, device, desk.sums, k)
    return k, desk.sums[OBSERVED_MS] + desk.sums[IMPUTED_MS]


@inner
def _fill(row: Int64, account: Int64) -> None:
    row[USED], row[USED + 1] = account[USED_AT], account[USED_AT + 1]
    row[OVER], row[OVER + 1] = account[OVERHEAD_AT], account[OVERHEAD_AT + 1]
    row[FREE], row[FREE + 1] = account[IDLE_AT], account[IDLE_AT + 1]
    row[OBSERVED], row[IMPUTED], row[BASIS] = account[OBSERVED_AT], account[IMPUTED_AT], account[BASIS_AT]


@inner
def _bucket_rows(out: Output, frame: Frame, gpu: int, device: int, ordinal: int, sums: Int64) -> None:
    """Rows for idle and overhead that nobody bears; pooled idle waits on its own row until the node's holders are known."""
    for bucket, source, column in ((IDLE, BUCKET_IDLE, FREE), (OVERHEAD, BUCKET_OVERHEAD, OVER)):
        if sums[source] == 0 and sums[source + 1] == 0:
            continue
        r = add_row(out, frame, gpu, device, bucket, NO_REASON, ABSENT)
        out.rows[r, column], out.rows[r, column + 1] = sums[source], sums[source + 1]
        out.rows[r, OBSERVED], out.rows[r, IMPUTED], out.rows[r, DEVICE_ORDINAL] = sums[OBSERVED_MS], sums[IMPUTED_MS], ordinal


@inner
def _device_notes(out: Output, frame: Frame, device: int, sums: Int64, k: int) -> None:
    if sums[OVER_MS]:
        add_note(out, frame, device, NOTE_OVER, (sums[OVER_MS], sums[OVER_BYTES], k, 0))
    if sums[REPEATED_MS]:
        add_note(out, frame, device, NOTE_REPEATED, (sums[REPEATED_MS], sums[EXCESS], sums[EXCESS + 1], 0))
    if sums[UNMAPPED_MS]:
        add_note(out, frame, device, NOTE_UNMAPPED, (sums[UNMAPPED_MS], 0, 0, 0))


@inner
def _partitioned(runs: Runs, topology: Topology, terms: Terms, desk: Board, frame: Frame, gpu: int, out: Output) -> int:
    """A GPU with instances: each weighs K x life, what the partition strands is a row of its own (R23). Returns the GPU's K."""
    d0, d1 = topology.device_offsets[gpu], topology.device_offsets[gpu + 1]
    s0, s1 = topology.series_offsets[d0], topology.series_offsets[d1]
    observed, imputed, begin, end = known_time(runs, topology, desk, s0, s1, (frame.start, frame.end))
    sum_high, sum_low, first_row = 0, 0, out.count[0]
    for device in range(d0 + 1, d1):
        row = out.count[0]
        k, known = _device(runs, topology, terms, desk, frame, gpu, device, out)
        if k == ABSENT:
            continue
        high, low = wide.multiply(k, desk.sums[LAST_MS] - desk.sums[FIRST_MS])
        sum_high, sum_low = wide.add(sum_high, sum_low, high, low)
        for r in range(row, out.count[0]):
            out.rows[r, DEVICE_WEIGHT], out.rows[r, DEVICE_WEIGHT + 1], out.rows[r, KNOWN] = high, low, known
    size = _whole_size(runs, topology, desk, frame, gpu, out, (sum_high, sum_low), end - begin)
    high, low = wide.multiply(size, end - begin)
    if not terms.spread_stranded and wide.less(sum_high, sum_low, high, low):
        high, low = wide.subtract(high, low, sum_high, sum_low)
        _whole_row(runs, topology, desk, frame, gpu, out, (STRANDED, MIG_PARTITION), (high, low))
    known = observed + imputed
    if known < frame.expected * terms.min_coverage:
        _unknown_of_card(runs, topology, desk, frame, gpu, out, first_row, known)
        add_note(out, frame, d0, NOTE_LOW, (known, frame.expected, 0, 0))
    return size


@inner
def _whole_size(
    runs: Runs, topology: Topology, desk: Board, frame: Frame, gpu: int, out: Output, weights: tuple[int, int], life: int
) -> int:
    """K of a partitioned GPU: from its own rows or the configuration, else what its instances fill."""
    device = topology.device_offsets[gpu]
    period = (frame.start, frame.end)
    n, _, _ = open_device(runs, topology, desk, device, period)
    k = told_size(runs, desk, n, period, _limits(topology, gpu, device))
    if k != ABSENT:
        return k
    _, average, _, _ = wide.scale(weights[0], weights[1], 0, 1, 0, life)
    add_note(out, frame, device, NOTE_GUESS, (average, 0, 0, 0))
    return max(average, 1)


@inner
def _whole_row(
    runs: Runs, topology: Topology, desk: Board, frame: Frame, gpu: int, out: Output, what: tuple[int, int],
    weight: tuple[int, int],
) -> None:  # fmt: skip
    """A row for the whole card beside its instances: stranded memory, or time of which nothing is known."""
    d0, d1 = topology.device_offsets[gpu], topology.device_offsets[gpu + 1]
    first, last = topology.series_offsets[d0], topology.series_offsets[d1]
    r = add_row(out, frame, gpu, d0, what[0], what[1], ABSENT)
    row = out.rows[r]
    row[DEVICE_ORDINAL] = LAST_ORDINAL + (1 if what[0] == UNALLOCATED else 0)
    row[DEVICE_WEIGHT], row[DEVICE_WEIGHT + 1] = weight
    column = FREE if what[0] == STRANDED else UNMEASURED
    row[column], row[column + 1] = weight
    book_times(runs, topology, desk, first, last, frame, row)


@inner
def _gpu(runs: Runs, topology: Topology, terms: Terms, desk: Board, frame: Frame, gpu: int, out: Output) -> int:
    """Writes the rows of one GPU; returns its K, or ABSENT where nothing is known of it in the frame."""
    d0, d1 = topology.device_offsets[gpu], topology.device_offsets[gpu + 1]
    if d1 > d0 + 1:
        s1 = topology.series_offsets[d1]
        _, _, first, _ = known_time(runs, topology, desk, topology.series_offsets[d0 + 1], s1, (frame.start, frame.end))
        if first != ABSENT:
            return _partitioned(runs, topology, terms, desk, frame, gpu, out)
    row = out.count[0]
    k, known = _device(runs, topology, terms, desk, frame, gpu, d0, out)
    if k == ABSENT:
        return ABSENT
    if known < frame.expected * terms.min_coverage:
        r = add_row(out, frame, gpu, d0, UNALLOCATED, UNKNOWN_TIME, ABSENT)
        out.rows[r, UNMEASURED], out.rows[r, UNMEASURED + 1] = wide.multiply(k, frame.expected - known)
        out.rows[r, OBSERVED], out.rows[r, IMPUTED] = desk.sums[OBSERVED_MS], desk.sums[IMPUTED_MS]
        add_note(out, frame, d0, NOTE_LOW, (known, frame.expected, 0, 0))
    for r in range(row, out.count[0]):
        out.rows[r, DEVICE_WEIGHT + 1], out.rows[r, KNOWN] = 1, known
    return k


@inner
def _unknown_of_card(
    runs: Runs, topology: Topology, desk: Board, frame: Frame, gpu: int, out: Output, first_row: int, known: int
) -> None:
    """The row for the unknown time of a partitioned card: (expected - known) / expected of the card, exactly.

    The card's other weights are multiplied by its known time, and their sum by the unknown time weighs that row.
    """
    sum_high, sum_low, before = 0, 0, ABSENT
    for r in range(first_row, out.count[0]):
        row = out.rows[r]
        if row[DEVICE_ORDINAL] != before:
            sum_high, sum_low = wide.add(sum_high, sum_low, row[DEVICE_WEIGHT], row[DEVICE_WEIGHT + 1])
            before = row[DEVICE_ORDINAL]
        row[DEVICE_WEIGHT], row[DEVICE_WEIGHT + 1] = wide.times(row[DEVICE_WEIGHT], row[DEVICE_WEIGHT + 1], known)
    weight = wide.times(sum_high, sum_low, frame.expected - known)
    _whole_row(runs, topology, desk, frame, gpu, out, (UNALLOCATED, UNKNOWN_TIME), weight)


@inner
def _seen(topology: Topology, gpu: int, frame: Frame) -> bool:
    """Whether the GPU had a sample in a UTC day that the frame touches (R17, R18)."""
    for k in range(topology.day_offsets[gpu], topology.day_offsets[gpu + 1]):
        if frame.start // DAY_MS <= topology.days[k] <= (frame.end - 1) // DAY_MS:
            return True
    return False


@inner
def _missing(topology: Topology, frame: Frame, sizes: Int64, out: Output) -> int:
    """Rows for GPUs that must exist and of which nothing is known: by uuid where seen that day, else without one.

    ``sizes`` holds K of each known GPU, 0 where nothing is known. Returns the sum of what the missing ones weigh.
    """
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    count = topology.gpu_count[frame.machine]
    found, size, _ = _known_sizes(sizes)
    if found == 0:
        size = _fallback_size(topology, g0, g1)
    missing = count - found if count > 0 else g1 - g0
    if count > 0 and found > count:
        add_note(out, frame, ABSENT, NOTE_MORE, (found, count, 0, 0))
    ordinal, written = g1 - g0, 0
    for g in range(g0, g1):
        if written < missing and sizes[g - g0] == 0 and _seen(topology, g, frame):
            _missing_row(out, frame, g, topology.device_offsets[g], ordinal + written, size)
            written += 1
    while count > 0 and written < missing:
        _missing_row(out, frame, ABSENT, ABSENT, ordinal + written, size)
        written += 1
    if written > 0:
        add_note(out, frame, ABSENT, NOTE_GPU, (written, found, count, 0))
    return int(written * size)


@inner
def _known_sizes(sizes: Int64) -> tuple[int, int, int]:
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
                return size
    return 1


@inner
def _missing_row(out: Output, frame: Frame, gpu: int, device: int, ordinal: int, size: int) -> None:
    r = add_row(out, frame, gpu, device, UNALLOCATED, GPU_WITHOUT_METRICS, ABSENT)
    row = out.rows[r]
    row[GPU_ORDINAL], row[GPU_WEIGHT + 1], row[DEVICE_WEIGHT + 1], row[UNMEASURED + 1] = ordinal, size, 1, 1


@inner
def _apply_gpu_share(
    runs: Runs, topology: Topology, terms: Terms, desk: Board, frame: Frame, first_row: int, total: int, out: Output
) -> None:
    """Leaves a part of the node's price to the host: GPUs weigh K x share, the host what is left of their sum."""
    for r in range(first_row, out.count[0]):
        out.rows[r, GPU_WEIGHT], out.rows[r, GPU_WEIGHT + 1] = wide.multiply(out.rows[r, GPU_WEIGHT + 1], terms.gpu_share_ppb)
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    s0, s1 = topology.series_offsets[topology.device_offsets[g0]], topology.series_offsets[topology.device_offsets[g1]]
    r = add_row(out, frame, ABSENT, ABSENT, HOST, GPU_SHARE, ABSENT)
    row = out.rows[r]
    row[GPU_ORDINAL], row[DEVICE_WEIGHT + 1], row[UNMEASURED + 1] = LAST_ORDINAL, 1, 1
    row[GPU_WEIGHT], row[GPU_WEIGHT + 1] = wide.multiply(total, 10**9 - terms.gpu_share_ppb)
    book_times(runs, topology, desk, s0, s1, frame, row)


@kernel
def _pool_idle(topology: Topology, frame: Frame, first_row: int, out: Output) -> None:
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


@kernel
def sweep_frame(runs: Runs, topology: Topology, terms: Terms, desk: Board, frame: Frame, out: Output) -> None:
    """All rows of one period of one machine."""
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    first_row = out.count[0]
    sizes = np.zeros(g1 - g0, np.int64)
    seen = False
    for g in range(g0, g1):
        seen = seen or _seen(topology, g, frame)
        row = out.count[0]
        k = _gpu(runs, topology, terms, desk, frame, g, out)
        if k != ABSENT:
            sizes[g - g0] = k
            for r in range(row, out.count[0]):
                out.rows[r, GPU_WEIGHT + 1], out.rows[r, GPU_ORDINAL] = k, g - g0
    if not seen and _known_sizes(sizes)[0] == 0:
        r = add_row(out, frame, ABSENT, ABSENT, UNALLOCATED, NODE_WITHOUT_METRICS, ABSENT)
        out.rows[r, GPU_WEIGHT + 1], out.rows[r, DEVICE_WEIGHT + 1], out.rows[r, UNMEASURED + 1] = 1, 1, 1
        add_note(out, frame, ABSENT, NOTE_NODE, (0, 0, 0, 0))
        return
    if terms.choice.idle == PROPORTIONAL:
        _pool_idle(topology, frame, first_row, out)
    total = _known_sizes(sizes)[2] + _missing(topology, frame, sizes, out)
    if terms.gpu_share_ppb < 10**9:
        _apply_gpu_share(runs, topology, terms, desk, frame, first_row, total, out)


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
    """All frames; ``frames`` has columns machine, start, end, expected (ms)."""
    desk = _desk(topology)
    for f in range(len(frames)):
        frame = Frame(f, frames[f, 0], frames[f, 1], frames[f, 2], frames[f, 3])
        sweep_frame(runs, topology, terms, desk, frame, out)
