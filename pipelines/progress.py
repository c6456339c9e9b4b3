"""How a run is watched from a shell: bars on a terminal, a line now and then in a log.

Here does not belong what is told (``steps``) or what a run shows at its end (``show``).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pipelines.steps import FETCHED, WRITTEN, Step, Watch

SILENT_S = 10.0
"""So long a log says nothing more of the same stage; what takes less is not told at all."""
_WHAT = {FETCHED: "samples", WRITTEN: "rows"}


@contextmanager
def watched(console: Console) -> Iterator[Watch]:
    """Shows the steps of a run: a bar for each stage of a partition on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield Lines(lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)).step
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        yield Bars(shown).step


@dataclass
class _Stage:
    """How far a stage of a partition is: steps, and samples or rows."""

    begun_s: float
    told_s: float
    steps: int = 0
    amount: int = 0
    bar: TaskID | None = None

    def add(self, step: Step) -> None:
        self.steps += 1
        self.amount += step.amount

    def rate(self, now_s: float) -> str:
        """How many samples or rows a second."""
        return f"{self.amount / max(now_s - self.begun_s, 1e-3):,.0f}"


class Bars:
    """One bar a stage of a partition, with its rate and the time that is left."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._stages: dict[tuple[str, str], _Stage] = {}

    def step(self, step: Step) -> None:
        """One step more."""
        now = time.monotonic()
        key = step.partition, step.stage
        if key not in self._stages:
            self._forget(step.partition)
            bar = self._shown.add_task(f"{step.partition} {step.stage}", total=step.of, rate="")
            self._stages[key] = _Stage(now, now, bar=bar)
        stage = self._stages[key]
        stage.add(step)
        done = stage.amount if step.stage == WRITTEN else stage.steps
        told = f"{stage.rate(now)} {_WHAT.get(step.stage, 'rows')}/s"
        assert stage.bar is not None  # noqa: S101
        self._shown.update(stage.bar, completed=done, total=max(step.of, done), rate=told)

    def _forget(self, partition: str) -> None:
        """Bars of other partitions go when one begins."""
        for key in [key for key in self._stages if key[0] != partition]:
            bar = self._stages.pop(key).bar
            if bar is not None:
                self._shown.remove_task(bar)


class Lines:
    """A line when a stage has gone on for a while, and again as it goes on."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._stages: dict[tuple[str, str], _Stage] = {}

    def step(self, step: Step) -> None:
        """One step more."""
        now = self._clock()
        stage = self._stages.setdefault((step.partition, step.stage), _Stage(now, now))
        stage.add(step)
        done, what = (stage.amount, "rows") if step.stage == WRITTEN else (stage.steps, "shards")
        if now - stage.told_s >= SILENT_S or (done >= step.of and stage.told_s > stage.begun_s):
            stage.told_s = now
            rate = f"{stage.rate(now)} {_WHAT.get(step.stage, 'rows')} a second"
            self._tell(f"{step.partition}: {step.stage} {done:,} of {max(step.of, done):,} {what}, {rate}")
