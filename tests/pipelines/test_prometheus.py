"""Prometheus' API: chunks against a real server, faults against a fake at the level of the protocol."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from allocation.errors import ChargebackError, SettingsError, SourceUnavailableError
from pipelines.metric_sources.base import Window
from pipelines.metric_sources.prometheus import PrometheusSource
from pipelines.metrics_entries import MetricsEntry
from tests.servers import Answer, Request, free_port, needs_prometheus, private_certificate, prometheus, protocol_server

HOUR = Window(datetime(2026, 10, 1, 0, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))
USED = "DCGM_FI_DEV_FB_USED"


def source(url: str, **entry: object) -> PrometheusSource:
    return PrometheusSource(MetricsEntry.model_validate({"kind": "prometheus", "url": url, **entry}), "prod", 900_000)


def healthy(request: Request) -> Answer:
    """One node with one series of one sample at the start of the window."""
    if request.path.endswith("/query"):
        result = []
        if USED in request.param("query") and request.param("time") == "2026-10-01T00:59:59.999Z":
            labels = {"__name__": USED, "UUID": "GPU-1", "Hostname": "n1"}
            result = [{"metric": labels, "values": [[HOUR.start_ms / 1000, "7"]]}]
        return Answer(body=json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode())
    names = ["n1"] if "/label/Hostname/" in request.path else []
    return Answer(body=json.dumps({"status": "success", "data": names}).encode())


def fetched(read: PrometheusSource) -> list[object]:
    (shard,) = read.shards(HOUR, ["n1"])
    found: list[object] = shard.samples.column("values").to_pylist()
    return found


def refused_with(answer: Callable[[Request], Answer], **entry: object) -> SourceUnavailableError:
    with protocol_server(answer) as server:
        with pytest.raises(SourceUnavailableError) as caught:
            fetched(source(server.url, retries=0, **entry))
        assert str(caught.value).startswith(f"{server.url}: ")
        assert "\n" not in str(caught.value)
        return caught.value


@needs_prometheus
@pytest.mark.parametrize("chunk", ["1h", "25m", "10m", "7m", "1500ms"])
def test_chunks_neither_repeat_nor_lose_the_sample_on_a_boundary(chunk: str, tmp_path: Path) -> None:
    """Samples stand on the boundaries, 1 ms beside them, at the window's start (in) and at its end (out)."""
    start = HOUR.start_ms
    length = 9_000 if chunk == "1500ms" else 3_600_000
    window = Window(HOUR.start, datetime.fromtimestamp((start + length) / 1000, UTC))
    offsets = {n * step + beside for step in (500, 420_000, 600_000) for n in range(-1, 20) for beside in (-250, 0, 250)}
    times = sorted(start + offset for offset in offsets)
    text = "".join(f'{USED}{{UUID="GPU-1",Hostname="n1"}} {n} {t // 1000}.{t % 1000:03d}\n' for n, t in enumerate(times))
    (tmp_path / "m.om").write_text(f"{text}# EOF\n", encoding="utf-8")
    with prometheus(tmp_path, tmp_path / "m.om") as url:
        (shard,) = source(url, chunk=chunk, concurrency=3).shards(window, ["n1"])
    expected = [t for t in times if start <= t < start + length]
    assert shard.samples.column("timestamps_ms").to_pylist() == [expected]
    assert shard.findings == ()


@needs_prometheus
def test_nodes_are_found_under_every_label_and_names_are_quoted(tmp_path: Path) -> None:
    names = ["plain", "dots.and+signs", 'quo"te\\back', "old"]
    rows = [
        ("node", names[0], 'Hostname="pod-1",'),
        ("node", names[1], ""),
        ("node", 'quo\\"te\\\\back', ""),
        ("hostname", names[3], ""),
    ]
    text = "".join(f'{USED}{{UUID="GPU-{n}",{more}{k}="{v}"}} 1 1790812800\n' for n, (k, v, more) in enumerate(rows))
    (tmp_path / "m.om").write_text(f'{text}{USED}{{UUID="GPU-9"}} 1 1790812800\n# EOF\n', encoding="utf-8")
    with prometheus(tmp_path, tmp_path / "m.om") as url:
        read = source(url)
        assert list(read.nodes(HOUR)) == sorted(names)
        (shard,) = read.shards(HOUR, [*names, "dotsXand+signs"])
    assert shard.samples.column("node").to_pylist() == sorted(names)
    assert [(f.code.value, f.subject) for f in shard.findings] == [("no_series", USED)]


