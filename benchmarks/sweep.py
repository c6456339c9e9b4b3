"""How fast samples become money, as ratios of times taken in one run.

    python -m benchmarks.sweep [--small]

Makes ten shards of about a million pod samples (see ``sweep_data``), writes them to a temporary folder, prints a table of the
bars. Each round takes every time once, one after the other, and the least of the rounds counts, so that a busy machine touches
all alike. ``README.md`` says what each ratio means. Ends with 1 where a bar is missed. ``--small``: one shard and
one round; no time is asked for.
"""

import argparse
import gc
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from allocation import usage
from allocation.apportion import apportion
from allocation.devices import build, machines_of
from allocation.frames import sweep_frames
from allocation.intervals import hold
from allocation.pieces import pieces_of
from allocation.policy import Policy
from benchmarks.bars import Bar, show
from benchmarks.machine import machine
from benchmarks.sweep_data import Work, crowded, ordinary, repeated

POLICY = Policy()
STEPS = ("build", "hold", "sweep", "table", "apportion")
MONEY = ("hold", "sweep", "apportion")
ORDINARY, ONE = "ordinary shards", "one of them"
CHANGING, REPEATED = "one shard, every sample changes", "one shard, the device's value repeated"
READ, READ_PODS = "pq.read_table, one thread", "pq.read_table, one thread, pods alone"
CROWDS = (3, 30, 300, 3000)
Times = dict[str, float]


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="Ratios of the sweep's speed.")
    parser.add_argument("--small", action="store_true", help="one shard instead of ten, one round instead of five")
    small = parser.parse_args(arguments).small
    print(machine())
    bars = measure(small)
    show("samples to money", bars)
    return int(not small and not all(bar.held for bar in bars))


def measure(small: bool) -> list[Bar]:
    """The bars; the times behind them are printed."""
    with tempfile.TemporaryDirectory() as name:
        times, counts = timed(Path(name), 1 if small else 10, 1 if small else 5)
    bars = bars_of(times, counts, whole=not small)
    tell(times, counts)
    return bars


def timed(folder: Path, shards: int, rounds: int) -> tuple[Times, Times]:
    """The least seconds of each step of each kind of data, and how many pod samples that was for."""
    many = [ordinary(seed) for seed in range(shards)]
    for seed, work in enumerate(many):
        write(folder / f"{seed}.parquet", work.samples)
        write(folder / f"{seed}-pods.parquet", pods_of(work.samples))
    kinds = {ORDINARY: many, ONE: many[:1], CHANGING: [ordinary(0, change=1.0)], REPEATED: [repeated(0)]}
    kinds |= {f"{pods} pods on one GPU, all change": [crowded(pods)] for pods in CROWDS}
    walk(ordinary(0, nodes=1))
    best: Times = defaultdict(lambda: math.inf)
    for _ in range(rounds):
        for kind, works in kinds.items():
            spent = [walk(work) for work in works]
            for step in STEPS:
                best[f"{kind} {step}"] = min(best[f"{kind} {step}"], sum(times[step] for times in spent))
        for name, suffix in ((READ, ""), (READ_PODS, "-pods")):
            best[name] = min(best[name], sum(read_seconds(folder / f"{seed}{suffix}.parquet") for seed in range(shards)))
    return best, {kind: sum(map(len_of, (work.samples for work in works))) for kind, works in kinds.items()}


def walk(work: Work) -> Times:
    """One shard from the table of samples to nanos; the seconds of each step."""
    marks = [time.perf_counter()]
    machines = machines_of(work.nodes, sorted(set(work.periods.node_key)))
    shard = build(pieces_of(work.samples, work.nodes, work.pods, machines), machines, POLICY)
    number = pd.Series(np.arange(len(shard.machines)), index=shard.machines.node_key)
    periods = work.periods.assign(machine=work.periods.node_key.map(number))
    wanted = usage.frames_of(periods, shard.machines, POLICY)
    marks.append(time.perf_counter())
    runs = hold(shard.offsets, shard.ts, shard.values, shard.reports, shard.alive, POLICY.max_hold_ms, POLICY.max_gap_ms)
    marks.append(time.perf_counter())
    out = usage.space(shard, wanted, POLICY)
    sweep_frames(runs, shard.topology, usage.terms_of(POLICY), wanted, out)
    rows = usage.in_order(out)
    marks.append(time.perf_counter())
    table = usage.table_of(rows, periods, shard)
    marks.append(time.perf_counter())
    frame = rows[:, 0]
    first, last = (np.searchsorted(frame, np.arange(len(wanted)), side=side) for side in ("left", "right"))
    _, _, nanos = apportion(work.costs, first, last, table)
    marks.append(time.perf_counter())
    if int(nanos.sum()) != int(work.costs.sum()):
        raise SystemExit("money was lost: the figures are worth nothing")
    gc.collect()
    return dict(zip(STEPS, np.diff(marks).tolist(), strict=True))


