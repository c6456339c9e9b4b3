"""What a month's report is made of, read from the store: marts, bill lines, findings, and which days are there.

Partition by partition, never a row of ``chargeback``. Here does not belong any figure that is shown.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from allocation.errors import ChargebackError
from allocation.schemas import BILL_CLUSTER, FINDINGS
from pipelines.accepted import blocking
from pipelines.months import Month, month_rows
from pipelines.partition import Partition
from pipelines.storage import TableStore
from pipelines.tie import Recorded, recorded

_READERS = 8
_UNUSED = ("cluster", "booked_period", "cost_center", "namespace")
_FOUND = ["code", "severity", "subject", "evidence", "count", "cost_at_risk", "currency"]


@dataclass(frozen=True)
class Gathered:
    """A month as the store has it.

    ``rows`` and ``before``: booked in the month and in the one before, as of ``month_rows``. ``bill``: the lines of
    the month's invoices on its computed days, and what became of them. ``missing``: days of clusters that were not computed.
    """

    month: Month
    rows: pa.Table
    before: pa.Table
    bill: Recorded
    findings: pa.Table
    missing: Sequence[tuple[date, str]]
    days_before: int
    closed: bool = False


def gather(store: TableStore, month: Month, clusters: Sequence[str], accepted: Collection[str], *, closed: bool) -> Gathered:
    """Reads a month.

    Raises:
        ChargebackError: nothing of the month is there, or a finding that is an error stands and is not accepted.
    """
    there = store.partitions("daily_mart")
    mine = [p for p in there if p.day in set(month.days) and (p.cluster in clusters or p.cluster == BILL_CLUSTER)]
    wanted = [(day, name) for day in month.days for name in clusters]
    computed = {(p.day, p.cluster) for p in mine}
    rows = _booked(store, month)
    if not len(rows) and computed.isdisjoint(wanted):
        raise ChargebackError(
            f"{store.place('daily_mart')}: no day of {month} is there; compute it with "
            f"`gpu-chargeback run CONFIG --from {month.first} --until {month.next.first}`"
        )
    with ThreadPoolExecutor(_READERS) as pool:
        findings = pa.concat_tables([FINDINGS.empty().select(_FOUND), *pool.map(lambda p: _findings(store, p), mine)])
    _ensure_no_errors(findings, accepted, month)
    return Gathered(
        month,
        rows,
        _booked(store, month.before),
        recorded(store, month, mine),
        findings,
        [key for key in wanted if key not in computed],
        len({p.day for p in there if p.day in set(month.before.days)}),
        closed,
    )


def _booked(store: TableStore, month: Month) -> pa.Table:
    """What a report needs of the rows that are booked in a month."""
    rows = month_rows(store, month)
    return rows.select([name for name in rows.column_names if name not in _UNUSED])


def _findings(store: TableStore, partition: Partition) -> pa.Table:
    parts = [pa.Table.from_batches([batch]) for batch in store.batches("findings", partition, _FOUND)]
    return pa.concat_tables(
        [FINDINGS.empty().select(_FOUND), *(part.cast(FINDINGS.empty().select(_FOUND).schema) for part in parts)]
    )


def _ensure_no_errors(findings: pa.Table, accepted: Collection[str], month: Month) -> None:
    standing = blocking(findings, accepted)
    if standing:
        first = standing[0]
        more = f" ({len(standing) - 1} more stand in the month)" if len(standing) > 1 else ""
        raise ChargebackError(
            f"{month}: the finding {first['code']} ({first['subject']}) is an error and blocks the report{more}: "
            f"{first['evidence']}. Mend it and run the day again, or say --accept {first['code']}"
        )
