"""A fake of BigQuery at the level of its REST protocol, which the real client talks to over HTTP.

It is no BigQuery: rows lie in memory, only the statements that we send are understood (``fake_bigquery_rows``), and what a
query scans is ``value_bytes`` for each value of the columns that it names in the partitions that it does not prune. Bodies of
answers and errors, paging, jobs and dry runs have the shape of Google's API v2.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from tests.fake_bigquery_rows import DETAILED, Answer, Field, RefusedError, Table, cell, run
from tests.servers import Answer as Reply
from tests.servers import Request, protocol_server

PROJECT, DATASET, NAME = "finops-example", "billing", "gcp_billing_export_resource_v1_01ABCD_23EF45_67890A"
PATH = f"bigquery://{PROJECT}.{DATASET}.{NAME}"
LEAST_BILLED_BYTES = 10 << 20
"""What BigQuery bills for the smallest query."""

_HTTP_OF_REASON = {"accessDenied": 403, "quotaExceeded": 403, "notFound": 404, "backendError": 503, "invalidQuery": 400}


@dataclass(frozen=True)
class Sent:
    """A query as it arrived."""

    text: str
    parameters: Mapping[str, datetime]
    project: str
    dry_run: bool
    maximum_bytes_billed: int | None

    @property
    def partitions(self) -> tuple[str, str]:
        """The days of loading that it is pruned to, the last excluded."""
        return str(self.parameters["first"].date()), str(self.parameters["until"].date())


@dataclass
class FakeBigQuery:
    """The server's state. ``faults`` are given instead of an answer, by method: (reason, message); once, if ``passing``."""

    table: Table = field(default_factory=lambda: Table(DETAILED, []))
    location: str = "EU"
    page_rows: int = 1000
    value_bytes: int = 8
    partitioned: Mapping[str, str] | None = field(default_factory=lambda: {"type": "DAY"})
    kind: str = "TABLE"
    faults: dict[str, tuple[str, str]] = field(default_factory=dict)
    passing: bool = False
    before_query: Callable[["FakeBigQuery", Sent], None] = lambda fake, sent: None  # noqa: ARG005
    url: str = ""
    sent: list[Sent] = field(default_factory=list)
    pages: int = 0
    requests: list[Request] = field(default_factory=list)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def read(self) -> list[Sent]:
        """The queries of rows that were paid for."""
        return [sent for sent in self.sent if not sent.dry_run and "COUNT(*)" not in sent.text]

    def reply(self, request: Request) -> Reply:
        """What the server says."""
        self.requests.append(request)
        parts = request.path.removeprefix("/bigquery/v2/projects/").split("/")
        try:
            return self._routed(parts, request)
        except _Error as error:
            told = {"reason": error.reason, "message": error.message, "domain": "global"}
            code = _HTTP_OF_REASON[error.reason]
            return _json({"error": {"code": code, "message": error.message, "errors": [told], "status": "X"}}, code)

    def _routed(self, parts: list[str], request: Request) -> Reply:
        project = parts[0]
        if parts[1:] == ["datasets", DATASET, "tables", NAME]:
            return self._answer("tables.get", self._table)
        if parts[1:2] == ["datasets"]:
            raise _Error("notFound", f"Not found: Table {project}:{parts[2]}.{parts[4]}")
        if parts[1:] == ["jobs"] and request.method == "POST":
            return self._answer("jobs.insert", lambda: self._inserted(project, json.loads(request.body)))
        if parts[1] == "jobs":
            return self._answer("jobs.get", lambda: self.jobs[parts[2]])
        if parts[1] == "queries":
            return self._answer("jobs.getQueryResults", lambda: self._results(parts[2], request))
        raise _Error("notFound", f"Not found: {request.path}")

    def _answer(self, method: str, make: Callable[[], Mapping[str, Any]]) -> Reply:
        if method in self.faults:
            raise _Error(*(self.faults.pop if self.passing else self.faults.__getitem__)(method))
        return _json(make())

    def _table(self) -> dict[str, Any]:
        return {
            "kind": "bigquery#table",
            "tableReference": {"projectId": PROJECT, "datasetId": DATASET, "tableId": NAME},
            "schema": {"fields": list(self.table.schema)},
            "type": self.kind,
            "location": self.location,
            **({"timePartitioning": dict(self.partitioned)} if self.partitioned else {}),
        }

    def _inserted(self, project: str, job: Mapping[str, Any]) -> dict[str, Any]:
        """A job as it was started, or as a dry run ends."""
        config = job["configuration"]
        query = config["query"]
        limit = query.get("maximumBytesBilled")
        given = {p["name"]: datetime.fromisoformat(p["parameterValue"]["value"]) for p in query.get("queryParameters", ())}
        dry = bool(config.get("dryRun"))
        sent = Sent(query["query"], given, project, dry, None if limit is None else int(limit))
        self._ensure_here(job)
        self.before_query(self, sent)
        self.sent.append(sent)
        try:
            answer = run({f"{PROJECT}.{DATASET}.{NAME}": self.table}, sent.text, sent.parameters)
        except RefusedError as error:
            raise _Error("invalidQuery", str(error)) from error
        return self._job(job, sent, answer)

    def _ensure_here(self, job: Mapping[str, Any]) -> None:
        asked = job["jobReference"].get("location")
        if asked != self.location:
            raise _Error("notFound", f"Not found: Dataset {PROJECT}:{DATASET} was not found in location {asked}")

    def _job(self, job: Mapping[str, Any], sent: Sent, answer: Answer) -> dict[str, Any]:
        number = job["jobReference"].get("jobId", "dry")
        scanned = answer.values * self.value_bytes
        billed = max(scanned, LEAST_BILLED_BYTES)
        status: dict[str, Any] = {"state": "DONE"}
        if sent.maximum_bytes_billed is not None and billed > sent.maximum_bytes_billed:
            problem = f"Query exceeded limit for bytes billed: {sent.maximum_bytes_billed}. {billed} or higher required."
            told = {"reason": "bytesBilledLimitExceeded", "message": problem}
            status |= {"errorResult": told, "errors": [told]}
        counts = {"totalBytesProcessed": str(scanned), **({} if sent.dry_run else {"totalBytesBilled": str(billed)})}
        place = {"projectId": sent.project, "datasetId": "_anonymous", "tableId": f"anon{number.replace('-', '')}"}
        query = {**job["configuration"]["query"], "destinationTable": place}
        done = {
            "kind": "bigquery#job",
            "jobReference": {**job["jobReference"], "projectId": sent.project, "location": self.location},
            "configuration": {**job["configuration"], "query": query, "jobType": "QUERY"},
            "statistics": {"totalBytesProcessed": str(scanned), "query": {**counts, "statementType": "SELECT"}},
            "status": status,
        }
        if sent.dry_run:
            return done
        self.jobs[number], self.answers[number] = done, answer
        return {**done, "status": {"state": "RUNNING"}, "statistics": {}}

    def _results(self, job: str, request: Request) -> dict[str, Any]:
        """One page of a job's rows."""
        answer = self.answers[job]
        first = int(request.param("pageToken") or request.param("startIndex") or 0)
        asked = request.param("maxResults")
        until = first + min(self.page_rows, int(asked) if asked else self.page_rows)
        rows = answer.rows[first:until]
        self.pages += bool(rows)
        more = {"pageToken": str(until)} if until < len(answer.rows) and rows else {}
        return {
            "kind": "bigquery#getQueryResultsResponse",
            "jobReference": self.jobs[job]["jobReference"],
            "jobComplete": True,
            "totalRows": str(len(answer.rows)),
            "schema": {"fields": answer.schema},
            **({"rows": [_row(row, answer.schema) for row in rows]} if rows else {}),
            **more,
        }


class _Error(Exception):
    def __init__(self, reason: str, message: str) -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


def _row(row: list[Any], schema: list[Field]) -> dict[str, Any]:
    return {"f": [cell(value, one) for value, one in zip(row, schema, strict=True)]}


def _json(content: Mapping[str, Any], status: int = 200) -> Reply:
    return Reply(status, json.dumps(content).encode(), {"Content-Type": "application/json; charset=UTF-8"})


@pytest.fixture(scope="session")
def bigquery_host() -> Iterator[Callable[[], FakeBigQuery]]:
    """A running server: each call makes it a fake with an empty table."""
    fakes: list[FakeBigQuery] = []

    def reply(request: Request) -> Reply:
        return fakes[-1].reply(request)

    with protocol_server(reply) as server:

        def fresh() -> FakeBigQuery:
            fakes[:] = [FakeBigQuery(url=server.url)]
            return fakes[-1]

        yield fresh


@pytest.fixture
def bigquery(bigquery_host: Callable[[], FakeBigQuery]) -> FakeBigQuery:
    """A fake with an empty table."""
    return bigquery_host()
