"""The script that makes the tables of an output location in a warehouse, and what can be wrong with asking for it."""

import re
from collections.abc import Sequence

from allocation.errors import SettingsError, nearest
from allocation.schemas import PUBLIC, RESULTS, USAGE, Table
from pipelines.warehouse import Dialect
from pipelines.warehouse.dialects import WRITERS
from pipelines.warehouse.words import Asked

READABLE = {table.name: table for table in (*PUBLIC, USAGE)}
"""What warehouses may read; without a name asked for, ``RESULTS``. Only Dagster writes ``usage``."""
_SCHEMES = {Dialect.ATHENA: ("s3://",), Dialect.BIGQUERY: ("gs://",), Dialect.SNOWFLAKE: ("s3://", "gs://", "azure://")}


def script(dialect: Dialect, asked: Asked, names: Sequence[str] = ()) -> str:
    """All statements, each with its semicolon."""
    return "\n\n".join(f"{statement};" for statement in statements(dialect, asked, names)) + "\n"


def statements(dialect: Dialect, asked: Asked, names: Sequence[str] = ()) -> list[str]:
    """The statements for the named tables; what several tables need stands once."""
    _ensure_fits(dialect, asked)
    tables = [_table(name) for name in names] or list(RESULTS)
    written = (statement for table in tables for statement in WRITERS[dialect](table, asked))
    return list(dict.fromkeys(written))


def _table(name: str) -> Table:
    if name not in READABLE:
        raise SettingsError(f"--table {name!r} is no table for warehouses; {nearest(name, READABLE)}")
    return READABLE[name]


def _ensure_fits(dialect: Dialect, asked: Asked) -> None:
    wanted = _SCHEMES.get(dialect)
    if wanted and not asked.location.startswith(wanted):
        raise SettingsError(f"--location {asked.location!r}: {dialect} reads {' or '.join(wanted)} only; see docs/warehouse.md")
    if not asked.location.strip("/"):
        raise SettingsError("--location is empty; name the output of the configuration")
    if asked.into and not re.fullmatch(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*", asked.into):
        raise SettingsError(f"--into {asked.into!r} is no name of a schema; write it like finops, or catalog.finops")
    if dialect is not Dialect.ATHENA:
        if asked.first or asked.until or asked.clusters:
            raise SettingsError(
                f"--from, --until and --cluster are for athena, which computes its partitions; leave them out for {dialect}"
            )
    elif asked.first is None:
        raise SettingsError(
            "--dialect athena needs --from DAY, the first day there is anything to read (`start` of the configuration)"
        )
    elif asked.until and asked.until <= asked.first:
        raise SettingsError(f"--until {asked.until} must be after --from {asked.first}; the window is half-open")
