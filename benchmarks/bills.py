"""How fast and in how much memory a bill becomes line items, as ratios of times taken in one run.

    python -m benchmarks.bills [--small]

Makes a Parquet CUR 2.0 and a dump of Google's detailed export of ten million rows each and a CSV.gz of one million (see
``bills_data`` and ``gcp_data``) in a temporary folder and prints a table of the bars. Each reading is a process of its own, so
that its peak memory is its own; what is compiled was compiled by reading a little bill before the clock starts. Ends with 1 where
a bar is missed. ``--only``: one format. ``--small``: few lines, and no time is asked for.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import bills_data, gcp_data
from benchmarks.bars import Bar, show
from benchmarks.machine import machine, peak_mib
from billing_adapters import aws_columns, gcp_columns
from billing_adapters.base import BillOptions
from billing_adapters.parsed import Ordinals
from billing_adapters.record_columns import leaf_names
from billing_adapters.registry import load_bill_source

COST = "effective"


@dataclass(frozen=True)
class Format:
    """One format: how its Parquet is made, what is read of it, and its bars."""

    write: Callable[[Path, int], None]
    wanted: Sequence[str]
    bars: Sequence[tuple[str, str, float, str]]


FORMATS: Mapping[str, Format] = {
    "aws-cur2": Format(
        bills_data.write_export,
        aws_columns.WANTED,
        (
            ("Parquet CUR to line items / reading its columns", "ratio", 3.0, "P8"),
            ("peak memory of it", "parquet_mib", 1024.0, "P8"),
            ("peak memory of a CSV.gz of a million lines", "csv_mib", 400.0, ""),
        ),
    ),
    "gcp": Format(
        gcp_data.write_dump,
        gcp_columns.WANTED,
        (
            ("Google's Parquet to line items / reading its columns", "ratio", 4.0, ""),
            ("peak memory of it", "parquet_mib", 1536.0, ""),
        ),
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; the exit code."""
    parser = argparse.ArgumentParser(description="Ratios of reading bills.")
    parser.add_argument("--small", action="store_true", help="few lines; only what is read is looked at")
    parser.add_argument("--only", choices=sorted(FORMATS), help="one format")
    parser.add_argument("--child", nargs=3, metavar=("WAY", "KIND", "PATH"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.child:
        print(json.dumps(measured(*chosen.child)))
        return 0
    print(machine())
    bars = measure(chosen.small, [chosen.only] if chosen.only else list(FORMATS))
    show("bills", bars)
    return int(not chosen.small and not all(bar.held for bar in bars))


def measure(small: bool, kinds: Sequence[str] = ("aws-cur2", "gcp")) -> list[Bar]:
    """The bars of these formats; each way must find the same lines."""
    bars: list[Bar] = []
    for kind in kinds:
        with tempfile.TemporaryDirectory() as name:
            bars += report(kind, timed(kind, Path(name), 200 if small else 1))
    return bars


def timed(kind: str, folder: Path, part: int) -> Mapping[str, Mapping[str, float]]:
    """Lines, seconds and peak memory of each way of reading; the least of three rounds of the two that are compared."""
    FORMATS[kind].write(folder / "bill", 10_000_000 // part)
    rounds = [{way: child(way, kind, folder / "bill") for way in ("read", "parse")} for _ in range(3)]
    best = {way: min((r[way] for r in rounds), key=lambda found: found["seconds"]) for way in ("read", "parse")}
    found = {**best, "kept": child("keep", kind, folder / "bill")}
    if kind == "aws-cur2":
        bills_data.write_csv(folder / "bill.csv.gz", 1_000_000 // part)
        found["csv"] = child("parse", kind, folder / "bill.csv.gz")
    return found


def child(way: str, kind: str, path: Path) -> Mapping[str, float]:
    """One reading in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bills", "--child", way, kind, str(path)]
    found: Mapping[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measured(way: str, kind: str, path: str) -> Mapping[str, float]:
    """Lines, seconds and peak MiB of one way of reading, one thread."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    ways: Mapping[str, Callable[[str, str], Iterator[int]]] = {"read": read, "parse": parse, "keep": parse_and_write}
    with tempfile.TemporaryDirectory() as name:
        little = Path(name) / ("little.csv.gz" if path.endswith(".gz") else "little")
        if path.endswith(".gz"):
            bills_data.write_csv(little, 5_000)
        else:
            FORMATS[kind].write(little, 5_000)
        sum(ways[way](kind, str(little)))
    begun = time.perf_counter()
    lines = sum(ways[way](kind, path))
    seconds = time.perf_counter() - begun
    return {"lines": lines, "seconds": seconds, "mib": peak_mib()}


def read(kind: str, path: str) -> Iterator[int]:
    """The columns that are needed, batch by batch, and nothing done with them."""
    for file in sorted(Path(path).rglob("*.parquet")):
        whole = pq.ParquetFile(file)
        columns = [name for name in leaf_names(whole.schema_arrow) if name in FORMATS[kind].wanted]
        for batch in whole.iter_batches(1 << 16, columns=columns, use_threads=False):
            yield batch.num_rows


def parse(kind: str, path: str) -> Iterator[int]:
    """Line items with their ordinals, batch by batch."""
    ordinals = Ordinals()
    source = load_bill_source(kind, BillOptions("bill", path, (COST,)))
    for delivery in source.discover():
        for batch in source.parse(delivery):
            yield len(ordinals.numbered(batch))
    ordinals.table()


def parse_and_write(kind: str, path: str) -> Iterator[int]:
    """The same, kept in a store as a run keeps them."""
    from pipelines.kept_bills import KeptBills  # noqa: PLC0415 - not needed by the other ways
    from pipelines.storage import TableStore  # noqa: PLC0415

    source, ordinals = load_bill_source(kind, BillOptions("bill", path, (COST,))), Ordinals()
    with tempfile.TemporaryDirectory() as name:
        for delivery in source.discover():
            numbered = map(ordinals.numbered, source.parse(delivery))
            KeptBills(TableStore(name)).write("bill", numbered, ordinals.table)
            yield pq.ParquetFile(Path(name) / "line_items" / "bill.parquet").metadata.num_rows


def report(kind: str, found: Mapping[str, Mapping[str, float]]) -> list[Bar]:
    """Prints what each way took; the bars."""
    if found["kept"]["lines"] != found["parse"]["lines"]:
        raise SystemExit("lines were lost: the figures are worth nothing")
    figures = {
        "ratio": found["parse"]["seconds"] / found["read"]["seconds"],
        "parquet_mib": found["parse"]["mib"],
    }
    if "csv" in found:
        figures["csv_mib"] = found["csv"]["mib"]
    print(f"\n{kind + ', way':<50}{'lines':>12}{'us/line':>10}{'MiB':>8}")
    for way, one in found.items():
        print(f"{way:<50}{one['lines']:>12,.0f}{one['seconds'] * 1e6 / one['lines']:>10.2f}{one['mib']:>8.0f}")
    return [
        Bar(name, figures[key], "<=", wanted, "" if key == "ratio" else "MiB", number)
        for name, key, wanted, number in FORMATS[kind].bars
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
