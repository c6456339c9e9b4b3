"""The command ``marts``: a month, or a month to date, added up. ``cli`` attaches it."""

import json
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from allocation.errors import SettingsError
from pipelines import clock

if TYPE_CHECKING:
    from pipelines.marts import MonthToDate

_SHOWN = 10
"""So many missing days are named; of more, how many they are."""


def marts(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration file (YAML).")],
    month: Annotated[
        str, typer.Option("--month", help="The month, for example 2026-10; one that is not over is added up to date.")
    ],
    form: Annotated[str, typer.Option("--format", metavar="text|json", help="How the result is shown.")] = "text",
) -> None:
    """Add up the computed days of a month into the table monthly_mart, and say which days are missing."""
    from pipelines.cli import load  # noqa: PLC0415
    from pipelines.marts import write_month  # noqa: PLC0415
    from pipelines.months import Month  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415

    if form not in ("text", "json"):
        raise SettingsError(f"--format {form!r} is not known; it is text or json")
    settings = load(config)
    found = write_month(settings, open_store(settings), Month.parse(month), clock.today())
    if form == "json":
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
    totals = [
        {name: value if name == "tokens" or value is None else str(value) for name, value in row.items()}
        for row in found.totals.to_pylist()
    ]
    through = None if found.through is None else str(found.through)
    return {"month": str(found.month), "final": found.final, "through": through, "clusters": clusters, "totals": totals}


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
