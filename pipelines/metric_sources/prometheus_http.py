"""The connection to a server that speaks Prometheus' HTTP API: signing in, retries, and what counts as an answer.

An answer is whole or an error: partial ones (``warnings``), a status other than success and anything that is not JSON
are refused, with the URL and the setting to look at. Here belongs nothing about series.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec
import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from urllib3.util.retry import Retry

from allocation.errors import SettingsError, SourceUnavailableError
from pipelines.metric_sources.base import Window
from pipelines.metric_sources.prometheus_json import Answer, read_answer, read_label_sets, read_names
from pipelines.settings import MetricsEntry, SecretFromEnv, secret

TENANT_HEADER = "X-Scope-OrgID"
RETRIED_STATUS = (429, 500, 502, 503, 504)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BACKOFF_S = 0.2
_LONGEST_WAIT_S = 30.0
_CONNECT_S = 5.0
_SILENT_RETRIES = 2  # of a server that does not answer at all; each costs a whole time-out

_SETTING_OF_STATUS = {401: "auth", 403: "auth", 422: "chunk", 429: "concurrency"}
_REMEDY_OF_STATUS = {
    301: "Name the URL that it redirects to.",
    302: "Name the URL that it redirects to; a sign-in page needs auth.",
    308: "Name the URL that it redirects to.",
    401: "Check the user, password or token.",
    403: "Check the user, password or token, and the tenant.",
    404: "Name the server's base URL, without /api/v1.",
    422: "If the query is too large, choose a shorter chunk or fewer nodes_per_shard.",
    429: "Choose a lower concurrency.",
}


class BearerToken(AuthBase):
    """A token that stays the same."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Signs a request."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class BearerFile(AuthBase):
    """A token in a file that others renew, read again for every request."""

    def __init__(self, path: Path, setting: str) -> None:
        self._path, self._setting = path, setting

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Signs a request."""
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self._setting}: {self._path} cannot be read as a token; name a readable file") from error
        return BearerToken(token)(request)


class BoundedRetry(Retry):
    """Retries that respect ``Retry-After`` up to a bound."""

    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        """Seconds to wait, as the server asked for, but never very long."""
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, _LONGEST_WAIT_S)


class PrometheusApi:
    """The HTTP API of one server. Safe to use from several threads."""

    def __init__(self, entry: MetricsEntry, cluster: str) -> None:
        self._where = f"clusters.{cluster}.metrics"
        if not entry.url:
            raise SettingsError(f"{self._where}: kind prometheus needs `url`")
        url = entry.url.rstrip("/")
        self._shown_url = _without_user(url)
        self._retries = entry.retries
        self._timeout_s = entry.timeout / 1000
        self._verify = self._tls(entry)
        self._session = requests.Session()
        self._connect = PrometheusConnect(
            url=url,
            headers=self._headers(entry),
            auth=self._auth(entry),
            session=self._session,
            retry=self._retry(),
            method="POST",
        )
        self._session.mount(f"{url}/", HTTPAdapter(pool_maxsize=entry.concurrency, max_retries=self._retry()))
        cert, key = entry.tls.cert_file, entry.tls.key_file
        self._cert = (str(cert), str(key)) if cert and key else str(cert) if cert else None

    def query(self, promql: str, at_ms: int) -> msgspec.Raw:
        """The data of an instant query, sent as a form so that its length has no limit."""
        return self._data("POST", "query", [("query", promql), ("time", rfc3339(at_ms))])

    def label_values(self, label: str, selectors: Sequence[str], window: Window) -> list[str]:
        """The values of a label on series of these selectors, near the window."""
        data = self._data("GET", f"label/{label}/values", _matching(selectors, window))
        try:
            return read_names(data)
        except ValueError as error:
            raise self.unreadable(error) from error

    def label_names(self, selectors: Sequence[str], window: Window) -> list[str]:
        """The names of the labels on series of these selectors, near the window."""
        data = self._data("POST", "labels", _matching(selectors, window))
        try:
            return read_names(data)
        except ValueError as error:
            raise self.unreadable(error) from error

    def series(self, selectors: Sequence[str], window: Window) -> list[dict[str, str]]:
        """The series of these selectors, near the window."""
        data = self._data("POST", "series", _matching(selectors, window))
        try:
            return read_label_sets(data)
        except ValueError as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: ValueError) -> SourceUnavailableError:
        """What to raise where an answer's data cannot be read."""
        problem = f"the answer cannot be read: {_one_line(str(error))}"
        return self._error(problem, "url", "Does the URL name a server with Prometheus' HTTP API?")

    def _data(self, method: str, path: str, params: list[tuple[str, str]]) -> msgspec.Raw:
        response = self._send(method, path, params)
        good = response.status_code == requests.codes.ok
        try:
            answer = read_answer(response.content)
        except ValueError as error:
            if good:
                raise self.unreadable(error) from error
            answer = Answer("error")
        if not good or answer.status != "success":
            raise self._refused(response.status_code, answer)
        if answer.warnings:
            problem = f"the answer is not complete: {_one_line('; '.join(answer.warnings))}"
            raise self._error(problem, "url", "Run again when every store behind the server answers.")
        return answer.data

    def _send(self, method: str, path: str, params: list[tuple[str, str]]) -> requests.Response:
        patience = Retrying(
            retry=retry_if_exception_type(requests.exceptions.ChunkedEncodingError),
            stop=stop_after_attempt(1 + min(self._retries, _SILENT_RETRIES)),
            wait=wait_exponential(_BACKOFF_S, max=_LONGEST_WAIT_S),
            reraise=True,
        )
        try:
            return patience(self._send_once, method, path, params)
        except requests.exceptions.RequestException as error:
            raise self._unreached(error) from error

    def _send_once(self, method: str, path: str, params: list[tuple[str, str]]) -> requests.Response:
        return self._session.request(
            method,
            f"{self._connect.url}/api/v1/{path}",
            params=params if method == "GET" else None,
            data=params if method == "POST" else None,
            headers=self._connect.headers,
            auth=self._connect.auth,
            timeout=(min(_CONNECT_S, self._timeout_s), self._timeout_s),
            verify=self._verify,
            cert=self._cert,
            allow_redirects=False,
        )

    def _refused(self, status: int, answer: Answer) -> SourceUnavailableError:
        setting = _SETTING_OF_STATUS.get(status, "url")
        said = _one_line(f"{answer.error_type}: {answer.error}" if answer.error else "")
        problem = f"answered HTTP {status}" + (f" with an error: {said}" if said else "")
        return self._error(problem, setting, _REMEDY_OF_STATUS.get(status))

    def _unreached(self, error: requests.exceptions.RequestException) -> SourceUnavailableError:
        text = str(error)
        if isinstance(error, requests.exceptions.SSLError):
            return self._error(f"no trusted TLS connection: {_one_line(text)}", "tls", "Name the authority in tls.ca_file.")
        if isinstance(error, requests.exceptions.ConnectTimeout):
            return self._error("cannot be reached: no connection in time", "url", "Check address, port and firewall.")
        if isinstance(error, requests.exceptions.Timeout) or "timed out" in text:
            return self._error(
                f"no answer within {self._timeout_s:g} s", "timeout", "Choose a longer timeout or a shorter chunk."
            )
        if "refused" in text:
            return self._error("cannot be reached: connection refused", "url", "Check address and port, and that it runs.")
        if "resolve" in text or "Name or service" in text:
            return self._error("cannot be reached: the host name is not known", "url", "Check the address.")
        return self._error(f"cannot be reached: {_one_line(text)}", "url", "Check address and port.")

    def _error(self, problem: str, setting: str, remedy: str | None) -> SourceUnavailableError:
        return SourceUnavailableError(self._shown_url, problem, setting=f"{self._where}.{setting}", remedy=remedy)

    def _retry(self) -> Retry:
        silent = min(self._retries, _SILENT_RETRIES)
        return BoundedRetry(
            total=self._retries,
            connect=silent,
            read=silent,
            status_forcelist=RETRIED_STATUS,
            allowed_methods=None,
            backoff_factor=_BACKOFF_S,
            backoff_max=_LONGEST_WAIT_S,
            raise_on_status=False,
        )

    def _auth(self, entry: MetricsEntry) -> AuthBase | None:
        auth, setting = entry.auth, f"{self._where}.auth"
        if auth.basic is not None:
            password = secret(auth.basic.password, setting=f"{setting}.basic.password")
            return HTTPBasicAuth(auth.basic.username, password)
        if auth.bearer is not None:
            return BearerToken(secret(auth.bearer, setting=f"{setting}.bearer"))
        return BearerFile(auth.bearer_file, f"{setting}.bearer_file") if auth.bearer_file else None

    def _headers(self, entry: MetricsEntry) -> dict[str, str]:
        named: dict[str, str | SecretFromEnv] = dict(entry.headers)
        settings = {name: f"{self._where}.headers.{name}" for name in named}
        if entry.tenant is not None:
            named[TENANT_HEADER] = entry.tenant
            settings[TENANT_HEADER] = f"{self._where}.tenant"
        return {n: v if isinstance(v, str) else secret(v, setting=settings[n]) for n, v in named.items()}

    def _tls(self, entry: MetricsEntry) -> bool | str:
        for name in ("ca_file", "cert_file", "key_file"):
            path: Path | None = getattr(entry.tls, name)
            if path is not None and not path.is_file():
                raise SettingsError(f"{self._where}.tls.{name}: there is no file {path}")
        if entry.tls.insecure_skip_verify:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            return False
        return str(entry.tls.ca_file) if entry.tls.ca_file else True


def rfc3339(ms: int) -> str:
    """A time in ms as text, exactly.

    >>> rfc3339(1_790_812_799_999)
    '2026-09-30T23:59:59.999Z'
    """
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _matching(selectors: Sequence[str], window: Window) -> list[tuple[str, str]]:
    times = [("start", rfc3339(window.start_ms)), ("end", rfc3339(window.end_ms - 1))]
    return [("match[]", selector) for selector in selectors] + times


def _without_user(url: str) -> str:
    """The URL as it may be shown: without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:197] + "..."
