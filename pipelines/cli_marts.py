"""The command ``marts``: a month, or a month to date, added up. ``cli`` attaches it."""

import json
import sys
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pipelines import clock
from pipelines.commands import ConfigPath, Format, OutputFormat, load

if TYPE_CHECKING:
    from pipelines.marts import MonthToDate

_SHOWN = 10
"""So many missing days are named; of more, how many they are."""


def marts(
    config: ConfigPath,
    month: Annotated[
        str, typer.Option("--month", help="The month, for example 2026-10; one that is not over is added up to date.")
    ],
    form: OutputFormat = Format.TEXT,
) -> None:
    """Add up the computed days of a month into the table monthly_mart, and say which days are missing."""
    from pipelines.closing.books import open_books  # noqa: PLC0415
    from pipelines.marts import write_month  # noqa: PLC0415
    from pipelines.months import Month  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415

    settings, wanted = load(config), Month.parse(month)
    store = open_store(settings)
    found = write_month(settings, store, wanted, clock.today(), final=open_books(store).is_closed(wanted))
    if form is Format.JSON:
        sys.stdout.write(json.dumps(document(found), indent=1) + "\n")
        return
    console = Console()
    for line in lines(found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def document(found: "MonthToDate") -> dict[str, object]:
    """The month for machines: amounts and hours as texts."""
    clusters = [
        {"cluster": one.cluster, "days": len(one.days), "missing": [str(day) for day in one.missing]} for one in found.clusters
    ]
    from pipelines.plain import plain_rows  # noqa: PLC0415

    through = None if found.through is None else str(found.through)
    return {
        "month": str(found.month),
        "final": found.final,
        "through": through,
        "clusters": clusters,
        "totals": plain_rows(found.totals),
    }


def lines(found: "MonthToDate") -> list[str]:
    """The month for people."""
    whole = f"computed through {found.through}" if found.through else "its first day is not computed everywhere"
    said = [f"{found.month}: {whole}, {'closed' if found.final else 'not closed'}"]
    for one in found.clusters:
        lacking = f"; missing: {_named(one.missing)}" if one.missing else ""
        said.append(f"  {one.cluster}: {len(one.days)} of {len(found.month.days)} days{lacking}")
    for row in found.totals.to_pylist():
        rate = f", {row['cost_per_gpu_hour']} a GPU hour" if row["cost_per_gpu_hour"] is not None else ""
        said.append(f"  {row['cost_metric']} cost {row['cost']} {row['currency']}, {row['gpu_hours']} GPU hours{rate}")
    return said


def _named(days: Sequence[date]) -> str:
    more = f" and {len(days) - _SHOWN} more" if len(days) > _SHOWN else ""
    return ", ".join(str(day) for day in days[:_SHOWN]) + more


def attach(app: typer.Typer) -> None:
    """Makes the command a word of the application."""
    app.command()(marts)
