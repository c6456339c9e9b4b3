"""Loads into tables of an Iceberg catalog in SQLite, with files on a disk and in S3, read back by PyIceberg and by DuckDB."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from allocation.errors import ChargebackError
from allocation.schemas import CHARGEBACK, RESULTS, Table
from pipelines import cli
from pipelines.partition import Partition
from pipelines.storage import TableStore
from pipelines.warehouse.words import meaning
from pipelines.warehouse_loads.asked import current_mark, rows_of
from tests.pipelines.warehouse_loads.stores import (
    BILL,
    DAY,
    MACHINES,
    PROD,
    computed,
    configured,
    fill,
    fill_all,
    nanos,
    rows_by_key,
    stored,
    wait_for,
)
from tests.servers import s3_server

pytest.importorskip("pyiceberg", reason="the extra `iceberg` is not installed")

BIG = 150_000


class Lake:
    """A store, its configuration, and a catalog whose files are in ``warehouse``."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, warehouse: str = "", **more: str) -> None:
        from pyiceberg import catalog
        from pyiceberg.utils.config import Config

        self.config, self.store = configured(folder), TableStore(str(folder / "out"))
        self.folder = folder
        properties = {"URI": f"sqlite:///{folder / 'catalog.db'}", "WAREHOUSE": warehouse or f"file://{folder / 'lake'}", **more}
        for name, value in properties.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
        monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())  # PyIceberg reads the environment once a process

    def load(self, *options: str) -> int:
        return cli.main(["load", "iceberg", str(self.config), "--catalog", "lake", *options])

    def replace(self, partition: Partition, halfway: Callable[[], object]) -> None:
        """Loads a partition of ``chargeback`` as the command does, with something that happens when half of it is read."""
        from pipelines.warehouse_loads.iceberg import opened

        mark = current_mark(self.store, CHARGEBACK, partition)
        assert mark is not None

        def rows() -> Iterator[pa.RecordBatch]:
            read = rows_of(self.store, CHARGEBACK, partition, mark)
            yield next(read)
            halfway()
            yield from read

        tables = opened("lake", "gpu_chargeback")
        tables.prepare(CHARGEBACK)
        tables.replace(CHARGEBACK, partition, mark, rows())

    def told(self, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
        capsys.readouterr()
        assert self.load("--format", "json", *options) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    def table(self, name: str = "chargeback") -> Any:  # noqa: ANN401
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake").load_table(f"gpu_chargeback.{name}")

    def rows(self, name: str = "chargeback") -> pa.Table:
        return self.table(name).scan().to_arrow()

    def sums(self) -> tuple[Decimal, int]:
        """By DuckDB, from what PyIceberg reads."""
        rows = self.rows()
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            total, count = connection.execute("SELECT coalesce(sum(cost), 0), count(*) FROM rows").fetchall()[0]
        return total, count


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path, monkeypatch)


@pytest.fixture
def s3_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with s3_server() as url:
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="lake")
        yield Lake(tmp_path, monkeypatch, "s3://lake/tables", S3__ENDPOINT=url, S3__REGION="us-east-1")


