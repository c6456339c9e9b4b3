"""Google's detailed billing export straight from its table in BigQuery: one delivery a day of loading.

A delivery is the rows of usage since ``options.since`` that were loaded on one day, as they stood at their newest
``export_time``. Late rows and corrections are loaded on later days and come with these. What rows mean is ``gcp_lines``'.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from allocation.errors import AdapterError
from billing_adapters.base import BillOptions, Delivery, ensure_sayable
from billing_adapters.files import ensure_no_secret
from billing_adapters.gcp_columns import METRICS, check_header
from billing_adapters.gcp_lines import gcp_lines
from billing_adapters.gcp_rows import flat_batch
from billing_adapters.gcp_statements import all_since, loaded_on, rows, states, table_of
from billing_adapters.gcp_warehouse import BigQuery
from billing_adapters.lines import Origin
from billing_adapters.parsed import NO_ROW
from billing_adapters.row_batches import RowBatch

_INSTANT = timedelta(microseconds=1)


class GcpTableBill:
    """The table ``gcp_billing_export_resource_v1_...`` of a dataset."""

    def __init__(self, options: BillOptions, storage: Any = None) -> None:  # noqa: ANN401 - the SDK has no types
        """``storage`` is the client that batches are read with; see ``gcp_warehouse.BigQuery``."""
        ensure_sayable("gcp", options, METRICS)
        ensure_no_secret(options.endpoint_url or "", "billing.endpoint_url")
        self._options = options
        self._table = table_of(options.path)
        self._bigquery = BigQuery(self._table, options, storage)
        self._columns: list[str] = []

    def discover(self) -> Sequence[Delivery]:
        """One delivery for each day of loading, the newest first, by one query over three columns."""
        self._checked()
        found = self._bigquery.few(states(self._table), all_since(self._options.since))
        return [self._delivery(row) for row in found]

    def parse(self, delivery: Delivery) -> Iterator[pa.Table]:
        """See ``base.BillSource``. Each delivery is one query, however often its rows are gone through."""
        statement = rows(self._table, self._checked())
        detail = delivery.detail
        day, watermark = date.fromisoformat(detail["loaded"]), datetime.fromisoformat(detail["watermark"])
        job = self._bigquery.query(statement, loaded_on(day, self._options.since, watermark))
        name, count = delivery.files[0], int(detail["rows"])
        lines = gcp_lines(lambda: self._rows(name, job, count), Origin(self._options, delivery.delivery_id))
        return map(_without_row, lines)

    def format_of(self, delivery: Delivery) -> str:
        """See ``base.TellsFormat``."""
        return f"the detailed export in BigQuery, {delivery.detail['rows']} rows loaded on {delivery.detail['loaded']}"

    def first_run_bytes(self) -> tuple[int, int]:
        """See ``base.EstimatesScan``."""
        span = all_since(self._options.since)
        statements = (states(self._table), rows(self._table, self._checked()))
        return sum(self._bigquery.estimate_bytes(s, span) for s in statements), self._bigquery.limit_bytes

    def _checked(self) -> Sequence[str]:
        """The table's columns, among which are those that are needed."""
        if not self._columns:
            columns = self._bigquery.columns()
            check_header(self._options.path, columns, self._options.costs)
            self._columns = columns
        return self._columns

    def _delivery(self, row: Mapping[str, Any]) -> Delivery:
        loaded = f"{row['load_day']:%Y-%m-%d}"
        watermark, count, since = row["watermark"].isoformat(), str(row["row_count"]), str(self._options.since)
        state = f"{self._table.whole}\0{loaded}\0{watermark}\0{count}\0{since}"
        first, last = row["first_usage"].date(), (row["last_usage"] - _INSTANT).date()
        return Delivery(
            hashlib.sha256(state.encode()).hexdigest(),
            (f"{self._options.path}/{loaded}",),
            detail={"loaded": loaded, "watermark": watermark, "rows": count},
            days=(first, max(first, last) + timedelta(days=1)),
        )

    def _rows(self, name: str, job: Any, count: int) -> Iterator[RowBatch]:  # noqa: ANN401 - the SDK has no types
        read = 0
        for batch in self._bigquery.batches(job):
            yield flat_batch(name, read + 1, batch)
            read += batch.num_rows
        if read != count:
            problem = f"{count} rows were there, and {read} were read: the table changed while it was read"
            raise AdapterError(problem, file=name, remedy="Run again.")


def _without_row(lines: pa.Table) -> pa.Table:
    """The same lines, whose place among others is chance: BigQuery answers in no order."""
    place = lines.schema.get_field_index("source_row")
    return lines.set_column(place, lines.schema.field(place), pa.repeat(NO_ROW, len(lines)).cast(pa.int64()))
