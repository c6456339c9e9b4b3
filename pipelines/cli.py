"""The command line: thin words over ``stages``.

Exit codes: 0 done; 1 a terminal error; 2 wrong usage or settings; 3 a check failed.
Tables, settings and compiled code are imported by the command that needs them, so that ``--help`` is there at once.
"""

import json
import logging
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from allocation.errors import ChargebackError, SettingsError, nearest
from pipelines import cli_close, cli_export, cli_load, cli_marts, cli_report, cli_warehouse, clock
from pipelines.commands import CHECK_FAILED, EARLIEST_DAY, LATEST_DAY, ConfigPath, Format, OutputFormat, day_of, load, window

if TYPE_CHECKING:
    from pipelines.walk import Walk

app = typer.Typer(
    name="gpu-chargeback", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich",
    help="Splits the real bill of GPU nodes by memory-seconds, exactly, per team and per model.",
)  # fmt: skip
app.add_typer(cli_export.app)
app.add_typer(cli_load.app)
errors = Console(stderr=True)
output = Console()


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False) -> None:
    if version:
        from pipelines.version import VERSION  # noqa: PLC0415

        output.print(VERSION, highlight=False)
        raise typer.Exit


@app.command()
def run(
    config: ConfigPath,
    first: Annotated[
        str | None, typer.Option("--from", help="First UTC day, for example 2026-10-01. Default: yesterday.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="The day after the last one. Default: one day after --from.")
    ] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="Only this cluster; may be repeated.")] = None,
    refetch: Annotated[
        bool, typer.Option("--refetch", help="Ask the source of series again, whatever the store has kept.")
    ] = False,
    accept_less_metrics: Annotated[
        bool,
        typer.Option("--accept-less-metrics", help="Replace a partition although less is known now than when it was written."),
    ] = False,
    booking_date: Annotated[
        str | None,
        typer.Option("--booking-date", help="The day of adjustments, where a day belongs to a closed month. Default: today."),
    ] = None,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Compute whole UTC days and write the tables; what a closed month's would change is booked as adjustments."""
    from pipelines import progress, show, warm  # noqa: PLC0415
    from pipelines.bills import discover  # noqa: PLC0415
    from pipelines.results import RunSummary  # noqa: PLC0415
    from pipelines.stages import run_day  # noqa: PLC0415
    from pipelines.walk import open_walk  # noqa: PLC0415

    settings = load(config)
    days = window(settings, first, until)
    names = [settings.cluster(name).name for name in cluster] if cluster else None
    summary = RunSummary()
    with warm.told(_say), progress.watched(errors) as watch:
        booked_on = day_of(booking_date, "--booking-date")
        opened = open_walk(
            settings, refetch=refetch, accept_less_metrics=accept_less_metrics, watch=watch, booking_date=booked_on
        )
        with opened as walk:
            _ensure_open(walk, booked_on)
            bills = discover(settings)
            for day in days:
                summary.add(run_day(walk, day, names, bills))
    show.summary(summary, walk.store, output, as_json=form is Format.JSON)
    if summary.has_errors:
        raise typer.Exit(CHECK_FAILED)


def _ensure_open(walk: "Walk", day: date | None) -> None:
    from pipelines.months import Month  # noqa: PLC0415

    if day is not None and walk.books.is_closed(Month.of(day)):
        raise SettingsError(f"--booking-date {day}: {Month.of(day)} is closed; name a day of an open month")


