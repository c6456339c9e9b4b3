"""Runs of the command line that start at once: a process that has loaded everything is forked for each of them.

Here belongs what makes many real runs cheap. Workers are forked from a server of processes that is started once, not once a run;
all else is as ever.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, set_forkserver_preload
from pathlib import Path
from typing import IO, Any

from pipelines import cli
from tests.fleets import Fleet

WARM = "FORKED_RUNS_WARM"
ROOT = Path(__file__).parents[1]
_PATIENCE_S = 30.0
_SERVER: Any = forkserver._forkserver  # noqa: SLF001 - a run that is forked cannot ask for its state


@dataclass(frozen=True)
class Forked:
    """A run that is under way."""

    pid: int
    begun_s: float


class Forks:
    """Starts runs and tells how they ended."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self.log = process, log
        self._server = 0

    def start(self, arguments: Sequence[str]) -> Forked:
        """Begins a run; one at a time. Its pid stays its own until ``ended``."""
        pid, self._server = self._ask([*arguments])
        return Forked(pid, time.monotonic())

    def ended(self, run: Forked) -> int:
        """Waits for its end: its exit code, or minus the signal that ended it."""
        return self._ask(run.pid)[0]

    def run(self, arguments: Sequence[str]) -> tuple[int, float]:
        """A whole run: its exit code and how long it took."""
        begun = self.start(arguments)
        return self.ended(begun), time.monotonic() - begun.begun_s

    def workers(self) -> list[int]:
        """The worker processes that are alive."""
        return children_of(self._server)

    def _ask(self, what: object) -> list[int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return [int(told) for told in self._process.stdout.readline().split()]


def waited(told: Callable[[], object]) -> bool:
    """Whether something comes true before patience ends."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if told():
            return True
        time.sleep(0.01)
    return False


def children_of(pid: int) -> list[int]:
    """The processes that a process started and that are alive."""
    numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [number for number in numbers if _state_of(number)[1] == pid and alive(number)]


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    return _state_of(pid)[0] not in ("", "Z")


def _state_of(pid: int) -> tuple[str, int]:
    """A letter, and who started it."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
    except OSError:
        return "", 0
    return state, int(parent)


@contextlib.contextmanager
def forks(folder: Path) -> Iterator[Forks]:
    """A process that forks runs, until the block ends."""
    log = folder / "runs.log"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with (folder / "forks.log").open("wb") as errors:
        command = [sys.executable, "-m", "tests.forked_runs", str(log)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True, cwd=ROOT
        )
        try:
            yield Forks(process, log)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_PATIENCE_S)


def _warm() -> None:
    """Loads all that a run loads: modules, and compiled code."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        assert cli.main(Fleet(Path(folder)).command()) == 0


def _serve(log: str, commands: IO[str], answers: IO[str]) -> None:
    _warm()
    set_forkserver_preload(["tests.forked_runs"])
    for command in map(json.loads, commands):
        if isinstance(command, int):
            told = [os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])]
        else:
            told = [_forked(command, log), _SERVER._forkserver_pid]  # noqa: SLF001
        answers.write(" ".join(map(str, told)) + "\n")
        answers.flush()


def _forked(arguments: list[str], log: str) -> int:
    """Starts a run. One that is killed as it asks for a worker takes the server of processes along; then there is a new one."""
    os.environ[WARM] = "1"
    forkserver.ensure_running()
    os.environ.pop(WARM)
    pid = os.fork()
    if not pid:
        _run(arguments, log)
    return pid


def _run(arguments: list[str], log: str) -> None:
    """The run itself, in its process."""
    _SERVER.ensure_running = lambda: None
    with Path(log).open("ab", buffering=0) as written:
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
    code = 1
    try:
        code = cli.main(arguments)
    except BaseException:  # noqa: BLE001 - told, and the process ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if WARM in os.environ and __name__ == "tests.forked_runs":  # in the server of processes
    _warm()
if __name__ == "__main__":
    _serve(sys.argv[1], sys.stdin, sys.stdout)
