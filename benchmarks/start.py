"""How long a command takes from the shell to its end, as whole processes.

    python -m benchmarks.start [--small]

The quick start is the one in ``examples``, copied to a temporary folder and computed anew each time. Each command runs once
before anything is timed, so that Python's and the kernel's compiled code is there; the median of the rounds counts. Ends
with 1 where a bar is missed. ``--small``: three rounds instead of five.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import Bar, show

HERE = Path(__file__).parents[1]
ROUNDS, FEW_ROUNDS = 5, 3
LIGHT = {"--help": ["--help"], "--version": ["--version"], "init --help": ["init", "--help"], "schema": ["schema"]}
QUICK_START = ["run", "chargeback.yaml", "--from", "2026-10-01", "--until", "2026-10-02"]
HELP_SECONDS, QUICK_START_SECONDS = 0.5, 5.0


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="Seconds of whole processes.")
    parser.add_argument("--small", action="store_true", help="three rounds instead of five")
    bars = measure(parser.parse_args(arguments).small)
    show("whole processes, warm", bars)
    return 0 if all(bar.held for bar in bars) else 1


def measure(small: bool) -> list[Bar]:
    """The median seconds of each command."""
    rounds = FEW_ROUNDS if small else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "quickstart"
        shutil.copytree(HERE / "examples" / "quickstart", folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
        seconds = {word: median(command, folder, rounds) for word, command in LIGHT.items()}
        quick_start = median(QUICK_START, folder, rounds)
    bars = [Bar(f"gpu-chargeback {word}", took, "<=", HELP_SECONDS, "s", "P9") for word, took in seconds.items()]
    return [*bars, Bar("the quick start", quick_start, "<=", QUICK_START_SECONDS, "s", "P9")]


def median(command: Sequence[str], folder: Path, rounds: int) -> float:
    """Seconds of a command in a folder, after one that is not counted."""
    once(command, folder)
    return statistics.median(once(command, folder) for _ in range(rounds))


def once(command: Sequence[str], folder: Path) -> float:
    """Seconds of one process, without the tables of the one before."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = {**kept, "PYTHONPATH": str(HERE)}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pipelines.cli", *command], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
