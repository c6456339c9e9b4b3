"""Whether a month may be closed: every day is computed, the bills are final and the tables tie to them, no error stands."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import NO_MONEY
from allocation.schemas import BILL_CLUSTER
from pipelines.accepted import blocking, ensure_codes
from pipelines.bill_finality import Finality, delivered_totals, finality
from pipelines.bills import Bill, discover
from pipelines.cards import cards_of
from pipelines.months import Month
from pipelines.partition import Partition
from pipelines.results import RESULT_TABLES
from pipelines.settings import Settings
from pipelines.storage import TableStore
from pipelines.tie import Recorded, by_day, recorded

NOT_OVER, MISSING, DIFFERS, NOT_FINAL, ERROR = "month_not_over", "day_missing", "bill_differs", "bill_not_final", "error_finding"


@dataclass(frozen=True)
class Obstacle:
    """One thing that keeps a month from being closed; ``day`` and ``cluster`` where it is about one, and what these lack."""

    kind: str
    text: str
    day: str | None = None
    cluster: str | None = None
    lacks: str = ""


@dataclass(frozen=True)
class Readiness:
    """What stands against closing, and what was looked at."""

    obstacles: tuple[Obstacle, ...]
    recorded: Recorded
    bills: tuple[Finality, ...]


def readiness(
    settings: Settings, store: TableStore, month: Month, now: datetime, *, accepted: Collection[str], accept_open: bool
) -> Readiness:
    """All that stands against closing a month.

    Raises:
        SettingsError: a code that is accepted does not exist.
    """
    ensure_codes(accepted)
    tables, found = recorded(store, month), discover(settings)
    bills = tuple(finality(settings, store, month, now, found))
    obstacles = [
        *_not_over(month, now),
        *_missing(settings, store, month),
        *_differing(settings, found, delivered_totals(settings, store, month, found), tables),
        *([] if accept_open else _not_final(bills)),
        *_errors(settings, store, month, accepted),
    ]
    return Readiness(tuple(obstacles), tables, bills)


def _not_over(month: Month, now: datetime) -> Iterator[Obstacle]:
    end = datetime.combine(month.next.first, time(), UTC)
    if now < end:
        yield Obstacle(NOT_OVER, f"{month} is over at {end:%Y-%m-%dT%H:%MZ}")


def wanted(settings: Settings, month: Month) -> list[Partition]:
    """The partitions that a whole month has: each day since ``start``, each cluster, and the bill's own."""
    names = [*(cluster.name for cluster in settings.clusters), BILL_CLUSTER]
    days = [day for day in month.days if settings.start is None or day >= settings.start]
    return [Partition(day, name) for day in days for name in names]


def _missing(settings: Settings, store: TableStore, month: Month) -> Iterator[Obstacle]:
    there = {name: set(store.partitions(name)) for name in RESULT_TABLES}
    for partition in wanted(settings, month):
        lacking = [name for name in RESULT_TABLES if partition not in there[name]]
        if lacking:
            until = partition.day + timedelta(days=1)
            what = "never computed" if len(lacking) == len(RESULT_TABLES) else f"lacks {', '.join(lacking)}"
            todo = f"`gpu-chargeback run CONFIG --from {partition.day} --until {until}`"
            text = f"{partition.day} of cluster {partition.cluster!r}: {what}; {todo}"
            yield Obstacle(MISSING, text, partition.day.isoformat(), partition.cluster, what)


def _differing(settings: Settings, bills: Sequence[Bill], told: pa.Table, tables: Recorded) -> Iterator[Obstacle]:
    """Days on which the bills' lines add up to something else than what the tables hold of them."""
    cards = {bill.delivery.files[0] for bill in cards_of(bills)}
    held = tables.lines.filter(pc.invert(pc.is_in(tables.lines["source_file"], value_set=pa.array(sorted(cards), pa.string()))))
    turned = by_day(held)
    for number, name in enumerate(turned.column_names):
        if name in ("cost", "lines"):
            turned = turned.set_column(number, name, pc.negate(turned[name]).cast(turned[name].type))
    gap = by_day(pa.concat_tables([by_day(told), turned]))
    open_ones = gap.filter(pc.or_(pc.not_equal(gap["cost"], NO_MONEY), pc.not_equal(gap["lines"], 0)))
    for row in open_ones.sort_by([("date", "ascending"), ("cost_metric", "ascending"), ("currency", "ascending")]).to_pylist():
        day = row["date"]
        if settings.start is not None and day < settings.start:
            continue
        text = (
            f"lines that begin on {day}: the bill has {row['cost']:+f} {row['currency']} ({row['cost_metric']} cost, "
            f"{row['lines']:+d} lines) beyond what the tables hold: "
            f"`gpu-chargeback run CONFIG --from {day} --until {day + timedelta(days=1)}`"
        )
        yield Obstacle(DIFFERS, text, day.isoformat())


def _not_final(bills: Sequence[Finality]) -> Iterator[Obstacle]:
    for bill in bills:
        if not bill.final:
            yield Obstacle(NOT_FINAL, f"the bill {bill.entry!r} is not final: {bill.evidence}")


def _errors(settings: Settings, store: TableStore, month: Month, accepted: Collection[str]) -> Iterator[Obstacle]:
    for partition in wanted(settings, month):
        found = store.read("findings", partition)
        if found is None:
            continue
        for row in blocking(found, accepted):
            text = (
                f"{partition.day} of cluster {partition.cluster!r}: the finding {row['code']} ({row['subject']}) is an error: "
                f"{row['evidence']}. Mend it and run the day again, or say --accept {row['code']}"
            )
            yield Obstacle(ERROR, text, partition.day.isoformat(), partition.cluster)
