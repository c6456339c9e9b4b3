"""All figures that the project promises, in one table.

    python -m benchmarks [--small] [--only NAME ...] [--write docs/performance.md]

Each benchmark runs in a process of its own, one after the other, so that none holds the other's memory or takes its time. Ends
with 1 where a bar is missed or a benchmark fails. ``--small``: little data, and only results are looked at (each compares what it
computes with what it should be), whatever the times are. ``--write``: the table replaces what stands between the two marks.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.bars import Bar, markdown, show
from benchmarks.machine import machine

FIGURES: Mapping[str, Sequence[str]] = {
    "sweep": ("P1", "P4"),
    "usual_ways": ("P2",),
    "fleet": ("P3", "P5"),
    "fetch": ("P6",),
    "money": ("P7",),
    "bills": ("P8",),
    "start": ("P9",),
    "spark": ("P10",),
    "marts": (),
}
"""The benchmarks, and which figures each measures."""
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="All figures that the project promises.")
    parser.add_argument("--small", action="store_true", help="little data: only results are looked at, not times")
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES), help="these benchmarks")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the table into this page, between its marks")
    parser.add_argument("--child", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        name, file = given.child
        there = importlib.util.find_spec(f"benchmarks.{name}") is not None
        bars = importlib.import_module(f"benchmarks.{name}").measure(given.small) if there else []
        Path(file).write_text(json.dumps([asdict(bar) for bar in bars]), encoding="utf-8")
        return 0
    told = machine()
    print(told, flush=True)
    found = {name: measured(name, small=given.small) for name in FIGURES if name in given.only}
    bars = [bar for of in found.values() for bar in of or ()]
    failed = [name for name, of in found.items() if of is None]
    missing = [number for name, of in found.items() if of == [] and not given.small for number in FIGURES[name]]
    if given.small:
        print("\nresults are as they should be" if not failed else "")
    else:
        show("all", bars)
    for what, names in (("failed", failed), ("not measured here", missing)):
        if names:
            print(f"{what}: {', '.join(names)}")
    if given.write:
        write(given.write, f"{told}; {datetime.now(UTC):%Y-%m-%d}", bars, missing)
    return int(bool(failed) or (not given.small and not all(bar.held for bar in bars)))


def measured(name: str, *, small: bool) -> list[Bar] | None:
    """The bars of one benchmark, run in a process of its own; None where it failed, none where what it needs is not here."""
    print(f"\n== {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bars.json"
        command = [sys.executable, "-m", "benchmarks", "--child", name, str(file), *(["--small"] if small else [])]
        if subprocess.run(command, check=False).returncode:
            return None
        return [Bar(**told) for told in json.loads(file.read_text(encoding="utf-8"))]


def write(page: Path, where: str, bars: Sequence[Bar], missing: Sequence[str]) -> None:
    """Puts the table into a page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{page} has no place for the table: {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{markdown(where, bars, missing)}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
