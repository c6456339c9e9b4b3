"""The statements that make one table in one dialect: a function each."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from urllib.parse import quote

from allocation.schemas import BILL_CLUSTER, SCHEMA_VERSION, Column, Table
from pipelines.warehouse import Dialect
from pipelines.warehouse.types import type_name
from pipelines.warehouse.words import (
    PARTITION,
    VERSION_KEY,
    Asked,
    backticks,
    by_backslash,
    by_both,
    by_doubling,
    listed,
    meaning,
    quotes,
    row_meaning,
)

STAGE = "gpu_chargeback"
"""Snowflake's stage, and the storage integration that it stands on."""


def athena(table: Table, asked: Asked) -> list[str]:
    """A table whose partitions are computed, so that a new day needs no statement."""
    folder = asked.folder(table)
    last = str(asked.until - timedelta(days=1)) if asked.until else "NOW"
    properties = {
        VERSION_KEY: SCHEMA_VERSION,
        "projection.enabled": "true",
        "projection.date.type": "date",
        "projection.date.format": "yyyy-MM-dd",
        "projection.date.range": f"{asked.first},{last}",
        "projection.date.interval": "1",
        "projection.date.interval.unit": "DAYS",
        "projection.cluster.type": "injected",
        "storage.location.template": f"{folder}/date=${{date}}/cluster=${{cluster}}/",
    }
    if asked.clusters:
        names = dict.fromkeys([*(quote(name, safe="") for name in asked.clusters), BILL_CLUSTER])
        properties |= {"projection.cluster.type": "enum", "projection.cluster.values": ",".join(names)}
    columns, partition = (_commented(part, Dialect.ATHENA) for part in (table.columns, PARTITION))
    made = (
        f"CREATE EXTERNAL TABLE IF NOT EXISTS {asked.name(table, backticks)} (\n{columns}\n)\n"
        f"COMMENT {by_backslash(row_meaning(table))}\n"
        f"PARTITIONED BY (\n{partition}\n)\n"
        f"STORED AS PARQUET\nLOCATION {by_backslash(folder + '/')}\n"
        f"TBLPROPERTIES (\n{_properties(properties)}\n)"
    )
    return [made]


def spark(table: Table, asked: Asked) -> list[str]:
    """A table, and the statement that finds its partitions: again after each new day."""
    name = asked.name(table, backticks)
    made = (
        f"CREATE TABLE IF NOT EXISTS {name} (\n{_commented((*table.columns, *PARTITION), Dialect.SPARK)}\n)\n"
        f"USING PARQUET\nPARTITIONED BY (`date`, `cluster`)\nLOCATION {by_backslash(asked.folder(table))}\n"
        f"COMMENT {by_backslash(row_meaning(table))}\n"
        f"TBLPROPERTIES (\n{_properties({VERSION_KEY: SCHEMA_VERSION})}\n)"
    )
    return [made, f"MSCK REPAIR TABLE {name}"]


def bigquery(table: Table, asked: Asked) -> list[str]:
    """A table over all Parquet files below the folder; days are found by each query."""
    kind = Dialect.BIGQUERY
    columns = listed(
        f"{backticks(c.name)} {type_name(kind, c.type)} OPTIONS (description = {by_backslash(meaning(c))})" for c in table.columns
    )
    partition = listed(f"{backticks(c.name)} {type_name(kind, c.type)}" for c in PARTITION)
    options = {
        "format": "'PARQUET'",
        "uris": f"[{by_backslash(asked.folder(table) + '/*.parquet')}]",
        "hive_partition_uri_prefix": by_backslash(asked.folder(table)),
        "require_hive_partition_filter": "FALSE",
        "decimal_target_types": "['NUMERIC', 'BIGNUMERIC']",
        "description": by_backslash(row_meaning(table)),
    }
    said = listed(f"{name} = {value}" for name, value in options.items())
    made = (
        f"CREATE EXTERNAL TABLE IF NOT EXISTS {asked.name(table, backticks)} (\n{columns}\n)\n"
        f"WITH PARTITION COLUMNS (\n{partition}\n)\nOPTIONS (\n{said}\n)"
    )
    return [made]


