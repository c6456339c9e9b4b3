"""PostgreSQL: a transaction a partition with DELETE, COPY and the mark.

Where the database is and who connects is libpq's affair: PGHOST, PGSERVICE and their like, its service and password files.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from allocation.errors import ChargebackError, MissingExtraError, SettingsError
from allocation.schemas import Column, Table
from pipelines.partition import Partition
from pipelines.warehouse.types import postgres_type
from pipelines.warehouse.words import meaning, row_meaning
from pipelines.warehouse_loads.asked import columns_of
from pipelines.warehouse_loads.copy_text import copy_text, with_nul
from pipelines.warehouse_loads.fits import columns_to_add

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise MissingExtraError("psycopg", "postgres") from error

if TYPE_CHECKING:
    from psycopg.sql import Composed

MARKS = "gpu_chargeback_loads"
_LONGEST_NAME = 63
_SHOWN = 80
_COLUMNS_OF = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_MARKS_TABLE = """
CREATE TABLE {marks} (
  table_name text NOT NULL, date date NOT NULL, cluster text NOT NULL, mark text NOT NULL, rows bigint NOT NULL,
  loaded_at timestamp with time zone NOT NULL DEFAULT now(), PRIMARY KEY (table_name, date, cluster)
)
"""
_MARK = """
INSERT INTO {marks} (table_name, date, cluster, mark, rows) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (table_name, date, cluster) DO UPDATE SET mark = excluded.mark, rows = excluded.rows, loaded_at = now()
"""


@contextmanager
def connected(service: str | None, schema: str, say: Callable[[str], None]) -> Iterator["Postgres"]:
    """The database that libpq's environment or its service file names, until the block ends."""
    if not schema or "\x00" in schema or len(schema.encode()) > _LONGEST_NAME:
        raise SettingsError(f"--schema {schema!r} is no name of a schema; it has 1 to {_LONGEST_NAME} bytes")
    named = {"service": service} if service is not None else {}
    try:
        connection = psycopg.connect(application_name="gpu-chargeback", client_encoding="UTF8", autocommit=True, **named)
    except psycopg.Error as error:
        raise ChargebackError(
            f"PostgreSQL cannot be reached: {_said(error)}. Set PGHOST, PGDATABASE, PGUSER and PGPASSWORD (or a password file), "
            "or name an entry of the service file by --service NAME"
        ) from error
    with connection:
        yield Postgres(connection, schema, say)


