"""The connection to one server of series: requests, retries, and the bounds that every answer keeps to.

No answer takes longer than ten times ``timeout`` or is longer than its bound, so a server that stalls, drips, cuts its answers or
lies about their length costs bounded time and memory. Here do not belong what answers say or what series are.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from requests.adapters import HTTPAdapter
from tenacity import RetryCallState, Retrying, retry_if_exception_type
from urllib3.util.retry import Retry

from allocation.errors import SettingsError, SourceUnavailableError
from pipelines.metric_sources.gate import Gate
from pipelines.metric_sources.prometheus_json import Answer, read_answer
from pipelines.metric_sources.refusals import (
    REMEDY_OF_STATUS,
    REMEDY_OF_TOO_LARGE,
    REMEDY_OF_TOO_LONG,
    RETRIED_STATUS,
    SETTING_OF_STATUS,
    TOO_MANY_REQUESTS,
    TooLargeError,
    UnreachableError,
    is_too_large,
    one_line,
)
from pipelines.metric_sources.sign_in import auth_of, certificate_of, headers_of, trusted_of
from pipelines.metrics_entries import MetricsEntry

ALL_ANSWERS_BYTES = 128 * 2**20
"""What the samples' answers on their way may hold together; one may hold this divided by ``concurrency``."""
INDEX_BYTES = 256 * 2**20
"""How long an answer about labels or series may be."""
_REFUSAL_BYTES = 64 * 2**10
_PIECE_BYTES = 256 * 2**10
_BACKOFF_S = 0.2
_LONGEST_WAIT_S = 30.0
_CONNECT_S = 5.0
_TIMEOUTS_IN_ALL = 10
_SILENT_RETRIES = 2  # of a server that does not answer at all; each costs a whole time-out

Params = Sequence[tuple[str, str]]
_Out = TypeVar("_Out")


