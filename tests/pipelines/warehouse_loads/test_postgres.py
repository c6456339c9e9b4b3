"""Loads into a real PostgreSQL: the money of a known bill, restated and repeated days, loads that are killed or meet."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from allocation.errors import ChargebackError
from allocation.schemas import CHARGEBACK, FINDINGS, MONEY, PUBLIC, RECONCILIATION, RESULTS, TEAM_MODEL, Table
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
from tests.postgres_server import Database

BIG = 150_000
SUM = "SELECT sum(cost), count(*) FROM gpu_chargeback.chargeback"


def load(config: Path, *options: str) -> int:
    return cli.main(["load", "postgres", str(config), *options])


def told(config: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert load(config, "--format", "json", *options) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    configured(tmp_path)
    return TableStore(str(tmp_path / "out"))


@pytest.fixture
def config(store: TableStore) -> Path:
    return Path(store.location).parent / "chargeback.yaml"


def test_the_whole_bill_of_the_quick_start_is_there(
    tmp_path: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    config = computed(tmp_path)
    first = told(config, capsys)
    assert len(first["loaded"]) == 2 * len(RESULTS)
    assert database.rows("SELECT sum(cost) FROM gpu_chargeback.chargeback") == [(MACHINES,)]
    assert database.rows("SELECT sum(cost) FROM gpu_chargeback.team_model") == [(MACHINES,)]
    assert database.rows("SELECT sum(cost_in), sum(difference) FROM gpu_chargeback.reconciliation") == [(BILL, 0)]
    out_of_scope = "SELECT cluster, sum(cost_in) FROM gpu_chargeback.reconciliation WHERE state = 'out_of_scope' GROUP BY cluster"
    assert dict(database.rows(out_of_scope)) == {"prod": Decimal("2.70"), "_bill": Decimal("0.80") + Decimal("12.50")}
    again = told(config, capsys)
    assert (len(again["loaded"]), len(again["skipped"]), again["rows"]) == (0, 2 * len(RESULTS), 0)
    assert database.rows("SELECT sum(cost) FROM gpu_chargeback.chargeback") == [(MACHINES,)]


@pytest.mark.parametrize("table", RESULTS, ids=lambda table: table.name)
def test_every_value_is_the_stored_one(store: TableStore, config: Path, database: Database, table: Table) -> None:
    fill(store, 20_000, table)
    fill(store, 7, table, Partition(date(2026, 10, 2), "eu/1"))
    assert load(config) == 0
    names = ", ".join(["date", "cluster", *table.names])
    found = database.rows(f"SELECT {names} FROM gpu_chargeback.{table.name}")  # noqa: S608
    assert sorted(found, key=repr) == rows_by_key(stored(store, table), "Asia/Kolkata")


def test_a_moment_is_the_same_in_every_zone_and_money_has_nine_decimals(
    store: TableStore, config: Path, database: Database
) -> None:
    fill(store, 2, CHARGEBACK)
    fill(store, 1, RECONCILIATION)
    assert load(config) == 0
    moments = "SELECT DISTINCT charge_period_start, extract(epoch FROM charge_period_start) FROM gpu_chargeback.chargeback"
    (moment, epoch), *more = database.rows(moments)
    assert not more
    assert moment.astimezone(UTC) == datetime(2026, 10, 1, 12, 30, 15, 123456, tzinfo=UTC)
    assert epoch == Decimal("1790857815.123456")
    assert database.rows("SELECT cost::text FROM gpu_chargeback.chargeback ORDER BY 1") == [("0.000000000",), ("0.000000001",)]
    assert database.rows("SELECT rounding::text FROM gpu_chargeback.reconciliation") == [("0." + "0" * 29 + "1",)]


def test_amounts_at_both_ends_of_the_type(store: TableStore, config: Path, database: Database) -> None:
    most, least = (Decimal(f"{sign}99999999999999999999999999999.999999999") for sign in ("", "-"))
    fill(store, 2, TEAM_MODEL)
    rows = store.read("team_model", PROD)
    assert rows is not None
    at = rows.schema.get_field_index("cost")
    ends = pa.chunked_array([[pa.scalar(amount, MONEY)] for amount in (least, most)], MONEY)
    store.write("team_model", PROD, rows.set_column(at, rows.schema.field(at), ends))
    assert load(config) == 0
    assert database.rows("SELECT cost FROM gpu_chargeback.team_model ORDER BY cost") == [(least,), (most,)]


def test_floats_that_are_no_numbers(store: TableStore, config: Path, database: Database) -> None:
    fill(store, 4, TEAM_MODEL)
    rows = store.read("team_model", PROD)
    assert rows is not None
    at = rows.schema.get_field_index("used_gib_seconds")
    odd = pa.array([float("inf"), float("-inf"), 0.1 + 0.2, 5e-324])
    store.write("team_model", PROD, rows.set_column(at, rows.schema.field(at), odd))
    assert load(config) == 0
    found = database.rows("SELECT used_gib_seconds FROM gpu_chargeback.team_model ORDER BY 1")
    assert [value for (value,) in found] == [float("-inf"), 5e-324, 0.30000000000000004, float("inf")]


def test_a_restated_day_replaces_its_own_rows_only(
    store: TableStore, config: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Partition(DAY, "dev")
    fill(store, 100)
    fill(store, 10, partition=other)
    assert load(config) == 0
    fill(store, 60, first=1000)
    done = told(config, capsys)
    assert done["loaded"] == [{"table": "chargeback", "date": "2026-10-01", "cluster": "prod", "rows": 60}]
    assert [part["cluster"] for part in done["skipped"]] == ["dev"]
    by_cluster = "SELECT cluster, sum(cost), count(*) FROM gpu_chargeback.chargeback GROUP BY cluster ORDER BY cluster"
    assert database.rows(by_cluster) == [("dev", nanos(0, 10), 10), ("prod", nanos(1000, 60), 60)]


def test_again_loads_what_somebody_took_away(
    store: TableStore, config: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, 5)
    assert load(config) == 0
    database.rows("DELETE FROM gpu_chargeback.chargeback")
    assert told(config, capsys)["loaded"] == []
    assert told(config, capsys, "--again")["rows"] == 5
    assert database.rows(SUM) == [(nanos(0, 5), 5)]


def test_what_left_the_store_stays_and_is_told(
    store: TableStore, config: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = Partition(date(2026, 10, 3), "prod")
    fill(store, 5)
    fill(store, 3, partition=gone)
    assert load(config) == 0
    (Path(store.location) / "chargeback" / gone.path / "_commit.json").unlink()
    assert told(config, capsys)["left"] == [{"table": "chargeback", "date": "2026-10-03", "cluster": "prod"}]
    assert told(config, capsys, "--from", "2026-10-01", "--until", "2026-10-02")["left"] == []
    assert load(config) == 0
    assert "chargeback 2026-10-03 of prod is in schema gpu_chargeback of PostgreSQL and no longer in the store" in (
        capsys.readouterr().err
    )
    assert database.rows(SUM) == [(nanos(0, 5) + nanos(0, 3), 8)]


def test_days_and_tables_are_chosen(
    store: TableStore, config: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (date(2026, 10, 31), date(2026, 11, 1)):
        fill_all(store, 2, Partition(day, "prod"))
    done = told(config, capsys, "--month", "2026-10", "--table", "findings", "--schema", 'odd "name"')
    assert done["loaded"] == [{"table": "findings", "date": "2026-10-31", "cluster": "prod", "rows": 2}]
    assert database.rows('SELECT count(*) FROM "odd ""name""".findings') == [(2,)]
    assert database.rows("SELECT count(*) FROM pg_tables WHERE tablename = 'chargeback'") == [(0,)]


