"""What Spark costs over a plain loop.

    python -m benchmarks.spark [--small]

Makes a day of ten shards as the store keeps it (``fleet_data``) and computes its tasks, from each task's own files to its charged
rows, in Spark on two cores of this machine and in a plain loop of this process; one after the other in each round, the least of
the rounds counts. Starting Spark and its workers is not in it. Rows, sums and findings must be the same, shard by shard.
``--small``: four little shards; nothing is asked of times. Without PySpark or Java nothing is measured.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bars import Bar, show
from benchmarks.fleet_data import CLUSTER, DAY, write_fleet
from benchmarks.machine import machine
from pipelines.clusters import plan_of
from pipelines.day_bill import read_day
from pipelines.engine_settings import EngineEntry
from pipelines.engines import open_engine
from pipelines.partition import Partition
from pipelines.settings import load_settings
from pipelines.shards import Charged, Method, Task, run_shard
from pipelines.stages import compute_of, open_day
from pipelines.walk import Walk, open_walk

SHARDS, ROUNDS, CORES = 10, 5, 2
LIMIT = 2.0
Map = Callable[[Callable[[Task], Charged], Iterable[Task]], Iterator[Charged]]


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="Spark against a plain loop.")
    parser.add_argument("--small", action="store_true", help="four little shards; only their rows are looked at")
    given = parser.parse_args(arguments)
    print(machine())
    bars = measure(given.small)
    show("spark", bars)
    return int(not given.small and not all(bar.held for bar in bars))


def measure(small: bool) -> list[Bar]:
    """The bar of Spark; none of little shards, whose rows are compared, and none where Spark is not installed."""
    if shutil.which("java") is None or find_spec("pyspark") is None:
        print("needs Java and PySpark (the extra `spark`); not measured")
        return []
    with tempfile.TemporaryDirectory() as name:
        fleet = write_fleet(Path(name), 4, nodes=1) if small else write_fleet(Path(name), SHARDS)
        settings = load_settings(fleet.config)
        with open_walk(settings) as walk:
            engine = open_engine(EngineEntry(kind="spark", master=f"local[{CORES}]"), walk.store.root)
            try:
                method, tasks = planned(walk)
                timed(engine.map, method, tasks)
                rounds = [(timed(map, method, tasks), timed(engine.map, method, tasks)) for _ in range(1 if small else ROUNDS)]
            finally:
                engine.close()
    compare(rounds[0][0][1], rounds[0][1][1])
    print(f"{fleet.samples:,} samples of pods in {len(tasks)} shards: the same rows")
    if small:
        return []
    loop, spark = (min(seconds for seconds, _ in way) for way in zip(*rounds, strict=True))
    print(f"plain loop {loop:.2f} s; Spark, {CORES} cores, warm {spark:.2f} s")
    return [Bar("Spark on 10 M samples, warm / a plain loop", spark / loop, "<=", LIMIT, number="P10")]


def planned(walk: Walk) -> tuple[Method, list[Task]]:
    """The tasks of the day."""
    bill, partition = read_day(walk, DAY), Partition(DAY, CLUSTER)
    with open_day(walk, bill, walk.settings.clusters[0]) as arrival:
        day = compute_of(walk, bill, {CLUSTER: arrival.finish()})
    plan = plan_of(walk, day.scope, partition, day.members[CLUSTER])
    return plan.method, list(plan.tasks(walk.store.part_files("samples", partition)))


def timed(map_: Map, method: Method, tasks: Sequence[Task]) -> tuple[float, list[Charged]]:
    """How long a way of running the tasks takes, and what they give."""
    begun = time.perf_counter()
    charged = list(map_(partial(run_shard, method), tasks))
    return time.perf_counter() - begun, charged


def compare(one: Sequence[Charged], other: Sequence[Charged]) -> None:
    """Ends the benchmark where two ways give other results."""
    for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        sums = mine.sums.holders.equals(theirs.sums.holders) and mine.sums.lines.equals(theirs.sums.lines)
        if not (len(mine.rows) and mine.rows.equals(theirs.rows) and sums and mine.findings == theirs.findings):
            raise SystemExit(f"shard {number} differs: the figures are worth nothing")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