class _AgainError(Exception):
    """What may go well at the next try; ``error`` is what to say where it does not."""

    def __init__(self, error: SourceUnavailableError, *, silent: bool, wait_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.silent, self.wait_s = error, silent, wait_s


class Server:
    """One server by its metrics entry. Safe to use from several threads."""

    def __init__(self, entry: MetricsEntry, cluster: str) -> None:
        self.where = f"clusters.{cluster}.metrics"
        if not entry.url:
            raise SettingsError(f"{self.where}: kind {entry.kind} needs `url`")
        url = entry.url.rstrip("/")
        self.gate = Gate(entry.concurrency)
        self.answer_bytes = ALL_ANSWERS_BYTES // entry.concurrency
        self._shown_url = _without_user(url)
        self._retries = entry.retries
        self._timeout_s = entry.timeout / 1000
        self._verify, self._cert = trusted_of(entry, self.where), certificate_of(entry)
        self._session = requests.Session()
        headers, auth = headers_of(entry, self.where), auth_of(entry, self.where)
        self._connect = PrometheusConnect(url=url, headers=headers, auth=auth, session=self._session, method="POST")
        self._session.mount(f"{url}/", HTTPAdapter(pool_maxsize=entry.concurrency, max_retries=0))

    def ask(self, method: str, path: str, params: Params, read: Callable[[Iterator[bytes]], _Out], most_bytes: int) -> _Out:
        """What ``read`` makes of the pieces of a good answer; it is called again where an answer breaks off.

        Raises:
            TooLargeError: the server refused the size, or the answer is longer than ``most_bytes``.
            SourceUnavailableError: no whole answer within the retries; also where ``read`` raises a ``ValueError``.
        """
        patience = _Patience(self._retries)
        tries = Retrying(retry=retry_if_exception_type(_AgainError), stop=patience.ended, wait=patience.pause, reraise=True)
        try:
            found: _Out = tries(self._once, method, path, params, read, most_bytes)
        except _AgainError as again:
            raise again.error from again.__cause__ or again
        return found

    def error(self, problem: str, setting: str, remedy: str | None) -> SourceUnavailableError:
        """An error of this server; ``setting`` is a key of its metrics entry."""
        return SourceUnavailableError(self._shown_url, problem, setting=f"{self.where}.{setting}", remedy=remedy)

    def too_large(self, problem: str, remedy: str = REMEDY_OF_TOO_LARGE) -> TooLargeError:
        """The error that less time may cure."""
        return TooLargeError(self._shown_url, problem, setting=f"{self.where}.nodes_per_shard", remedy=remedy)

    def refusal(self, status: int, said: str) -> SourceUnavailableError:
        """The error for a status and the server's words to it."""
        problem = f"answered HTTP {status}" + (f" with an error: {one_line(said)}" if said else "")
        if is_too_large(status, said):
            return self.too_large(problem)
        return self.error(problem, SETTING_OF_STATUS.get(status, "url"), REMEDY_OF_STATUS.get(status))

    def unreadable(self, error: ValueError) -> SourceUnavailableError:
        """What to raise where an answer's data cannot be read."""
        problem = f"the answer cannot be read: {one_line(str(error))}"
        return self.error(problem, "url", "Does the URL name a server of this kind?")

    def _once(self, method: str, path: str, params: Params, read: Callable[[Iterator[bytes]], _Out], most_bytes: int) -> _Out:
        ends = time.monotonic() + _TIMEOUTS_IN_ALL * self._timeout_s
        try:
            with self.gate, self._send(method, path, params) as response:
                if response.status_code != requests.codes.ok:
                    self._raise_refusal(response, ends)
                found = read(self._pieces(response, most_bytes, ends))
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
            known = self._unreached(error)
            if isinstance(error, requests.exceptions.SSLError):
                raise known from error
            raise _AgainError(known, silent=True) from error
        except ValueError as error:
            if "truncated" in str(error):
                raise _AgainError(self.unreadable(error), silent=True) from error
            raise self.unreadable(error) from error
        self.gate.answered()
        return found

    def _send(self, method: str, path: str, params: Params) -> requests.Response:
        return self._session.request(
            method,
            f"{self._connect.url}/api/v1/{path}",
            params=list(params) if method == "GET" else None,
            data=list(params) if method == "POST" else None,
            headers=self._connect.headers,
            auth=self._connect.auth,
            timeout=(min(_CONNECT_S, self._timeout_s), self._timeout_s),
            verify=self._verify,
            cert=self._cert,
            allow_redirects=False,
            stream=True,
        )

    def _pieces(self, response: requests.Response, most_bytes: int, ends: float) -> Iterator[bytes]:
        """The body as it comes in, unpacked; never more than is allowed, and not for longer."""
        length = 0
        while piece := response.raw.read1(_PIECE_BYTES, decode_content=True):
            length += len(piece)
            if length > most_bytes:
                raise self.too_large(f"its answer is longer than {most_bytes >> 20} MiB", REMEDY_OF_TOO_LONG)
            if time.monotonic() > ends:
                problem = f"no whole answer within {_TIMEOUTS_IN_ALL * self._timeout_s:g} s, {length} bytes came"
                raise _AgainError(self.error(problem, "timeout", "Choose a longer timeout or a shorter chunk."), silent=True)
            yield piece

    def _raise_refusal(self, response: requests.Response, ends: float) -> None:
        status, body = response.status_code, b""
        for piece in self._pieces(response, INDEX_BYTES, ends):
            body += piece
            if len(body) > _REFUSAL_BYTES:
                break
        error = self.refusal(status, _said(body, response.headers.get("Content-Type", "")))
        if status not in RETRIED_STATUS or isinstance(error, TooLargeError):
            raise error
        wait_s = _asked_wait_s(response.headers.get("Retry-After"))
        if status == TOO_MANY_REQUESTS or wait_s is not None:
            self.gate.busy()
        raise _AgainError(error, silent=False, wait_s=wait_s)

    def _unreached(self, error: Exception) -> SourceUnavailableError:
        text = str(error)
        if isinstance(error, requests.exceptions.SSLError):
            return self.error(f"no trusted TLS connection: {one_line(text)}", "tls", "Name the authority in tls.ca_file.")
        if isinstance(error, requests.exceptions.ConnectTimeout):
            return self._unreachable("no connection in time", "Check address, port and firewall.")
        timeouts = requests.exceptions.Timeout, urllib3.exceptions.TimeoutError
        if isinstance(error, timeouts) or "timed out" in text:
            remedy = "Choose a longer timeout or a shorter chunk."
            return self.error(f"no answer within {self._timeout_s:g} s", "timeout", remedy)
        if "refused" in text:
            return self._unreachable("connection refused", "Check address and port, and that it runs.")
        if "resolve" in text or "Name or service" in text:
            return self._unreachable("the host name is not known", "Check the address.")
        if isinstance(error, urllib3.exceptions.HTTPError):
            return self.error(f"broke its answer off: {one_line(text)}", "url", "Is there a proxy that limits answers?")
        return self._unreachable(one_line(text), "Check address and port.")

    def _unreachable(self, why: str, remedy: str) -> UnreachableError:
        return UnreachableError(self._shown_url, f"cannot be reached: {why}", setting=f"{self.where}.url", remedy=remedy)


class _Patience:
    """How often one request is tried again, and after how long."""

    def __init__(self, retries: int) -> None:
        self._left, self._silent_left = retries, min(retries, _SILENT_RETRIES)

    def ended(self, state: RetryCallState) -> bool:
        """Whether this was the last try."""
        self._left -= 1
        self._silent_left -= _again(state).silent
        return min(self._left, self._silent_left) < 0

    def pause(self, state: RetryCallState) -> float:
        """Seconds until the next one: as the server asked for, but never very long; else longer each time."""
        asked_s = _again(state).wait_s
        return min(_LONGEST_WAIT_S, _BACKOFF_S * 2.0 ** (state.attempt_number - 1) if asked_s is None else asked_s)


def _again(state: RetryCallState) -> _AgainError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, _AgainError)  # noqa: S101
    return error


def _asked_wait_s(header: str | None) -> float | None:
    """The seconds of a ``Retry-After``, which is a number or a date; nothing where it is neither."""
    if header is None:
        return None
    try:
        return Retry().parse_retry_after(header)
    except urllib3.exceptions.InvalidHeader:
        return None


def _said(body: bytes, content_type: str) -> str:
    """The server's words in a refusal: those of the API's frame, else its plain text; pages for browsers say nothing."""
    try:
        answer = read_answer(body)
    except ValueError:
        return body.decode("utf-8", errors="replace") if content_type.startswith("text/plain") else ""
    return f"{answer.error_type}: {answer.error}" if answer.error else ""


def whole_answer(pieces: Iterator[bytes]) -> Answer:
    """The frame of an answer of Prometheus' API, its data still raw."""
    body = bytearray()
    for piece in pieces:
        body += piece
    return read_answer(body)


def _without_user(url: str) -> str:
    """The URL as it may be shown: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
