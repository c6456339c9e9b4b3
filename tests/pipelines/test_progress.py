"""What a run tells of its way: lines in logs, seldom; bars on terminals, gone at the end."""

import os
import pty
import re
import sys
import threading
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from pipelines import cli
from pipelines.progress import Lines, watched
from pipelines.steps import COMPUTED, FETCHED, WRITTEN, Step
from tests.fleets import Fleet

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]")


class Clock:
    """A clock that stands until it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_every_ten_seconds_with_rate_and_time_left() -> None:
    """A shard of 600 samples each 4 s: 150 a second from the second one on."""
    told: list[str] = []
    clock = Clock()
    lines = Lines(told.append, clock)
    for _ in range(6):
        lines.step(Step(FETCHED, "2025-10-01|prod", 600, 40))
        clock.now += 4
    assert told == ["2025-10-01|prod: fetched 4 of 40 shards, 150 samples a second, 2 min 24 s left"]
    lines.step(Step(FETCHED, "2025-10-01|prod", 600, 40))
    assert told[1:] == ["2025-10-01|prod: fetched 7 of 40 shards, 150 samples a second, 2 min 12 s left"]


def test_what_takes_less_than_ten_seconds_is_not_told_and_what_took_longer_gets_a_last_line() -> None:
    told: list[str] = []
    clock = Clock()
    lines = Lines(told.append, clock)
    for _ in range(3):
        lines.step(Step(COMPUTED, "2025-10-01|prod", 50, 3))
        clock.now += 3
    assert told == []
    for _ in range(3):
        lines.step(Step(WRITTEN, "2025-10-01|prod", 1000, 3000))
        clock.now += 10 if len(told) == 0 else 1
    assert told == [
        "2025-10-01|prod: written 2,000 of 3,000 rows, 100 rows a second, 10 s left",
        "2025-10-01|prod: written 3,000 of 3,000 rows, 182 rows a second",
    ]


def test_more_shards_than_were_expected_are_told_as_they_come() -> None:
    told: list[str] = []
    clock = Clock()
    lines = Lines(told.append, clock)
    for _ in range(2):
        lines.step(Step(COMPUTED, "2025-10-01|prod", 50, 1))
        clock.now += 10
    assert told == ["2025-10-01|prod: computed 2 of 2 shards, 5 rows a second"]


def test_a_terminal_has_a_bar_a_stage_and_they_go() -> None:
    shown = StringIO()
    clock = Clock()
    with watched(Console(file=shown, force_terminal=True, width=80, _environ={"TERM": "xterm"}), clock) as watch:
        watch(Step(FETCHED, "2025-09-30|prod", 7, 1))
        for _ in range(3):
            watch(Step(FETCHED, "2025-10-01|prod", 600, 43))
            clock.now += 2
        watch(Step(COMPUTED, "2025-10-01|prod", 10, 44))
    assert bars_of(shown.getvalue())[-2:] == [
        "2025-10-01|prod fetched 3/43 300 samples/s 1 min 20 s",
        "2025-10-01|prod computed 1/44",
    ]
    assert_cleared(shown.getvalue())


def bars_of(shown: str) -> list[str]:
    """The bars that were drawn, in order, in words."""
    lines = CODES.sub("\n", COLOURS.sub("", shown)).splitlines()
    return [re.sub(r"[━╸╺ ]+", " ", line).strip() for line in lines if "prod" in line]


def assert_cleared(shown: str) -> None:
    """After the last bar come codes alone, that clear a line for each."""
    plain = COLOURS.sub("", shown)
    tail = plain[plain.rindex("prod") :].partition("\n")[2]
    assert CODES.sub("", tail) == ""
    assert tail.count("\x1b[2K") >= 2


def test_a_run_on_a_terminal_shows_bars_and_clears_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(tmp_path, {"nodes_per_shard": 4})
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                shown.append(piece)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        patched.setattr(cli, "errors", Console(stderr=True))
        code = cli.main(fleet.command())
    reader.join(30)
    os.close(ours)
    text = b"".join(shown).decode()
    assert code == 0
    drawn = {bar.split()[1] for bar in bars_of(text)}
    assert drawn == {FETCHED, COMPUTED, WRITTEN}
    assert_cleared(text)
    assert "bars" not in capsys.readouterr().err
