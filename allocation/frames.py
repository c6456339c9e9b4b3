"""A frame is one period of one machine: the sweep of all its GPUs, what must exist and does not, and the rows of weights.

Rules R9, R11, R12, R16-R18, R23. Rows come out unordered; ``usage`` sorts them into the order of division.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.compiled import kernel
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
from allocation.instant import ABSENT
from allocation.intervals import Runs
from allocation.shares import credit
from allocation.sweep import (
    BASIS_AT,
    IDLE_AT,
    IMPUTED_AT,
    OBSERVED_AT,
    OVERHEAD_AT,
    PROPORTIONAL,
    USED_AT,
    Choice,
    DeviceResult,
    Limits,
    capacity,
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


@kernel
def _limits(topology: Topology, gpu: int, device: int) -> Limits:
    instance = topology.is_instance[device]
    reserve = ABSENT if instance else topology.reserved[gpu]
    return Limits(topology.configured[gpu], topology.nameplate[gpu], reserve, instance)


@kernel
def _device(
    runs: Runs, topology: Topology, terms: Terms, frame: Frame, gpu: int, device: int, ordinal: int, out: Output
) -> tuple[int, int, int]:
    """Sweeps one device and writes its rows; returns K, and the first and last known instant."""
    ids, place, series = open_device(runs, topology, device, frame)
    limits = _limits(topology, gpu, device)
    h0, h1 = topology.device_holder_offsets[device], topology.device_holder_offsets[device + 1]
    k, guess = capacity(runs, ids, place, frame.start, frame.end, series, limits, h1 - h0)
    if guess:
        add_note(out, frame, device, NOTE_GUESS, (k, 0, 0, 0))
    period = (frame.start, frame.end)
    result = sweep_device(runs, ids, place, period, series, h1 - h0, k, limits.reserved, terms.choice)
    for h in range(h1 - h0):
        if result.accounts[h, OBSERVED_AT] + result.accounts[h, IMPUTED_AT] > 0:
            r = add_row(out, frame, gpu, device, WORKLOAD, NO_REASON, topology.device_holders[h0 + h])
            _fill(out.rows[r], result.accounts[h])
            out.rows[r, DEVICE_ORDINAL] = ordinal
    _bucket_rows(out, frame, gpu, device, ordinal, result)
    _device_notes(out, frame, device, result, k)
    return k, result.first, result.last


@kernel
def _fill(row: Int64, account: Int64) -> None:
    row[USED], row[USED + 1] = account[USED_AT], account[USED_AT + 1]
    row[OVER], row[OVER + 1] = account[OVERHEAD_AT], account[OVERHEAD_AT + 1]
    row[FREE], row[FREE + 1] = account[IDLE_AT], account[IDLE_AT + 1]
    row[OBSERVED], row[IMPUTED], row[BASIS] = account[OBSERVED_AT], account[IMPUTED_AT], account[BASIS_AT]


@kernel
def _bucket_rows(out: Output, frame: Frame, gpu: int, device: int, ordinal: int, result: DeviceResult) -> None:
    """Rows for idle and overhead that nobody bears; pooled idle waits on its own row until the node's holders are known."""
    own = result.accounts[len(result.accounts) - 1]
    idle_high, idle_low = wide.add(own[IDLE_AT], own[IDLE_AT + 1], result.pooled_high, result.pooled_low)
    for bucket in (IDLE, OVERHEAD):
        high = idle_high if bucket == IDLE else own[OVERHEAD_AT]
        low = idle_low if bucket == IDLE else own[OVERHEAD_AT + 1]
        if high == 0 and low == 0:
            continue
        r = add_row(out, frame, gpu, device, bucket, NO_REASON, ABSENT)
        column = FREE if bucket == IDLE else OVER
        out.rows[r, column], out.rows[r, column + 1] = high, low
        out.rows[r, OBSERVED], out.rows[r, IMPUTED], out.rows[r, DEVICE_ORDINAL] = (
            own[OBSERVED_AT],
            own[IMPUTED_AT],
            ordinal,
        )


@kernel
def _device_notes(out: Output, frame: Frame, device: int, result: DeviceResult, k: int) -> None:
    if result.over_ms:
        add_note(out, frame, device, NOTE_OVER, (result.over_ms, result.over_bytes, k, 0))
    if result.repeated_ms:
        add_note(out, frame, device, NOTE_REPEATED, (result.repeated_ms, result.naive_high, result.naive_low, 0))
    if result.unmapped_ms:
        add_note(out, frame, device, NOTE_UNMAPPED, (result.unmapped_ms, 0, 0, 0))


