"""What the statements of all dialects say alike: what is asked for, comments, quoted text, names."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from allocation.schemas import SCHEMA_VERSION, TEXT, Column, Table

PARTITION = (
    Column("date", pa.date32(), "UTC day of the run; partition"),
    Column("cluster", TEXT, "cluster, or _bill for what belongs to none; partition"),
)
"""The columns that stand in the folders' names."""
VERSION_KEY = "gpu_chargeback_schema_version"


@dataclass(frozen=True)
class Asked:
    """Where the files are, what the tables are put into, and the days and clusters that Athena is told of."""

    location: str
    into: str = ""
    first: date | None = None
    until: date | None = None
    clusters: Sequence[str] = ()

    def folder(self, table: Table) -> str:
        """A table's folder, without a slash at its end."""
        return f"{self.location.rstrip('/')}/{table.name}"

    def name(self, table: Table, quote: Callable[[str], str], suffix: str = "") -> str:
        """The table's name below the schema that was asked for."""
        parts = [*(part for part in self.into.split(".") if part), table.name + suffix]
        return ".".join(quote(part) for part in parts)


def meaning(column: Column) -> str:
    """A column's comment: what it means and its unit."""
    return f"{column.doc} ({column.unit})" if column.unit else column.doc


def row_meaning(table: Table) -> str:
    """A table's comment: what a row is, and the version of its columns."""
    return f"A row is {table.rows}. Written by gpu-chargeback, schema_version {SCHEMA_VERSION}."


def by_backslash(text: str) -> str:
    """A literal where a backslash escapes: Hive's DDL, Spark, BigQuery."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def by_doubling(text: str) -> str:
    """A literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def by_both(text: str) -> str:
    """A literal of Snowflake, where a quote is doubled and a backslash escapes as well."""
    return by_doubling(text.replace("\\", "\\\\"))


def backticks(name: str) -> str:
    """A name that may be a keyword."""
    return f"`{name}`"


def quotes(name: str) -> str:
    """The same in standard SQL."""
    return f'"{name}"'


def listed(lines: Iterable[str]) -> str:
    """Lines of a list between brackets."""
    return ",\n".join(f"  {line}" for line in lines)