@app.command()
def explain(
    config: ConfigPath,
    day: Annotated[str, typer.Option("--date", help="The UTC day.")],
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only this cluster. Default: all.")] = None,
    pod: Annotated[str | None, typer.Option("--pod", metavar="NAMESPACE/POD", help="Rows of this pod.")] = None,
    team: Annotated[str | None, typer.Option("--team", help="Rows of this team.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Rows of this model.")] = None,
    line_item: Annotated[str | None, typer.Option("--line-item", metavar="ID", help="Rows of this line of the bill.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="UUID", help="Rows of this GPU.")] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="Cost metric, where rows stand under several.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="How many rows are walked in full. Default: 3 in text, all in JSON.")
    ] = None,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Walk a figure back: bill line, GPUs, memory over time, samples, owner. Several of the options must all hold."""
    from pipelines import explain_text, warm  # noqa: PLC0415
    from pipelines.explain import Query, document  # noqa: PLC0415
    from pipelines.explain import explain as walk_back  # noqa: PLC0415
    from pipelines.walk import open_walk  # noqa: PLC0415

    asked = day_of(day, "--date")
    if asked is None or not EARLIEST_DAY <= asked <= LATEST_DAY:
        raise SettingsError(f"days are from {EARLIEST_DAY} to {LATEST_DAY}; --date {day} is outside")
    query = Query(asked, cluster, pod, team, model, line_item, gpu, metric)
    as_json = form is Format.JSON
    with warm.told(_say):
        found = walk_back(open_walk(load(config)), query, limit if as_json or limit else explain_text.WALKED)
    if as_json:
        sys.stdout.write(json.dumps(document(found), indent=1) + "\n")
    else:
        explain_text.show(found, explain_text.console(output))


@app.command()
def schema(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table; all of them without it.")] = None,
    form: OutputFormat = Format.TEXT,
) -> None:
    """Print the documented columns of the tables."""
    from pipelines.schema_text import render_schema, schema_json  # noqa: PLC0415

    sys.stdout.write((json.dumps(schema_json(table), indent=1) if form is Format.JSON else render_schema(table)) + "\n")


@app.command()
def doctor(config: ConfigPath, form: OutputFormat = Format.TEXT) -> None:
    """Prove each part of a configuration, and say what to do where it fails."""
    from pipelines import doctor as checks  # noqa: PLC0415
    from pipelines import warm  # noqa: PLC0415

    with warm.told(_say):
        found = checks.diagnose(load(config), clock.today())
    if form is Format.JSON:
        sys.stdout.write(json.dumps([asdict(c) for c in found], indent=1) + "\n")
    else:
        output.print(checks.render(found))
    raise typer.Exit(checks.exit_code(found))


@app.command(name="warm")
def compile_ahead(
    cache_dir: Annotated[
        Path | None,
        typer.Option("--cache-dir", metavar="DIR", help="Keep compiled code there; runs find it by NUMBA_CACHE_DIR=DIR."),
    ] = None,
) -> None:
    """Compile ahead all that a run needs, for example in a container image."""
    from allocation import compiled  # noqa: PLC0415

    if cache_dir is not None:
        compiled.keep_in(cache_dir.resolve())
    if compiled.cache_place() is None:
        raise SettingsError(f"{cache_dir or 'the cache'}: cannot be written; name a folder that can, by --cache-dir DIR")
    from pipelines import warm  # noqa: PLC0415

    done = warm.warm(_say)
    what = f"compiled {done.count} functions in {done.seconds:.0f} s" if done.count else "warm already: nothing to compile"
    output.print(f"{what}; kept in {compiled.cache_place()}", highlight=False, markup=False, soft_wrap=True)


def _say(line: str) -> None:
    errors.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where the configuration is written.")] = Path("chargeback.yaml"),
    cluster: Annotated[str | None, typer.Option(help="Name of the Kubernetes cluster.")] = None,
    prometheus: Annotated[str | None, typer.Option(help="URL of a Prometheus, or an OpenMetrics or Parquet file.")] = None,
    profile: Annotated[str | None, typer.Option(help="Exporter, for example dcgm; auto looks for itself.")] = None,
    billing: Annotated[str | None, typer.Option(help="Bill: focus, aws-cur, aws-cur2, gcp or azure.")] = None,
    bill_path: Annotated[str | None, typer.Option(help="Folder, file or s3:// URL of the bill's export.")] = None,
    out: Annotated[str | None, typer.Option("--output", help="Folder or s3:// URL for the tables.")] = None,
    start: Annotated[str | None, typer.Option(help="First UTC day there is anything to compute.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented configuration from a few questions, or from these options."""
    from pipelines import init_config  # noqa: PLC0415

    if path.exists() and not force:
        raise SettingsError(f"{path} exists already; choose another name or say --force")
    place = _ask(prometheus, "Prometheus URL or OpenMetrics file", "http://localhost:9090")
    text = init_config.render_config(
        init_config.InitAnswers(
            cluster=_ask(cluster, "Name of the cluster", "prod"),
            metrics_kind=init_config.kind_of(place),
            metrics_place=place,
            profile=_choice(profile, "Exporter profile", init_config.PROFILES, "dcgm"),
            billing_kind=_choice(billing, "Kind of bill", init_config.BILLING_KINDS, "aws-cur2"),
            billing_path=_ask(bill_path, "Where the bill's export is", "s3://bucket/prefix/export"),
            output=_ask(out, "Where tables go", "out"),
            start=day_of(_ask(start, "First day", str(clock.today().replace(day=1))), "--start"),
        )
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written ({error.strerror}); name a file in an existing folder") from error
    output.print(f"wrote {path}; next: gpu-chargeback doctor {path}", highlight=False, soft_wrap=True)


cli_warehouse.attach(app)
cli_close.attach(app)
cli_marts.attach(app)
cli_report.attach(app)


def _ask(given: str | None, question: str, default: str) -> str:
    """The option, else the answer of whoever sits at the terminal, else the default."""
    if given is not None:
        return given
    return str(typer.prompt(question, default=default)) if sys.stdin.isatty() else default


def _choice(given: str | None, question: str, known: Sequence[str], default: str) -> str:
    """As ``_ask``, refusing what is not known."""
    answer = _ask(given, f"{question} ({', '.join(known)})", default)
    if answer not in known:
        raise SettingsError(f"{question} {answer!r} is not known; {nearest(answer, known)}")
    return answer


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; a known error is one clear line on stderr and its exit code."""
    warnings.simplefilter("ignore")
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    try:
        result: Any = app(list(argv) if argv is not None else None, standalone_mode=False)
    except ChargebackError as error:
        errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return error.exit_code
    except KeyboardInterrupt:
        errors.print("stopped; partitions already written are whole", highlight=False)
        return 130
    except Exception as error:  # noqa: BLE001
        return _usage(error)
    return result if isinstance(result, int) else 0


def _usage(error: Exception) -> int:
    """Typer's own complaints in its own words; anything else is a fault of ours and keeps its trace."""
    show = getattr(error, "show", None)
    if show is None:
        if type(error).__name__ == "Abort":
            return 1
        raise error
    show()
    return int(getattr(error, "exit_code", 2))


if __name__ == "__main__":
    sys.exit(main())
