"""Servers that refuse, stall, drip, lie and break off, at the level of the protocol: bounded time and memory, one clear line."""

import json
import re
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from allocation.errors import SourceUnavailableError
from pipelines.metric_sources.base import Window
from pipelines.metric_sources.chunks import Query
from pipelines.metric_sources.gate import Gate
from pipelines.metric_sources.prometheus import PrometheusSource, PrometheusStore
from pipelines.metric_sources.refusals import is_too_large
from pipelines.metric_sources.server_http import ALL_ANSWERS_BYTES
from pipelines.metric_sources.victoriametrics import VictoriaMetricsSource
from pipelines.metrics_entries import MetricsEntry
from tests.servers import Answer, Request, needs_prometheus, prometheus, protocol_server

START = datetime(2026, 10, 1, tzinfo=UTC)
TWO_HOURS = Window(START, START + timedelta(hours=2))
START_MS = TWO_HOURS.start_ms
USED = "DCGM_FI_DEV_FB_USED"
LABELS = {"__name__": USED, "UUID": "GPU-1", "Hostname": "n1"}
TOO_MANY = "query processing would load too many samples into memory in query execution"


def entry(url: str, **more: object) -> MetricsEntry:
    return MetricsEntry.model_validate({"kind": "prometheus", "url": url, **more})


