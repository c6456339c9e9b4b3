"""What every bill source does: find deliveries, fingerprint them, parse one into line items.

Nothing here knows a provider's columns. A source reads from a folder or an object store through ``files``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

import pyarrow as pa

from allocation.findings import Finding

COST_METRICS = ("billed", "effective", "contracted", "list")


@dataclass(frozen=True)
class BillOptions:
    """One billing entry of the configuration, as an adapter sees it.

    ``source_id`` names the entry in tables and messages; ``currency``, where given, refuses any other.
    """

    source_id: str
    path: str
    cost: str = "billed"
    currency: str | None = None
    endpoint_url: str | None = None
    region: str | None = None


@dataclass(frozen=True)
class Delivery:
    """One complete delivery of a bill (or of one billing period of it).

    ``delivery_id`` is a fingerprint of content, equal wherever the same bytes lie. ``files`` are locations that the source can
    open, in order. ``billing_period`` is the month where the layout tells it, else None. ``complete_until`` is unknown here.
    """

    delivery_id: str
    files: tuple[str, ...]
    billing_period: date | None = None
    detail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ParsedBill:
    """The line items of one delivery (table ``line_items``) and what was noticed."""

    lines: pa.Table
    findings: tuple[Finding, ...] = ()


class BillSource(Protocol):
    """A bill in one format at one place."""

    def discover(self) -> Sequence[Delivery]:
        """The deliveries that stand now, newest version of each period only. Raises where a delivery is incomplete."""
        ...

    def parse(self, delivery: Delivery) -> ParsedBill:
        """All lines of a delivery, or an ``AdapterError`` with file and row. Never a part."""
        ...