def test_columns_have_comments_types_and_an_index(store: TableStore, config: Path, database: Database) -> None:
    fill_all(store, 1)
    assert load(config) == 0
    described = """SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, col_description(a.attrelid, a.attnum)
        FROM pg_attribute a WHERE a.attrelid = 'gpu_chargeback.reconciliation'::regclass AND a.attnum > 0 ORDER BY a.attnum"""
    found = {name: rest for name, *rest in database.rows(described)}
    assert list(found) == ["date", "cluster", *RECONCILIATION.names]
    assert found["cost_in"] == ["numeric(38,9)", True, "the part of it that belongs to this day and cluster (currency)"]
    assert found["rounding"][0] == "numeric(38,30)"
    assert found["charge_period_start"][0] == "timestamp with time zone"
    assert found["node"][:2] == ["text", False]
    assert {column.name: meaning(column) for column in RECONCILIATION.columns}.items() <= {
        name: rest[2] for name, rest in found.items()
    }.items()
    index = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'gpu_chargeback' AND indexdef LIKE '%%(date, cluster)'"
    assert database.rows(index) == [(len(PUBLIC),)]
    (comment,) = database.rows("SELECT obj_description('gpu_chargeback.findings'::regclass)")[0]
    assert comment.startswith(f"A row is {FINDINGS.rows}. ")


