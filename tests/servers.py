"""Real servers for tests, each on a free port: Prometheus filled from OpenMetrics files, VictoriaMetrics, an S3 server.

``ProtocolServer`` is a fake at the level of the protocol: a real HTTP server that gives scripted answers, for what a
healthy Prometheus never says.
"""

import contextlib
import ipaddress
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HAS_PROMETHEUS = shutil.which("prometheus") is not None and shutil.which("promtool") is not None
WITHOUT_PROMETHEUS = "the Debian package `prometheus` (with promtool) is not installed"
HAS_VICTORIA_METRICS = shutil.which("victoria-metrics") is not None
WITHOUT_VICTORIA_METRICS = "the Debian package `victoria-metrics` is not installed"
_PATIENCE_S = 60.0


_Test = TypeVar("_Test", bound=Callable[..., object])


def needs_prometheus(test: _Test) -> _Test:
    """Marks a test that starts a real Prometheus; it is skipped, with the reason, where there is none."""
    skipped: _Test = pytest.mark.skipif(not HAS_PROMETHEUS, reason=WITHOUT_PROMETHEUS)(test)
    marked: _Test = pytest.mark.prometheus(skipped)
    return marked


def needs_victoria_metrics(test: _Test) -> _Test:
    """Marks a test that starts a real VictoriaMetrics; it is skipped, with the reason, where there is none."""
    skipped: _Test = pytest.mark.skipif(not HAS_VICTORIA_METRICS, reason=WITHOUT_VICTORIA_METRICS)(test)
    marked: _Test = pytest.mark.victoriametrics(skipped)
    return marked


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def prometheus(folder: Path, *files: Path, flags: Sequence[str] = ()) -> Iterator[str]:
    """The URL of a real Prometheus that holds the samples of these OpenMetrics files, until the block ends."""
    data = folder / "tsdb"
    for file in files:
        fill = [
            "promtool",
            "tsdb",
            "create-blocks-from",
            "--max-block-duration=24h",
            "openmetrics",
            str(file),
            str(data),
        ]
        subprocess.run(fill, check=True, capture_output=True)
    config = folder / "prometheus.yml"
    config.write_text("global: {}\n", encoding="utf-8")
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    url = f"http://127.0.0.1:{port}"
    with _running(command, folder / "prometheus.log", f"{url}/-/ready"):
        yield url


@contextlib.contextmanager
def victoria_metrics(folder: Path, *lines: Iterable[bytes]) -> Iterator[str]:
    """The URL of a real VictoriaMetrics that holds these lines of its import format, until the block ends.

    It takes no times that lie more than two days ahead of the clock.
    """
    port = free_port()
    command = [
        "victoria-metrics",
        f"-storageDataPath={folder / 'victoria-metrics'}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=100y",
    ]
    url = f"http://127.0.0.1:{port}"
    with _running(command, folder / "victoria-metrics.log", f"{url}/health"):
        for text in lines:
            with requests.post(f"{url}/api/v1/import", data=iter(text), timeout=_PATIENCE_S) as told:
                told.raise_for_status()
        with requests.get(f"{url}/internal/force_flush", timeout=_PATIENCE_S) as told:
            told.raise_for_status()
        yield url


@contextlib.contextmanager
def _running(command: Sequence[str], log_path: Path, ready_url: str) -> Iterator[None]:
    """A server's process, ready to answer, until the block ends."""
    with log_path.open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            _wait_until_ready(ready_url, server)
            yield
        finally:
            server.terminate()
            server.wait(_PATIENCE_S)


def _wait_until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"{server.args!r} ended with {server.returncode}; its log is in the test's folder")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{server.args!r} did not get ready")


def wait_until_listening(port: int, server: subprocess.Popen[bytes]) -> None:
    """Returns once somebody listens on the port; the server that should must not end before."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"{server.args!r} does not serve")


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint URL of a moto S3 server, until the block ends; any key and secret will do."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def private_certificate(folder: Path) -> Path:
    """A file with a key and a certificate for 127.0.0.1 that no public authority knows."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = datetime.now(UTC) - timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(start + timedelta(days=9))
    signed = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / "server.pem"
    path.write_bytes(private + signed.public_bytes(Encoding.PEM))
    return path


@dataclass(frozen=True)
class Request:
    """What a client sent: method, path without the query, parameters of query and form, headers in lower case."""

    method: str
    path: str
    params: Sequence[tuple[str, str]]
    headers: dict[str, str]
    body: str = ""

    def param(self, name: str) -> str:
        """The first parameter of that name, or nothing."""
        return next((value for key, value in self.params if key == name), "")


@dataclass(frozen=True)
class Answer:
    """What the server says to it."""

    status: int = 200
    body: bytes = b'{"status":"success","data":[]}'
    headers: dict[str, str] = field(default_factory=dict)
    more: Iterable[bytes] = ()
    """What comes after the body, as slowly as it is made; then the connection is closed."""


def forwarded(url: str, request: Request) -> Answer:
    """What the server of that URL answers to the request."""
    form = {"Content-Type": "application/x-www-form-urlencoded"} if request.body else {}
    query = None if request.body else list(request.params)
    told = requests.request(
        request.method, url + request.path, params=query, data=request.body, headers=form, timeout=_PATIENCE_S
    )
    return Answer(told.status_code, told.content)


@dataclass
class ProtocolServer:
    """A running fake: its URL, and the requests so far."""

    url: str
    requests: list[Request]


@contextlib.contextmanager
def protocol_server(answer: Callable[[Request], Answer], certificate: Path | None = None) -> Iterator[ProtocolServer]:
    """An HTTP server that answers each request by the function, until the block ends; with a certificate, over TLS."""
    requests: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            params = parse_qsl(parts.query) + parse_qsl(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, parts.path, params, headers, body)
            requests.append(request)
            said = answer(request)
            with contextlib.suppress(ConnectionError):  # a client may have heard enough
                self._say(said)

        def _say(self, said: Answer) -> None:
            self.send_response(said.status)
            for name, value in {"Content-Length": str(len(said.body)), **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)
            if said.more:
                self.close_connection = True
                self.wfile.writelines(said.more)

        do_GET = _reply  # noqa: N815
        do_POST = _reply  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if certificate else "http"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ProtocolServer(f"{scheme}://127.0.0.1:{server.server_address[1]}", requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
