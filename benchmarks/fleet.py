"""How long a whole night takes, and in how much memory.

    python -m benchmarks.fleet [--small]

Makes the day of a fleet of 990 nodes as the store keeps it (``fleet_data``) and charges it with two worker processes, from the
command's first look at the bill to the last table on disk, beside two processes that only read the series' files; one after the
other in each round, the least of the rounds counts. Starting is not in it: workers stand and compiled code is loaded when the
clock starts. The peaks are those of processes of their own, by ``VmHWM``. ``README.md`` says what each bar means. ``--small``:
four little shards; nothing is asked of times, but one worker and two must give the same tables.
"""

import argparse
import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from allocation.money import exact_sum
from benchmarks.bars import Bar, show
from benchmarks.fleet_data import CLUSTER, DAY, Fleet, write_fleet
from benchmarks.machine import machine, peak_mib
from pipelines.partition import Partition
from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.storage import TableStore
from pipelines.walk import Walk, open_walk

SHARDS, ROUNDS, WORKERS = 66, 4, 2
FEW, MANY, HUNDRED_MILLION = 2, 32, 101
"""Shards whose peaks are compared, and those of a hundred million samples of pods."""
KEPT = ("samples",)
Figures = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="Whole nights of a fleet.")
    parser.add_argument("--small", action="store_true", help="four little shards; only their results are looked at")
    parser.add_argument("--child", nargs=2, metavar=("WAY", "CONFIG"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        way, config = given.child
        print(json.dumps({"run": run, "read": read, "cold": cold}[way](Path(config))))
        return 0
    print(machine())
    bars = measure(given.small)
    show("whole nights", bars)
    return int(not given.small and not all(bar.held for bar in bars))


def measure(small: bool) -> list[Bar]:
    """The bars of time and memory; of little shards none, and their results are compared."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return _compared(folder) if small else [*_night(folder / "night"), *_peaks(folder)]


def _compared(folder: Path) -> list[Bar]:
    """Nothing is measured: the money is all there, and the tables are the same whoever computed them."""
    fleets = [write_fleet(folder / str(workers), 4, nodes=1, workers=workers) for workers in (1, WORKERS)]
    found = [child("cold", fleet) for fleet in fleets]
    if found[0]["hash"] != found[1]["hash"] or not found[0]["complete"] or not found[0]["rows"]:
        raise SystemExit("two workers give other tables than one, or money was lost")
    print(f"{found[0]['rows']} rows of {fleets[0].samples:,} samples, the same from one process and from workers")
    return []


def _night(folder: Path) -> list[Bar]:
    fleet = write_fleet(folder, SHARDS)
    rounds = [(child("read", fleet), child("run", fleet)) for _ in range(ROUNDS)]
    reading, night = (min((pair[k] for pair in rounds), key=lambda found: found["seconds"]) for k in (0, 1))
    if not night["complete"]:
        raise SystemExit("money was lost: the figures are worth nothing")
    shutil.rmtree(folder)
    print(f"{fleet.nodes} nodes, {fleet.samples:,} samples of pods in {len(fleet.files)} shards, {night['rows']:,} rows")
    starting = night["whole"]
    print(f"reading alone {reading['seconds']:.2f} s; a night {night['seconds']:.2f} s, with all starting {starting:.2f} s")
    print("of which " + ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in night["stages"].items()))
    ratio = night["seconds"] / reading["seconds"]
    return [Bar("a night of 990 nodes / reading its samples, two processes", ratio, "<=", 2.5, number="P5")]


def _peaks(folder: Path) -> list[Bar]:
    peaks = {}
    for shards in (FEW, MANY, HUNDRED_MILLION):
        fleet = write_fleet(folder / str(shards), shards)
        found = child("cold", fleet)
        peaks[shards] = max(found["peaks"])
        told = ", ".join(f"{peak:.0f}" for peak in found["peaks"])
        print(f"{shards} shards, {fleet.samples:,} samples of pods: peaks of main process and workers {told} MiB")
        shutil.rmtree(folder / str(shards))
    return [
        Bar("peak memory of a process at 32 shards / at 2", peaks[MANY] / peaks[FEW], "<=", 1.2, number="P3"),
        Bar("peak memory of a process, 100 million samples", peaks[HUNDRED_MILLION], "<=", 450.0, "MiB", "P3"),
    ]


def child(way: str, fleet: Fleet) -> Figures:
    """One way in a process of its own."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.fleet", "--child", way, str(fleet.config)]
    found: Figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found | {"whole": time.perf_counter() - begun}


def run(config: Path) -> Figures:
    """A night, once its workers stand and have computed a little day."""
    with tempfile.TemporaryDirectory() as name:
        little = write_fleet(Path(name), 2 * WORKERS + 2, nodes=1, workers=WORKERS)
        with open_walk(load_settings(little.config)) as warm:
            run_day(warm, DAY)
            return _charged(config, warm)


def cold(config: Path) -> Figures:
    """A night as a process of its own begins it."""
    return _charged(config, None)


def _charged(config: Path, warm: Walk | None) -> Figures:
    settings, clock = load_settings(config), _Clock()
    _forget(settings.output)
    walk = open_walk(settings, watch=clock.watch)
    if warm is not None:
        walk.__dict__["engine"] = warm.engine
    with walk:
        begun = time.perf_counter()
        results = run_day(walk, DAY)
        ended = time.perf_counter()
        peaks = [peak_mib(), *(peak_mib(worker.pid) for worker in multiprocessing.active_children())]
        peaks += [peak_mib(pid) for pid in worker_pids(walk)]
        return {"seconds": ended - begun, "stages": clock.stages(begun, ended), "peaks": peaks, **_told(walk.store, results)}


class _Clock:
    """When the first and the last shard were computed, and the last row was written."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._first: dict[str, float] = {}

    def watch(self, step: Any) -> None:  # noqa: ANN401
        """A step was done."""
        now = time.perf_counter()
        self._first.setdefault(step.stage, now)
        self._last[step.stage] = now

    def stages(self, begun: float, ended: float) -> dict[str, float]:
        """Seconds of each part of the night."""
        first, last, write = self._first["computed"], self._last["computed"], self._first["written"]
        return {
            "bill, inventory, first shard": first - begun,
            "other shards": last - first,
            "sums and findings": write - last,
            "writing": ended - write,
        }


def worker_pids(walk: Walk) -> list[int]:
    """The processes in which shards were computed."""
    pool = getattr(walk.engine, "_pool", None)
    return list(pool._processes) if pool else []  # noqa: SLF001


def _told(store: TableStore, results: Sequence[Results]) -> Figures:
    """How many rows, whether all money is there, and the hash of the file in which they stand."""
    costs = [exact_sum(result.sums.holders["cost"]) for result in results]
    bill = exact_sum(results[0].reconciliation["cost_in"])
    commit = store.commit("chargeback", Partition(DAY, CLUSTER))
    assert commit is not None  # noqa: S101
    return {"rows": results[0].rows.rows, "complete": sum(costs) == bill, "hash": dict(commit.files)}


def _forget(output: str) -> None:
    """Everything but the series goes."""
    for table in Path(output).iterdir():
        if table.name not in KEPT:
            shutil.rmtree(table)


def read(config: Path) -> Figures:
    """Two processes read half of the files each, once both have read one."""
    files = TableStore(load_settings(config).output).part_files("samples", Partition(DAY, CLUSTER))
    paths = [str(Path(load_settings(config).output) / file) for file in files]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_read_all, [paths[:1]] * 8))
        begun = time.perf_counter()
        list(pool.map(_read_all, [paths[::2], paths[1::2]]))
        return {"seconds": time.perf_counter() - begun}


def _read_all(paths: Sequence[str]) -> int:
    return sum(len(pq.read_table(path, use_threads=False)) for path in paths)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