def test_other_columns_are_refused_before_anything_is_loaded(
    store: TableStore, config: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_all(store, 1)
    assert load(config) == 0
    database.rows("ALTER TABLE gpu_chargeback.findings ALTER COLUMN evidence TYPE varchar(5000), ADD COLUMN mine text")
    fill_all(store, 2)
    capsys.readouterr()
    assert load(config) == 1
    said = capsys.readouterr().err
    assert "has mine, which is none of ours; has evidence as character varying(5000) instead of text" in said
    assert "--schema NAME" in said
    assert database.rows(SUM) == [(nanos(0, 1), 1)]


def test_a_column_of_a_later_version_is_added_and_stays_null_in_older_days(
    store: TableStore, config: Path, database: Database
) -> None:
    fill(store, 3)
    assert load(config) == 0
    database.rows("ALTER TABLE gpu_chargeback.chargeback DROP COLUMN cost_center")
    older = store.read("chargeback", PROD)
    assert older is not None
    store.write("chargeback", PROD, older.drop_columns(["cost_center"]))
    fill(store, 3, partition=Partition(date(2026, 10, 2), "prod"))
    assert load(config) == 0
    by_day = "SELECT date, count(*), count(cost_center) FROM gpu_chargeback.chargeback GROUP BY date ORDER BY date"
    assert database.rows(by_day) == [(DAY, 3, 0), (date(2026, 10, 2), 3, 2)]
    comment = "SELECT col_description('gpu_chargeback.chargeback'::regclass, max(attnum)) FROM pg_attribute WHERE attname = %s"
    assert database.rows(comment, "cost_center") == [("cost centre",)]


def test_a_text_with_nul_is_named(
    store: TableStore, config: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, 2, FINDINGS)
    assert load(config) == 0
    rows = store.read("findings", PROD)
    assert rows is not None
    at = rows.schema.get_field_index("evidence")
    store.write("findings", PROD, rows.set_column(at, rows.schema.field(at), pa.array(["fine", "a\x00b"])))
    capsys.readouterr()
    assert load(config) == 1
    said = capsys.readouterr().err
    assert "findings, 2026-10-01 of cluster 'prod': column evidence holds 'a\\x00b'" in said
    assert database.rows("SELECT count(*) FROM gpu_chargeback.findings") == [(2,)]


def killed(config: Path, database: Database) -> None:
    """A load in a process of its own, killed for good in the midst of COPY."""
    command = [sys.executable, "-m", "pipelines.cli", "load", "postgres", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: process.poll() is not None or copied(database) > 20_000)
        assert process.poll() is None, "it was done before it could be killed"
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: database.rows("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gpu-chargeback'") == [(0,)])


def copied(database: Database) -> int:
    return sum(rows for (rows,) in database.rows("SELECT tuples_processed FROM pg_stat_progress_copy"))


def test_a_load_that_is_killed_leaves_what_was_there_and_the_next_completes(
    store: TableStore, config: Path, database: Database
) -> None:
    fill(store, 100, first=5)
    assert load(config) == 0
    before = database.rows(SUM)
    assert before == [(nanos(5, 100), 100)]
    fill(store, BIG)
    killed(config, database)
    assert database.rows(SUM) == before
    assert load(config) == 0
    assert database.rows(SUM) == [(nanos(0, BIG), BIG)]