def test_busy_answers_are_retried_and_the_asked_wait_is_kept() -> None:
    left = {429: 1, 503: 1}

    def busy_first(request: Request) -> Answer:
        if request.path.endswith("/query") and USED in request.param("query"):
            for status, times in left.items():
                if times:
                    left[status] = times - 1
                    return Answer(status, b"busy", {"Retry-After": "1"} if status == 429 else {})
        return healthy(request)

    with protocol_server(busy_first) as server:
        began = time.monotonic()
        assert fetched(source(server.url, concurrency=1)) == [[7.0 * 2**20]]
        assert time.monotonic() - began >= 1.0
    assert left == {429: 0, 503: 0}


def test_retries_end() -> None:
    with protocol_server(lambda _: Answer(503, b"down")) as server:
        with pytest.raises(SourceUnavailableError, match=r"HTTP 503 .*clusters\.prod\.metrics\.url"):
            source(server.url, retries=2).nodes(HOUR)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (
            200,
            b'{"status":"success","warnings":["store x is\\n down"],"data":{"resultType":"matrix","result":[]}}',
            "store x is down",
        ),
        (200, b'{"status":"error","errorType":"execution","error":"too many samples"}', "too many samples"),
        (200, b"<html>please sign in</html>", "cannot be read"),
        (200, b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}', "cannot be read"),
        (302, b"", "HTTP 302"),
        (400, b'{"status":"error","errorType":"bad_data","error":"parse error"}', "parse error"),
        (404, b"not found", "/api/v1"),
        (422, b'{"status":"error","errorType":"execution","error":"too long"}', "metrics.chunk"),
        (401, b"no", "clusters.prod.metrics.auth"),
        (403, b"no", "clusters.prod.metrics.auth"),
    ],
)
def test_partial_and_unreadable_answers_are_failures(status: int, body: bytes, text: str) -> None:
    def at_query(request: Request) -> Answer:
        return Answer(status, body) if request.path.endswith("/query") else healthy(request)

    assert text in str(refused_with(at_query))


@pytest.mark.parametrize("path", ["values", "query"])
def test_warnings_are_failures_wherever_they_stand(path: str) -> None:
    def warned(request: Request) -> Answer:
        body = b'{"status":"success","warnings":["partial"],"data":[]}'
        return Answer(body=body) if request.path.endswith(path) else healthy(request)

    assert "partial" in str(refused_with(warned))


def test_an_answer_cut_short_is_asked_for_again() -> None:
    cut = [1]

    def cut_once(request: Request) -> Answer:
        if request.path.endswith("/query") and USED in request.param("query") and cut:
            cut.pop()
            return Answer(body=b'{"status":', headers={"Content-Length": "500", "Connection": "close"})
        return healthy(request)

    with protocol_server(cut_once) as server:
        assert fetched(source(server.url, concurrency=1)) == [[7.0 * 2**20]]
    assert cut == []


def test_a_refused_connection_names_url_and_setting_soon() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    began = time.monotonic()
    with pytest.raises(SourceUnavailableError) as caught:
        source(url).nodes(HOUR)
    assert str(caught.value).startswith(f"{url}: cannot be reached: connection refused (setting: clusters.prod.metrics.url)")
    assert time.monotonic() - began < 10


def test_a_silent_server_names_the_timeout() -> None:
    def slow(request: Request) -> Answer:
        time.sleep(0.8)
        return healthy(request)

    assert "no answer within 0.2 s (setting: clusters.prod.metrics.timeout)" in str(refused_with(slow, timeout="200ms"))


def test_user_and_password_in_the_url_are_not_shown() -> None:
    port = free_port()
    with pytest.raises(SourceUnavailableError) as caught:
        source(f"http://me:hunter2@127.0.0.1:{port}/prom/", retries=0).nodes(HOUR)
    assert str(caught.value).startswith(f"http://127.0.0.1:{port}/prom: ")
    assert "hunter2" not in str(caught.value)


