"""The commands of a month's end: ``close``, ``reopen``, ``verify``, ``history``, ``diff``. ``cli`` attaches them."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from allocation.errors import ChargebackError, SettingsError
from pipelines.commands import CHECK_FAILED, ConfigPath, Format, OutputFormat, day_of, load

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.closing.books import Entry
    from pipelines.partition import Partition
    from pipelines.storage import TableStore
    from pipelines.versions import Version

SHOWN = 40
MonthText = Annotated[str, typer.Argument(metavar="MONTH", help="The billing period, for example 2026-10.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who does it. Default: the user of the system.")]
Day = Annotated[str, typer.Option("--date", help="The UTC day.")]
Cluster = Annotated[str, typer.Option("--cluster", help="The cluster, or _bill.")]


def close(
    config: ConfigPath,
    month: MonthText,
    accept_open: Annotated[bool, typer.Option("--accept-open", help="Close although a bill is not known to be final.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="CODE", help="Close although this finding is an error; may be repeated."),
    ] = None,
    by: By = None,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Close a month: prove that it is whole and ties to the bill, then freeze it. Later changes become adjustments."""
    from pipelines import clock  # noqa: PLC0415
    from pipelines.closing.closing import close as close_month  # noqa: PLC0415
    from pipelines.closing.said import lines  # noqa: PLC0415
    from pipelines.months import Month  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415
    from pipelines.who import user  # noqa: PLC0415

    settings, wanted = load(config), Month.parse(month)
    store = open_store(settings)
    found = close_month(settings, store, wanted, now=clock.now(), by=by or user(), accepted=accept or [], accept_open=accept_open)
    if form is Format.JSON:
        _print_json({"month": month, "entry": found.place, "obstacles": [asdict(o) for o in found.obstacles]})
    elif found.obstacles:
        said = lines(found.obstacles)
        _say(f"{month} cannot be closed yet:", *(f"- {line}" for line in said[:SHOWN]))
        if len(said) > SHOWN:
            _say(f"... and {len(said) - SHOWN} more; --format json lists all")
    else:
        content = found.content or {}
        _say(f"{month} is closed; {found.place}")
        _say(*(f"{t['entry']}s: {t['cost']} {t['currency']} ({t['cost_metric']} cost)" for t in _dicts(content["totals"])))
        _say(*(_tie(t) for t in _dicts(content["tie"])))
    if found.obstacles:
        raise typer.Exit(CHECK_FAILED)


def _tie(tie: dict[str, object]) -> str:
    later = f" + {tie['later']} on days still to come" if float(str(tie["later"])) else ""
    return (
        f"the bill's {tie['lines']} lines: {tie['bill']} {tie['currency']} ({tie['cost_metric']} cost) = "
        f"{tie['charged']} charged + {tie['out_of_scope']} out of scope{later}"
    )


def reopen(
    config: ConfigPath,
    month: MonthText,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stays on record.")],
    by: By = None,
) -> None:
    """Open a closed month again, so that the next run of its days replaces them."""
    from pipelines import clock  # noqa: PLC0415
    from pipelines.closing.closing import reopen as reopen_month  # noqa: PLC0415
    from pipelines.months import Month  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415
    from pipelines.who import user  # noqa: PLC0415

    store = open_store(load(config))
    place = reopen_month(store, Month.parse(month), now=clock.now(), by=by or user(), reason=reason)
    _say(f"{month} is open again; {place}")