def snowflake(table: Table, asked: Asked) -> list[str]:
    """An external table of the files, partitioned by their names, and a view of it with types and comments."""
    kind, files, view = Dialect.SNOWFLAKE, asked.name(table, str, "_files"), asked.name(table, str)
    stage = ".".join(part for part in (asked.into, STAGE) if part)
    url = asked.location.rstrip("/").replace("gs://", "gcs://", 1) + "/"
    parts = ("TO_DATE({}, 'YYYY-MM-DD')", "{}")
    levels = [f"SPLIT_PART(SPLIT_PART(METADATA$FILENAME, '/', {at}), '=', 2)" for at in (-3, -2)]
    partition = listed(
        f"{c.name} {type_name(kind, c.type)} AS ({form.format(level)})"
        for c, form, level in zip(PARTITION, parts, levels, strict=True)
    )
    names = listed(f"{c.name} COMMENT {by_both(meaning(c))}" for c in (*table.columns, *PARTITION))
    values = listed([*(f'value:"{c.name}"::{type_name(kind, c.type)}' for c in table.columns), *(c.name for c in PARTITION)])
    comment = f"COMMENT = {by_both(row_meaning(table))}"
    made = (
        f"CREATE EXTERNAL TABLE IF NOT EXISTS {files} (\n{partition}\n)\nPARTITION BY (date, cluster)\n"
        f"LOCATION = @{stage}/{table.name}/\nAUTO_REFRESH = FALSE\nPATTERN = '.*[.]parquet'\n"
        f"FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE)\n{comment}"
    )
    return [
        f"CREATE STAGE IF NOT EXISTS {stage} URL = {by_both(url)} STORAGE_INTEGRATION = {STAGE}",
        made,
        f"CREATE OR REPLACE VIEW {view} (\n{names}\n)\n{comment}\nAS SELECT\n{values}\nFROM {files}",
    ]


def duckdb(table: Table, asked: Asked) -> list[str]:
    """A view over the files, and a comment a column; days are found by each query."""
    kind, name = Dialect.DUCKDB, asked.name(table, quotes)
    all_columns = (*table.columns, *PARTITION)
    columns = listed(f"CAST({quotes(c.name)} AS {type_name(kind, c.type)}) AS {quotes(c.name)}" for c in all_columns)
    types = ", ".join(f"'{c.name}': {type_name(kind, c.type)}" for c in PARTITION)
    comments = (f"COMMENT ON COLUMN {name}.{quotes(c.name)} IS {by_doubling(meaning(c))}" for c in all_columns)
    files = by_doubling(asked.folder(table) + "/date=*/cluster=*/*.parquet")
    made = (
        f"CREATE OR REPLACE VIEW {name} AS SELECT\n{columns}\nFROM read_parquet(\n  {files},\n"
        f"  hive_partitioning = true, hive_types = {{{types}}}, union_by_name = true\n)"
    )
    return [made, f"COMMENT ON VIEW {name} IS {by_doubling(row_meaning(table))}", *comments]


def _commented(columns: tuple[Column, ...], kind: Dialect) -> str:
    return listed(f"{backticks(c.name)} {type_name(kind, c.type)} COMMENT {by_backslash(meaning(c))}" for c in columns)


def _properties(properties: Mapping[str, str]) -> str:
    return listed(f"{by_backslash(name)} = {by_backslash(value)}" for name, value in properties.items())


WRITERS: Mapping[Dialect, Callable[[Table, Asked], list[str]]] = {
    Dialect.ATHENA: athena,
    Dialect.BIGQUERY: bigquery,
    Dialect.DUCKDB: duckdb,
    Dialect.SNOWFLAKE: snowflake,
    Dialect.SPARK: spark,
}