def test_a_reader_sees_the_old_day_until_the_new_one_is_whole(store: TableStore, config: Path, database: Database) -> None:
    fill(store, 100, first=5)
    assert load(config) == 0
    fill(store, BIG)
    command = [sys.executable, "-m", "pipelines.cli", "load", "postgres", str(config)]
    seen = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            seen += database.rows(SUM)
    assert process.returncode == 0
    assert set(seen) <= {(nanos(5, 100), 100), (nanos(0, BIG), BIG)}
    assert len(seen) > 5


def test_a_second_load_waits_for_the_first(store: TableStore, config: Path, database: Database) -> None:
    fill(store, BIG)
    command = [sys.executable, "-m", "pipelines.cli", "load", "postgres", str(config), "--again"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as first:
        wait_for(lambda: copied(database) > 0)
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "another load is writing gpu_chargeback.chargeback.2026-10-01|prod; waiting for it" in second.stderr
    assert database.rows(SUM) == [(nanos(0, BIG), BIG)]


def test_a_day_that_is_written_meanwhile_is_not_loaded_in_half(store: TableStore, database: Database) -> None:
    fill(store, 40_000)
    mark = current_mark(store, CHARGEBACK, PROD)
    assert mark is not None

    def written_meanwhile() -> Iterator[pa.RecordBatch]:
        rows = rows_of(store, CHARGEBACK, PROD, mark)
        yield next(rows)
        fill(store, 7, first=9)
        yield from rows

    from pipelines.warehouse_loads.postgres import connected

    with connected(None, "gpu_chargeback", print) as warehouse:
        warehouse.prepare(CHARGEBACK)
        with pytest.raises(ChargebackError, match="was written while it was being loaded"):
            warehouse.replace(CHARGEBACK, PROD, mark, written_meanwhile())
        assert warehouse.marks(CHARGEBACK) == {}
    assert database.rows(SUM) == [(None, 0)]


def test_a_service_names_the_database(
    store: TableStore, config: Path, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 4)
    places = {name.removeprefix("PG").lower(): value for name, value in database.environment.items()}
    lines = [f"{'dbname' if name == 'database' else name}={value}" for name, value in places.items()]
    (tmp_path / "services").write_text("\n".join(["[finops]", *lines, ""]), encoding="utf-8")
    for name in database.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert load(config, "--service", "finops") == 0
    assert database.rows(SUM) == [(nanos(0, 4), 4)]


def test_a_role_that_may_only_write_loads_into_tables_that_another_made(
    store: TableStore, config: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 4)
    assert load(config) == 0
    role = f"loader_{database.environment['PGDATABASE']}"
    database.rows(f"CREATE ROLE {role} LOGIN")
    database.rows(f"GRANT USAGE ON SCHEMA gpu_chargeback TO {role}")
    database.rows(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA gpu_chargeback TO {role}")
    fill(store, 6)
    monkeypatch.setenv("PGUSER", role)
    assert load(config, "--table", "chargeback") == 0
    assert database.rows(SUM) == [(nanos(0, 6), 6)]


def test_what_the_server_refuses_is_one_line(
    store: TableStore, config: Path, database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(store, 4)
    database.rows(f"CREATE ROLE nobody_{database.environment['PGDATABASE']} LOGIN")
    monkeypatch.setenv("PGUSER", f"nobody_{database.environment['PGDATABASE']}")
    assert load(config) == 1
    assert "PostgreSQL, gpu_chargeback: permission denied for database" in capsys.readouterr().err
    monkeypatch.setenv("PGPORT", "1")
    assert load(config) == 1
    assert "PostgreSQL cannot be reached: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "chargebak"], "did you mean 'chargeback'?"),
        (["--month", "2026-10", "--from", "2026-10-01"], "--month names all days itself"),
        (["--schema", ""], "is no name of a schema"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    store: TableStore, config: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    fill(store, 1)
    assert load(config, *options) == 2
    assert said in capsys.readouterr().err


def test_nothing_stored_is_told(config: Path, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    assert load(config, "--from", "2026-10-05") == 1
    assert "no partition of the tables asked for is stored in these days" in capsys.readouterr().err
    assert database.rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'gpu_chargeback'") == [(0,)]
