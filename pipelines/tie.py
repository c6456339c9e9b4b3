"""What the tables say of a month's bill: each line once, and where its cost went.

A line of several machines has a row in each of theirs, and one of several days a row a day; only those are looked at one by one.
Here does not belong what the bills say themselves (``bill_finality``).
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import MONEY, RECONCILIATION
from allocation.summed import summed
from pipelines.closing.books import Books, open_books
from pipelines.months import Month, may_hold
from pipelines.partition import Partition
from pipelines.storage import TableStore
from pipelines.versions import lines_booked, partitions_of

_READERS = 4
_LINE = ["line_item_id", "cost_metric", "currency", "source_file"]
_COLUMNS = [*_LINE, "billing_period", "charge_period_start", "line_cost", "cost_in", "cost_out", "state", "rule"]


@dataclass(frozen=True)
class Recorded:
    """A month's bill by the tables.

    ``parts``: ``cost_metric``, ``currency``, ``state``, ``rule``, ``cost_in``, ``cost_out``: what has been placed so far.
    ``lines``: ``date`` (on which the line begins), ``cost_metric``, ``currency``, ``source_file``, ``cost`` (of whole lines),
    ``lines``.
    """

    parts: pa.Table
    lines: pa.Table


def recorded(store: TableStore, month: Month, partitions: Sequence[Partition] | None = None) -> Recorded:
    """What ``reconciliation`` tells of the lines of the month's invoices.

    ``partitions``: those that are looked at; without them all in which such lines can stand, and of those that belong to closed
    months what was booked of them since.
    """
    if partitions is None:
        books = open_books(store)
        known = {*store.partitions(RECONCILIATION.name), *(partitions_of(store) if books.entries else [])}
        mine = sorted((p for p in known if may_hold(p, month)), key=lambda p: (p.day, p.cluster))
        return _recorded(store, month, mine, books)
    return _recorded(store, month, partitions, Books())


def _recorded(store: TableStore, month: Month, partitions: Sequence[Partition], books: Books) -> Recorded:
    read = partial(_batches, store, month.first, books)
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(lambda p: _partition(read(p)), partitions))
        split = pa.concat_tables([_SPLIT.empty_table(), *(one.split for one in found)])
        ids = split["line_item_id"].unique()
        twice = list(pool.map(lambda p: _whole_after_all(read(p), ids), partitions)) if len(ids) else []
    parts = pa.concat_tables([_PARTS.empty_table(), *(one.parts for one in found)])
    split = _once(pa.concat_tables([split, *twice]))
    lines = pa.concat_tables([_LINES.empty_table(), *(one.lines for one in found), *map(_taken_out, twice), split])
    return Recorded(_summed(parts, 4), _summed(lines, 4))


_PARTS = pa.schema(
    [*((n, pa.string()) for n in ("cost_metric", "currency", "state", "rule")), ("cost_in", MONEY), ("cost_out", MONEY)]
)
_LINES = pa.schema(
    [
        ("date", pa.date32()), *((n, pa.string()) for n in ("cost_metric", "currency", "source_file")),
        ("cost", MONEY), ("lines", pa.int64()),
    ]
)  # fmt: skip
_SPLIT = pa.schema([*((n, pa.string()) for n in _LINE), ("date", pa.date32()), ("cost", MONEY)])


class _Found(NamedTuple):
    """Of one partition: ``parts`` and ``lines`` as of ``Recorded``, and the rows of lines that are not whole in theirs."""

    parts: pa.Table
    lines: pa.Table
    split: pa.Table


def _partition(batches: Iterable[pa.Table]) -> _Found:
    parts, lines, split = [_PARTS.empty_table()], [_LINES.empty_table()], [_SPLIT.empty_table()]
    for rows in batches:
        parts.append(_summed(rows.select(_PARTS.names), 4))
        whole = pc.equal(rows["cost"], rows["cost_in"])
        here = rows.filter(whole)
        here = here.append_column("lines", pa.repeat(1, len(here)).cast(pa.int64()))
        lines.append(_summed(here.select(_LINES.names), 4))
        split.append(rows.filter(pc.invert(whole)).select(_SPLIT.names))
    return _Found(_summed(pa.concat_tables(parts), 4), _summed(pa.concat_tables(lines), 4), pa.concat_tables(split))


def _whole_after_all(batches: Iterable[pa.Table], ids: pa.Array) -> pa.Table:
    """Rows that have all of a line of which other rows have nothing."""
    found = [_SPLIT.empty_table()]
    for rows in batches:
        whole = pc.and_(pc.equal(rows["cost"], rows["cost_in"]), pc.is_in(rows["line_item_id"], value_set=ids))
        found.append(rows.filter(whole).select(_SPLIT.names))
    return pa.concat_tables(found)


def _taken_out(rows: pa.Table) -> pa.Table:
    """What rows were counted as, with its sign turned."""
    turned = rows.set_column(rows.schema.get_field_index("cost"), "cost", pc.negate(rows["cost"]))
    return turned.append_column("lines", pa.repeat(-1, len(rows)).cast(pa.int64())).select(_LINES.names).cast(_LINES)


def _batches(store: TableStore, period: date, books: Books, partition: Partition) -> Iterator[pa.Table]:
    """The rows of a partition that are of the invoice month; as booked since, where the partition is held by a closed month."""
    since = lines_booked(store, partition) if books.hold(partition) else None
    batches = store.batches(RECONCILIATION.name, partition, _COLUMNS) if since is None else since.select(_COLUMNS).to_batches()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        rows = rows.cast(pa.schema([field.with_nullable(True).remove_metadata() for field in rows.schema]))
        rows = rows.filter(pc.equal(rows["billing_period"], pa.scalar(period)))
        rows = rows.append_column("date", rows["charge_period_start"].cast(pa.date32()))
        yield rows.rename_columns(["cost" if name == "line_cost" else name for name in rows.column_names])


def _summed(table: pa.Table, keys: int) -> pa.Table:
    """Rows with equal values in the first columns together, the others added up."""
    names = table.column_names
    sums = summed(table, names[:keys], names[keys:])
    return sums.cast(pa.schema([field.with_nullable(True) for field in table.schema.remove_metadata()]))


def _once(rows: pa.Table) -> pa.Table:
    """Lines of several rows, each once."""
    each = rows.group_by(_LINE, use_threads=False).aggregate([("date", "min"), ("cost", "max")])
    each = each.rename_columns([*_LINE, "date", "cost"]).append_column("lines", pa.repeat(1, len(each)).cast(pa.int64()))
    return each.select(_LINES.names).cast(_LINES)


def by_day(lines: pa.Table, keys: Sequence[str] = ("date", "cost_metric", "currency")) -> pa.Table:
    """``lines`` of ``Recorded`` added up by these columns: ``cost`` and ``lines``."""
    return _summed(lines.select([*keys, "cost", "lines"]), len(keys))


def ties(tables: Recorded) -> pa.Table:
    """How a month's invoices tie: bill = charged + out_of_scope + later, exactly.

    Columns ``cost_metric``, ``currency``, ``lines``, ``bill`` (the lines' whole cost), ``charged``, ``out_of_scope``, and
    ``later``: parts of lines on days that are not computed, such as a fee's.
    """
    outside = pc.equal(tables.parts["state"], "out_of_scope")
    sides = (
        (tables.lines, "cost", 1, "bill"),
        (tables.parts.filter(pc.invert(outside)), "cost_out", -1, "charged"),
        (tables.parts.filter(outside), "cost_in", -1, "out_of_scope"),
    )
    rows = [_tie_side(*side) for side in sides]
    sums = _summed(pa.concat_tables(rows), 2)
    return sums.sort_by([("cost_metric", "ascending"), ("currency", "ascending")])


def _tie_side(table: pa.Table, source: str, sign: int, name: str) -> pa.Table:
    nothing = pa.repeat(pa.scalar(0).cast(MONEY), len(table))
    amount = table[source]
    columns = {key: table[key] for key in ("cost_metric", "currency")}
    columns["lines"] = table["lines"] if name == "bill" else pa.repeat(0, len(table)).cast(pa.int64())
    columns |= {key: amount if key == name else nothing for key in ("bill", "charged", "out_of_scope")}
    columns["later"] = amount if sign > 0 else pc.negate(amount)
    return pa.table(columns)
