"""Every statement is read back by a parser of its dialect, and says what the schema says: names, types, comments, places."""

import re
from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

import pytest
import sqlglot
from sqlglot import ErrorLevel, exp

from allocation.errors import SettingsError
from allocation.schemas import PUBLIC, RESULTS, SCHEMA_VERSION, TABLES, Table
from pipelines import cli
from pipelines.warehouse import Dialect
from pipelines.warehouse.ddl import statements
from pipelines.warehouse.words import Asked, by_backslash, by_both, by_doubling

BUCKET = {Dialect.BIGQUERY: "gs://finops/charge'back"}
READ = (*PUBLIC, TABLES["usage"])
ARROW = ("string", "int32", "int64", "double", "date32[day]", "timestamp[us, tz=UTC]", "bool")
TYPES = {
    Dialect.ATHENA: ("STRING", "INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN"),
    Dialect.BIGQUERY: ("STRING", "INT64", "INT64", "FLOAT64", "DATE", "TIMESTAMP", "BOOL"),
    Dialect.DUCKDB: ("TEXT", "INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMPTZ", "BOOLEAN"),
    Dialect.SNOWFLAKE: ("VARCHAR", "INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMPLTZ", "BOOLEAN"),
    Dialect.SPARK: ("STRING", "INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN"),
}
MONEY = {"decimal128(38, 9)": "NUMERIC", "decimal128(38, 30)": "BIGNUMERIC", "decimal128(38, 0)": "BIGNUMERIC"}
DAY_AND_CLUSTER = {"date": "date32[day]", "cluster": "string"}


class Read(NamedTuple):
    """What the parser finds: types and comments by column, the table's comment, settings by name."""

    types: Mapping[str, exp.DataType]
    comments: Mapping[str, str]
    comment: str
    settings: Mapping[str, str]


def asked(dialect: Dialect, into: str = "") -> Asked:
    return Asked(BUCKET.get(dialect, "s3://finops/charge'back/"), into, date(2026, 10, 1) if dialect is Dialect.ATHENA else None)


def parsed(text: str, dialect: Dialect) -> exp.Expr:
    found = sqlglot.parse_one(text, dialect=dialect.value, error_level=ErrorLevel.RAISE)
    assert not isinstance(found, exp.Command), f"not understood: {text}"
    return found


def expected_type(arrow: str, dialect: Dialect) -> exp.DataType:
    """By the tables above, not by the program's."""
    if arrow.startswith("decimal"):
        name = MONEY[arrow] if dialect is Dialect.BIGQUERY else arrow.replace("decimal128", "DECIMAL")
    else:
        name = TYPES[dialect][ARROW.index(arrow)]
    return exp.DataType.build(name, dialect=dialect.value)


def definitions(found: exp.Expr) -> list[exp.ColumnDef]:
    return list(found.find_all(exp.ColumnDef, bfs=False))


def comment_of(column: exp.ColumnDef) -> str:
    """By COMMENT, or BigQuery's OPTIONS."""
    for constraint in column.args.get("constraints") or ():
        if isinstance(constraint.kind, exp.CommentColumnConstraint):
            return str(constraint.kind.this.this)
        if isinstance(constraint.kind, exp.Properties):
            return str(constraint.kind.expressions[0].args["value"].this)
    return ""


def settings_of(found: exp.Expr) -> dict[str, str]:
    properties = found.args.get("properties")
    held = [p for p in properties.expressions if type(p) is exp.Property] if properties else []
    return {p.this.name: p.args["value"].name or p.args["value"].sql() for p in held}


def read_create(text: str, dialect: Dialect) -> Read:
    found = parsed(text, dialect)
    columns = definitions(found)
    comment = found.find(exp.SchemaCommentProperty)
    settings = settings_of(found)
    return Read(
        {c.name: c.args["kind"] for c in columns if c.args.get("kind")},
        {c.name: comment_of(c) for c in columns},
        comment.this.name if comment else settings.get("description", ""),
        settings,
    )


def read_bigquery(text: str) -> Read:
    """The parser does not know the clause of partition columns; it is read for itself."""
    clause = re.search(r"WITH PARTITION COLUMNS (\(.*?\n\))\n", text, re.DOTALL)
    assert clause
    table = read_create(text.replace(clause[0], ""), Dialect.BIGQUERY)
    partition = read_create(f"CREATE TABLE t {clause[1]}", Dialect.BIGQUERY)
    return table._replace(types={**table.types, **partition.types})