def pods_of(samples: pa.Table) -> pa.Table:
    """The series of pods in a table."""
    return samples.filter(pc.equal(samples["role"], "pod_memory"))


def len_of(samples: pa.Table) -> int:
    """How many samples of pods a table holds."""
    return int(pc.sum(pc.list_value_length(pods_of(samples)["values"])).as_py())


def write(path: Path, samples: pa.Table) -> None:
    """Samples as a flat file: number of the series, time, value; sorted so, snappy, in row groups of a million."""
    lists = samples["timestamps_ms"].combine_chunks()
    lengths = np.diff(lists.offsets.to_numpy())
    columns: dict[str, npt.NDArray[np.generic]] = {
        "series": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        "timestamp_ms": lists.flatten().to_numpy(),
        "value": samples["values"].combine_chunks().flatten().to_numpy(),
    }
    pq.write_table(pa.table(columns), path, compression="snappy", row_group_size=1 << 20, use_dictionary=["series", "value"])


def read_seconds(path: Path) -> float:
    """How long one thread reads a file."""
    began = time.perf_counter()
    pq.read_table(path, use_threads=False)
    return time.perf_counter() - began


def _money(times: Times, counts: Times) -> Times:
    """Seconds from tables of arrays to nanos, by kind of data."""
    return {kind: sum(times[f"{kind} {step}"] for step in MONEY) for kind in counts}


def bars_of(times: Times, counts: Times, *, whole: bool) -> list[Bar]:
    """The bars; how cost grows only where there are shards enough to tell."""
    money = _money(times, counts)
    nanos = {kind: money[kind] / counts[kind] * 1e9 for kind in counts}
    bars = [Bar("samples to money / reading them from disk, one thread", money[ORDINARY] / times[READ], "<=", 0.6, number="P1")]
    if whole:
        growth = math.log(money[ORDINARY] / money[ONE]) / math.log(counts[ORDINARY] / counts[ONE])
        bars.append(Bar("exponent of growth, 1 M samples to 10 M", growth, "<=", 1.15, number="P4"))
    return [
        *bars,
        Bar("a sample when every one changes / when 4 % do", nanos[CHANGING] / nanos[ONE], "<=", 8.0, number="P4"),
        Bar("300 pods on one GPU, million samples a second", 1e3 / nanos["300 pods on one GPU, all change"], ">=", 2.0),
    ]


def tell(times: Times, counts: Times) -> None:
    """Prints the seconds of all steps, and what a sample costs by kind of data."""
    money = _money(times, counts)
    print(f"\n{'samples to money / reading the samples of pods alone':64}{money[ORDINARY] / times[READ_PODS]:12.2f}")
    print(f"\n{f'{len(STEPS)} steps of {ORDINARY}':48}{'seconds':>12}{'ns/sample':>12}")
    for step, seconds in [
        *((name, times[name]) for name in (READ, READ_PODS)),
        *((step, times[f"{ORDINARY} {step}"]) for step in STEPS),
    ]:
        print(f"{step:48}{seconds:12.4f}{seconds / counts[ORDINARY] * 1e9:12.2f}")
    print(f"\n{' + '.join(MONEY):48}{'samples':>12}{'ns/sample':>12}")
    for kind, seconds in money.items():
        print(f"{kind:48}{counts[kind]:12.0f}{seconds / counts[kind] * 1e9:12.2f}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
