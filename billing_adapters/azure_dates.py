"""The dates of Azure's cost exports: ISO, or month and day in an order that a setting says and the billing period proves.

A line is of a whole UTC day. Asked once for each combination of a row's dates.
"""

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT, TIME
from billing_adapters.azure_columns import DATE, PERIOD_END, PERIOD_START
from billing_adapters.base import DateOrder
from billing_adapters.lines import sure
from billing_adapters.row_batches import RowBatch

_SLASHED = r"^(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>\d{4})(?: 0{1,2}:00(?::00)?| 12:00:00 AM)?$"
_WAYS: dict[DateOrder, str] = {"month_first": "MM/DD/YYYY", "day_first": "DD/MM/YYYY"}
_OTHER: dict[DateOrder, DateOrder] = {"month_first": "day_first", "day_first": "month_first"}
_REMEMBERED = 256
_ISO = "%Y-%m-%d"
_DAY = pa.scalar(86_400_000_000, pa.duration("us"))


class Dates:
    """Reads the dates of one file, which are all written in one way."""

    def __init__(self, order: DateOrder) -> None:
        self._order = order
        self._slashed: bool | None = None
        self._read: dict[str, dict[str, pa.Array]] = {}

    def periods(self, batch: RowBatch) -> dict[str, pa.Array]:
        """The charge's day, half-open, and the first day of the invoice's month where the row says it.

        Raises:
            AdapterError: an empty, impossible or otherwise written date, or one that the other order puts into its billing
                period and this one does not.
        """
        there = [name for name in (DATE, PERIOD_START, PERIOD_END) if name.lower() in batch.columns]
        return batch.by_distinct(there, self._remembered)

    def _remembered(self, few: RowBatch) -> dict[str, pa.Array]:
        """The same few dates stand in batch after batch."""
        key = repr([column.to_pylist() for column in few.columns.values()])
        if key not in self._read:
            if len(self._read) > _REMEMBERED:
                self._read.clear()
            self._read[key] = self._periods(few)
        return self._read[key]

    def _periods(self, few: RowBatch) -> dict[str, pa.Array]:
        if not pa.types.is_temporal(few.columns[DATE.lower()].type):
            self._ensure_one_way(few)
        self._ensure_order(few)
        days = _read(few, self._order).times(DATE)
        midnight = pc.floor_temporal(days, unit="day")
        if not pc.all(pc.equal(days, midnight)).as_py():
            index = pc.index(pc.equal(days, midnight), False).as_py()
            problem = f"{DATE}: {few.text(DATE)[index].as_py()} is no whole day (UTC)"
            raise few.error(index, problem, "Azure exports by day: have it delivered again.")
        return {
            "charge_period_start": days,
            "charge_period_end": pc.add(days, _DAY),
            "billing_period": _months(few, self._order),
        }

    def _ensure_one_way(self, few: RowBatch) -> None:
        texts = few.text(DATE)
        slashed = sure(pc.match_substring_regex(texts, r"^\d+/"))
        if few.rows and self._slashed is None:
            self._slashed = slashed[0].as_py()
        other = pc.and_(pc.is_valid(texts), pc.not_equal(slashed, bool(self._slashed)))
        if pc.any(other).as_py():
            index = pc.index(other, True).as_py()
            ways = ("2026-10-01", "10/01/2026")
            told = ways if not self._slashed else ways[::-1]
            problem = (
                f"{DATE}: {texts[index].as_py()!r} is written otherwise than the file's first dates ({told[0]}, not {told[1]})"
            )
            raise few.error(index, problem, "One export writes its dates in one way: have it delivered again.")

    def _ensure_order(self, few: RowBatch) -> None:
        """Refuses a date that only the other order makes a date of its billing period, or a period that only it makes one."""
        other = _OTHER[self._order]
        wrong = pc.and_(pc.invert(_fits(few, self._order)), _fits(few, other))
        impossible = pc.and_(pc.is_null(_day(few, DATE, self._order)), pc.is_valid(_day(few, DATE, other)))
        wrong = pc.or_(wrong, impossible)
        if pc.any(wrong).as_py():
            index = pc.index(wrong, True).as_py()
            told = " to ".join(str(few.text(name)[index].as_py()) for name in (PERIOD_START, PERIOD_END))
            problem = f"{DATE}: {few.text(DATE)[index].as_py()} (billing period {told}) is a date only as {_WAYS[other]}"
            raise few.error(index, problem, f"Set `date_order: {other}` in the billing entry.")


def _read(few: RowBatch, order: DateOrder) -> RowBatch:
    """The same rows with ``Date`` as times or ISO texts."""
    column = few.columns[DATE.lower()]
    if pa.types.is_temporal(column.type):
        return few
    columns = {**few.columns, DATE.lower(): _iso(few.text(DATE), order)}
    return RowBatch(few.file, few.first_row, few.rows, columns, few.places)


def _iso(texts: pa.Array, order: DateOrder) -> pa.Array:
    """Slashed dates as ``YYYY-MM-DD``; others as they are."""
    parts = pc.extract_regex(texts, _SLASHED)
    first, second, year = (pc.struct_field(parts, name) for name in ("first", "second", "year"))
    month, day = (first, second) if order == "month_first" else (second, first)
    padded = [pc.utf8_lpad(part, 2, "0") for part in (month, day)]
    return pc.coalesce(pc.binary_join_element_wise(year, *padded, "-"), texts)


def _day(few: RowBatch, name: str, order: DateOrder) -> pa.Array:
    """A column's dates; null where they are none in this order."""
    column = few.columns.get(name.lower())
    if column is None:
        return pa.nulls(few.rows, TIME)
    if pa.types.is_temporal(column.type):
        return pc.cast(column, TIME, safe=False)
    texts = pc.utf8_slice_codeunits(_iso(few.text(name), order), 0, 10)
    days = pc.strptime(texts, format=_ISO, unit="us", error_is_null=True)
    real = sure(pc.equal(pc.strftime(days, format=_ISO), texts))  # it takes the 30th of February for the 2nd of March
    return pc.cast(pc.if_else(real, days, None), TIME)


def _fits(few: RowBatch, order: DateOrder) -> pa.Array:
    """Where a row's date lies in its billing period, both read in this order."""
    day, start, end = (_day(few, name, order) for name in (DATE, PERIOD_START, PERIOD_END))
    return sure(pc.and_(pc.greater_equal(day, start), pc.less_equal(day, end)))


def _months(few: RowBatch, order: DateOrder) -> pa.Array:
    """The first day of the month in which the billing period starts; null where the row does not say it."""
    starts = _day(few, PERIOD_START, order)
    told = few.text(PERIOD_START) if PERIOD_START.lower() in few.columns else pa.nulls(few.rows, TEXT)
    unread = pc.and_(pc.is_valid(told), pc.is_null(starts))
    if pc.any(unread).as_py():
        index = pc.index(unread, True).as_py()
        problem = f"{PERIOD_START}: {told[index].as_py()!r} is no date as {_WAYS[order]} or YYYY-MM-DD"
        raise few.error(index, problem, "Correct the export, or `date_order` in the billing entry.")
    return pc.cast(pc.floor_temporal(starts, unit="month"), pa.date32())
