"""How fast a month is added up: from the days' marts, and again from the rows of ``chargeback``.

    python -m benchmarks.marts [--small] [--rows N]

Makes thirty days of ``chargeback`` (30 million rows) and their ``daily_mart``, and adds them up in three ways, each in a process
of its own: thirty partitions of ``daily_mart`` into ``monthly_mart``; ``sums_of`` over all rows, batch by batch, and the marts of
it; DuckDB's GROUP BY over the same Parquet files, with the same threads. All must give the same money. ``--small``: 60,000 rows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from allocation.marts import KEYS, daily_mart, monthly_mart
from allocation.money import exact_sum, nanos_column
from allocation.schemas import CHARGEBACK, DAILY_MART
from allocation.sums import COSTS, MEASURES, DaySums, added, sums_of
from allocation.sums import KEYS as OF_HOLDERS
from allocation.times import HOUR_MS, time_column, to_ms
from benchmarks.bars import Bar, show
from benchmarks.machine import machine, peak_mib
from benchmarks.money_data import words
from pipelines.months import Month, month_rows
from pipelines.partition import Partition
from pipelines.settings import day_start
from pipelines.storage import TableStore

ROWS, SMALL, THREADS, ROUNDS = 30_000_000, 60_000, 2, 2
MONTH, CLUSTER, BATCH = Month(date(2026, 9, 1)), "prod", 250_000
PODS, NODES = 22, 16
"""Holders of a node, and nodes that a batch has rows of."""
_READ = {*OF_HOLDERS, *COSTS, *MEASURES, "line_item_id"}
"""The columns of ``chargeback`` that its sums need."""
WAYS = ("marts", "again", "duckdb")


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="Months out of days.")
    parser.add_argument("--small", action="store_true", help=f"{SMALL:,} rows; only their results are looked at")
    parser.add_argument("--rows", type=int, default=ROWS, help="how many rows of chargeback the month has")
    parser.add_argument("--child", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        way, folder = given.child
        print(json.dumps({"marts": from_marts, "again": from_rows, "duckdb": by_duckdb}[way](Path(folder))))
        return 0
    print(machine())
    bars = measured(SMALL if given.small else given.rows, timed=not given.small)
    show("months out of days", bars)
    return int(not all(bar.held for bar in bars))


def measure(small: bool) -> list[Bar]:
    """The bars; of little data none, and results are compared."""
    return measured(SMALL if small else ROWS, timed=not small)


def measured(rows: int, *, timed: bool) -> list[Bar]:
    """The three ways over so many rows; least of the rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(TableStore(str(folder)), rows)
        rounds = [{way: child(way, folder) for way in WAYS} for _ in range(ROUNDS if timed else 1)]
    if len({found["cost"] for of in rounds for found in of.values()}) != 1 or len({of["marts"]["rows"] for of in rounds}) != 1:
        raise SystemExit(f"the ways give other money: {rounds}")
    best = {way: min(float(of[way]["seconds"]) for of in rounds) for way in WAYS}
    print(f"{rows:,} rows: " + ", ".join(f"{way} {seconds:.2f} s" for way, seconds in best.items()), flush=True)
    if not timed:
        return []
    peak = max(float(of[way]["peak"]) for of in rounds for way in WAYS[:2])
    return [
        Bar(
            "a month out of 30 partitions of daily_mart / DuckDB's GROUP BY over all rows",
            best["marts"] / best["duckdb"],
            "<=",
            2.0,
        ),
        Bar("peak memory of both", peak, "<=", 2048.0, "MiB"),
    ]


