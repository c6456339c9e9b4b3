"""The one place that reads the clock."""

from datetime import UTC, date, datetime


def now() -> datetime:
    """This moment in UTC."""
    return datetime.now(UTC)


def today() -> date:
    """Today's UTC date."""
    return now().date()