def test_every_query_carries_match_node_and_chunk() -> None:
    with protocol_server(healthy) as server:
        fetched(source(server.url, match={"cluster": 'pr"od'}))
        queries = [r for r in server.requests if r.path == "/api/v1/query"]
        assert {r.method for r in queries} == {"POST"}
        expected = USED + '{cluster="pr\\"od",node="",nodename="",Hostname=~"n1"}[3600000ms]'
        assert expected in {r.param("query") for r in queries}
        others = [value for r in server.requests for key, value in r.params if key == "match[]"]
        assert others
        assert all('cluster="pr\\"od"' in value for value in others)


def test_a_token_file_is_read_again_for_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n", encoding="utf-8")

    def renew(request: Request) -> Answer:
        token.write_text("second\n", encoding="utf-8")
        return healthy(request)

    with protocol_server(renew) as server:
        source(server.url, auth={"bearer_file": token}).nodes(HOUR)
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer first"] + ["Bearer second"] * (len(sent) - 1)
    assert len(sent) > 1
    token.unlink()
    with pytest.raises(SettingsError, match=r"clusters\.prod\.metrics\.auth\.bearer_file"):
        source(server.url, auth={"bearer_file": token}).nodes(HOUR)


def test_tenant_headers_and_secrets_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANT", "team-a")
    monkeypatch.setenv("KEY", "s3cret")
    monkeypatch.setenv("TOKEN", "t0ken")
    secrets = {"tenant": {"env": "TENANT"}, "headers": {"X-Key": {"env": "KEY"}, "X-Plain": "p"}}
    with protocol_server(healthy) as server:
        fetched(source(server.url, auth={"bearer": {"env": "TOKEN"}}, **secrets))
        for request in server.requests:
            assert request.headers["x-scope-orgid"] == "team-a"
            assert (request.headers["x-key"], request.headers["x-plain"]) == ("s3cret", "p")
            assert request.headers["authorization"] == "Bearer t0ken"


def test_basic_auth_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "open sesame")
    with protocol_server(healthy) as server:
        source(server.url, auth={"basic": {"username": "aladdin", "password": {"env": "PASSWORD"}}}).nodes(HOUR)
        assert server.requests[0].headers["authorization"] == "Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ=="


@pytest.mark.parametrize(
    "entry",
    [
        {"tenant": {"env": "NOT_SET_ANYWHERE"}},
        {"auth": {"bearer": {"env": "NOT_SET_ANYWHERE"}}},
        {"tls": {"ca_file": "no-such-file.pem"}},
    ],
)
def test_wrong_settings_are_refused_before_anything_is_sent(entry: dict[str, object]) -> None:
    with pytest.raises(ChargebackError, match=r"clusters\.prod\.metrics\.") as caught:
        source("http://127.0.0.1:1", **entry)
    assert caught.value.exit_code == 2


def test_a_private_authority_is_trusted_where_it_is_named_and_only_there(tmp_path: Path) -> None:
    certificate = private_certificate(tmp_path)
    with protocol_server(healthy, certificate) as server:
        with pytest.raises(SourceUnavailableError, match=r"no trusted TLS connection.*clusters\.prod\.metrics\.tls"):
            source(server.url, retries=0).nodes(HOUR)
        assert list(source(server.url, tls={"ca_file": certificate}).nodes(HOUR)) == ["n1"]
        assert list(source(server.url, tls={"insecure_skip_verify": True}).nodes(HOUR)) == ["n1"]


def test_at_most_so_many_queries_are_on_their_way() -> None:
    running, most = [0], [0]

    def counting(request: Request) -> Answer:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.02)
        running[0] -= 1
        return healthy(request)

    with protocol_server(counting) as server:
        list(source(server.url, chunk="5m", concurrency=3).shards(HOUR, ["n1"]))
        queries = [r for r in server.requests if r.path == "/api/v1/query"]
    assert len(queries) == 4 * 12
    assert 2 <= most[0] <= 3