@kernel
def _partitioned(runs: Runs, topology: Topology, terms: Terms, frame: Frame, gpu: int, out: Output, life: tuple[int, int]) -> int:
    """A GPU with instances: each weighs K x life, what the partition strands is a row of its own (R23). Returns the GPU's K."""
    d0, d1 = topology.device_offsets[gpu], topology.device_offsets[gpu + 1]
    sum_high, sum_low = 0, 0
    for device in range(d0 + 1, d1):
        known, _, _ = known_time(
            runs,
            topology,
            topology.series_offsets[device],
            topology.series_offsets[device + 1],
            frame.start,
            frame.end,
            False,
        )
        if known == 0:
            continue
        row = out.count[0]
        k, first, last = _device(runs, topology, terms, frame, gpu, device, device - d0, out)
        high, low = wide.multiply(k, last - first)
        sum_high, sum_low = wide.add(sum_high, sum_low, high, low)
        out.rows[row : out.count[0], DEVICE_WEIGHT] = high
        out.rows[row : out.count[0], DEVICE_WEIGHT + 1] = low
        out.rows[row : out.count[0], KNOWN] = known
    size = _whole_size(runs, topology, frame, gpu, out, (sum_high, sum_low), life[1] - life[0])
    high, low = wide.multiply(size, life[1] - life[0])
    if not terms.spread_stranded and wide.less(sum_high, sum_low, high, low):
        high, low = wide.subtract(high, low, sum_high, sum_low)
        _whole_row(runs, topology, frame, gpu, out, (STRANDED, MIG_PARTITION), (high, low))
    return size


@kernel
def _whole_size(runs: Runs, topology: Topology, frame: Frame, gpu: int, out: Output, weights: tuple[int, int], life: int) -> int:
    """K of a partitioned GPU: from its own rows or the configuration, else what its instances fill."""
    device = topology.device_offsets[gpu]
    ids, place, series = open_device(runs, topology, device, frame)
    holders = topology.device_holder_offsets[device + 1] - topology.device_holder_offsets[device]
    k, guess = capacity(runs, ids, place, frame.start, frame.end, series, _limits(topology, gpu, device), holders)
    if not guess:
        return k
    _, average, _, _ = wide.scale(weights[0], weights[1], 0, 1, 0, life)
    add_note(out, frame, device, NOTE_GUESS, (average, 0, 0, 0))
    return max(average, 1)


@kernel
def _whole_row(
    runs: Runs, topology: Topology, frame: Frame, gpu: int, out: Output, what: tuple[int, int], weight: tuple[int, int]
) -> None:
    """A row for the whole card beside its instances: stranded memory, or time of which nothing is known."""
    d0, d1 = topology.device_offsets[gpu], topology.device_offsets[gpu + 1]
    first, last = topology.series_offsets[d0], topology.series_offsets[d1]
    r = add_row(out, frame, gpu, d0, what[0], what[1], ABSENT)
    row = out.rows[r]
    row[DEVICE_ORDINAL] = LAST_ORDINAL + (1 if what[0] == UNALLOCATED else 0)
    row[DEVICE_WEIGHT], row[DEVICE_WEIGHT + 1] = weight
    column = FREE if what[0] == STRANDED else UNMEASURED
    row[column], row[column + 1] = weight
    book_times(runs, topology, first, last, frame, row)


@kernel
def _gpu(runs: Runs, topology: Topology, terms: Terms, frame: Frame, gpu: int, out: Output) -> int:
    """Writes the rows of one GPU; returns its K, or ABSENT where nothing is known of it in the frame."""
    d0, d1 = topology.device_offsets[gpu], topology.device_offsets[gpu + 1]
    s0, s1 = topology.series_offsets[d0], topology.series_offsets[d1]
    known, first, last = known_time(runs, topology, s0, s1, frame.start, frame.end, False)
    if known == 0:
        return ABSENT
    split, _, _ = known_time(runs, topology, topology.series_offsets[d0 + 1], s1, frame.start, frame.end, False)
    low_coverage = known < frame.expected * terms.min_coverage
    row = out.count[0]
    if split > 0:
        k = _partitioned(runs, topology, terms, frame, gpu, out, (first, last))
        if low_coverage:
            _unknown_of_card(runs, topology, frame, gpu, out, row, known)
    else:
        k, _, _ = _device(runs, topology, terms, frame, gpu, d0, 0, out)
        if low_coverage:
            r = add_row(out, frame, gpu, d0, UNALLOCATED, UNKNOWN_TIME, ABSENT)
            out.rows[r, UNMEASURED], out.rows[r, UNMEASURED + 1] = wide.multiply(k, frame.expected - known)
            book_times(runs, topology, s0, s1, frame, out.rows[r])
        out.rows[row : out.count[0], DEVICE_WEIGHT + 1] = 1
        out.rows[row : out.count[0], KNOWN] = known
    if low_coverage:
        add_note(out, frame, d0, NOTE_LOW, (known, frame.expected, 0, 0))
    return k


@kernel
def _unknown_of_card(runs: Runs, topology: Topology, frame: Frame, gpu: int, out: Output, first_row: int, known: int) -> None:
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
    _whole_row(runs, topology, frame, gpu, out, (UNALLOCATED, UNKNOWN_TIME), weight)


