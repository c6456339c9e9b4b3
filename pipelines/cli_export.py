"""The commands under ``export``: stored figures in the formats of others."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipelines.commands import ConfigPath, load, month_of, window

app = typer.Typer(name="export", no_args_is_help=True, help="Write stored figures in a format of others.")


@app.callback()
def _group() -> None:
    """Keeps the name of the format a word of its own."""


@app.command()
def focus(
    config: ConfigPath,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write, ending in .parquet or .csv.")],
    first: Annotated[str | None, typer.Option("--from", help="First UTC day. Default: yesterday.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="The day after the last one.")] = None,
    month: Annotated[str | None, typer.Option("--month", help="A whole month instead, for example 2026-10.")] = None,
    version: Annotated[str, typer.Option("--focus-version", help="1.2, 1.3 or 1.4.")] = "1.3",
    cost_metric: Annotated[
        str | None, typer.Option("--cost-metric", help="billed, effective, contracted or list, where rows stand under several.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="CODE", help="Export although this finding is an error; may be repeated."),
    ] = None,
) -> None:
    """Write who had what of which charge as FOCUS: computed days, from the store."""
    from pipelines.focus_export.ready import ask  # noqa: PLC0415
    from pipelines.focus_export.versions import schema_of  # noqa: PLC0415
    from pipelines.focus_export.writing import export, writer_of  # noqa: PLC0415
    from pipelines.frugal import be_frugal  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415

    be_frugal()
    writer_of(to)
    schema_of(version)
    if month is not None:
        first, until = month_of(month, first, until)
    settings = load(config)
    days = window(settings, first, until)
    written = export(ask(settings, open_store(settings), days, cost_metric, accept or []), to, version)
    said = f"wrote {written.path}: {written.rows} charges in FOCUS {version}, {written.cost_metric} cost, {days[0]} to {days[-1]}"
    Console().print(said, highlight=False, markup=False, soft_wrap=True)
