"""How a partition's results replace those of before; where its month is closed, how their difference is booked instead."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from allocation.schemas import CHARGEBACK
from pipelines import versions
from pipelines.closing.booking import book, take_back
from pipelines.closing.books import open_books
from pipelines.closing.causes import BILL, bill_mark
from pipelines.inputs import inputs_of
from pipelines.plain import plain_rows
from pipelines.results import RESULT_TABLES, Results
from pipelines.steps import WRITTEN, Step
from pipelines.walk import Walk


def publish(walk: Walk, computed: Results) -> Results:
    """Replaces the partition in all result tables, or books what a closed month's would have become.

    Returns:
        The results, with what was booked.
    """
    books = open_books(walk.store)
    results = replace(computed, closed=books.closed)
    inputs = inputs_of(walk.settings, walk.store, results.partition, walk.owners.owners_id, walk.prices_id)
    inputs[BILL] = bill_mark(results.reconciliation)
    if books.hold(results.partition):
        booked = book(walk.store, books, results, inputs, walk.booking_date)
        _record(walk, results, versions.BOOKED, inputs, results.reconciliation)
        return replace(results, booked=booked)
    _write(walk, results, inputs)
    _record(walk, results, versions.PUBLISHED, inputs)
    return replace(results, booked=take_back(walk.store, books, results, walk.booking_date))


def _write(walk: Walk, results: Results, inputs: dict[str, str]) -> None:
    told = {"run_id": results.run_id, "deliveries": list(results.deliveries), "inputs": inputs}
    schema, detail = CHARGEBACK.arrow(), {**told, "rows": results.rows.rows}
    walk.store.write_batches("chargeback", results.partition, _watched(walk, results), schema, detail)
    for name in RESULT_TABLES[1:]:
        table = getattr(results, name)
        walk.store.write(name, results.partition, table, {**told, "rows": len(table)})


def _record(walk: Walk, results: Results, kind: str, inputs: dict[str, str], lines: pa.Table | None = None) -> None:
    told = {"inputs": inputs, "reconciled": plain_rows(results.reconciled), "rows": results.rows.rows}
    versions.record(walk.store, results.partition, results.run_id, kind, results.daily_mart, told, lines)


def _watched(walk: Walk, results: Results) -> Iterator[pa.RecordBatch]:
    for batch in results.batches():
        yield batch
        walk.watch(Step(WRITTEN, str(results.partition), len(batch), results.rows.rows))
