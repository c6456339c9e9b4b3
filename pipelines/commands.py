"""What the commands share: exit codes, options that several have, days and settings as they are given on the command line."""

from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocation.errors import SettingsError
from pipelines import clock

if TYPE_CHECKING:
    from pipelines.settings import Settings

CHECK_FAILED = 3
EARLIEST_DAY, LATEST_DAY = date(2000, 1, 1), date(2199, 12, 31)


class Format(StrEnum):
    """For people or for machines."""

    TEXT = "text"
    JSON = "json"


ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration file (YAML).")]
OutputFormat = Annotated[Format, typer.Option("--format", help="How the result is shown.")]


def day_of(text: str | None, option: str) -> date | None:
    """A whole UTC day; a moment inside a day is refused with the whole-day window that contains it (R32)."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"{option} {text!r} is no day; write it like 2026-10-01") from None
    if (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0) and not moment.utcoffset():
        return moment.date()
    first = (moment.astimezone(UTC) if moment.tzinfo else moment).date()
    raise SettingsError(
        f"{option} {text}: a run writes whole UTC days; the day around it is --from {first} --until {first + timedelta(days=1)}"
    )


def load(config: Path) -> "Settings":
    """The settings of a file."""
    from pipelines.settings import load_settings  # noqa: PLC0415

    return load_settings(config)


def window(settings: "Settings", first: str | None, until: str | None) -> list[date]:
    """The UTC days asked for: by default yesterday."""
    from pipelines.settings import days_between  # noqa: PLC0415

    start, end = day_of(first, "--from"), day_of(until, "--until")
    if start is None and end is None:
        start = clock.today() - timedelta(days=1)
    if start is None:
        start = (end or clock.today()) - timedelta(days=1)
    if start < EARLIEST_DAY or (end or start) > LATEST_DAY:
        raise SettingsError(f"days are from {EARLIEST_DAY} to {LATEST_DAY}; --from {start} --until {end} is outside")
    days = days_between(start, end or start + timedelta(days=1))
    if not days:
        raise SettingsError(f"--until {end} must be after --from {start}; the window is half-open")
    if settings.start and days[0] < settings.start:
        raise SettingsError(
            f"--from {days[0]} is before start: {settings.start} of the configuration; there is nothing to compute"
        )
    return days


def month_of(text: str, first: str | None, until: str | None) -> tuple[str, str]:
    """The first day of a month and that of the next."""
    from pipelines.months import Month  # noqa: PLC0415

    if first is not None or until is not None:
        raise SettingsError("--month names all days itself; leave out --from and --until, or --month")
    month = Month.parse(text)
    return str(month.first), str(month.next.first)