def fetched(url: str, **more: object) -> list[int]:
    """The times that come of it, in minutes of the window."""
    (shard,) = PrometheusSource(entry(url, **more), "prod", 900_000).shards(TWO_HOURS, ["n1"])
    return [(ms - START_MS) // 60_000 for times in shard.samples.column("timestamps_ms").to_pylist() for ms in times]


def asked(request: Request) -> tuple[int, int]:
    """Start and end of the half-open time that a query asks for."""
    found = re.search(r"\[(\d+)ms\]$", request.param("query"))
    assert found is not None
    end = round(datetime.fromisoformat(request.param("time")).timestamp() * 1000) + 1
    return end - int(found[1]), end


def is_sought(request: Request) -> bool:
    return (
        request.path.endswith("/query") and request.param("query").startswith(USED) and 'Hostname=~"n1"' in request.param("query")
    )


def matrix(*series: str) -> Answer:
    return Answer(body=f'{{"status":"success","data":{{"resultType":"matrix","result":[{",".join(series)}]}}}}'.encode())


def healthy(request: Request) -> Answer:
    """One series of one sample a minute."""
    if not request.path.endswith("/query"):
        return Answer(
            body=json.dumps({"status": "success", "data": ["n1"] if "/label/Hostname/" in request.path else []}).encode()
        )
    if not is_sought(request):
        return matrix()
    start, end = asked(request)
    minutes = range(-(-start // 60_000), -(-end // 60_000))
    return matrix(json.dumps({"metric": LABELS, "values": [[60 * minute, "7"] for minute in minutes]}))


def refused(status: int, said: str) -> Answer:
    return Answer(status, json.dumps({"status": "error", "errorType": "execution", "error": said}).encode())


def failed(url: str, **more: object) -> str:
    with pytest.raises(SourceUnavailableError) as caught:
        fetched(url, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_too_large_is_asked_in_halves_and_later_chunks_start_smaller() -> None:
    lengths: list[int] = []

    def limited(request: Request) -> Answer:
        if is_sought(request):
            start, end = asked(request)
            lengths.append((end - start) // 60_000)
            if end - start > 10 * 60_000:
                return refused(422, TOO_MANY)
        return healthy(request)

    with protocol_server(limited) as server:
        assert fetched(server.url, concurrency=1) == list(range(120))
    assert lengths[:4] == [60, 30, 15, 7]
    assert max(lengths[4:]) == 7
    assert len(lengths) == 3 + 16


def test_a_query_of_which_no_minute_is_answered_ends_the_run() -> None:
    with protocol_server(lambda request: refused(422, TOO_MANY) if is_sought(request) else healthy(request)) as server:
        said = failed(server.url, concurrency=1)
        assert len([r for r in server.requests if is_sought(r)]) == 7
    words = (
        ": node n1: ",
        USED,
        "from 2026-10-01T00:00:00.000Z to 2026-10-01T00:00:5",
        TOO_MANY,
        "clusters.prod.metrics.nodes_per_shard",
    )
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (422, "the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)"),
        (422, "the query hit the max number of chunks limit (limit: 2000000 chunks)"),
        (422, "expanding series: exceeded series limit: rpc error: code = ResourceExhausted desc = limit 10 violated (got 11)"),
        (500, "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (9 vs. 4)"),
        (503, "query timed out in expression evaluation"),
        (422, "the number of matching timeseries exceeds 300000; either narrow down the search or increase -search.max*"),
        (413, ""),
    ],
)
def test_refusals_for_size_are_known_by_their_words(status: int, said: str) -> None:
    assert is_too_large(status, said)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (429, "the tenant exceeded the request rate limit"),
        (400, 'parse error: unexpected ","'),
        (503, "no healthy upstream"),
        (500, ""),
    ],
)
def test_other_refusals_are_not_halved(status: int, said: str) -> None:
    assert not is_too_large(status, said)


@needs_prometheus
def test_a_real_prometheus_with_a_limit_gives_what_one_without_gives(tmp_path: Path) -> None:
    rows = "".join(f'{USED}{{UUID="GPU-1",Hostname="n1"}} {n} {START_MS // 1000 + n * 60}\n' for n in range(120))
    (tmp_path / "m.om").write_text(f"{rows}# EOF\n", encoding="utf-8")
    with prometheus(tmp_path, tmp_path / "m.om", flags=["--query.max-samples=20"]) as url:
        assert fetched(url, chunk="1h") == list(range(120))


def test_a_busy_server_is_asked_by_fewer_at_once_and_nothing_is_lost() -> None:
    running, refusals = [0], [0]

    def at_most_two(request: Request) -> Answer:
        running[0] += 1
        try:
            if running[0] > 2 and is_sought(request):
                refusals[0] += 1
                return Answer(429, b"slow down", {"Retry-After": "0"})
            time.sleep(0.005)
            return healthy(request)
        finally:
            running[0] -= 1

    with protocol_server(at_most_two) as server:
        assert fetched(server.url, chunk="5m", concurrency=8, retries=30) == list(range(120))
    assert refusals[0] > 0


def test_the_gate_halves_and_grows_again() -> None:
    gate = Gate(8)
    widths = []
    for word in (gate.busy, gate.busy, *[gate.answered] * 5, gate.busy, gate.busy, gate.busy):
        word()
        widths.append(gate.width)
    assert widths == [4, 2, 2, 3, 3, 3, 4, 2, 1, 1]
    with gate:
        assert gate.width == 1


def dripping(pause_s: float) -> Iterator[bytes]:
    for _ in range(200):
        time.sleep(pause_s)
        yield b" "


@pytest.mark.parametrize(
    ("pause_s", "text"),
    [(0.6, "no answer within 0.1 s (setting: clusters.prod.metrics.timeout)"), (0.05, "no whole answer within 1 s")],
)
def test_bytes_that_stop_and_bytes_that_drip_end_in_a_time_out(pause_s: float, text: str) -> None:
    def slow(request: Request) -> Answer:
        answer = healthy(request)
        if not is_sought(request):
            return answer
        return Answer(body=answer.body[:40], headers={"Content-Length": "100000"}, more=dripping(pause_s))

    with protocol_server(slow) as server:
        began = time.monotonic()
        said = failed(server.url, timeout="100ms", retries=0, concurrency=1)
        assert time.monotonic() - began < 3
        assert ": node n1: " in said
        assert text in said


@pytest.mark.parametrize(
    ("headers", "keep", "text"),
    [
        ({"Content-Length": "100000", "Connection": "close"}, 200, "broke its answer off"),
        ({"Content-Length": "50"}, None, "cannot be read"),
        ({"Content-Length": "", "Connection": "close"}, 200, "cannot be read"),
        ({"Transfer-Encoding": "chunked", "Content-Length": "", "Connection": "close"}, 200, "broke its answer off"),
    ],
)
def test_an_answer_of_another_length_than_it_says_is_asked_again_and_then_refused(
    headers: dict[str, str], keep: int | None, text: str
) -> None:
    def lying(request: Request) -> Answer:
        answer = healthy(request)
        if not is_sought(request):
            return answer
        body = answer.body[:keep]
        return Answer(body=b"fff\r\n" + body if "Transfer-Encoding" in headers else body, headers=headers)

    with protocol_server(lying) as server:
        said = failed(server.url, retries=1, concurrency=1, timeout="1s")
        assert ": node n1: " in said
        assert text in said
        assert len([r for r in server.requests if is_sought(r)]) == 2


def test_a_series_of_a_million_samples_is_read_in_bounded_memory() -> None:
    """Whatever time is asked for; one of the samples is not a plain number."""
    point = b'[1790812800.123,"53053"]'
    values = b",".join([*[point] * 600_000, b'[1790812800.123,"NaN"]', *[point] * 399_999])
    body = matrix('{"metric":{},"values":[@]}').body.replace(b"@", values)
    with protocol_server(lambda _: Answer(body=body)) as server:
        store = PrometheusStore(entry(server.url), "prod")
        tracemalloc.start()
        ((_, times, found),) = store.points(Query(USED, USED, START_MS, START_MS + 60_000))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert len(times) == len(found) == 1_000_000
    assert np.flatnonzero(np.isnan(found)).tolist() == [600_000]
    assert peak < 5 * len(body)


def test_an_answer_longer_than_its_bound_is_asked_in_halves() -> None:
    """Eight thousand characters a minute, and a bound of 2 MiB: two hours are not answered at once, one is."""
    served: list[int] = []

    def wordy(request: Request) -> Answer:
        answer = healthy(request)
        if not is_sought(request):
            return answer
        start, end = asked(request)
        served.append((end - start) // 60_000)
        return Answer(body=answer.body[:-1] + b" " * (30_000 * (end - start) // 60_000) + b"}")

    assert ALL_ANSWERS_BYTES // 64 == 2 * 2**20
    with protocol_server(wordy) as server:
        assert fetched(server.url, concurrency=64, chunk="2h") == list(range(120))
    assert served == [120, 60, 60]


def test_an_export_that_breaks_off_in_words_is_refused_with_them() -> None:
    series = b'{"metric":{"__name__":"m"},"values":[1],"timestamps":[1790812800000]}\n'

    def broken(request: Request) -> Answer:
        if request.path.endswith("/export"):
            return Answer(body=series + b'{"status":"error","errorType":"422","error":"disk is gone"}\n')
        return healthy(request)

    with protocol_server(broken) as server:
        victoria = entry(server.url, kind="victoriametrics")
        with pytest.raises(SourceUnavailableError, match=r"node n1: DCGM\S+ from 2026.*disk is gone"):
            list(VictoriaMetricsSource(victoria, "prod", 900_000).shards(TWO_HOURS, ["n1"]))


def test_an_index_of_which_a_part_is_missing_is_refused() -> None:
    partial = Answer(body=b'{"status":"success","isPartial":true,"data":[]}')
    with protocol_server(lambda _: partial) as server, pytest.raises(SourceUnavailableError, match="not complete"):
        PrometheusSource(entry(server.url), "prod", 900_000).nodes(TWO_HOURS)