class Postgres:
    """A schema of a database."""

    def __init__(self, connection: "psycopg.Connection", schema: str, say: Callable[[str], None]) -> None:
        self._connection, self._schema, self._say = connection, schema, say
        self._ready = False

    def prepare(self, table: Table) -> None:
        """Table, index and comments; several loads make them one after the other."""
        with _told(self._schema), self._connection.transaction():
            self._lock(self._schema)
            if not self._ready:
                self._make_schema()
            wanted = {column.name: postgres_type(column.type) for column in columns_of(table)}
            found = self._columns_there(table.name)
            if not found:
                self._make_table(table)
                return
            place = f"table {self._schema}.{table.name} of PostgreSQL"
            new = columns_to_add(place, table, wanted, found, "--schema NAME")
            for column in new:
                self._do("ALTER TABLE {table} ADD COLUMN {column}", table=self._name(table.name), column=_definition(column))
            if new:
                self._comment(table)

    def _columns_there(self, table: str) -> dict[str, str]:
        return dict(self._connection.execute(_COLUMNS_OF, (self._schema, table)).fetchall())

    def _make_schema(self) -> None:
        """Only what is missing: a role may write to tables that it could not have made."""
        there = self._connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._schema,)).fetchone()
        if there is None:
            self._do("CREATE SCHEMA {schema}", schema=sql.Identifier(self._schema))
        if not self._columns_there(MARKS):
            self._do(_MARKS_TABLE, marks=self._name(MARKS))
        self._ready = True

    def _make_table(self, table: Table) -> None:
        columns = sql.SQL(", ").join(_definition(column) for column in columns_of(table))
        self._do("CREATE TABLE {table} ({columns})", table=self._name(table.name), columns=columns)
        self._do("CREATE INDEX ON {table} (date, cluster)", table=self._name(table.name))
        self._comment(table)

    def _comment(self, table: Table) -> None:
        name = self._name(table.name)
        self._do("COMMENT ON TABLE {table} IS {text}", table=name, text=sql.Literal(row_meaning(table)))
        for column in columns_of(table):
            place = sql.Identifier(self._schema, table.name, column.name)
            self._do("COMMENT ON COLUMN {column} IS {text}", column=place, text=sql.Literal(meaning(column)))

    def marks(self, table: Table) -> Mapping[Partition, str]:
        """What the table of marks says."""
        with _told(self._schema):
            query = sql.SQL("SELECT date, cluster, mark FROM {marks} WHERE table_name = %s").format(marks=self._name(MARKS))
            return {Partition(day, cluster): mark for day, cluster, mark in self._connection.execute(query, (table.name,))}

    def replace(self, table: Table, partition: Partition, mark: str, batches: Iterator[pa.RecordBatch]) -> int:
        """In one transaction; a second load of the same partition waits for the first."""
        key = (table.name, partition.day, partition.cluster)
        with _told(f"{self._schema}.{table.name}, {partition}"), self._connection.transaction():
            self._lock(f"{self._schema}.{table.name}.{partition}")
            name = self._name(table.name)
            self._connection.execute(sql.SQL("DELETE FROM {table} WHERE date = %s AND cluster = %s").format(table=name), key[1:])
            rows = self._copy(table, partition, batches)
            self._connection.execute(sql.SQL(_MARK).format(marks=self._name(MARKS)), (*key, mark, rows))
        return rows

    def _copy(self, table: Table, partition: Partition, batches: Iterator[pa.RecordBatch]) -> int:
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns_of(table))
        statement = sql.SQL("COPY {table} ({names}) FROM STDIN (FORMAT csv)").format(table=self._name(table.name), names=names)
        rows = 0
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for batch in batches:
                _ensure_text(batch, table, partition)
                copy.write(copy_text(batch))
                rows += len(batch)
        return rows

    def _lock(self, what: str) -> None:
        """Until the transaction ends; says so where another load has it."""
        asked = (f"gpu-chargeback load {what}",)
        taken = self._connection.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))", asked).fetchone()
        if taken is None or not taken[0]:
            self._say(f"another load is writing {what}; waiting for it")
            self._connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", asked)

    def _do(self, statement: str, **parts: object) -> None:
        self._connection.execute(sql.SQL(statement).format(**parts))

    def _name(self, table: str) -> "sql.Identifier":
        return sql.Identifier(self._schema, table)


def _definition(column: Column) -> "Composed":
    kind = postgres_type(column.type) + ("" if column.nullable else " NOT NULL")
    return sql.SQL("{name} {kind}").format(name=sql.Identifier(column.name), kind=sql.SQL(kind))


def _ensure_text(batch: pa.RecordBatch, table: Table, partition: Partition) -> None:
    found = with_nul(batch)
    if found is not None:
        name, text = found
        raise ChargebackError(
            f"{table.name}, {partition.day} of cluster {partition.cluster!r}: column {name} holds {text[:_SHOWN]!r}, and "
            "PostgreSQL cannot keep a NUL character; nothing of this partition was changed. Mend where the text comes from "
            "and run the day again"
        )


@contextmanager
def _told(place: str) -> Iterator[None]:
    """What the server refuses, as one line."""
    try:
        yield
    except psycopg.Error as error:
        raise ChargebackError(
            f"PostgreSQL, {place}: {_said(error)}. Nothing of it was changed; mend it and load again"
        ) from error


def _said(error: "psycopg.Error") -> str:
    """The server's own sentence where it has said one, without the row that it quotes."""
    told = error.diag.message_primary or str(error)
    return " ".join(told.split()).rstrip(".") or type(error).__name__
