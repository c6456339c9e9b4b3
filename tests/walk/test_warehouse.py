"""The statements are run over the quick start's output, and the questions of docs/warehouse.md have the right answers.

Answers follow from the quick start's bill and series (``figures``) or from its files by Arrow alone.
"""

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import sqlglot

from allocation.schemas import RESULTS, SCHEMA_VERSION, TABLES, Table
from pipelines import cli
from pipelines.engine_settings import EngineEntry
from pipelines.engines.spark_session import Session
from pipelines.partition import Partition
from pipelines.storage import TableStore
from pipelines.warehouse import Dialect
from pipelines.warehouse.ddl import script, statements
from pipelines.warehouse.words import Asked
from tests.spark import needs_spark
from tests.test_quickstart_files import FOLDER, bill, figures

__all__ = ["bill"]

PAGE = (Path(__file__).parents[2] / "docs" / "warehouse.md").read_text(encoding="utf-8")
DAY = date(2026, 10, 1)
NANO = Decimal("0.000000001")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quick start's tables, in a folder whose name has to be escaped."""
    place = tmp_path_factory.mktemp("quick") / "it's"
    shutil.copytree(FOLDER, place, ignore=shutil.ignore_patterns("out", "__pycache__"))
    assert cli.main(["run", str(place / "chargeback.yaml"), "--from", "2026-10-01", "--until", "2026-10-02"]) == 0
    return place / "out"