def test_the_whole_bill_of_the_quick_start_is_there(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    computed(lake.folder)
    assert lake.load() == 0
    costs = lake.rows(), lake.rows("team_model"), lake.rows("reconciliation")
    with duckdb.connect() as connection:
        for name, rows in zip(("chargeback", "team_model", "reconciliation"), costs, strict=True):
            connection.register(name, rows)
        assert connection.execute("SELECT sum(cost) FROM chargeback").fetchall() == [(MACHINES,)]
        assert connection.execute("SELECT sum(cost) FROM team_model").fetchall() == [(MACHINES,)]
        assert connection.execute("SELECT sum(cost_in), sum(difference) FROM reconciliation").fetchall() == [(BILL, 0)]
    again = lake.told(capsys)
    assert (len(again["loaded"]), len(again["skipped"]), again["rows"]) == (0, 2 * len(RESULTS), 0)


@pytest.mark.parametrize("table", RESULTS, ids=lambda table: table.name)
def test_every_value_is_the_stored_one(lake: Lake, table: Table) -> None:
    fill(lake.store, 20_000, table)
    fill(lake.store, 7, table, Partition(date(2026, 10, 2), "eu/1"))
    assert lake.load() == 0
    found = lake.rows(table.name)
    assert found.column_names == ["date", "cluster", *table.names]
    assert rows_by_key(found) == rows_by_key(stored(lake.store, table))


def test_the_same_on_s3(s3_lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill_all(s3_lake.store, 20_000)
    assert s3_lake.load() == 0
    for table in RESULTS:
        assert rows_by_key(s3_lake.rows(table.name)) == rows_by_key(stored(s3_lake.store, table))
    fill(s3_lake.store, 60, first=1000)
    assert s3_lake.told(capsys)["rows"] == 60
    assert s3_lake.sums() == (nanos(1000, 60), 60)


def test_duckdb_reads_the_files_themselves(lake: Lake) -> None:
    """Without PyIceberg's reader: the one file of each partition, as its manifest names it."""
    fill(lake.store, 20_000)
    assert lake.load() == 0
    files = [task.file.file_path.removeprefix("file://") for task in lake.table().scan().plan_files()]
    assert len(files) == 1
    query = f"SELECT sum(cost), count(*), typeof(any_value(cost)) FROM read_parquet({files!r}, hive_partitioning = false)"  # noqa: S608
    with duckdb.connect() as connection:
        assert connection.execute(query).fetchall() == [(nanos(0, 20_000), 20_000, "DECIMAL(38,9)")]


def test_columns_have_docs_and_the_table_is_partitioned(lake: Lake) -> None:
    fill_all(lake.store, 1)
    assert lake.load() == 0
    for table in RESULTS:
        found = lake.table(table.name)
        docs = {field.name: field.doc for field in found.schema().fields}
        assert {column.name: meaning(column) for column in table.columns}.items() <= docs.items()
        assert [(field.name, str(field.transform)) for field in found.spec().fields] == [
            ("date", "identity"),
            ("cluster", "identity"),
        ]
        required = {field.name for field in found.schema().fields if field.required}
        assert required == {"date", "cluster", *(column.name for column in table.columns if not column.nullable)}


def test_a_partition_is_replaced_in_one_snapshot(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake.store, 100)
    fill(lake.store, 10, partition=Partition(DAY, "dev"))
    assert lake.load() == 0
    before = [snapshot.snapshot_id for snapshot in lake.table().snapshots()]
    fill(lake.store, 60, first=1000)
    assert lake.told(capsys)["loaded"] == [{"table": "chargeback", "date": "2026-10-01", "cluster": "prod", "rows": 60}]
    table = lake.table()
    assert len(table.snapshots()) == len(before) + 1
    summary = table.current_snapshot().summary
    assert (summary["added-records"], summary["deleted-records"], summary["total-records"]) == ("60", "100", "70")
    rows = table.scan().to_arrow()
    assert sorted(rows["cluster"].to_pylist()) == ["dev"] * 10 + ["prod"] * 60
    assert sum(rows["cost"].to_pylist()) == nanos(0, 10) + nanos(1000, 60)
    older = table.scan(snapshot_id=before[-1]).to_arrow()
    assert sum(older["cost"].to_pylist()) == nanos(0, 10) + nanos(0, 100)


def test_a_day_that_has_no_rows_any_more_is_emptied_and_marked(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake.store, 100)
    assert lake.load() == 0
    fill(lake.store, 0)
    assert lake.told(capsys)["loaded"][0]["rows"] == 0
    assert lake.sums() == (nanos(0, 0), 0)
    assert lake.told(capsys)["loaded"] == []


def test_a_load_that_is_killed_leaves_what_was_there_and_the_next_completes(lake: Lake) -> None:
    fill(lake.store, 100, first=5)
    assert lake.load() == 0
    fill(lake.store, BIG)
    there = data_files(lake)
    command = [sys.executable, "-m", "pipelines.cli", "load", "iceberg", str(lake.config), "--catalog", "lake"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: process.poll() is not None or any(file.stat().st_size for file in data_files(lake) - there))
        assert process.poll() is None, "it was done before it could be killed"
        process.send_signal(signal.SIGKILL)
    assert data_files(lake) - there, "what no snapshot names may stay"
    assert lake.sums() == (nanos(5, 100), 100)
    assert lake.load() == 0
    assert lake.sums() == (nanos(0, BIG), BIG)


def data_files(lake: Lake) -> set[Path]:
    return set((lake.folder / "lake").rglob("*.parquet"))


def test_an_s3_that_goes_away_half_way_changes_nothing_in_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of the catalog stays; where its files are put, nobody answers any more."""
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with ExitStack() as running:
        url = running.enter_context(s3_server())
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="lake")
        place = {"S3__ENDPOINT": url, "S3__REGION": "us-east-1", "S3__CONNECT_TIMEOUT": "1", "S3__REQUEST_TIMEOUT": "1"}
        lake = Lake(tmp_path, monkeypatch, "s3://lake/tables", **place)
        fill(lake.store, 100, first=5)
        assert lake.load("--table", "chargeback") == 0
        before = lake.table().metadata_location
        fill(lake.store, 50_000)
        with pytest.raises(ChargebackError, match=re.escape(f"Iceberg table gpu_chargeback.chargeback, {PROD}: ")):
            lake.replace(PROD, running.close)
    assert catalog_rows(lake) == [before]


def catalog_rows(lake: Lake) -> list[str]:
    """Which metadata the catalog's database names."""
    import sqlite3

    with sqlite3.connect(lake.folder / "catalog.db") as database:
        return [place for (place,) in database.execute("SELECT metadata_location FROM iceberg_tables")]


def test_of_two_loads_of_one_new_partition_one_is_refused(lake: Lake) -> None:
    """Both began when the partition was not there; both together would double its rows."""
    fill(lake.store, 1, partition=Partition(DAY, "dev"))
    assert lake.load() == 0
    fill(lake.store, 40_000)
    with pytest.raises(ChargebackError, match="somebody else changed this partition meanwhile"):
        lake.replace(PROD, lake.load)
    assert lake.sums() == (nanos(0, 40_000), 40_001)
    assert len(data_files(lake)) == 2, "the file of the refused load is gone"


def test_of_two_loads_of_one_restated_partition_one_is_refused(lake: Lake) -> None:
    fill(lake.store, 5)
    assert lake.load() == 0
    fill(lake.store, 40_000)
    with pytest.raises(ChargebackError, match="somebody else changed this partition meanwhile"):
        lake.replace(PROD, lake.load)
    assert lake.sums() == (nanos(0, 40_000), 40_000)


def test_two_loads_of_different_partitions_both_land(lake: Lake) -> None:
    second = Partition(date(2026, 10, 2), "prod")
    fill(lake.store, 5, partition=second)
    assert lake.load() == 0
    fill(lake.store, 9, partition=second)
    fill(lake.store, 40_000)
    lake.replace(PROD, lambda: lake.load("--from", "2026-10-02"))
    assert lake.sums() == (nanos(0, 40_000) + nanos(0, 9), 40_009)


def test_what_somebody_else_changed_is_loaded_again(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake.store, 5)
    assert lake.load() == 0
    lake.table().delete("cluster = 'prod'")
    assert lake.sums() == (nanos(0, 0), 0)
    assert lake.told(capsys)["rows"] == 5
    assert lake.sums() == (nanos(0, 5), 5)


def test_other_columns_are_refused_and_later_ones_added(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake.store, 5)
    assert lake.load() == 0
    with lake.table().update_schema() as change:
        change.delete_column("cost_center")
    fill(lake.store, 3, partition=Partition(date(2026, 10, 2), "prod"))
    assert lake.load() == 0
    by_day = {day: lake.table().scan(f"date = '{day}'").to_arrow()["cost_center"].null_count for day in (DAY, date(2026, 10, 2))}
    assert by_day == {DAY: 5, date(2026, 10, 2): 1}
    assert lake.table().schema().find_field("cost_center").doc == "cost centre"
    with lake.table().update_schema() as change:
        change.rename_column("team", "squad")
    capsys.readouterr()
    assert lake.load() == 1
    assert "has squad, which is none of ours" in capsys.readouterr().err


def test_a_catalog_that_nobody_described_is_told(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake.store, 5)
    assert cli.main(["load", "iceberg", str(lake.config), "--catalog", "sea"]) == 1
    said = capsys.readouterr().err
    assert "--catalog sea: " in said
    assert "PYICEBERG_CATALOG__SEA__URI" in said


def test_the_store_s_partition_is_named_as_it_is(lake: Lake) -> None:
    """Not as its folder is: a cluster's name may have a slash."""
    fill(lake.store, 2, partition=Partition(DAY, "eu/1"))
    fill(lake.store, 2, partition=PROD)
    assert lake.load() == 0
    assert lake.table().scan("cluster = 'eu/1'").to_arrow().num_rows == 2
