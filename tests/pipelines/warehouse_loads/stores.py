"""Stores for loads: the quick start's day, and made-up partitions of any size whose sums follow from the count of their rows."""

import itertools
import shutil
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import CHARGEBACK, RESULTS, Column, Table
from pipelines import cli
from pipelines.partition import Partition
from pipelines.storage import TableStore

ROOT = Path(__file__).parents[3]
DAY = date(2026, 10, 1)
PROD = Partition(DAY, "prod")
_BATCH = 1 << 14
_MOMENT = datetime(2026, 10, 1, 12, 30, 15, 123456, tzinfo=UTC)
MACHINES = Decimal("89.856") + Decimal("199.20") + Decimal("201.60")
"""What the quick start's three nodes cost by its README."""
BILL = MACHINES + Decimal("2.70") + Decimal("0.80") + Decimal("12.50")
"""Its whole bill: egress, a volume and tax belong to no machine."""


def configured(folder: Path, output: str = "out", more: str = "") -> Path:
    """A configuration that is only good for reading what is stored."""
    path = folder / "chargeback.yaml"
    text = (ROOT / "examples" / "quickstart" / "chargeback.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("output: out", f"output: {output}") + more, encoding="utf-8")
    for name in ("bill.csv", "metrics.om"):
        shutil.copy(ROOT / "examples" / "quickstart" / name, folder / name)
    return path


def computed(folder: Path) -> Path:
    """The quick start, with its day computed."""
    config = configured(folder)
    assert cli.main(["run", str(config), "--from", str(DAY), "--until", str(DAY + timedelta(days=1))]) == 0
    return config


def fill(store: TableStore, rows: int, table: Table = CHARGEBACK, partition: Partition = PROD, first: int = 0) -> None:
    """A partition whose row number i has i nano-units in each column of money, from ``first`` on."""
    starts = range(first, first + rows, _BATCH)
    batches = (_batch(table, start, min(_BATCH, first + rows - start)) for start in starts)
    store.write_batches(table.name, partition, batches, table.arrow(), {"run_id": "made-up"})


def fill_all(store: TableStore, rows: int, partition: Partition = PROD) -> None:
    """The same partition of every table that users read."""
    for table in RESULTS:
        fill(store, rows, table, partition)


def nanos(first: int, rows: int) -> Decimal:
    """The sum of a money column: first + (first + 1) + ... nano-units."""
    return Decimal(sum(range(first, first + rows))) / 10**9


def rows_by_key(table: pa.Table, zone: str = "UTC") -> list[tuple[Any, ...]]:
    """All rows in one order, whatever order they came in, with times as a client of that zone shows them."""
    kind = pa.timestamp("us", zone)
    shown = pa.schema([pa.field(f.name, kind) if pa.types.is_timestamp(f.type) else f for f in table.schema])
    return sorted((tuple(row.values()) for row in table.cast(shown).to_pylist()), key=repr)


def stored(store: TableStore, table: Table) -> pa.Table:
    """All rows of a table with their day and cluster in front, read file by file with nothing of the load."""
    found = []
    for partition in store.partitions(table.name):
        rows = store.read(table.name, partition)
        assert rows is not None
        days = pa.array([partition.day] * len(rows), pa.date32())
        clusters = pa.array([partition.cluster] * len(rows), pa.string())
        found.append(rows.add_column(0, "date", days).add_column(1, "cluster", clusters))
    return pa.concat_tables(found)


def wait_for(true: Callable[[], bool], patience_s: float = 60) -> None:
    """Returns once it holds."""
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def _batch(table: Table, start: int, rows: int) -> pa.RecordBatch:
    numbers = pa.array(range(start, start + rows), pa.int64())
    return pa.RecordBatch.from_arrays([_values(column, numbers) for column in table.columns], schema=table.arrow())


def _values(column: Column, numbers: pa.Array) -> pa.Array:
    kind = column.type
    if column.nullable and kind == pa.string():
        return pa.array(itertools.islice(itertools.cycle([None, "", f"{column.name} \\ \t \n ä"]), len(numbers)), kind)
    if kind == pa.string():
        return pc.binary_join_element_wise(column.name, numbers.cast(pa.string()), "-")
    if pa.types.is_decimal(kind):
        unit = pa.scalar(Decimal(1).scaleb(-kind.scale), pa.decimal128(kind.scale + 1, kind.scale))
        return pc.multiply(numbers.cast(pa.decimal128(19, 0)), unit).cast(kind) if kind.scale < 18 else _residues(numbers, kind)
    if pa.types.is_timestamp(kind):
        return pa.array([_MOMENT] * len(numbers), kind)
    if kind == pa.date32():
        return pa.array([DAY] * len(numbers), kind)
    if pa.types.is_boolean(kind):
        return pc.equal(pc.bit_wise_and(numbers, 1), 0)
    return numbers.cast(kind)


def _residues(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """The smallest amount that the type knows, in every row."""
    return pa.array([Decimal(1).scaleb(-kind.scale)] * len(numbers), kind)
