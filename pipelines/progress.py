"""How a run is watched from a shell: bars on a terminal, a line now and then in a log.

Here does not belong what is told (``steps``) or what a run shows at its end (``show``).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column

from pipelines.steps import FETCHED, WRITTEN, Step, Watch

SILENT_S = 10.0
"""So long a log says nothing more of the same stage; what takes less is not told at all."""
_BAR_WIDTH = 12
"""Leaves room for the words on a terminal of 80 columns."""
_WHAT = {FETCHED: "samples", WRITTEN: "rows"}


@contextmanager
def watched(console: Console, clock: Callable[[], float] = time.monotonic) -> Iterator[Watch]:
    """Shows the steps of a run: a bar for each stage of a partition on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield Lines(lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True), clock).step
        return
    columns = (
        _text("{task.description}"),
        BarColumn(_BAR_WIDTH),
        MofNCompleteColumn(),
        _text("{task.fields[rate]}"),
        _text("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        yield Bars(shown, clock).step


def _text(format_: str) -> TextColumn:
    return TextColumn(format_, markup=False, table_column=Column(no_wrap=True))


@dataclass
class _Stage:
    """How far a stage of a partition is: steps, and samples or rows.

    When its first step began is not known, so that one tells nothing of how fast it goes.
    """

    begun_s: float
    told_s: float
    first: int
    by_amount: bool
    steps: int = 0
    amount: int = 0
    bar: TaskID | None = None

    @classmethod
    def of(cls, step: Step, now_s: float) -> Self:
        """A stage whose first step this is."""
        return cls(now_s, now_s, step.amount, step.stage == WRITTEN)

    def add(self, step: Step) -> None:
        self.steps += 1
        self.amount += step.amount

    @property
    def done(self) -> int:
        """How much of what the stage is expected to have."""
        return self.amount if self.by_amount else self.steps

    def rate(self, now_s: float) -> float:
        """How many samples or rows a second; 0 where that is not known yet."""
        return (self.amount - self.first) / (now_s - self.begun_s) if now_s > self.begun_s else 0.0

    def left_s(self, now_s: float, of: int) -> float:
        """How long the rest will take at the pace so far; 0 where that is not known."""
        paced = self.done - (self.first if self.by_amount else 1)
        return max(of - self.done, 0) * (now_s - self.begun_s) / paced if paced > 0 else 0.0


class Bars:
    """One bar a stage of a partition, with its rate and the time that is left."""

    def __init__(self, shown: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._shown, self._clock = shown, clock
        self._stages: dict[tuple[str, str], _Stage] = {}

    def step(self, step: Step) -> None:
        """One step more."""
        now = self._clock()
        key = step.partition, step.stage
        if key not in self._stages:
            self._forget(step.partition)
            bar = self._shown.add_task(f"{step.partition} {step.stage}", total=step.of, rate="", left="")
            self._stages[key] = _Stage.of(step, now)
            self._stages[key].bar = bar
        stage = self._stages[key]
        stage.add(step)
        assert stage.bar is not None  # noqa: S101
        rate, left = _rate(stage.rate(now), step, "/s"), _words(stage.left_s(now, step.of))
        self._shown.update(stage.bar, completed=stage.done, total=max(step.of, stage.done), rate=rate, left=left)

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
        stage = self._stages.setdefault((step.partition, step.stage), _Stage.of(step, now))
        stage.add(step)
        done, of, what = stage.done, max(step.of, stage.done), "rows" if stage.by_amount else "shards"
        if now - stage.told_s >= SILENT_S or (done >= step.of and stage.told_s > stage.begun_s):
            stage.told_s = now
            rate, left = _rate(stage.rate(now), step, " a second"), _words(stage.left_s(now, of))
            told = (f"{step.partition}: {step.stage} {done:,} of {of:,} {what}", rate, left and f"{left} left")
            self._tell(", ".join(filter(None, told)))


def _rate(rate: float, step: Step, a_second: str) -> str:
    return f"{rate:,.0f} {_WHAT.get(step.stage, 'rows')}{a_second}" if rate else ""


def _words(seconds: float) -> str:
    """A length of time; nothing where it is hardly any."""
    if seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
