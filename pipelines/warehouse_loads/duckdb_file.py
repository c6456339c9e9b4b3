"""A file of DuckDB: a transaction a partition with DELETE, INSERT from Arrow and the mark."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from allocation.errors import ChargebackError, MissingExtraError
from allocation.schemas import Column, Table
from pipelines.partition import Partition
from pipelines.warehouse import Dialect
from pipelines.warehouse.types import type_name
from pipelines.warehouse.words import by_doubling, meaning, quotes, row_meaning
from pipelines.warehouse_loads.asked import arrow_of, columns_of
from pipelines.warehouse_loads.fits import columns_to_add

try:
    import duckdb
except ImportError as error:
    raise MissingExtraError("duckdb", "duckdb") from error

MARKS = "gpu_chargeback_loads"
_MEMORY = "512MiB"
"""What DuckDB keeps of the file; without it, most of the machine."""
_MARKS_TABLE = f"""
CREATE TABLE IF NOT EXISTS {MARKS} (
  table_name VARCHAR NOT NULL, date DATE NOT NULL, cluster VARCHAR NOT NULL, mark VARCHAR NOT NULL, rows BIGINT NOT NULL,
  loaded_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp
)
"""


@contextmanager
def opened(path: Path) -> Iterator["DuckDBFile"]:
    """The file, which no other process may have open meanwhile."""
    try:
        connection = duckdb.connect(str(path), config={"memory_limit": _MEMORY})
    except duckdb.Error as error:
        raise ChargebackError(
            f"--to {path}: cannot be opened: {_said(error)}. Name a DuckDB file that no other process has open"
        ) from error
    with connection:
        yield DuckDBFile(connection, path)


class DuckDBFile:
    """An open file."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", path: Path) -> None:
        self._connection, self._path = connection, path

    def prepare(self, table: Table) -> None:
        """Table and comments."""
        with self._whole(f"table {table.name}"):
            self._connection.execute(_MARKS_TABLE)
            found = dict(self._columns_there(table))
            wanted = {column.name: type_name(Dialect.DUCKDB, column.type) for column in columns_of(table)}
            if not found:
                listed = ", ".join(map(_definition, columns_of(table)))
                self._connection.execute(f"CREATE TABLE {quotes(table.name)} ({listed})")
            else:
                place = f"{self._path}: table {table.name}"
                for column in columns_to_add(place, table, wanted, found, "--to FILE"):
                    self._connection.execute(f"ALTER TABLE {quotes(table.name)} ADD COLUMN {_definition(column)}")
            if len(found) < len(wanted):
                self._comment(table)

    def _columns_there(self, table: Table) -> list[tuple[str, str]]:
        """Names and types; the database says another name of one type than a statement does."""
        query = (
            "SELECT column_name, replace(replace(data_type, 'TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ'), ',', ', ') "
            "FROM duckdb_columns() WHERE database_name = current_database() AND schema_name = 'main' AND table_name = ? "
            "ORDER BY column_index"
        )
        return self._connection.execute(query, [table.name]).fetchall()

    def _comment(self, table: Table) -> None:
        name = quotes(table.name)
        self._connection.execute(f"COMMENT ON TABLE {name} IS {by_doubling(row_meaning(table))}")
        for column in columns_of(table):
            self._connection.execute(f"COMMENT ON COLUMN {name}.{quotes(column.name)} IS {by_doubling(meaning(column))}")

    def marks(self, table: Table) -> Mapping[Partition, str]:
        """What the table of marks says."""
        found = self._connection.execute(f"SELECT date, cluster, mark FROM {MARKS} WHERE table_name = ?", [table.name])  # noqa: S608
        return {Partition(day, cluster): mark for day, cluster, mark in found.fetchall()}

    def replace(self, table: Table, partition: Partition, mark: str, batches: Iterator[pa.RecordBatch]) -> int:
        """In one transaction; DuckDB asks for a batch when it has put away the one before."""
        key = [partition.day, partition.cluster]
        name, columns = quotes(table.name), ", ".join(quotes(column.name) for column in columns_of(table))
        counted = _Counted(batches)
        with self._whole(f"{table.name}, {partition}", counted):
            self._connection.execute(f"DELETE FROM {name} WHERE date = ? AND cluster = ?", key)  # noqa: S608
            self._connection.register("arriving", pa.RecordBatchReader.from_batches(arrow_of(table), counted))
            self._connection.execute(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM arriving")  # noqa: S608
            self._connection.unregister("arriving")
            marked = [table.name, *key]
            self._connection.execute(f"DELETE FROM {MARKS} WHERE table_name = ? AND date = ? AND cluster = ?", marked)  # noqa: S608
            self._connection.execute(
                f"INSERT INTO {MARKS} (table_name, date, cluster, mark, rows) VALUES (?, ?, ?, ?, ?)",  # noqa: S608
                [*marked, mark, counted.rows],
            )
        return counted.rows

    @contextmanager
    def _whole(self, place: str, read: "_Counted | None" = None) -> Iterator[None]:
        """A transaction. What the store says while its rows are read is told in its own words, not in DuckDB's."""
        self._connection.begin()
        try:
            yield
            self._connection.commit()
        except BaseException as error:
            self._connection.rollback()
            if read is not None and read.error is not None:
                raise read.error from None
            if isinstance(error, duckdb.Error):
                raise ChargebackError(
                    f"{self._path}, {place}: {_said(error)}. Nothing of it was changed; mend it and load again"
                ) from error
            raise


class _Counted:
    """Batches that are counted as they are read, and the error that ended them."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0
        self.error: ChargebackError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                self.rows += len(batch)
                yield batch
        except ChargebackError as error:
            self.error = error
            raise


def _definition(column: Column) -> str:
    return f"{quotes(column.name)} {type_name(Dialect.DUCKDB, column.type)}{'' if column.nullable else ' NOT NULL'}"


def _said(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
