"""How much faster a shard becomes weights than in the ways one would write first.

    python -m benchmarks.usual_ways [--small]

Two scripts in pandas for pods that show their own memory on whole cards, with idle memory split by what each pod held: one on
whole columns (every change of a level as an event, sums over time), one group by group (each pod resampled to 15 s, each GPU on
its own). Both know a part of the method only: no gaps, no duplicates, no periods cut short, no instances, no inventory; ours is
timed with all of it, tables to nanos. That all three mean the same is told by the memory over time of each GPU, to a percent.
``--small``: one node, one round; no time is asked for.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bars import Bar, show
from benchmarks.machine import machine
from benchmarks.sweep import walk
from benchmarks.sweep_data import DAY_MS, HOUR_MS, START_MS, Work, ordinary

HOLD_MS = 120_000
GRID = "15s"
NODES, FEW_NODES, ROUNDS = 15, 2, 3
WITHIN = 0.02
"""Two ways count as the same where the memory over time of a GPU differs by no more than this share of it."""


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="The usual ways in pandas beside ours.")
    parser.add_argument("--small", action="store_true", help="one node, one round; no time is asked for")
    small = parser.parse_args(arguments).small
    print(machine())
    bars = measure(small)
    show("the usual ways / ours", bars)
    return int(not small and not all(bar.held for bar in bars))


def measure(small: bool) -> list[Bar]:
    """Seconds of each way over seconds of ours on the same samples."""
    shard, few = ordinary(0, nodes=1 if small else NODES), ordinary(1, nodes=1 if small else FEW_NODES)
    walk(few)
    whole, naive, ours, ours_few = math.inf, math.inf, math.inf, math.inf
    for _ in range(1 if small else ROUNDS):
        ours = min(ours, sum(walk(shard)[step] for step in ("hold", "sweep", "apportion")))
        ours_few = min(ours_few, sum(walk(few)[step] for step in ("hold", "sweep", "apportion")))
        whole = min(whole, _seconds(by_events, shard))
    naive = _seconds(by_groups, few)
    _same(few)
    return [
        Bar("pandas on whole columns / ours, one shard", whole / ours, ">=", 80.0, number="P2"),
        Bar("groupby and resample / ours, two nodes", naive / ours_few, ">=", 500.0, number="P2"),
    ]


def _seconds(way: Callable[[pd.DataFrame], pd.DataFrame], work: Work) -> float:
    frame = samples_of(work)
    begun = time.perf_counter()
    way(frame)
    return time.perf_counter() - begun


def samples_of(work: Work) -> pd.DataFrame:
    """One row a sample of a pod: ``node``, ``gpu``, ``pod``, ``ts`` (ms), ``value`` (bytes)."""
    pods = work.samples.filter(pc.equal(work.samples["role"], "pod_memory"))
    lists = pods["timestamps_ms"].combine_chunks()
    row = pa.array(np.repeat(np.arange(len(pods)), np.diff(lists.offsets.to_numpy())))
    names = pods.select(["node", "gpu_uuid", "pod"]).rename_columns(["node", "gpu", "pod"]).take(row)
    frame = names.to_pandas().astype("category")
    return frame.assign(ts=lists.flatten().to_numpy(), value=pods["values"].combine_chunks().flatten().to_numpy())


def by_events(samples: pd.DataFrame) -> pd.DataFrame:
    """Weights of each GPU, pod and hour on whole columns: ``gpu``, ``pod``, ``hour``, ``weight`` in byte ms."""
    frame = samples.sort_values(["gpu", "pod", "ts"], ignore_index=True)
    following = frame.groupby(["gpu", "pod"], observed=True).ts.shift(-1)
    end = np.minimum(following.fillna(np.inf), frame.ts + HOLD_MS)
    held = frame.assign(start=frame.ts.clip(START_MS, START_MS + DAY_MS), end=end.clip(START_MS, START_MS + DAY_MS))
    held = held[held.end > held.start]
    hours = ((held.end - 1) // HOUR_MS - held.start // HOUR_MS).astype("int64")
    pieces = held.loc[held.index.repeat(hours + 1)]
    hour = pieces.start // HOUR_MS + pieces.groupby(level=0).cumcount()
    pieces = pieces.assign(hour=hour)
    ms = np.minimum(pieces.end, (pieces.hour + 1) * HOUR_MS) - np.maximum(pieces.start, pieces.hour * HOUR_MS)
    weights = pieces.assign(weight=pieces.value * ms, held=ms)
    ends = pd.concat([held.assign(ts=held.start, change=held.value), held.assign(ts=held.end, change=-held.value)])
    ends = ends.sort_values(["gpu", "ts"], kind="stable")
    ends["total"] = ends.groupby("gpu", observed=True).change.cumsum()
    ends["free_ms"] = ends.groupby("gpu", observed=True).ts.shift(-1).fillna(START_MS + DAY_MS) - ends.ts
    found = weights.groupby(["gpu", "pod", "hour"], observed=True, as_index=False).agg({"weight": "sum", "held": "sum"})
    return found.assign(share=found.weight / found.groupby(["gpu", "hour"], observed=True).weight.transform("sum"))


def by_groups(samples: pd.DataFrame) -> pd.DataFrame:
    """The same as a script would do it: each pod's series on a grid of 15 s, each GPU's hours divided one by one."""
    rows, first, until = [], pd.Timestamp(START_MS, unit="ms"), pd.Timestamp(START_MS + DAY_MS, unit="ms")
    for gpu, of_gpu in samples.groupby("gpu", observed=True):
        grids = []
        for pod, of_pod in of_gpu.groupby("pod", observed=True):
            series = of_pod.set_index(pd.to_datetime(of_pod.ts, unit="ms")).value
            grid = series.resample(GRID).last().ffill(limit=int(HOLD_MS / 15_000))
            grids.append(grid.rename(pod))
        whole = pd.concat(grids, axis=1, sort=True)
        whole = whole[(whole.index >= first) & (whole.index < until)]
        for hour, of_hour in whole.groupby(whole.index.floor("h")):
            sums = of_hour.sum() * 15_000
            for pod, weight in sums[sums > 0].items():
                rows.append({"gpu": gpu, "pod": pod, "hour": hour.value // (HOUR_MS * 10**6), "weight": weight, "of": sums.sum()})
    found = pd.DataFrame(rows)
    return found.assign(share=found.weight / found.of)


def _same(work: Work) -> None:
    frame = samples_of(work)
    one, other = (way(frame).groupby("gpu", observed=True).weight.sum() for way in (by_events, by_groups))
    if ((one - other).abs() > WITHIN * one).any():
        raise SystemExit("the two ways mean different things: the figures are worth nothing")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