def read_snowflake(stage: str, files: str, view: str) -> Read:
    parsed(stage, Dialect.SNOWFLAKE)
    outer, inner = read_create(view, Dialect.SNOWFLAKE), read_create(files, Dialect.SNOWFLAKE)
    chosen = parsed(view, Dialect.SNOWFLAKE).find(exp.Select)
    assert chosen
    fields = [e.this.expression.expressions[-1].name for e in chosen.expressions if isinstance(e, exp.Cast)]
    kinds = [e.to for e in chosen.expressions if isinstance(e, exp.Cast)]
    names = [*fields, *(e.name for e in chosen.expressions if isinstance(e, exp.Column))]
    assert names == list(outer.comments), "the view's names stand for the values in their order"
    return Read({**dict(zip(fields, kinds, strict=True)), **inner.types}, outer.comments, outer.comment, inner.settings)


def read_duckdb(texts: list[str]) -> Read:
    view, *comments = (parsed(text, Dialect.DUCKDB) for text in texts)
    chosen = view.find(exp.Select)
    assert chosen
    said = {c.this.name: c.expression.name for c in comments if c.args["kind"] == "COLUMN"}
    (whole,) = (c.expression.name for c in comments if c.args["kind"] == "VIEW")
    return Read({e.alias: e.this.to for e in chosen.expressions}, said, whole, {})


def read(table: Table, dialect: Dialect) -> Read:
    texts = statements(dialect, asked(dialect), [table.name])
    if dialect is Dialect.BIGQUERY:
        return read_bigquery(*texts)
    if dialect is Dialect.SNOWFLAKE:
        return read_snowflake(*texts)
    if dialect is Dialect.DUCKDB:
        return read_duckdb(texts)
    assert texts[1:] == ([f"MSCK REPAIR TABLE `{table.name}`"] if dialect is Dialect.SPARK else [])
    return read_create(texts[0], dialect)


@pytest.mark.parametrize("table", READ, ids=lambda t: t.name)
@pytest.mark.parametrize("dialect", Dialect)
def test_columns_types_and_comments_are_the_schemas(dialect: Dialect, table: Table) -> None:
    found = read(table, dialect)
    wanted = {c.name: str(c.type) for c in table.columns} | DAY_AND_CLUSTER
    assert {name: kind.sql(dialect.value) for name, kind in found.types.items()} == {
        name: expected_type(arrow, dialect).sql(dialect.value) for name, arrow in wanted.items()
    }
    own = [name for name in found.types if name not in DAY_AND_CLUSTER]
    assert own == table.names
    for column in table.columns:
        assert column.doc in found.comments[column.name]
        assert found.comments[column.name] == column.doc + (f" ({column.unit})" if column.unit else "")
    assert found.comment == f"A row is {table.rows}. Written by gpu-chargeback, schema_version {SCHEMA_VERSION}."


@pytest.mark.parametrize("table", READ, ids=lambda t: t.name)
def test_comments_fit_into_the_glue_catalogue(table: Table) -> None:
    assert max(len(text) for text in read(table, Dialect.ATHENA).comments.values()) <= 255


def test_athena_computes_its_partitions() -> None:
    settings = read(TABLES["chargeback"], Dialect.ATHENA).settings
    assert settings == {
        "gpu_chargeback_schema_version": SCHEMA_VERSION,
        "projection.enabled": "true",
        "projection.date.type": "date",
        "projection.date.format": "yyyy-MM-dd",
        "projection.date.range": "2026-10-01,NOW",
        "projection.date.interval": "1",
        "projection.date.interval.unit": "DAYS",
        "projection.cluster.type": "injected",
        "storage.location.template": "s3://finops/charge'back/chargeback/date=${date}/cluster=${cluster}/",
    }


def test_athena_is_told_days_and_clusters() -> None:
    """The last day is in the range; folders have percent-encoded names; lines of no cluster are a cluster."""
    told = Asked("s3://b", "finops", date(2026, 10, 1), date(2026, 11, 1), ["prod", "eu/1", "prod"])
    (text,) = statements(Dialect.ATHENA, told, ["findings"])
    settings = read_create(text, Dialect.ATHENA).settings
    assert settings["projection.date.range"] == "2026-10-01,2026-10-31"
    assert (settings["projection.cluster.type"], settings["projection.cluster.values"]) == ("enum", "prod,eu%2F1,_bill")
    assert text.startswith("CREATE EXTERNAL TABLE IF NOT EXISTS `finops`.`findings` (")


