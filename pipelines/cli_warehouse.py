"""The commands for people who read the tables in a warehouse: ``ddl`` and ``contract``. ``cli`` attaches them."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from pipelines.warehouse import Dialect

DIFFERENT = 3


def ddl(
    dialect: Annotated[Dialect, typer.Option("--dialect", help="Which warehouse the statements are for.")],
    location: Annotated[str, typer.Option("--location", metavar="URL", help="The output of the configuration, as it reads it.")],
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Only this table; may be repeated. Default: all that are results.")
    ] = None,
    into: Annotated[str, typer.Option("--into", metavar="SCHEMA", help="Schema, database or dataset of the tables.")] = "",
    first: Annotated[
        datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="Athena: the first day there is anything to read.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--until", formats=["%Y-%m-%d"], help="Athena: the day after the last. Default: today.")
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", help="Athena: a cluster; may be repeated. Without it a query must name its cluster."),
    ] = None,
) -> None:
    """Print the statements that make the tables in a warehouse, with types, units and meanings."""
    from pipelines.warehouse.ddl import script  # noqa: PLC0415
    from pipelines.warehouse.words import Asked  # noqa: PLC0415

    days = [moment.date() if moment else None for moment in (first, until)]
    sys.stdout.write(script(dialect, Asked(location, into, days[0], days[1], cluster or ()), table or ()))


def contract(
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="Say what breaks for a reader of that contract file.")
    ] = None,
) -> None:
    """Print the columns that readers may rely on in this version, or compare them with a contract file."""
    from pipelines.warehouse.contract import contract_of, differences, read_contract, render_contract  # noqa: PLC0415

    if against is None:
        sys.stdout.write(render_contract(contract_of()))
        return
    held, now = read_contract(against), contract_of()
    found = differences(held, now)
    for line in found or [f"version {now['schema_version']} keeps all that version {held['schema_version']} promises"]:
        sys.stdout.write(line + "\n")
    if found:
        raise typer.Exit(DIFFERENT)


def attach(app: typer.Typer) -> None:
    """Makes the commands words of the application."""
    app.command()(ddl)
    app.command()(contract)
