"""Shards on a Spark cluster: Spark hands out their numbers, and each task reads its own inputs and writes its own result.

Spark sees numbers only. Work, tasks and results are files in a working folder of the store (``work_folder``); samples are read
where they are needed and never shuffled. A task that Spark runs again, because its worker was killed or is slow, writes the same
result again.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa

from allocation.errors import ChargebackError
from pipelines.engine_settings import EngineEntry
from pipelines.engines.base import Result, Task
from pipelines.engines.spark_session import Session, failures, in_a_line
from pipelines.engines.work_folder import Desk, WorkFolder
from pipelines.places import Place

_JOBS = 8
"""So many jobs are under way at once at most."""
_SAID = "number long, error binary"


class SparkEngine:
    """See ``Engine``. Spark is started for the first task.

    Tasks are taken as they come and go to Spark in jobs of an eighth of ``shards_in_flight``, or at once where Spark has nothing
    to do. While so many are with Spark or have results that wait to be read, no task is taken: the working folder holds no more
    than these, and this process one task and one result.
    """

    def __init__(self, entry: EngineEntry, place: Place) -> None:
        self._entry, self._place = entry, place
        self._session: Session | None = None
        self._runs: list[_Run] = []

    def map(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results in the order of the tasks."""
        run: _Run | None = None
        try:
            for task in tasks:
                run = run or self._start(work)
                run.add(task)
                yield from run.results(below=run.in_flight)
            if run:
                yield from run.results(below=1)
        finally:
            if run:
                run.end()

    def _start(self, work: Callable[[Any], Any]) -> "_Run":
        self._session = self._session or Session(self._entry)
        in_flight = self._entry.shards_in_flight or 2 * self._session.cores
        self._runs.append(_Run(self._session, WorkFolder(self._place, work), in_flight))
        return self._runs[-1]

    def close(self) -> None:
        """Ends what is being run, and the session unless it was there before."""
        for run in self._runs:
            run.end()
        if self._session:
            self._session.close()
            self._session = None


class _Run:
    """The tasks of one piece of work."""

    def __init__(self, session: Session, folder: WorkFolder, in_flight: int) -> None:
        self._spark, self._folder, self.in_flight = session.spark, folder, in_flight
        self._tag = f"gpu-chargeback-{uuid4().hex}"
        self._threads = ThreadPoolExecutor(_JOBS, initializer=self._spark.addTag, initargs=(self._tag,))
        self._jobs: deque[tuple[range, Future[dict[int, bytes]]]] = deque()
        self._given = self._sent = self._taken = 0
        self._ended = False

    def add(self, task: object) -> None:
        """One more task."""
        self._folder.put(self._given, task)
        self._given += 1
        if self._given - self._sent >= max(1, self.in_flight // _JOBS) or all(job.done() for _, job in self._jobs):
            self._send()

    def _send(self) -> None:
        numbers = range(self._sent, self._given)
        if numbers:
            self._jobs.append((numbers, self._threads.submit(self._job, numbers)))
            self._sent = self._given

    def _job(self, numbers: range) -> dict[int, bytes]:
        """Has the tasks of these numbers run, a partition each; the errors that ended tasks."""
        frame = self._spark.range(numbers.start, numbers.stop, 1, len(numbers))
        said = frame.mapInArrow(partial(_run, self._folder.desk), _SAID).collect()
        return {row.number: bytes(row.error) for row in said if row.error}

    def results(self, *, below: int) -> Iterator[Any]:
        """The next results, until fewer than so many tasks are under way."""
        while self._given - self._taken >= below:
            if not self._jobs:
                self._send()
            numbers, job = self._jobs.popleft()
            errors = self._errors(job)
            for number in numbers:
                if number in errors:
                    raise pickle.loads(errors[number])  # noqa: S301
                yield self._folder.take(number)
            self._taken = numbers.stop

    def _errors(self, job: Future[dict[int, bytes]]) -> dict[int, bytes]:
        try:
            return job.result()
        except failures() as error:
            remedy = "Nothing was written; `spark.log.level: WARN` in engine.conf shows Spark's log"
            raise ChargebackError(f"Spark gave a shard up: {in_a_line(error)}. {remedy}") from error

    def end(self) -> None:
        """Ends what is being run and removes the working folder."""
        if self._ended:
            return
        self._ended = True
        if self._given > self._taken:
            with suppress(*failures()):
                self._spark.interruptTag(self._tag)
        self._threads.shutdown(cancel_futures=True)
        self._folder.close()


def _run(desk: Desk, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task of Spark does with its numbers."""
    for batch in batches:
        numbers = batch.column(0)
        errors = [desk.run(number) for number in numbers.to_pylist()]
        yield pa.RecordBatch.from_arrays([numbers, pa.array(errors, pa.binary())], names=["number", "error"])
