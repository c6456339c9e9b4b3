"""The command ``report``: a computed month for people. ``cli`` attaches it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipelines.commands import ConfigPath, load


class Form(StrEnum):
    """The kinds of files of a report."""

    HTML = "html"
    XLSX = "xlsx"
    CSV = "csv"
    ALL = "all"


def report(
    config: ConfigPath,
    month: Annotated[str, typer.Option("--month", help="The month, for example 2026-10.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where the files go; made if it is not there.")] = Path(
        "report"
    ),
    form: Annotated[Form, typer.Option("--format", help="Page, workbook, CSV files, or all of them.")] = Form.ALL,
    team: Annotated[list[str] | None, typer.Option("--team", help="A page of this team too; may be repeated.")] = None,
    all_teams: Annotated[bool, typer.Option("--all-teams", help="A page of every team too.")] = False,
    cost_metric: Annotated[
        str | None, typer.Option("--cost-metric", help="Only this one, where the month stands under several.")
    ] = None,
    currency: Annotated[str | None, typer.Option("--currency", help="Only this one, where there are several.")] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="CODE", help="Report although this finding is an error; may be repeated."),
    ] = None,
) -> None:
    """Write a month's report: total, tie to the bill, teams, models, days, changes, findings. From the store alone."""
    from pipelines.closing.books import open_books  # noqa: PLC0415
    from pipelines.frugal import be_frugal  # noqa: PLC0415
    from pipelines.months import Month  # noqa: PLC0415
    from pipelines.reports.writing import Wanted, write  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415

    be_frugal()
    forms = {Form.HTML, Form.XLSX, Form.CSV} if form is Form.ALL else {form}
    settings, period = load(config), Month.parse(month)
    store = open_store(settings)
    closed = open_books(store).is_closed(period)
    wanted = Wanted(period, to, {f.value for f in forms}, team or [], all_teams, cost_metric, currency, accept or [], closed)
    for line in write(settings, store, wanted):
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


def attach(app: typer.Typer) -> None:
    """Makes the command a word of the application."""
    app.command()(report)
