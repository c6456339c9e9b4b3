"""The only place where money meets usage: each line over the rows of its machine and period.

Line -> GPUs (and host) by weight, GPU -> instances (and stranded) by weight, device -> the used, overhead and idle parts of its
rows; each division is by largest remainder on whole nano-units. Rules R12, R26.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from allocation import wide
from allocation.compiled import kernel
from allocation.errors import ConservationError
from allocation.shares import largest_remainder

Int64 = npt.NDArray[np.int64]
HOST_BUCKET = "host"


@kernel
def _level(whole: int, ordinal: Int64, high: Int64, low: Int64, parts: Int64) -> bool:
    """Divides over the distinct ordinals of adjacent rows; ``parts`` of an ordinal's first row gets its part, the others 0."""
    first = np.flatnonzero(np.append(np.array([True]), ordinal[1:] != ordinal[:-1]))
    shares = np.zeros(len(first), np.int64)
    fine = largest_remainder(whole, high[first], low[first], shares)
    parts[:] = 0
    parts[first] = shares
    return fine


@kernel
def _line(cost: int, gpu: Int64, device: Int64, gpu_weight: Int64, device_weight: Int64, flat: Int64, out: Int64) -> bool:
    """One line over the rows of its frame; ``flat`` has the used, overhead and idle weights of each row as wide numbers."""
    n = len(gpu)
    of_gpu, of_device = np.zeros(n, np.int64), np.zeros(n, np.int64)
    fine = _level(cost, gpu, gpu_weight[:, 0], gpu_weight[:, 1], of_gpu)
    a = 0
    while a < n:
        b = a
        while b < n and gpu[b] == gpu[a]:
            b += 1
        fine = _level(of_gpu[a], device[a:b], device_weight[a:b, 0], device_weight[a:b, 1], of_device[a:b]) and fine
        a = b
    a = 0
    while a < n:
        b = a
        while b < n and gpu[b] == gpu[a] and device[b] == device[a]:
            b += 1
        parts = np.zeros(3 * (b - a), np.int64)
        weights = flat[a:b].copy().reshape(3 * (b - a), 2)
        fine = (largest_remainder(of_device[a], weights[:, 0].copy(), weights[:, 1].copy(), parts) or of_device[a] == 0) and fine
        out[a:b] = parts.reshape(b - a, 3)
        a = b
    return fine


@kernel
def _lines(
    cost: Int64,
    first: Int64,
    last: Int64,
    start: Int64,
    gpu: Int64,
    device: Int64,
    gw: Int64,
    dw: Int64,
    flat: Int64,
    out: Int64,
) -> int:
    """All lines; the number of a line whose weights are all 0, or -1."""
    for k in range(len(cost)):
        a, b = first[k], last[k]
        if not _line(cost[k], gpu[a:b], device[a:b], gw[a:b], dw[a:b], flat[a:b], out[start[k] : start[k + 1]]):
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
    weights = _weights(usage)
    numbers = [usage.column(c).to_numpy().astype(np.int64) for c in ("gpu_ordinal", "device_ordinal")]
    gpu_weight, device_weight = (
        np.stack(wide.from_decimal_column(usage.column(c)), axis=1) for c in ("gpu_weight", "device_weight")
    )
    bad = _lines(cost_nanos, first, last, start, numbers[0], numbers[1], gpu_weight, device_weight, weights, out)
    sums = np.add.reduceat(out.sum(axis=1), start[:-1]) if len(cost_nanos) and len(out) else np.empty(0, np.int64)
    wrong = np.flatnonzero(sums != cost_nanos) if len(sums) else np.flatnonzero(cost_nanos != 0)
    if bad >= 0 or len(wrong):
        raise ConservationError(f"line {bad if bad >= 0 else wrong[0]} of the day is not split exactly; please report this")
    return line, row, out


def _weights(usage: pa.Table) -> Int64:
    """Shape (rows, 3, 2): used, overhead and idle weights. Unmeasured weight counts as overhead for the host, else as idle."""
    flat = np.zeros((len(usage), 3, 2), np.int64)
    for at, column in enumerate(("used_byte_ms", "overhead_byte_ms", "idle_byte_ms")):
        flat[:, at, 0], flat[:, at, 1] = wide.from_decimal_column(usage.column(column))
    high, low = wide.from_decimal_column(usage.column("unmeasured_weight"))
    host = np.asarray(usage.column("bucket").to_pylist()) == HOST_BUCKET if len(usage) else np.empty(0, np.bool_)
    place = np.where(host, 1, 2)
    rows = np.arange(len(usage))
    some = (high > 0) | (low > 0)
    flat[rows[some], place[some], 0], flat[rows[some], place[some], 1] = high[some], low[some]
    return flat
