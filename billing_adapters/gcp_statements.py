"""What BigQuery is asked about the detailed billing export: the table's name, and two statements with their parameters.

The export is partitioned by the day on which rows were loaded (``_PARTITIONTIME``), and rows are never changed afterwards: a
correction is a row of a later day. Nothing here knows the SDK. The only texts that are put into a statement are the table's
name, whose parts are checked, and the names of columns that are read.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from allocation.errors import AdapterError
from billing_adapters.gcp_columns import WANTED, one_word
from billing_adapters.row_batches import chosen_columns

SCHEME = "bigquery://"
DETAILED, STANDARD = "gcp_billing_export_resource_v1_", "gcp_billing_export_v1_"
_FORM = re.compile(
    r"bigquery://(?P<project>(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9])\.(?P<dataset>\w{1,1024})\.(?P<name>\w{1,1024})",
    re.ASCII,
)
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_LOADED_AHEAD = timedelta(days=1)
"""How much earlier than usage the day of its loading may begin."""


@dataclass(frozen=True)
class Table:
    """A table of the detailed export, by the three parts of its name."""

    project: str
    dataset: str
    name: str

    @property
    def whole(self) -> str:
        """The name as BigQuery writes it."""
        return f"{self.project}.{self.dataset}.{self.name}"


@dataclass(frozen=True)
class Span:
    """Which rows are asked for: loaded in ``[first, until)``, used after ``since``, exported until ``watermark``."""

    first: datetime
    until: datetime
    since: datetime
    watermark: datetime

    def parameters(self) -> dict[str, datetime]:
        """The values of the statements' parameters."""
        return {"first": self.first, "until": self.until, "since": self.since, "watermark": self.watermark}


def table_of(path: str) -> Table:
    """The table that a path names; anything but a detailed export is an ``AdapterError``."""
    match = _FORM.fullmatch(path)
    if match is None:
        problem = "no table can be read from this"
        raise AdapterError(problem, file=path, remedy=f"Write {SCHEME}PROJECT.DATASET.{DETAILED}ACCOUNT, all in plain letters.")
    table = Table(**match.groupdict())
    if table.name.startswith(DETAILED):
        return table
    what = "the standard usage cost export, which names no machine" if table.name.startswith(STANDARD) else "another table"
    remedy = f"Switch on 'Detailed usage cost' in Billing, Billing export, and name its table, {DETAILED}ACCOUNT."
    raise AdapterError(f"this is {what}", file=path, remedy=remedy)


def all_since(since: date | None) -> Span:
    """Everything that usage of that day or later can be in; without a day, everything."""
    start = _EARLIEST if since is None else datetime.combine(since, time(), UTC)
    return Span(_EARLIEST if since is None else start - _LOADED_AHEAD, _LATEST, start, _LATEST)


def loaded_on(day: date, since: date | None, watermark: datetime) -> Span:
    """The rows of one day's loading, as they stood at the watermark."""
    first = datetime.combine(day, time(), UTC)
    return Span(first, first + timedelta(days=1), all_since(since).since, watermark)


def states(table: Table) -> str:
    """One row a day of loading: its rows' number, newest ``export_time`` and hours of usage; the newest day first."""
    return (
        "SELECT TIMESTAMP_TRUNC(_PARTITIONTIME, DAY) AS load_day, MAX(export_time) AS watermark, COUNT(*) AS row_count, "  # noqa: S608
        "MIN(usage_start_time) AS first_usage, MAX(usage_end_time) AS last_usage "
        f"FROM {_from(table)} GROUP BY load_day ORDER BY load_day DESC"
    )


def rows(table: Table, columns: Collection[str]) -> str:
    """The rows themselves, of those columns that are read.

    Args:
        table: where.
        columns: all that the table has, fields of records as ``record.field``.
    """
    there = list(columns)
    chosen = chosen_columns(table.whole, there, WANTED, one_word)
    fields = [f"{there[place]} AS {there[place].replace('.', '_')}" for place in chosen.values()]
    return f"SELECT {', '.join(fields)} FROM {_from(table)}"  # noqa: S608 - the names are checked


def _from(table: Table) -> str:
    return (
        f"`{table.whole}` WHERE _PARTITIONTIME >= @first AND _PARTITIONTIME < @until "
        "AND usage_end_time > @since AND export_time <= @watermark"
    )
