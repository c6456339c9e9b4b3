"""What the figures were taken on, and how much memory a process held. Here does not belong what is measured."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("numba", "numpy", "pandas", "pyarrow")


def machine() -> str:
    """Processor, cores, memory, load and versions, in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)])
    return f"{_processor()}, {cores} cores, {_memory_gib():.0f} GiB{load}; {versions}"


def peak_mib(pid: int | str = "self") -> float:
    """The most memory that a process ever held, by Linux; what its parent held before it began is not in it. 0 elsewhere."""
    status = Path(f"/proc/{pid}/status")
    return int(status.read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1024 if status.exists() else 0.0


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0.0