def test_bigquery_reads_parquet_only_below_the_folder_that_it_takes_partitions_from() -> None:
    settings = read(TABLES["findings"], Dialect.BIGQUERY).settings
    assert settings["hive_partition_uri_prefix"] == "gs://finops/charge'back/findings"
    (text,) = statements(Dialect.BIGQUERY, asked(Dialect.BIGQUERY), ["findings"])
    assert r"uris = ['gs://finops/charge\'back/findings/*.parquet']" in text


def test_snowflake_has_one_stage_and_takes_partitions_from_names() -> None:
    texts = statements(Dialect.SNOWFLAKE, Asked("gs://b/p", "lake.finops"))
    assert [text for text in texts if text.startswith("CREATE STAGE")] == [
        "CREATE STAGE IF NOT EXISTS lake.finops.gpu_chargeback URL = 'gcs://b/p/' STORAGE_INTEGRATION = gpu_chargeback"
    ]
    assert len(texts) == 1 + 2 * len(RESULTS)
    assert "LOCATION = @lake.finops.gpu_chargeback/chargeback/" in texts[1]
    assert read_create(texts[1], Dialect.SNOWFLAKE).settings["PATTERN"] == ".*[.]parquet"
    parts = [d.find(exp.SplitPart) for d in definitions(parsed(texts[1], Dialect.SNOWFLAKE))]
    path, places = ["p", "chargeback", "date=2026-10-01", "cluster=prod", "part-0.parquet"], []
    for part in parts:
        assert part
        places.append(path[int(part.this.args["part_index"].sql())].split("=")[int(part.args["part_index"].name) - 1])
    assert places == ["2026-10-01", "prod"]


@pytest.mark.parametrize("text", ["it's", 'a "b"', "back\\slash", "\\'", "`x`; -- y", "''"])
def test_quoted_text_comes_back(text: str) -> None:
    ways = {Dialect.ATHENA: by_backslash, Dialect.BIGQUERY: by_backslash, Dialect.SPARK: by_backslash}
    ways |= {Dialect.SNOWFLAKE: by_both, Dialect.DUCKDB: by_doubling}
    for dialect, way in ways.items():
        made = f"CREATE EXTERNAL TABLE t (a INT) LOCATION {way(text)}"
        found = parsed(made if dialect is Dialect.ATHENA else f"SELECT {way(text)}", dialect).find(exp.Literal)
        assert found is not None
        assert found.this == text, dialect


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--dialect", "athena", "--location", "s3://b"], "--dialect athena needs --from DAY"),
        (["--dialect", "athena", "--location", "gs://b", "--from", "2026-10-01"], "athena reads s3:// only"),
        (
            ["--dialect", "athena", "--location", "s3://b", "--from", "2026-10-02", "--until", "2026-10-02"],
            "--until 2026-10-02 must be after --from 2026-10-02",
        ),
        (["--dialect", "bigquery", "--location", "s3://b"], "bigquery reads gs:// only"),
        (["--dialect", "snowflake", "--location", "/out"], "snowflake reads s3:// or gs:// or azure:// only"),
        (["--dialect", "spark", "--location", "s3://b", "--cluster", "a"], "leave them out for spark"),
        (["--dialect", "duckdb", "--location", ""], "--location is empty"),
        (["--dialect", "duckdb", "--location", "out", "--into", "a`b"], "--into 'a`b' is no name of a schema"),
        (["--dialect", "duckdb", "--location", "out", "--table", "chargebak"], "did you mean 'chargeback'?"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ddl", *argv]) == SettingsError("").exit_code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_the_command_prints_a_script_of_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ddl", "--dialect", "spark", "--location", "s3a://b/p", "--into", "finops"]) == 0
    text = capsys.readouterr().out
    made = re.findall(r"^CREATE TABLE IF NOT EXISTS `finops`\.`(\w+)` \($", text, re.MULTILINE)
    assert made == [table.name for table in RESULTS]
    assert text.endswith(";\n")
