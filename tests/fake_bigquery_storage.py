"""A fake of BigQuery's Storage Read API: a local gRPC server of its protocol.

The real client talks to it over its own transport. It serves the answers of the jobs of a ``FakeBigQuery`` as Arrow batches,
over as many streams as are asked for.
"""

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyarrow as pa
from google.cloud import bigquery_storage
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport
from google.cloud.bigquery_storage_v1.types import (
    ArrowRecordBatch,
    ArrowSchema,
    CreateReadSessionRequest,
    ReadRowsRequest,
    ReadRowsResponse,
    ReadSession,
    ReadStream,
)

from tests.fake_bigquery import FakeBigQuery
from tests.fake_bigquery_rows import Answer, Field, time_of

_SERVICE = "google.cloud.bigquery.storage.v1.BigQueryRead"
_TYPES = {
    "STRING": pa.string(),
    "FLOAT": pa.float64(),
    "INTEGER": pa.int64(),
    "NUMERIC": pa.decimal128(38, 9),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}


@dataclass
class FakeStorage:
    """The server's state: a client of it, how many rows a batch has, and whether it denies."""

    fake: FakeBigQuery
    client: Any = None
    batch_rows: int = 3
    denies: bool = False
    breaks_after: int | None = None
    sessions: list[CreateReadSessionRequest] = field(default_factory=list)

    def create(self, request: CreateReadSessionRequest, context: grpc.ServicerContext) -> ReadSession:
        """A session with the streams that were asked for."""
        self.sessions.append(request)
        if self.denies:
            what = f"request failed: the user does not have 'bigquery.readsessions.create' permission for '{request.parent}'"
            context.abort(grpc.StatusCode.PERMISSION_DENIED, what)
        table = request.read_session.table.rpartition("/")[2]
        streams = [ReadStream(name=f"{table}/{i}/{request.max_stream_count}") for i in range(request.max_stream_count)]
        schema = ArrowSchema(serialized_schema=_schema(self._answer(table)).serialize().to_pybytes())
        return ReadSession(name="session", arrow_schema=schema, streams=streams, table=request.read_session.table)

    def rows(self, request: ReadRowsRequest, context: grpc.ServicerContext) -> Iterator[ReadRowsResponse]:
        """The batches of one stream: each takes every so many-th."""
        table, number, of = request.read_stream.split("/")
        answer = self._answer(table)
        whole = _table(answer)
        batches = whole.to_batches(max_chunksize=self.batch_rows)[int(number) :: int(of)]
        left = batches if self.breaks_after is None else batches[: self.breaks_after]
        for batch in left:
            body = ArrowRecordBatch(serialized_record_batch=batch.serialize().to_pybytes(), row_count=batch.num_rows)
            schema = ArrowSchema(serialized_schema=whole.schema.serialize().to_pybytes())
            yield ReadRowsResponse(arrow_record_batch=body, arrow_schema=schema, row_count=batch.num_rows)
        if len(left) < len(batches):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there is not enough quota to read rows")

    def _answer(self, table: str) -> Answer:
        jobs = self.fake.jobs.items()
        (job,) = [n for n, j in jobs if j["configuration"]["query"]["destinationTable"]["tableId"] == table]
        return self.fake.answers[job]


def _schema(answer: Answer) -> pa.Schema:
    return pa.schema([pa.field(one["name"], _type(one)) for one in answer.schema])


def _type(one: Field) -> pa.DataType:
    kind = pa.struct([(f["name"], _type(f)) for f in one["fields"]]) if one["type"] == "RECORD" else _TYPES[one["type"]]
    return pa.list_(pa.field("item", kind)) if one["mode"] == "REPEATED" else kind


def _table(answer: Answer) -> pa.Table:
    columns = list(zip(*answer.rows, strict=True)) or [()] * len(answer.schema)
    arrays = [pa.array(map(_encoder(one), column), _type(one)) for one, column in zip(answer.schema, columns, strict=True)]
    return pa.table(arrays, schema=_schema(answer))


def _encoder(one: Field) -> Callable[[Any], Any]:
    """Values as Arrow wants them: times of texts, decimals of numbers, lists that are never null."""
    if one["mode"] == "REPEATED":
        return lambda value: value or []
    if one["type"] == "TIMESTAMP":
        return lambda value: time_of({"at": value}, "at")
    if one["type"] == "NUMERIC":
        return lambda value: None if value is None else pa.scalar(str(value)).cast(pa.decimal128(38, 9)).as_py()
    return lambda value: value


@contextlib.contextmanager
def fake_storage(fake: FakeBigQuery) -> Iterator[FakeStorage]:
    """A running server over the jobs of the fake, until the block ends."""
    storage = FakeStorage(fake)
    read = grpc.unary_stream_rpc_method_handler(storage.rows, ReadRowsRequest.deserialize, ReadRowsResponse.serialize)
    create = grpc.unary_unary_rpc_method_handler(storage.create, CreateReadSessionRequest.deserialize, ReadSession.serialize)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        handlers = {"CreateReadSession": create, "ReadRows": read}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            transport = BigQueryReadGrpcTransport(channel=channel)
            storage.client = bigquery_storage.BigQueryReadClient(transport=transport)  # type: ignore[no-untyped-call]
            yield storage
        server.stop(None).wait()