def verify(
    config: ConfigPath,
    month: Annotated[str | None, typer.Argument(metavar="[MONTH]", help="One closed month; all of them without it.")] = None,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Prove that the files of closed months are those that were closed."""
    from pipelines.closing.verify import verify as look  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415

    store = open_store(load(config))
    found = [look(store, entry) for entry in _closed(store, month)]
    if form is Format.JSON:
        _print_json([asdict(one) for one in found])
    for one in found if form is Format.TEXT else ():
        _say(*(f"{one.month}: {fault}" for fault in one.faults))
        if not one.faults:
            _say(f"{one.month}: all {one.files} files ({one.size_bytes:,} bytes) are those that were closed")
    if any(one.faults for one in found):
        raise typer.Exit(CHECK_FAILED)


def _closed(store: "TableStore", month: str | None) -> "Sequence[Entry]":
    from pipelines.closing.books import open_books  # noqa: PLC0415
    from pipelines.months import Month  # noqa: PLC0415

    entries = open_books(store).entries
    wanted = entries if month is None else [entry for entry in entries if entry.month == Month.parse(month)]
    if not wanted:
        which = "no month is" if month is None else f"{month} is not"
        raise ChargebackError(f"{store.location}: {which} closed; `gpu-chargeback close` closes a month")
    return wanted


def history(config: ConfigPath, day: Day, cluster: Cluster, form: OutputFormat = Format.TEXT) -> None:
    """List the versions of a partition: when, by which run, written or booked, and what it came to."""
    from pipelines.versions import versions_of  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415

    store = open_store(load(config))
    found = versions_of(store, _partition(day, cluster))
    rows = [_version(number, version) for number, version in enumerate(found, 1)]
    if form is Format.JSON:
        _print_json(rows)
        return
    if not rows:
        raise ChargebackError(f"{store.location}: no version of {day} of cluster {cluster!r} is kept")
    shown = Table(title=f"{day} of cluster {cluster}", title_justify="left")
    for name in rows[0]:
        shown.add_column(name, overflow="fold")
    for row in rows:
        shown.add_row(*(str(value) for value in row.values()))
    Console().print(shown)


def _version(number: int, version: "Version") -> dict[str, object]:
    from allocation.summed import summed  # noqa: PLC0415

    sums = summed(version.mart, ["cost_metric", "currency"], ["cost"]).to_pylist()
    cost = ", ".join(f"{row['cost']:f} {row['currency']} {row['cost_metric']}" for row in sums)
    return {"version": number, "at": version.at.isoformat(), "kind": version.kind, "run_id": version.run_id, "cost": cost}


def diff(
    config: ConfigPath,
    day: Day,
    cluster: Cluster,
    older: Annotated[int | None, typer.Option("--from", metavar="N", help="The older one's number in `history`.")] = None,
    newer: Annotated[int | None, typer.Option("--to", metavar="N", help="The newer one's. Default: the last.")] = None,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Compare two versions of a partition by owner, and say what changed between them."""
    from pipelines.closing.compare import compare, two_of  # noqa: PLC0415
    from pipelines.plain import plain_rows  # noqa: PLC0415
    from pipelines.versions import versions_of  # noqa: PLC0415
    from pipelines.walk import open_store  # noqa: PLC0415

    versions = versions_of(open_store(load(config)), _partition(day, cluster))
    found = compare(*two_of(versions, older, newer))
    if form is Format.JSON:
        told = {"from": found.older.run_id, "to": found.newer.run_id, "cause": found.cause}
        _print_json({**told, "rows": plain_rows(found.rows)})
        return
    _say(f"{day} of cluster {cluster}, runs {found.older.run_id} and {found.newer.run_id}: {found.cause}")
    Console().print(_differences(found.rows))


def _differences(rows: "pa.Table") -> Table:
    shown = Table()
    for name in rows.column_names:
        shown.add_column(name, justify="right" if name in ("before", "now", "change") else "left", overflow="fold")
    for row in rows.to_pylist():
        shown.add_row(*("-" if value is None else value if isinstance(value, str) else f"{value:f}" for value in row.values()))
    return shown


def _partition(day: str, cluster: str) -> "Partition":
    from pipelines.partition import Partition  # noqa: PLC0415

    found = day_of(day, "--date")
    if found is None:
        raise SettingsError("--date: name a UTC day, like 2026-10-01")
    return Partition(found, cluster)


def _dicts(rows: object) -> list[dict[str, object]]:
    return list(rows) if isinstance(rows, list) else []


def _say(*lines: str) -> None:
    for line in lines:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


def _print_json(told: object) -> None:
    sys.stdout.write(json.dumps(told, indent=1) + "\n")


def attach(app: typer.Typer) -> None:
    """Makes the commands words of the application."""
    for command in (close, reopen, verify, history, diff):
        app.command()(command)
