"""BigQuery through its own SDK and the application default credentials: a table's columns, queries within a limit, rows as Arrow.

The SDK is imported with this module, when a table is configured. Credentials go to Google's own hosts only: any other
``endpoint_url`` is asked without. What is asked is ``gcp_statements``' knowledge, what rows mean is the adapter's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from allocation.errors import AdapterError, MissingExtraError
from billing_adapters.base import BillOptions, gib
from billing_adapters.gcp_statements import Span, Table
from billing_adapters.object_store import host_of

try:
    from google.api_core.exceptions import Forbidden
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery, bigquery_storage

    from billing_adapters.gcp_warehouse_faults import FAULTS, OVER_LIMIT, Asked, explained, why
except ModuleNotFoundError as error:
    raise MissingExtraError("google-cloud-bigquery", "gcp") from error

RETRY_SECONDS = 30.0
"""How long a request is tried again before its fault counts."""

_REQUEST_SECONDS = 60.0
_QUERY_SECONDS = 900.0
_STREAMS, _QUEUED_BATCHES = 2, 4
_BATCH_ROWS = 1 << 17
_LEAST_BILLED_BYTES = 10 << 20
"""What BigQuery bills for the smallest query."""

_PAGE_ROWS = 5_000
"""Rows in one answer of REST; an answer that has no more is never read by the Storage Read API."""


class BigQuery:
    """One table of the detailed export, and what may be spent on reading it.

    All queries of one object together may bill ``options.warehouse.max_bytes_billed``.
    """

    def __init__(self, table: Table, options: BillOptions, storage: Any = None) -> None:  # noqa: ANN401 - the SDK has no types
        """``storage`` is the client of the Storage Read API; without one it is made where Google's own hosts are asked."""
        self._table, self._options = table, options
        self._payer = options.warehouse.project or table.project
        self._storage = storage
        self._client: Any = None
        self._location: str | None = None
        self.limit_bytes = options.warehouse.max_bytes_billed
        self.billed_bytes = 0

    def columns(self) -> list[str]:
        """The table's columns by name, fields of records as ``record.field``.

        Raises:
            AdapterError: it is not partitioned by the day of loading.
        """
        with self._explaining():
            found = self._connected().get_table(self._table.whole, retry=_retry(), timeout=_REQUEST_SECONDS)
        self._location = found.location
        parts = found.time_partitioning
        if parts is None or parts.field is not None:
            by = "a view" if found.table_type == "VIEW" else f"partitioned by {parts.field}" if parts else "not partitioned"
            problem = f"the table is {by} and has no _PARTITIONTIME: which rows are new cannot be told without reading all of it"
            remedy = "Name the table that Google's export writes; a view or a copy can be exported to files and read from there."
            raise AdapterError(problem, file=self._options.path, remedy=remedy)
        return [name for field in found.schema for name in _names(field, "")]

    def few(self, statement: str, span: Span) -> list[dict[str, Any]]:
        """The answer to a statement that has few rows."""
        job = self.query(statement, span)
        with self._explaining():
            return [dict(row.items()) for row in job.result(retry=_retry(), timeout=_QUERY_SECONDS)]

    def query(self, statement: str, span: Span) -> Any:  # noqa: ANN401 - the SDK has no types
        """A finished query; its answer lies at BigQuery for a day and can be read several times.

        Raises:
            AdapterError: it would bill more than what is left of the limit.
        """
        left = self.limit_bytes - self.billed_bytes
        if left <= 0:
            raise self._over_limit(statement, span)
        config = bigquery.QueryJobConfig(query_parameters=_parameters(span), maximum_bytes_billed=left, labels=_LABELS)
        try:
            job = self._started(statement, config)
            job.result(page_size=_PAGE_ROWS, retry=_retry(), timeout=_QUERY_SECONDS)
        except FAULTS as error:
            if why(error) == OVER_LIMIT:
                raise self._over_limit(statement, span) from error
            raise explained(error, self._asked()) from error
        self.billed_bytes += job.total_bytes_billed or 0
        return job

    def estimate_bytes(self, statement: str, span: Span) -> int:
        """What a statement would scan, by BigQuery's own estimate; this costs nothing."""
        config = bigquery.QueryJobConfig(query_parameters=_parameters(span), dry_run=True, use_query_cache=False)
        with self._explaining():
            return int(self._started(statement, config).total_bytes_processed)

    def batches(self, job: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - the SDK has no types
        """The rows of a finished query in batches of some hundred thousand, in bounded memory."""
        waiting: list[pa.RecordBatch] = []
        for batch in self._streamed(job):
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) >= _BATCH_ROWS:
                yield from _joined(waiting)
                waiting = []
        yield from _joined(waiting)

    def _streamed(self, job: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - the SDK has no types
        """Batches as they come: by the Storage Read API, or by the slower REST where that is not there or not allowed."""
        if self._storage is None and self._is_google():
            with self._explaining():
                self._storage = bigquery_storage.BigQueryReadClient()  # type: ignore[no-untyped-call]
        with self._explaining():
            stream = self._arrow(job, self._storage)
            try:
                first = next(stream, None)
            except Forbidden:
                if self._storage is None:
                    raise
                stream = self._arrow(job, None)
                first = next(stream, None)
            if first is not None:
                yield first
            yield from stream

    def _arrow(self, job: Any, storage: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - the SDK has no types
        rows = job.result(page_size=_PAGE_ROWS, retry=_retry(), timeout=_QUERY_SECONDS)
        bounds = {"max_queue_size": _QUEUED_BATCHES, "max_stream_count": _STREAMS}
        stream: Iterator[pa.RecordBatch] = iter(rows.to_arrow_iterable(bqstorage_client=storage, **bounds))
        return stream

    def _started(self, statement: str, config: Any) -> Any:  # noqa: ANN401 - the SDK has no types
        location = self._options.region or self._location
        asked = {"location": location, "retry": _retry(), "job_retry": None, "timeout": _REQUEST_SECONDS}
        return self._connected().query(statement, job_config=config, **asked)

    def _connected(self) -> Any:  # noqa: ANN401 - the SDK has no types
        if self._client is None:
            endpoint = self._options.endpoint_url
            options = {"api_endpoint": endpoint} if endpoint else None
            credentials = None if self._is_google() else AnonymousCredentials()  # type: ignore[no-untyped-call]
            self._client = bigquery.Client(project=self._payer, credentials=credentials, client_options=options)
        return self._client

    def _is_google(self) -> bool:
        endpoint = self._options.endpoint_url
        return not endpoint or f".{host_of(endpoint)}".endswith(".googleapis.com")

    def _over_limit(self, statement: str, span: Span) -> AdapterError:
        needed = max(_LEAST_BILLED_BYTES, self.estimate_bytes(statement, span))
        left = max(0, self.limit_bytes - self.billed_bytes)
        spent = f", of which {gib(left)} are left after the queries before" if self.billed_bytes else ""
        problem = f"the query would bill {gib(needed)}, and billing.max_bytes_billed allows {gib(self.limit_bytes)} a run{spent}"
        remedy = "Raise billing.max_bytes_billed, or set a later `start`; what was read before is kept."
        return AdapterError(problem, file=self._options.path, remedy=remedy)

    def _asked(self) -> Asked:
        dataset = f"{self._table.project}.{self._table.dataset}"
        return Asked(self._options.path, dataset, self._payer, self._location, self._options.endpoint_url)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except FAULTS as error:
            raise explained(error, self._asked()) from error


_LABELS: Mapping[str, str] = {"made-by": "gpu-chargeback"}


def _parameters(span: Span) -> Sequence[Any]:
    return [bigquery.ScalarQueryParameter(name, "TIMESTAMP", value) for name, value in span.parameters().items()]


def _retry() -> Any:  # noqa: ANN401 - the SDK has no types
    """The client's own, bounded."""
    return bigquery.DEFAULT_RETRY.with_timeout(RETRY_SECONDS)


def _names(field: Any, before: str) -> Iterator[str]:  # noqa: ANN401 - the SDK has no types
    name = f"{before}{field.name}"
    yield name
    if field.mode != "REPEATED":
        for inner in field.fields:
            yield from _names(inner, f"{name}.")


def _joined(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows, as a rule in one batch."""
    there = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(there).combine_chunks().to_batches() if there else []
