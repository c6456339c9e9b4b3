"""What a month's report is made of, read from the store: marts, bill lines, findings, and which days are there.

Partition by partition, never a row of ``chargeback``. Here does not belong any figure that is shown.
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.schemas import BILL_CLUSTER, FINDINGS, RECONCILIATION
from pipelines.months import Month, month_rows
from pipelines.reports.columns import sums
from pipelines.storage import Partition, TableStore

_READERS = 8
_PAIR = ("cost_metric", "currency")
_LINE = (*_PAIR, "provider", "billing_account", "line_item_id", "charge_period_start", "charge_period_end", "line_cost")
_STATE = (*_PAIR, "state", "rule")
_READ = [*_LINE, "billing_period", "state", "rule", "cost_in", "cost_out"]
_UNUSED = ("cluster", "booked_period", "cost_center", "namespace")
_FOUND = ["code", "severity", "subject", "evidence", "count", "cost_at_risk", "currency"]


@dataclass(frozen=True)
class Gathered:
    """A month as the store has it.

    ``rows`` and ``before``: booked in the month and in the one before, as of ``month_rows``. ``states``: parts of the bill's
    lines on computed days of the month, by what became of them. ``whole`` and ``parted``: cost of lines that stand in one row
    altogether, and the lines of which a row has a part. ``missing``: days of clusters that were not computed.
    """

    month: Month
    rows: pa.Table
    before: pa.Table
    states: pa.Table
    whole: pa.Table
    parted: pa.Table
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
        lines = list(pool.map(lambda p: _lines(store, p, month), mine))
        findings = pa.concat_tables([FINDINGS.empty().select(_FOUND), *pool.map(lambda p: _findings(store, p), mine)])
    _ensure_no_errors(findings, accepted, month)
    states, whole, parted = (pa.concat_tables([_NO_LINES[n], *(found[n] for found in lines)]) for n in range(3))
    return Gathered(
        month,
        rows,
        _booked(store, month.before),
        sums(states, _STATE, ("cost_in", "cost_out")),
        sums(whole, _PAIR, ("line_cost",)),
        parted.group_by([*_LINE], use_threads=False).aggregate([]),
        findings,
        [key for key in wanted if key not in computed],
        len({p.day for p in there if p.day in set(month.before.days)}),
        closed,
    )


def _booked(store: TableStore, month: Month) -> pa.Table:
    """What a report needs of the rows that are booked in a month."""
    rows = month_rows(store, month)
    return rows.select([name for name in rows.column_names if name not in _UNUSED])


def _lines(store: TableStore, partition: Partition, month: Month) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The partition's part of the month's bill, added up; of lines that lie here in part, one row each."""
    found = [_added(pa.Table.from_batches([batch]), month) for batch in store.batches("reconciliation", partition, _READ)]
    states, whole, parted = (pa.concat_tables([_NO_LINES[n], *(f[n] for f in found)]) for n in range(3))
    return states, whole, parted.group_by([*_LINE], use_threads=False).aggregate([])


def _added(rows: pa.Table, month: Month) -> tuple[pa.Table, pa.Table, pa.Table]:
    rows = rows.filter(pc.equal(rows["billing_period"], pa.scalar(month.first)))
    entire = pc.equal(rows["line_cost"], rows["cost_in"])
    states = sums(rows, _STATE, ("cost_in", "cost_out"))
    parts = [sums(rows.filter(entire), _PAIR, ("line_cost",)), rows.filter(pc.invert(entire)).select([*_LINE])]
    return tuple(part.cast(empty.schema) for part, empty in zip([states, *parts], _NO_LINES, strict=True))


def _findings(store: TableStore, partition: Partition) -> pa.Table:
    parts = [pa.Table.from_batches([batch]) for batch in store.batches("findings", partition, _FOUND)]
    return pa.concat_tables(
        [FINDINGS.empty().select(_FOUND), *(part.cast(FINDINGS.empty().select(_FOUND).schema) for part in parts)]
    )


def _ensure_no_errors(findings: pa.Table, accepted: Collection[str], month: Month) -> None:
    standing = [*_standing(findings, accepted)]
    if standing:
        first = standing[0]
        more = f" ({len(standing) - 1} more stand in the month)" if len(standing) > 1 else ""
        raise ChargebackError(
            f"{month}: the finding {first['code']} ({first['subject']}) is an error and blocks the report{more}: "
            f"{first['evidence']}. Mend it and run the day again, or say --accept {first['code']}"
        )


def _standing(findings: pa.Table, accepted: Collection[str]) -> Iterator[dict[str, str]]:
    known = pc.is_in(findings["code"], value_set=pa.array(sorted(accepted), pa.string()))
    yield from findings.filter(pc.and_(pc.equal(findings["severity"], "error"), pc.invert(known))).to_pylist()


def _empty(names: Sequence[str], figures: Sequence[str]) -> pa.Table:
    of = RECONCILIATION.arrow()
    return pa.schema([pa.field(name, of.field(name).type) for name in (*names, *figures)]).empty_table()


_NO_LINES = (_empty(_STATE, ("cost_in", "cost_out")), _empty(_PAIR, ("line_cost",)), _empty(_LINE, ()))
