"""Memory given back: what a process frees is free for all of it, and for other processes.

Arrow's own pools and one heap a thread each keep what they once held, so that a process that works on shard after shard grows to
the sum of the most that each of its parts ever needed. Here does not belong how much work is under way at once
(``engine_settings``).
"""

import ctypes
import sys
from collections.abc import Callable

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of glibc's ``mallopt``."""
_OWN_PAGES_BYTES = 4 << 20
"""Pieces from this size on are pages of their own, which go back as soon as they are freed."""
_WORKER_PAGES_BYTES, _WORKER_KEEPS_BYTES = 32 << 20, 64 << 20
"""A worker's arrays are of one size shard after shard: it keeps some of what it frees, as new pages cost a fifth of its time."""


def be_frugal(*, as_worker: bool = False) -> None:
    """For this process, from now on. Does nothing but choose Arrow's pool where the C library is not glibc."""
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _WORKER_PAGES_BYTES if as_worker else _OWN_PAGES_BYTES)
        if as_worker:
            mallopt(_TRIM_THRESHOLD, _WORKER_KEEPS_BYTES)


def give_back() -> None:
    """What a part of the work left behind goes back to the system, before the next one needs its own."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_glibc(name: str) -> Callable[..., object] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
