"""Spark for tests: a cluster of two workers on this machine, and what its tasks do there that no honest task does.

Tasks are run in processes of their own, so what they run stands here.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from allocation.errors import SeriesError
from pipelines.engine_settings import EngineEntry
from pipelines.engines.base import Engine
from pipelines.engines.spark_session import Session

ROOT = Path(__file__).parents[1]
MISSING = [name for name, there in {"Java 17": shutil.which("java"), "pyspark": find_spec("pyspark")}.items() if not there]
needs_spark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
CLUSTER = EngineEntry(
    kind="spark",
    master="local-cluster[2,1,1024]",
    conf={"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.task.maxFailures": "2"},
    shards_in_flight=4,
)


@contextmanager
def cluster() -> Iterator[None]:
    """A session that engines find open in this process. What its workers logged beside PySpark goes with it."""
    session = Session(CLUSTER)
    home = find_spec("pyspark")
    assert home is not None
    assert home.origin is not None
    kept = Path(home.origin).parent / "work" / session.spark.sparkContext.applicationId
    try:
        yield
    finally:
        session.close()
        shutil.rmtree(kept, ignore_errors=True)


@dataclass(frozen=True)
class Killed:
    """An engine in which one worker is killed while it runs a task; ``marker`` says which."""

    engine: Engine
    marker: Path

    def map(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        return self.engine.map(partial(_killed_once, self.marker, work), tasks)

    def close(self) -> None:
        self.engine.close()


def _killed_once(marker: Path, work: Callable[[Any], Any], task: object) -> object:
    """Runs the task; the first one to do so does not live to give its result, nor does the JVM that started it."""
    result = work(task)
    try:
        with marker.open("x", encoding="ascii") as mine:
            worker = _parent(_parent(os.getpid()))
            assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{worker}/cmdline").read_bytes()
            mine.write(str(worker))
    except FileExistsError:
        return result
    os.kill(worker, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def in_process(task: str) -> tuple[str, int]:
    """A task that tells in which process it was run; those of bad names end as their names say."""
    if task == "bad series":
        raise SeriesError("is no series", file="metrics.om", line=3)
    if task == "fault":
        raise ZeroDivisionError("a fault of ours")
    if task == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    return task, os.getpid()