@pytest.fixture(scope="module")
def db(out: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(script(Dialect.DUCKDB, Asked(str(out))))
        yield connection


def files(out: Path, table: Table) -> pa.Table:
    """The table by Arrow, without a look at the folders' names."""
    return pa.concat_tables(pq.ParquetFile(path).read() for path in sorted((out / table.name).rglob("*.parquet")))


def question(title: str) -> str:
    found = re.search(rf"^### {re.escape(title)}$.*?```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def exact(value: Fraction) -> Decimal:
    return (Decimal(value.numerator) / Decimal(value.denominator)).quantize(NANO)


def near(found: object, wanted: Fraction | Decimal | str, rows: int = 100) -> bool:
    """To one nano a row that was summed."""
    assert isinstance(found, Decimal)
    return abs(found - (exact(wanted) if isinstance(wanted, Fraction) else Decimal(wanted))) <= rows * NANO


@pytest.mark.parametrize("table", RESULTS, ids=lambda t: t.name)
def test_duckdb_reads_what_arrow_reads(table: Table, out: Path, db: duckdb.DuckDBPyConnection) -> None:
    held = files(out, table)
    wanted = [len(held)]
    sums = [c.name for c in table.columns if pa.types.is_decimal(c.type)]
    chosen = ", ".join(f"sum({name})" for name in sums)
    found = db.execute(f"SELECT count(*), {chosen} FROM {table.name}").fetchone()  # noqa: S608
    assert found == (*wanted, *(pc.sum(held[name]).as_py() for name in sums))
    described = db.execute("SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ?", [table.name]).fetchall()
    assert [name for name, _ in described] == [*table.names, "date", "cluster"]
    assert all(column.doc in comment for column, (_, comment) in zip(table.columns, described, strict=False))
    (said,) = db.execute("SELECT comment FROM duckdb_views() WHERE view_name = ?", [table.name]).fetchall()
    assert said == (f"A row is {table.rows}. Written by gpu-chargeback, schema_version {SCHEMA_VERSION}.",)


def test_duckdb_has_the_folders_as_columns_and_times_as_moments(db: duckdb.DuckDBPyConnection) -> None:
    assert db.execute("SELECT DISTINCT date, cluster FROM reconciliation ORDER BY cluster").fetchall() == [
        (DAY, "_bill"),
        (DAY, "prod"),
    ]
    found = db.execute("SELECT CAST(min(charge_period_start) AS VARCHAR), max(charge_period_end) FROM chargeback").fetchone()
    assert found is not None
    assert (found[0], found[1].isoformat()) == ("2026-10-01 00:00:00+00", "2026-10-02T00:00:00+00:00")


def test_old_files_without_a_new_column_read_as_null(tmp_path: Path) -> None:
    """The newer day has all columns, the older one not yet the last: the view reads both."""
    table = TABLES["team_model"]
    values = {"billing_period": DAY, "cost": Decimal("1.5")}
    texts = {c.name: "x" for c in table.columns if pa.types.is_string(c.type)}
    row = {name: (texts | values).get(name, 0) for name in table.names}
    new = pa.Table.from_pylist([row], schema=table.arrow())
    for day, data in (("2026-10-01", new.drop_columns(["run_id"])), ("2026-10-02", new)):
        folder = tmp_path / "team_model" / f"date={day}" / "cluster=eu%2F1"
        folder.mkdir(parents=True)
        pq.write_table(data, folder / "part-0.parquet")
        (folder / "_commit.json").write_text("{}", encoding="ascii")
    with duckdb.connect() as connection:
        connection.execute(script(Dialect.DUCKDB, Asked(str(tmp_path)), ["team_model"]))
        found = connection.execute("SELECT date, cluster, cost, run_id FROM team_model ORDER BY date").fetchall()
    assert found == [(DAY, "eu/1", Decimal("1.5"), None), (date(2026, 10, 2), "eu/1", Decimal("1.5"), "x")]


def test_usage_reads_its_largest_weights(tmp_path: Path) -> None:
    """Dagster writes it in several files a partition; a weight has up to 38 digits."""
    shape, most, least = TABLES["usage"], Decimal("9" * 38), Decimal("-" + "9" * 38)
    texts = {c.name: "x" for c in shape.columns if pa.types.is_string(c.type)}
    times = {"period_start": datetime(2026, 10, 1, tzinfo=UTC), "period_end": datetime(2026, 10, 1, 1, tzinfo=UTC)}
    rows = [{name: (texts | times | {"gpu_weight": weight}).get(name, 1) for name in shape.names} for weight in (most, least)]
    parts = [pa.Table.from_pylist([row], schema=shape.arrow()) for row in rows]
    TableStore(str(tmp_path)).write_parts("usage", Partition(DAY, "prod"), iter(parts))
    with duckdb.connect() as connection:
        connection.execute(script(Dialect.DUCKDB, Asked(str(tmp_path)), ["usage"]))
        found = connection.execute("SELECT gpu_weight, gpu_ordinal, date FROM usage ORDER BY gpu_weight").fetchall()
    assert found == [(least, 1, DAY), (most, 1, DAY)]


@needs_spark
def test_spark_reads_what_arrow_reads(out: Path, tmp_path: Path) -> None:
    conf = {"spark.sql.warehouse.dir": str(tmp_path), "spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}
    session = Session(EngineEntry(kind="spark", master="local[1]", conf=conf))
    try:
        for text in statements(Dialect.SPARK, Asked(str(out))):
            session.spark.sql(text)
        for table in RESULTS:
            held = files(out, table)
            money = [c.name for c in table.columns if pa.types.is_decimal(c.type)]
            chosen = ", ".join(f"sum({name})" for name in money)
            found = session.spark.sql(f"SELECT count(*), count(DISTINCT cluster), {chosen} FROM {table.name}").first()  # noqa: S608
            places = len(
                {path.parent.name for path in (out / table.name).rglob("*.parquet") if pq.ParquetFile(path).metadata.num_rows}
            )
            assert found is not None
            assert tuple(found) == (len(held), places, *(pc.sum(held[name]).as_py() for name in money))
            fields = {f.name: f.metadata["comment"] for f in session.spark.table(table.name).schema.fields}
            assert list(fields) == [*table.names, "date", "cluster"]
            assert all(column.doc in fields[column.name] for column in table.columns)
    finally:
        session.close()


def test_who_pays_for_gpus_that_nobody_used(db: duckdb.DuckDBPyConnection, bill: list[dict[str, str]]) -> None:
    found, wanted = db.execute(question("Who pays for GPUs that nobody used?")).fetchall(), figures(bill)
    assert [row[:2] for row in found] == [("idle", "platform"), ("stranded", "platform"), ("unallocated", None)]
    for row, name in zip(found, ("idle", "stranded", "nobody"), strict=True):
        assert near(row[2], wanted[name]), name


def test_what_each_model_costs(db: duckdb.DuckDBPyConnection, bill: list[dict[str, str]]) -> None:
    """Models stand in the series' labels: ``scene.py`` gives each pod its own."""
    known = figures(bill)
    wanted = {
        "base-7b": known["trainer"],
        "draft-1b": known["draft"],
        "notebooks": known["notebook"],
        "embed-large": known["embedder before"] + known["embedder after"],
        "ocr": known["ocr"],
        "chat-8b": known["shared third"],
        "reranker": known["shared third"],
        "unowned": known["shared third"],
    }
    found = db.execute(question("What does each model cost a day?")).fetchall()
    assert {row[:3] for row in found} == {(DAY, model, "USD") for model in wanted}
    assert all(near(row[3], wanted[row[1]]) for row in found)
    assert [row[1] for row in found] == [
        "base-7b",
        "draft-1b",
        "notebooks",
        "embed-large",
        "ocr",
        "chat-8b",
        "reranker",
        "unowned",
    ]


def test_how_much_is_estimated(db: duckdb.DuckDBPyConnection, bill: list[dict[str, str]]) -> None:
    """The one shared card, 22.464 of the three nodes' 490.656."""
    ((currency, estimated, total),) = db.execute(question("How much of the money is estimated?")).fetchall()
    assert (currency, estimated, total) == ("USD", exact(figures(bill)["shared third"] * 3), Decimal("490.656"))


def test_what_mig_strands(db: duckdb.DuckDBPyConnection, bill: list[dict[str, str]]) -> None:
    """Of the card that costs half of gpu-b's 199.20."""
    ((node, gpu, stranded, total),) = db.execute(question("What does MIG strand?")).fetchall()
    assert (node, gpu[:12], total) == ("gpu-b", "GPU-b1c7d350", Decimal("99.6"))
    assert near(stranded, figures(bill)["stranded"])


def test_the_whole_bill_is_there(db: duckdb.DuckDBPyConnection, bill: list[dict[str, str]]) -> None:
    found = db.execute(question("Is the whole bill there?")).fetchall()
    assert sum(row[2] for row in found) == sum(Decimal(line["EffectiveCost"]) for line in bill) == Decimal("506.656")
    states = {(state, rule): (into, away) for state, rule, into, away in found}
    assert states["unallocated", None] == (Decimal("201.6"), Decimal("201.6"))
    assert states["allocated", None] == (Decimal("289.056"), Decimal("289.056"))
    outside = {rule: into for (state, rule), (into, _) in states.items() if state == "out_of_scope"}
    assert sorted(outside.values()) == [Decimal(0), Decimal("0.8"), Decimal("2.7"), Decimal("12.5")]


def test_who_asked_for_more_than_it_held(db: duckdb.DuckDBPyConnection) -> None:
    """Each pod of the quick start requests one GPU, instance or slot and holds one: ocr for 12 h, a shared slot all day."""
    found = {row[0]: row[1:] for row in db.execute(question("Who asked for more GPUs than it held?")).fetchall()}
    assert set(found) == {"research", "assistant", "search", "documents", "support"}
    assert all(difference == 0 for _, _, difference in found.values())
    assert (found["documents"][:2], found["support"][:2]) == ((12, 12), (24, 24))


def test_what_a_held_hour_costs_by_gpu_model(db: duckdb.DuckDBPyConnection) -> None:
    """gpu-a's four cards: embedder 24 h less two minutes, ocr 12 h, three shared slots 24 h each; all of its 89.856."""
    found = {row[0]: row[2:] for row in db.execute(question("What does an hour of a held GPU cost, by GPU model?")).fetchall()}
    cost, held, rate = next(of for name, of in found.items() if "A10G" in name)
    assert (cost, held) == (Decimal("89.856"), exact(Fraction(24 * 60 - 2, 60) + 12 + 72))
    assert rate == exact(Fraction("89.856") / (Fraction(24 * 60 - 2, 60) + 84))


def mart(folder: Path, day: date, rows: list[dict[str, object]]) -> None:
    """A day of ``daily_mart`` with these rows, all else alike."""
    shape = TABLES["daily_mart"]
    zeros = {c.name: Decimal(0) for c in shape.columns if pa.types.is_decimal(c.type)}
    texts = {c.name: "x" for c in shape.columns if pa.types.is_string(c.type)}
    alike = {"cost_metric": "effective", "currency": "USD", "bucket": "workload", "tokens": None}
    months = {"billing_period": day.replace(day=1), "booked_period": day.replace(day=1)}
    table = pa.Table.from_pylist([{**texts, **zeros, **alike, **months, **row} for row in rows], schema=shape.arrow())
    TableStore(str(folder)).write("daily_mart", Partition(day, "prod"), table)


@pytest.fixture
def months(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Two months of made-up marts."""

    def row(team: str, cost: str, hours: str, **more: object) -> dict[str, object]:
        return {"team": team, "cost_center": f"cc-{team}", "cost": Decimal(cost), "gpu_hours": Decimal(hours), **more}

    mart(tmp_path, date(2026, 10, 3), [row("a", "60", "20", model="m", tokens=400_000), row("gone", "5", "1")])
    mart(tmp_path, date(2026, 10, 20), [row("a", "40", "20", model="m", tokens=None), row("bill", "4", "0")])
    mart(tmp_path, date(2026, 11, 2), [row("a", "90", "30"), row("new", "7", "2"), row("bill", "6", "0")])
    with duckdb.connect() as connection:
        connection.execute(script(Dialect.DUCKDB, Asked(str(tmp_path)), ["daily_mart"]))
        yield connection


def test_why_a_team_pays_more(months: duckdb.DuckDBPyConnection) -> None:
    """a: 100 for 40 h is 2.50 an hour, 90 for 30 h is 3: (3 - 2.50) x 40 = 20 by price, (30 - 40) x 3 = -30 by volume."""
    found = months.execute(question("Why does a team pay more or less than the month before?")).fetchall()
    assert found == [
        ("a", "both", 100, 90, -10, 20, -30),
        ("bill", "both", 4, 6, 2, 0, 2),
        ("gone", "gone", 5, 0, -5, 0, -5),
        ("new", "new", 0, 7, 7, 0, 7),
    ]


def test_what_a_million_tokens_cost(months: duckdb.DuckDBPyConnection) -> None:
    """100 for 400,000 tokens: 250 a million."""
    found = months.execute(question("What do a million tokens cost, by model?")).fetchall()
    assert found == [("m", "USD", 100, 400_000, 250)]


def test_where_cost_centres_stand(months: duckdb.DuckDBPyConnection) -> None:
    """The 20th of October is not among the first fourteen days."""
    found = months.execute(question("Where does each cost centre stand against the month before?")).fetchall()
    assert found == [("cc-a", 90, 60), ("cc-bill", 6, 0), ("cc-gone", 0, 5), ("cc-new", 7, 0)]


@pytest.mark.parametrize("dialect", Dialect)
def test_the_questions_can_be_asked_in_every_dialect(dialect: Dialect) -> None:
    asked = PAGE.partition("## Questions")[2].partition("## Versions")[0]
    texts = re.findall(r"```sql\n(.*?)```", asked, re.DOTALL)
    assert len(texts) == 10
    for text in texts:
        parsed = sqlglot.parse_one(text, dialect=dialect.value, error_level=sqlglot.ErrorLevel.RAISE)
        assert isinstance(parsed, sqlglot.exp.Select)


@pytest.mark.parametrize("dialect", Dialect)
def test_the_page_shows_what_is_printed(dialect: Dialect) -> None:
    name = {Dialect.DUCKDB: "DuckDB", Dialect.BIGQUERY: "BigQuery"}.get(dialect, dialect.value.title())
    place = "gs://example-finops/chargeback" if dialect is Dialect.BIGQUERY else "s3://example-finops/chargeback"
    printed = script(dialect, Asked(place, first=DAY if dialect is Dialect.ATHENA else None), ["team_model"]).splitlines()
    lines = iter(printed)
    for line in question(name).splitlines():
        assert line == "..." or line in lines, line
