"""What every bill source does: find deliveries, fingerprint them, parse one into line items.

Nothing here knows a provider's columns. A source reads from a folder or an object store through ``files``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

from allocation.errors import AdapterError

COST_METRICS = ("billed", "effective", "contracted", "list")
DateOrder = Literal["month_first", "day_first"]
"""How ``02/03/2026`` is read."""


@dataclass(frozen=True)
class Identity:
    """As whom an object store is read, where the SDK's own chain of credentials is not enough: all may be None."""

    profile: str | None = None
    role_arn: str | None = None
    external_id: str | None = None


@dataclass(frozen=True)
class CapacityBlock:
    """Machines that were paid for at once, for ``[start, end)``.

    ``reservation`` is its id in lower case, ``machines`` those that ran in it, where the bill does not say so itself.
    """

    reservation: str
    start: datetime
    end: datetime
    instances: int
    machines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Warehouse:
    """Who pays a query of BigQuery, and at most how much of it: ``project`` is None where the table's own pays."""

    project: str | None = None
    max_bytes_billed: int = 100 << 30


@dataclass(frozen=True)
class PriceOptions:
    """Where Google's list prices come from and are kept: see the configuration's ``prices`` section.

    ``cache`` is a folder; a list older than ``max_age_ms`` at ``now`` is fetched again. ``patience_s``: how long a catalog that
    does not answer is asked again.
    """

    cache: str
    now: datetime
    max_age_ms: int = 7 * 86_400_000
    currency: str = "USD"
    endpoint_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    patience_s: float = 10.0


@dataclass(frozen=True)
class BillOptions:
    """One billing entry of the configuration, as an adapter sees it.

    ``source_id`` names the entry in tables and messages; ``costs`` are the metrics to read, at least one; ``currency``, where
    given, refuses any other. ``since`` is the first day (UTC) of which anything is computed: a source that pays by what it
    scans leaves out what lies before. ``warehouse`` and ``include_promotions`` are Google's, ``date_order`` is Azure's.
    ``prices``: where list prices are found that the bill itself does not tell.
    """

    source_id: str
    path: str
    costs: tuple[str, ...] = ("billed",)
    currency: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    identity: Identity = Identity()
    capacity_blocks: tuple[CapacityBlock, ...] = ()
    since: date | None = None
    warehouse: Warehouse = Warehouse()
    include_promotions: bool = False
    date_order: DateOrder = "month_first"
    prices: PriceOptions | None = None


@dataclass(frozen=True)
class Delivery:
    """One complete delivery of a bill (or of one billing period of it).

    ``delivery_id`` is a fingerprint of content, equal wherever the same bytes lie. ``files`` are locations that the source can
    open, in order. ``billing_period`` is the month where the layout tells it, else None. ``days`` are the UTC days that its lines
    touch, ``[first, until)``, where that is known before they are read. ``complete_until`` is unknown here.
    """

    delivery_id: str
    files: tuple[str, ...]
    billing_period: date | None = None
    detail: dict[str, str] = field(default_factory=dict)
    days: tuple[date, date] | None = None

    def may_touch(self, day: date) -> bool:
        """Whether lines of the delivery may be of that day; only a delivery that tells its days can say no."""
        return self.days is None or self.days[0] <= day < self.days[1]


class BillSource(Protocol):
    """A bill in one format at one place."""

    def discover(self) -> Sequence[Delivery]:
        """The deliveries that stand now, newest version of each period only. Raises where a delivery is incomplete."""
        ...

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """All lines of a delivery, batch by batch (see ``parsed``). After an ``AdapterError``, with file and row, none counts."""
        ...


@runtime_checkable
class TellsFormat(Protocol):
    """A source whose format has versions."""

    def format_of(self, delivery: Delivery) -> str:
        """The format and version of a delivery by its header, for messages."""
        ...


@runtime_checkable
class TellsInvoices(Protocol):
    """A source whose format has a column of invoices."""

    def tells_invoices(self, delivery: Delivery) -> bool:
        """Whether the delivery has that column, by its headers, filled or not."""
        ...


@runtime_checkable
class EstimatesScan(Protocol):
    """A source whose reading is paid by what it scans."""

    def first_run_bytes(self) -> tuple[int, int]:
        """What a run that knows no delivery yet would scan, and what one run may scan at most, in bytes."""
        ...


def gib(size_bytes: int) -> str:
    """A size for people.

    >>> gib(3 << 29), gib(5 << 20)
    ('1.5 GiB', '0.005 GiB')
    """
    size = size_bytes / (1 << 30)
    return f"{size:.1f} GiB" if size >= 1 else f"{size:.3f} GiB"


def ensure_sayable(kind: str, options: BillOptions, sayable: Sequence[str]) -> None:
    """Refuses a cost metric that the format cannot say, naming those it can."""
    for cost in options.costs:
        if cost not in sayable:
            problem = f"{kind} has no cost {cost!r}; it can say {', '.join(sayable)}"
            raise AdapterError(problem, file=options.path, remedy="Change billing.cost.")