def child(way: str, folder: Path) -> dict[str, str]:
    """One way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.marts", "--child", way, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(start: float, mart: pa.Table) -> dict[str, str]:
    """Seconds, peak, and what came out."""
    seconds = time.perf_counter() - start
    return {"seconds": str(seconds), "peak": str(peak_mib()), "cost": str(exact_sum(mart["cost"])), "rows": str(len(mart))}


def from_marts(folder: Path) -> dict[str, str]:
    """The way of ``gpu-chargeback marts``."""
    start = time.perf_counter()
    return told(start, monthly_mart(month_rows(TableStore(str(folder)), MONTH), MONTH.days, False))


def from_rows(folder: Path) -> dict[str, str]:
    """From the rows, as a run adds them up while it writes."""
    pa.set_cpu_count(THREADS)
    store, start = TableStore(str(folder)), time.perf_counter()
    columns = [name for name in CHARGEBACK.names if name in _READ]

    def again(partition: Partition) -> pa.Table:
        batches = store.batches(CHARGEBACK.name, partition, columns)
        sums = added([sums_of(pa.Table.from_batches([batch])) for batch in batches])
        return daily_mart(sums.holders, partition.day, (), "run")

    with ThreadPoolExecutor(THREADS) as pool:
        rows = pa.concat_tables(pool.map(again, store.partitions(CHARGEBACK.name)))
    return told(start, monthly_mart(rows.append_column("entry", pa.repeat("charge", len(rows))), MONTH.days, False))


def by_duckdb(folder: Path) -> dict[str, str]:
    """The same sums by the keys of ``monthly_mart``, money as it stands."""
    keys = ", ".join(name for name in KEYS if name != "booked_period")
    figures = ("used_cost", "overhead_cost", "idle_cost", "cost", "used_gib_seconds", "overhead_gib_seconds", "idle_gib_seconds")
    sums = ", ".join(f"sum({name}) AS {name}" for name in figures)
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {THREADS}")
        start = time.perf_counter()
        files = folder / CHARGEBACK.name / "*" / "*" / "*.parquet"
        mart = connection.execute(f"SELECT {keys}, {sums} FROM read_parquet('{files}') GROUP BY ALL").to_arrow_table()  # noqa: S608
        return told(start, mart)


def write(store: TableStore, rows: int) -> None:
    """Thirty partitions of ``chargeback`` and ``daily_mart``."""
    each = rows // len(MONTH.days)
    for number, day in enumerate(MONTH.days):
        sums: list[DaySums] = []

        def batches(day: date = day, number: int = number, sums: list[DaySums] = sums) -> Iterator[pa.RecordBatch]:
            for first in range(0, each, BATCH):
                table = charges(day, number, first, min(BATCH, each - first))
                sums.append(sums_of(table))
                yield from table.to_batches()

        partition = Partition(day, CLUSTER)
        store.write_batches(CHARGEBACK.name, partition, batches(), CHARGEBACK.arrow(), {})
        store.write(DAILY_MART.name, partition, daily_mart(added(sums).holders, day, (), "run"))


def charges(day: date, number: int, first: int, rows: int) -> pa.Table:
    """Rows of ``chargeback``: a node's holders, hour by hour, for each of its lines."""
    rng = np.random.default_rng(number * 100_000 + first // BATCH)
    every = np.arange(rows)
    pod = rng.integers(0, PODS * NODES, rows) + first // BATCH * PODS * NODES
    hour = every // max(rows // 24, 1) % 24
    start = to_ms(day_start(day)) + hour * HOUR_MS
    bucket = np.where(pod % 11 == 0, 1, 0)
    texts = {
        "namespace": pod % 400, "pod": pod, "team": pod % 40, "model": pod % 60, "cost_center": pod % 40 // 4,
        "gpu_model": pod % 4,
        "node": pod // PODS, "node_id": pod // PODS, "gpu_uuid": pod // 3, "line_item_id": pod // PODS * 24 + hour,
    }  # fmt: skip
    fixed = {"provider": "aws", "billing_account": "1", "charge_category": "Usage", "cost_metric": "effective", "currency": "USD"}
    fixed |= {"policy_id": "p", "run_id": "r"}
    columns: dict[str, object] = {c.name: pa.nulls(rows, c.type) for c in CHARGEBACK.columns}
    columns |= {name: words(name, numbers) for name, numbers in texts.items()}
    columns |= {name: pa.repeat(text, rows) for name, text in fixed.items()}
    columns |= {"bucket": pa.array(["workload", "idle"]).take(pa.array(bucket))}
    columns["basis"] = pa.array(["exclusive", "measured", "mig"]).take(pa.array(pod % 3))
    columns["billing_period"] = pa.repeat(pa.scalar(MONTH.first, pa.date32()), rows)
    columns |= {"charge_period_start": time_column(start), "charge_period_end": time_column(start + HOUR_MS)}
    nanos = rng.integers(0, 10**9, (3, rows))
    columns |= {f"{kind}_cost": nanos_column(nanos[k]) for k, kind in enumerate(("used", "overhead", "idle"))}
    columns["cost"] = nanos_column(nanos.sum(axis=0))
    columns |= {c.name: pa.array(rng.random(rows)) for c in CHARGEBACK.columns if c.type == pa.float64()}
    return pa.table({c.name: columns[c.name] for c in CHARGEBACK.columns}, schema=CHARGEBACK.arrow())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
