"""How warehouses read what a run writes: statements that make its tables there, and the contract of their columns.

Reads ``allocation.schemas`` and writes text; nothing here opens a table or a connection.
"""

from enum import StrEnum


class Dialect(StrEnum):
    """The SQL that a statement is written in."""

    ATHENA = "athena"
    BIGQUERY = "bigquery"
    DUCKDB = "duckdb"
    SNOWFLAKE = "snowflake"
    SPARK = "spark"
