"""The commands under ``load``: stored tables copied into a warehouse."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pipelines.commands import ConfigPath, Format, OutputFormat, load, month_of, window

if TYPE_CHECKING:
    from pipelines.partition import Partition
    from pipelines.warehouse_loads.asked import Asked
    from pipelines.warehouse_loads.loading import Loaded

app = typer.Typer(name="load", no_args_is_help=True, help="Copy stored tables into a warehouse.")


First = Annotated[str | None, typer.Option("--from", help="First UTC day. Default: every stored day.")]
Until = Annotated[str | None, typer.Option("--until", help="The day after the last one.")]
Month = Annotated[str | None, typer.Option("--month", help="A whole month instead, for example 2026-10.")]
Tables = Annotated[list[str] | None, typer.Option("--table", help="Only this table; may be repeated. Default: all results.")]
Again = Annotated[bool, typer.Option("--again", help="Load what is loaded already, too.")]


@app.command()
def postgres(
    config: ConfigPath,
    service: Annotated[
        str | None, typer.Option("--service", help="Entry of libpq's service file. Default: PGHOST, PGDATABASE and their like.")
    ] = None,
    schema: Annotated[str, typer.Option("--schema", help="Schema of the tables.")] = "gpu_chargeback",
    first: First = None,
    until: Until = None,
    month: Month = None,
    table: Tables = None,
    again: Again = False,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Load into PostgreSQL, which libpq's own environment or files name; a password is never an option."""
    asked = _asked(config, (first, until, month), table, again)
    from pipelines.warehouse_loads.loading import load  # noqa: PLC0415
    from pipelines.warehouse_loads.postgres import connected  # noqa: PLC0415

    with connected(service, schema, _say) as warehouse:
        _tell(load(asked, warehouse), f"schema {schema} of PostgreSQL", form)


@app.command()
def duckdb(
    config: ConfigPath,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The DuckDB file; it is made where there is none.")],
    first: First = None,
    until: Until = None,
    month: Month = None,
    table: Tables = None,
    again: Again = False,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Load into a file of DuckDB."""
    asked = _asked(config, (first, until, month), table, again)
    from pipelines.warehouse_loads.duckdb_file import opened  # noqa: PLC0415
    from pipelines.warehouse_loads.loading import load  # noqa: PLC0415

    with opened(to) as warehouse:
        _tell(load(asked, warehouse), str(to), form)


@app.command()
def iceberg(
    config: ConfigPath,
    catalog: Annotated[str, typer.Option("--catalog", metavar="NAME", help="Catalog of PyIceberg's own configuration.")],
    namespace: Annotated[str, typer.Option("--namespace", help="Namespace of the tables.")] = "gpu_chargeback",
    first: First = None,
    until: Until = None,
    month: Month = None,
    table: Tables = None,
    again: Again = False,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Load into tables of an Iceberg catalog, which .pyiceberg.yaml or PYICEBERG_CATALOG__* describe."""
    asked = _asked(config, (first, until, month), table, again)
    from pipelines.warehouse_loads.iceberg import opened  # noqa: PLC0415
    from pipelines.warehouse_loads.loading import load  # noqa: PLC0415

    _tell(load(asked, opened(catalog, namespace)), f"namespace {namespace} of catalog {catalog}", form)


def _asked(config: Path, days: tuple[str | None, str | None, str | None], tables: Sequence[str] | None, again: bool) -> "Asked":
    from pipelines.frugal import be_frugal  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415
    from pipelines.warehouse_loads.asked import Asked, tables_of  # noqa: PLC0415

    be_frugal()
    wanted = tables_of(tables or ())
    settings = load(config)
    first, until, month = days
    if month is not None:
        first, until = month_of(month, first, until)
    chosen = None if first is None and until is None else frozenset(window(settings, first, until))
    return Asked(open_store(settings), wanted, chosen, again)


def _tell(done: "Loaded", place: str, form: Format) -> None:
    if form is Format.JSON:
        sys.stdout.write(json.dumps(_document(done, place), indent=1) + "\n")
        return
    out = Console()
    for table, partition in done.left:
        _say(f"{table} {partition.day} of {partition.cluster} is in {place} and no longer in the store; it was left there")
    count = len(done.loaded)
    said = f"loaded {count} {'partition' if count == 1 else 'partitions'} with {done.rows} rows into {place}"
    said += f"; {len(done.skipped)} were there already"
    out.print(said, highlight=False, markup=False, soft_wrap=True)


def _document(done: "Loaded", place: str) -> dict[str, object]:
    return {
        "to": place,
        "rows": done.rows,
        "loaded": [{**_named(table, partition), "rows": rows} for table, partition, rows in done.loaded],
        "skipped": [_named(table, partition) for table, partition in done.skipped],
        "left": [_named(table, partition) for table, partition in done.left],
    }


def _named(table: str, partition: "Partition") -> dict[str, str]:
    return {"table": table, "date": str(partition.day), "cluster": partition.cluster}


def _say(line: str) -> None:
    Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)
