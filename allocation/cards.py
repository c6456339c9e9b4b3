"""One GPU in one period: its device or its instances, what its partition strands, and the time of which nothing is known.

Rules R6, R9, R23. Here belongs what one card comes to; what its node makes of it stands in ``frames``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation import wide
from allocation.board import LOCAL, Board
from allocation.capacity import Limits, told_size
from allocation.compiled import inner, woven
from allocation.frame_rows import (
    BASIS,
    DEVICE_ORDINAL,
    DEVICE_WEIGHT,
    FREE,
    IDLE,
    IMPUTED,
    KNOWN,
    LAST_ORDINAL,
    MIG_PARTITION,
    NO_REASON,
    NOTE_GUESS,
    NOTE_LOW,
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
from allocation.sweep import (
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
    REPEATED_MS,
    SEPARATE,
    UNMAPPED_MS,
    USED_AT,
    Choice,
    sweep_device,
)

Int64 = npt.NDArray[np.int64]


class Terms(NamedTuple):
    """The policy as frames read it."""

    choice: Choice
    spread_stranded: bool
    min_coverage: float


@woven
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


@woven
def _fill(row: Int64, account: Int64) -> None:
    row[USED], row[USED + 1] = account[USED_AT], account[USED_AT + 1]
    row[OVER], row[OVER + 1] = account[OVERHEAD_AT], account[OVERHEAD_AT + 1]
    row[FREE], row[FREE + 1] = account[IDLE_AT], account[IDLE_AT + 1]
    row[OBSERVED], row[IMPUTED], row[BASIS] = account[OBSERVED_AT], account[IMPUTED_AT], account[BASIS_AT]


@woven
def _bucket_rows(out: Output, frame: Frame, gpu: int, device: int, ordinal: int, sums: Int64) -> None:
    """Rows for idle and overhead that nobody bears; pooled idle waits on its own row until the node's holders are known."""
    for bucket, source, column in ((IDLE, BUCKET_IDLE, FREE), (OVERHEAD, BUCKET_OVERHEAD, OVER)):
        if sums[source] == 0 and sums[source + 1] == 0:
            continue
        r = add_row(out, frame, gpu, device, bucket, NO_REASON, ABSENT)
        out.rows[r, column], out.rows[r, column + 1] = sums[source], sums[source + 1]
        out.rows[r, OBSERVED], out.rows[r, IMPUTED], out.rows[r, DEVICE_ORDINAL] = sums[OBSERVED_MS], sums[IMPUTED_MS], ordinal


@woven
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
    size: int = _whole_size(runs, topology, desk, frame, gpu, out, (sum_high, sum_low), end - begin)
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
    k: int = told_size(runs, desk, n, period, _limits(topology, gpu, device))
    if k != ABSENT:
        return k
    _, average, _, _ = wide.scale(weights[0], weights[1], 0, 1, 0, life)
    add_note(out, frame, device, NOTE_GUESS, (average, 0, 0, 0))
    return int(max(average, 1))


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


@woven
def sweep_gpu(runs: Runs, topology: Topology, terms: Terms, desk: Board, frame: Frame, gpu: int, out: Output) -> int:
    """Writes the rows of one GPU; returns its K, or ABSENT where nothing is known of it in the frame."""
    d0, d1 = topology.device_offsets[gpu], topology.device_offsets[gpu + 1]
    if d1 > d0 + 1:
        s1 = topology.series_offsets[d1]
        _, _, first, _ = known_time(runs, topology, desk, topology.series_offsets[d0 + 1], s1, (frame.start, frame.end))
        if first != ABSENT:
            return int(_partitioned(runs, topology, terms, desk, frame, gpu, out))
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
    return int(k)


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
