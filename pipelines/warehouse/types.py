"""What each dialect calls the type of a column. No other place names a type of a warehouse."""

import pyarrow as pa

from allocation.schemas import TEXT, TIME
from pipelines.warehouse import Dialect

_A, _B, _D, _SN, _SP = Dialect.ATHENA, Dialect.BIGQUERY, Dialect.DUCKDB, Dialect.SNOWFLAKE, Dialect.SPARK
_NAMES = {
    TEXT: {_A: "STRING", _B: "STRING", _D: "VARCHAR", _SN: "VARCHAR", _SP: "STRING"},
    pa.bool_(): {_A: "BOOLEAN", _B: "BOOL", _D: "BOOLEAN", _SN: "BOOLEAN", _SP: "BOOLEAN"},
    pa.int32(): {_A: "INT", _B: "INT64", _D: "INTEGER", _SN: "INTEGER", _SP: "INT"},
    pa.int64(): {_A: "BIGINT", _B: "INT64", _D: "BIGINT", _SN: "BIGINT", _SP: "BIGINT"},
    pa.float64(): {_A: "DOUBLE", _B: "FLOAT64", _D: "DOUBLE", _SN: "DOUBLE", _SP: "DOUBLE"},
    pa.date32(): dict.fromkeys(Dialect, "DATE"),
    TIME: {_A: "TIMESTAMP", _B: "TIMESTAMP", _D: "TIMESTAMPTZ", _SN: "TIMESTAMP_LTZ", _SP: "TIMESTAMP"},
}
_POSTGRES = {
    TEXT: "text",
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.date32(): "date",
    TIME: "timestamp with time zone",
}
_NUMERIC_WHOLE, _NUMERIC_SCALE = 29, 9
"""BigQuery's NUMERIC: digits before and after the point."""


def type_name(dialect: Dialect, kind: pa.DataType) -> str:
    """The dialect's name of an Arrow type that stands in a table users read."""
    if not pa.types.is_decimal128(kind):
        return _NAMES[kind][dialect]
    if dialect is Dialect.BIGQUERY:
        fits = kind.scale <= _NUMERIC_SCALE and kind.precision - kind.scale <= _NUMERIC_WHOLE
        return "NUMERIC" if fits else "BIGNUMERIC"
    return f"{'NUMBER' if dialect is Dialect.SNOWFLAKE else 'DECIMAL'}({kind.precision}, {kind.scale})"


def postgres_type(kind: pa.DataType) -> str:
    """PostgreSQL's name of the type, as it says itself what a column has; tables are loaded there, never read in place."""
    return f"numeric({kind.precision},{kind.scale})" if pa.types.is_decimal128(kind) else _POSTGRES[kind]
