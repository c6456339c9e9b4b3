"""Loads into a file of DuckDB: the money of a known bill, every value, restated days, a load that is killed, a store on S3."""

import json
import signal
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from allocation.schemas import RESULTS, Table
from pipelines import cli
from pipelines.partition import Partition
from pipelines.storage import TableStore
from pipelines.warehouse.words import meaning
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

BIG = 400_000
SUM = "SELECT sum(cost), count(*) FROM chargeback"


class Loads:
    """A store, its configuration, and the file that it is loaded into."""

    def __init__(self, folder: Path) -> None:
        self.config, self.file = configured(folder), folder / "finops.duckdb"
        self.store = TableStore(str(folder / "out"))

    def load(self, *options: str) -> int:
        return cli.main(["load", "duckdb", str(self.config), "--to", str(self.file), *options])

    def told(self, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
        capsys.readouterr()
        assert self.load("--format", "json", *options) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.file)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    return Loads(tmp_path)


def test_the_whole_bill_of_the_quick_start_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loads = Loads(tmp_path)
    computed(tmp_path)
    assert loads.load() == 0
    assert loads.rows("SELECT sum(cost) FROM chargeback") == [(MACHINES,)]
    assert loads.rows("SELECT sum(cost) FROM team_model") == [(MACHINES,)]
    assert loads.rows("SELECT sum(cost_in), sum(difference) FROM reconciliation") == [(BILL, 0)]
    again = loads.told(capsys)
    assert (len(again["loaded"]), len(again["skipped"]), again["rows"]) == (0, 2 * len(RESULTS), 0)


@pytest.mark.parametrize("table", RESULTS, ids=lambda table: table.name)
def test_every_value_is_the_stored_one(loads: Loads, table: Table) -> None:
    fill(loads.store, 20_000, table)
    fill(loads.store, 7, table, Partition(date(2026, 10, 2), "eu/1"))
    assert loads.load() == 0
    with duckdb.connect(str(loads.file)) as connection:
        found = connection.execute(f"SELECT * FROM {table.name}").to_arrow_table()  # noqa: S608
    assert found is not None
    assert found.column_names == ["date", "cluster", *table.names]
    assert rows_by_key(found) == rows_by_key(stored(loads.store, table))


def test_a_moment_is_the_same(loads: Loads) -> None:
    fill(loads.store, 1)
    assert loads.load() == 0
    moment = int(datetime(2026, 10, 1, 12, 30, 15, tzinfo=UTC).timestamp()) * 10**6 + 123456
    kinds = "SELECT epoch_us(charge_period_start), typeof(charge_period_start), typeof(cost), typeof(date) FROM chargeback"
    assert loads.rows(kinds) == [(moment, "TIMESTAMP WITH TIME ZONE", "DECIMAL(38,9)", "DATE")]


def test_columns_have_comments(loads: Loads) -> None:
    fill_all(loads.store, 1)
    assert loads.load() == 0
    for table in RESULTS:
        found = dict(
            loads.rows(f"SELECT column_name, comment FROM duckdb_columns() WHERE table_name = '{table.name}'")  # noqa: S608
        )
        assert {column.name: meaning(column) for column in table.columns}.items() <= found.items()


def test_a_restated_day_replaces_its_own_rows_only(loads: Loads, capsys: pytest.CaptureFixture[str]) -> None:
    fill(loads.store, 100)
    fill(loads.store, 10, partition=Partition(DAY, "dev"))
    assert loads.load() == 0
    fill(loads.store, 60, first=1000)
    assert loads.told(capsys)["rows"] == 60
    by_cluster = "SELECT cluster, sum(cost), count(*) FROM chargeback GROUP BY cluster ORDER BY cluster"
    assert loads.rows(by_cluster) == [("dev", nanos(0, 10), 10), ("prod", nanos(1000, 60), 60)]
    assert loads.told(capsys, "--again")["rows"] == 70
    assert loads.rows(SUM) == [(nanos(0, 10) + nanos(1000, 60), 70)]


def test_a_load_that_is_killed_leaves_what_was_there_and_the_next_completes(loads: Loads) -> None:
    fill(loads.store, 100, first=5)
    assert loads.load() == 0
    fill(loads.store, BIG)
    size = loads.file.stat().st_size
    command = [sys.executable, "-m", "pipelines.cli", "load", "duckdb", str(loads.config), "--to", str(loads.file)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: process.poll() is not None or loads.file.stat().st_size > size + 100_000)
        assert process.poll() is None, "it was done before it could be killed"
        process.send_signal(signal.SIGKILL)
    assert loads.rows(SUM) == [(nanos(5, 100), 100)]
    assert loads.load() == 0
    assert loads.rows(SUM) == [(nanos(0, BIG), BIG)]


def test_a_damaged_file_is_told_in_the_store_s_words_and_changes_nothing(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(loads.store, 5)
    assert loads.load() == 0
    fill(loads.store, 40_000)
    part = Path(loads.store.location) / "chargeback" / PROD.path / "part-0.parquet"
    content = bytearray(part.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2000] = bytes(2000)
    part.write_bytes(content)
    assert loads.load() == 1
    assert "part-0.parquet: is damaged and cannot be read" in capsys.readouterr().err
    assert loads.rows(SUM) == [(nanos(0, 5), 5)]


def test_other_columns_are_refused_and_later_ones_added(loads: Loads, capsys: pytest.CaptureFixture[str]) -> None:
    fill(loads.store, 5)
    assert loads.load() == 0
    loads.rows("ALTER TABLE chargeback DROP COLUMN cost_center")
    fill(loads.store, 6)
    assert loads.load() == 0
    assert loads.rows("SELECT count(*), count(cost_center) FROM chargeback") == [(6, 4)]
    loads.rows("ALTER TABLE chargeback ALTER COLUMN coverage TYPE FLOAT")
    assert loads.load() == 1
    assert "table chargeback: has coverage as FLOAT instead of DOUBLE" in capsys.readouterr().err


def test_a_file_that_another_process_has_open_is_told(loads: Loads, capsys: pytest.CaptureFixture[str]) -> None:
    fill(loads.store, 5)
    hold = f"import duckdb, sys; c = duckdb.connect({str(loads.file)!r}); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert loads.load() == 1
        other.communicate()
    assert "no other process has open" in capsys.readouterr().err
    assert loads.load() == 0


def test_a_store_on_s3_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with s3_server() as url:
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="finops")
        more = f"storage: {{endpoint_url: '{url}', region: us-east-1}}\n"
        config = configured(tmp_path, "s3://finops/out", more)
        fill(TableStore("s3://finops/out", endpoint_url=url, region="us-east-1"), 20_000)
        assert cli.main(["load", "duckdb", str(config), "--to", str(tmp_path / "finops.duckdb")]) == 0
    with duckdb.connect(str(tmp_path / "finops.duckdb")) as connection:
        assert connection.execute(SUM).fetchall() == [(nanos(0, 20_000), 20_000)]
