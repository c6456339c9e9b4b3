"""The files of a report: which there are, by which names, each written aside and put in place when it is whole."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import SettingsError, nearest
from billing_adapters.base import COST_METRICS
from pipelines.accepted import ensure_codes
from pipelines.csv_text import csv_rows, header
from pipelines.focus_export.writing import aside
from pipelines.months import Month
from pipelines.reports.columns import sums
from pipelines.reports.figures import MonthFigures, month_figures, pairs
from pipelines.reports.gather import Gathered, gather
from pipelines.reports.names import NOBODY, clean, file_stem
from pipelines.reports.page import Renderer
from pipelines.reports.sections import month_page, team_page
from pipelines.reports.sentences import amount
from pipelines.reports.tables import tables
from pipelines.reports.workbook import write_workbook
from pipelines.settings import Settings
from pipelines.storage import TableStore

NO_CURRENCY = "XXX"
"""Stands in ISO 4217 for no currency."""


@dataclass(frozen=True)
class Wanted:
    """What is asked for."""

    month: Month
    folder: Path
    forms: Collection[str]
    teams: Sequence[str] = ()
    all_teams: bool = False
    cost_metric: str | None = None
    currency: str | None = None
    accepted: Collection[str] = ()
    closed: bool = False


def write(settings: Settings, store: TableStore, wanted: Wanted) -> Iterator[str]:
    """Writes all reports of the month; a line for people on each.

    Raises:
        SettingsError: a metric, currency, code or team that is not there.
        ChargebackError: as of ``gather``.
    """
    _ensure_known(wanted)
    clusters = [cluster.name for cluster in settings.clusters]
    found = gather(store, wanted.month, clusters, wanted.accepted, closed=wanted.closed)
    chosen = _chosen(pairs(found) or [(COST_METRICS[0], NO_CURRENCY)], wanted)
    render = Renderer() if "html" in wanted.forms or wanted.teams or wanted.all_teams else None
    for metric, currency in chosen:
        figures = month_figures(found, metric, currency)
        stem = f"report-{wanted.month}-{metric}-{currency}"
        for path in _files(figures, wanted, stem, render):
            yield f"wrote {path}"
        if render:
            yield from _team_pages(found, figures, wanted, render, several=len(chosen) > 1)
        yield f"{wanted.month}, {metric} cost: {amount(figures, figures.shown)}, {len(figures.teams)} owners" + _told(found)


def _told(found: Gathered) -> str:
    return f"; month to date: {len(found.missing)} days of clusters are missing" if found.missing else ""


def _ensure_known(wanted: Wanted) -> None:
    if wanted.cost_metric is not None and wanted.cost_metric not in COST_METRICS:
        raise SettingsError(
            f"--cost-metric {wanted.cost_metric!r} is no cost metric; {nearest(wanted.cost_metric, COST_METRICS)}"
        )
    ensure_codes(wanted.accepted)


def _chosen(found: Sequence[tuple[str, str]], wanted: Wanted) -> list[tuple[str, str]]:
    fits = [(m, c) for m, c in found if wanted.cost_metric in (None, m) and wanted.currency in (None, c)]
    if not fits:
        asked = " ".join(f"{o} {v}" for o, v in (("--cost-metric", wanted.cost_metric), ("--currency", wanted.currency)) if v)
        there = ", ".join(f"{metric} in {currency}" for metric, currency in found)
        raise SettingsError(f"{asked}: {wanted.month} has no rows under it; there are {there}")
    return fits


def _files(figures: MonthFigures, wanted: Wanted, stem: str, render: Renderer | None) -> Iterator[Path]:
    _make(wanted.folder)
    if render and "html" in wanted.forms:
        yield _text(wanted.folder / f"{stem}.html", render.render(month_page(figures)))
    if "xlsx" in wanted.forms:
        path = wanted.folder / f"{stem}.xlsx"
        with aside(path) as new:
            write_workbook(new, tables(figures), figures.coin.places)
        yield path
    if "csv" in wanted.forms:
        _make(wanted.folder / stem)
        for name, table in tables(figures).items():
            with aside(wanted.folder / stem / f"{name}.csv") as new:
                new.write_bytes(csv_text(table))
        yield wanted.folder / stem


def csv_text(table: pa.Table) -> bytes:
    """A table as CSV."""
    return header(table.column_names) + b"".join(csv_rows(batch) for batch in table.combine_chunks().to_batches())


def _team_pages(found: Gathered, figures: MonthFigures, wanted: Wanted, render: Renderer, *, several: bool) -> Iterator[str]:
    known = figures.teams["team"].to_pylist()
    asked = known if wanted.all_teams else [_team(name, known) for name in wanted.teams]
    if not asked:
        return
    folder = wanted.folder / "teams"
    _make(folder)
    suffix = f".{figures.cost_metric}-{figures.currency}" if several else ""
    parts = [_by_team(rows, asked) for rows in (found.rows, found.before)]
    nothing = found.rows.slice(0, 0)
    for team in asked:
        mine = replace(found, rows=parts[0].get(team, nothing), before=parts[1].get(team, nothing))
        page = team_page(month_figures(mine, figures.cost_metric, figures.currency), team)
        path = _text(folder / f"{file_stem(team)}{suffix}.html", render.render(page))
        if not wanted.all_teams:
            yield f"wrote {path}"
    if wanted.all_teams:
        yield f"wrote {len(asked)} pages to {folder}"


def _team(name: str, known: Sequence[str | None]) -> str | None:
    if name in known:
        return name
    if name == NOBODY and None in known:
        return None
    names = [clean(team) for team in known]
    raise SettingsError(f"--team {name!r} has no cost in the month; {nearest(name, names[:1000]) if names else 'no team has'}")


def _by_team(rows: pa.Table, teams: Sequence[str | None]) -> dict[str | None, pa.Table]:
    """The rows of each team, cut from rows that are sorted once."""
    if len(teams) <= 1:
        return {team: rows.filter(pc.is_null(rows["team"]) if team is None else pc.equal(rows["team"], team)) for team in teams}
    rows = rows.sort_by("team").combine_chunks()
    counts = sums(rows.append_column("rows", pa.repeat(pa.scalar(1), len(rows))), ["team"], ["rows"])
    found, start = {}, 0
    for team, count in zip(counts["team"].to_pylist(), counts["rows"].to_pylist(), strict=True):
        found[team] = rows.slice(start, count)
        start += count
    return found


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--to {folder}: cannot be made ({error.strerror}); name a folder that can") from error


def _text(path: Path, text: str) -> Path:
    with aside(path) as new:
        new.write_text(text, encoding="utf-8")
    return path