@kernel
def _seen(topology: Topology, gpu: int, frame: Frame) -> bool:
    """Whether the GPU had a sample in a UTC day that the frame touches (R17, R18)."""
    for k in range(topology.day_offsets[gpu], topology.day_offsets[gpu + 1]):
        if frame.start // DAY_MS <= topology.days[k] <= (frame.end - 1) // DAY_MS:
            return True
    return False


@kernel
def _missing(topology: Topology, frame: Frame, sizes: Int64, out: Output) -> int:
    """Rows for GPUs that must exist and of which nothing is known: by uuid where seen that day, else without one.

    ``sizes`` holds K of each known GPU, 0 where nothing is known. Returns the sum of what the missing ones weigh.
    """
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    count = topology.gpu_count[frame.machine]
    found = np.sum(sizes > 0)
    size = np.max(sizes) if found > 0 else _fallback_size(topology, g0, g1)
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


@kernel
def _fallback_size(topology: Topology, g0: int, g1: int) -> int:
    for g in range(g0, g1):
        for size in (topology.configured[g], topology.nameplate[g]):
            if size > 0:
                return size
    return 1


@kernel
def _missing_row(out: Output, frame: Frame, gpu: int, device: int, ordinal: int, size: int) -> None:
    r = add_row(out, frame, gpu, device, UNALLOCATED, GPU_WITHOUT_METRICS, ABSENT)
    row = out.rows[r]
    row[GPU_ORDINAL], row[GPU_WEIGHT + 1], row[DEVICE_WEIGHT + 1], row[UNMEASURED + 1] = ordinal, size, 1, 1


@kernel
def _apply_gpu_share(runs: Runs, topology: Topology, terms: Terms, frame: Frame, first_row: int, total: int, out: Output) -> None:
    """Leaves a part of the node's price to the host: GPUs weigh K x share, the host what is left of their sum."""
    for r in range(first_row, out.count[0]):
        out.rows[r, GPU_WEIGHT], out.rows[r, GPU_WEIGHT + 1] = wide.multiply(out.rows[r, GPU_WEIGHT + 1], terms.gpu_share_ppb)
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    s0, s1 = topology.series_offsets[topology.device_offsets[g0]], topology.series_offsets[topology.device_offsets[g1]]
    r = add_row(out, frame, ABSENT, ABSENT, HOST, GPU_SHARE, ABSENT)
    row = out.rows[r]
    row[GPU_ORDINAL], row[DEVICE_WEIGHT + 1], row[UNMEASURED + 1] = LAST_ORDINAL, 1, 1
    row[GPU_WEIGHT], row[GPU_WEIGHT + 1] = wide.multiply(total, 10**9 - terms.gpu_share_ppb)
    book_times(runs, topology, s0, s1, frame, row)


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
def sweep_frame(runs: Runs, topology: Topology, terms: Terms, frame: Frame, out: Output) -> None:
    """All rows of one period of one machine."""
    g0, g1 = topology.gpu_offsets[frame.machine], topology.gpu_offsets[frame.machine + 1]
    first_row = out.count[0]
    sizes = np.zeros(g1 - g0, np.int64)
    seen = False
    for g in range(g0, g1):
        seen = seen or _seen(topology, g, frame)
        row = out.count[0]
        k = _gpu(runs, topology, terms, frame, g, out)
        if k != ABSENT:
            sizes[g - g0] = k
            out.rows[row : out.count[0], GPU_WEIGHT + 1] = k
            out.rows[row : out.count[0], GPU_ORDINAL] = g - g0
    if not seen and np.sum(sizes) == 0:
        r = add_row(out, frame, ABSENT, ABSENT, UNALLOCATED, NODE_WITHOUT_METRICS, ABSENT)
        out.rows[r, GPU_WEIGHT + 1], out.rows[r, DEVICE_WEIGHT + 1], out.rows[r, UNMEASURED + 1] = 1, 1, 1
        add_note(out, frame, ABSENT, NOTE_NODE, (0, 0, 0, 0))
        return
    if terms.choice.idle == PROPORTIONAL:
        _pool_idle(topology, frame, first_row, out)
    total = np.sum(sizes) + _missing(topology, frame, sizes, out)
    if terms.gpu_share_ppb < 10**9:
        _apply_gpu_share(runs, topology, terms, frame, first_row, total, out)


@kernel
def sweep_frames(runs: Runs, topology: Topology, terms: Terms, frames: Int64, out: Output) -> None:
    """All frames; ``frames`` has columns machine, start, end, expected (ms)."""
    for f in range(len(frames)):
        frame = Frame(f, frames[f, 0], frames[f, 1], frames[f, 2], frames[f, 3])
        sweep_frame(runs, topology, terms, frame, out)
