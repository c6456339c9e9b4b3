"""How a request to a server of series is signed: user, token, tenant, headers and certificates of one metrics entry.

Here belong secrets on their way into headers. Here do not belong connections or answers (``server_http``).
"""

from pathlib import Path

import requests
import urllib3
from requests.auth import AuthBase, HTTPBasicAuth

from allocation.errors import SettingsError
from pipelines.metrics_entries import MetricsEntry, SecretFromEnv
from pipelines.settings import secret

TENANT_HEADER = "X-Scope-OrgID"


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


def auth_of(entry: MetricsEntry, where: str) -> AuthBase | None:
    """What signs the entry's requests; ``where`` is the entry's place in the configuration, for messages."""
    auth, setting = entry.auth, f"{where}.auth"
    if auth.basic is not None:
        return HTTPBasicAuth(auth.basic.username, secret(auth.basic.password, setting=f"{setting}.basic.password"))
    if auth.bearer is not None:
        return BearerToken(secret(auth.bearer, setting=f"{setting}.bearer"))
    return BearerFile(auth.bearer_file, f"{setting}.bearer_file") if auth.bearer_file else None


def headers_of(entry: MetricsEntry, where: str) -> dict[str, str]:
    """The headers of the entry's requests, its tenant among them."""
    named: dict[str, str | SecretFromEnv] = dict(entry.headers)
    settings = {name: f"{where}.headers.{name}" for name in named}
    if entry.tenant is not None:
        named[TENANT_HEADER] = entry.tenant
        settings[TENANT_HEADER] = f"{where}.tenant"
    return {n: v if isinstance(v, str) else secret(v, setting=settings[n]) for n, v in named.items()}


def trusted_of(entry: MetricsEntry, where: str) -> bool | str:
    """Which authority the server's certificate must come from, as ``requests`` takes it."""
    for name in ("ca_file", "cert_file", "key_file"):
        path: Path | None = getattr(entry.tls, name)
        if path is not None and not path.is_file():
            raise SettingsError(f"{where}.tls.{name}: there is no file {path}")
    if entry.tls.insecure_skip_verify:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        return False
    return str(entry.tls.ca_file) if entry.tls.ca_file else True


def certificate_of(entry: MetricsEntry) -> tuple[str, str] | str | None:
    """The client's own certificate, as ``requests`` takes it."""
    cert, key = entry.tls.cert_file, entry.tls.key_file
    return (str(cert), str(key)) if cert and key else str(cert) if cert else None
