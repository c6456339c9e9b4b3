"""A line of a bill over the brute-force rows, in whole nanos: the three divisions as the rulings say them, in exact fractions.

Line to GPUs, GPU to its instances, device to the used, overhead and idle of its rows; each by largest remainder, ties to the
earlier, a negative line as the mirror of its positive (R12, R13). Here does not belong what a row's share is
(``oracle_periods``).
"""

from collections.abc import Sequence
from fractions import Fraction

from tests.oracle import Key, Rows

BUCKETS = ("workload", "idle", "overhead", "stranded", "host", "unallocated")
Nanos = dict[Key, tuple[int, int, int]]
Place = tuple[int, bytes]


def largest_remainder(whole: int, weights: Sequence[Fraction]) -> list[int]:
    """Whole parts of a whole by weight; what rounding down leaves goes to the largest remainders."""
    if whole < 0:
        return [-part for part in largest_remainder(-whole, weights)]
    total = sum(weights, Fraction(0))
    if total == 0:
        return [0 for _ in weights]
    exact = [whole * w / total for w in weights]
    parts = [int(e) for e in exact]
    order = sorted(range(len(parts)), key=lambda i: (parts[i] - exact[i], i))
    for i in order[: whole - sum(parts)]:
        parts[i] += 1
    return parts


def gpu_place(key: Key) -> Place:
    """GPUs by uuid, those without metrics after them, the host last."""
    if key.bucket == "host":
        return 3, b""
    if key.reason == "gpu_without_metrics":
        return (2, key.gpu.encode()) if key.gpu.startswith("?") else (1, key.gpu.encode())
    return 0, key.gpu.encode()


def device_place(key: Key, *, partitioned: bool) -> tuple[int, int]:
    """Instances by id, then what the partition strands, then what is not known of the card; a whole card is one device."""
    if not partitioned:
        return 0, 0
    if key.bucket == "stranded":
        return 1, 0
    return (0, int(key.instance)) if key.instance else (2, 0)


def row_place(key: Key) -> tuple[int, bytes, bytes, bytes]:
    """Bucket in the contract's order, then the holder by bytes."""
    namespace, pod, uid = key.holder
    return BUCKETS.index(key.bucket), namespace.encode(), pod.encode(), uid.encode()


def nanos_of(rows: Rows, cost_nanos: int) -> Nanos:
    """What each row of a period gets of a line: used, overhead and idle nanos."""
    found: Nanos = {}
    gpus = sorted({gpu_place(k) for k in rows})
    of_gpu = {g: [k for k in rows if gpu_place(k) == g] for g in gpus}
    for gpu, part in zip(gpus, largest_remainder(cost_nanos, [_weight(rows, of_gpu[g]) for g in gpus]), strict=True):
        found |= _on_gpu(rows, of_gpu[gpu], part)
    return found


def _on_gpu(rows: Rows, keys: Sequence[Key], cost_nanos: int) -> Nanos:
    partitioned = any(k.instance or k.bucket == "stranded" for k in keys)
    places = sorted({device_place(k, partitioned=partitioned) for k in keys})
    of_device = [[k for k in keys if device_place(k, partitioned=partitioned) == p] for p in places]
    parts = largest_remainder(cost_nanos, [_weight(rows, mine) for mine in of_device])
    found: Nanos = {}
    for mine, part in zip(of_device, parts, strict=True):
        order = sorted(mine, key=row_place)
        flat = largest_remainder(part, [share for k in order for share in rows[k].shares])
        found |= {k: (flat[3 * n], flat[3 * n + 1], flat[3 * n + 2]) for n, k in enumerate(order)}
    return found


def _weight(rows: Rows, keys: Sequence[Key]) -> Fraction:
    return sum((share for k in keys for share in rows[k].shares), Fraction(0))
