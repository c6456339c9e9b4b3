"""Bills in Google Cloud Storage, through google-cloud-storage and the application default credentials.

The SDK is imported when a bucket is configured. It reads ``STORAGE_EMULATOR_HOST`` itself. Credentials go to Google's own
hosts only: any other ``endpoint_url`` is asked without.
"""

from collections.abc import Iterator
from typing import Any

from allocation.errors import MissingExtraError, SourceUnavailableError
from billing_adapters.files import StoredFile, changed
from billing_adapters.object_store import (
    ATTEMPTS,
    CONNECT_SECONDS,
    PIECE_BYTES,
    READ_SECONDS,
    Body,
    ObjectStore,
    host_of,
)

try:
    import requests
    import urllib3
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.api_core.retry import Retry
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError
    from google.cloud import storage
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
except ModuleNotFoundError as error:
    raise MissingExtraError("google-cloud-storage", "gcp") from error

_TIMEOUT = (CONNECT_SECONDS, READ_SECONDS)
_NETWORK = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)
_PASSING = (408, 429, 500, 502, 503, 504)
_DENIED, _MISSING, _CHANGED = (401, 403), 404, 412
_CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"
_REMEDY = "Name a key file there, run `gcloud auth application-default login`, or run where a service account is attached."


class GcsFiles(ObjectStore):
    """The objects below a prefix of a bucket, or one object."""

    faults = (GoogleAPICallError, RetryError, GoogleAuthError, InvalidResponse, DataCorruption, *_NETWORK, ValueError)

    def __init__(self, url: str, *, endpoint_url: str | None = None) -> None:
        self._bucket, _, key = url.removeprefix("gs://").partition("/")
        super().__init__(url, f"gs://{self._bucket}/", key, "gs://bucket/prefix", endpoint_url)
        self._client: Any = None

    def _objects(self, prefix: str) -> Iterator[StoredFile]:
        with self.explained(self.url):
            fields = "items(name,size,generation),nextPageToken"
            asked = {"prefix": prefix, "fields": fields, "timeout": _TIMEOUT, "retry": _retry()}
            for found in self._connected().list_blobs(self._bucket, **asked):
                yield StoredFile(found.name, found.size, str(found.generation))

    def _body(self, key: str, listed: StoredFile) -> Body:
        return _Pieces(self._connected().bucket(self._bucket).blob(key), listed, f"{self._bucket_url}{key}")

    def _connected(self) -> Any:  # noqa: ANN401 - the SDK has no types
        if self._client is None:
            options = {"api_endpoint": self._endpoint} if self._endpoint else None
            trusted = not self._endpoint or f".{host_of(self._endpoint)}".endswith(".googleapis.com")
            credentials = None if trusted else AnonymousCredentials()  # type: ignore[no-untyped-call]
            self._client = storage.Client(project=None, credentials=credentials, client_options=options)
        return self._client

    def _explained(self, error: Exception, url: str, setting: str) -> SourceUnavailableError:
        if isinstance(error, RetryError) and isinstance(error.cause, Exception):
            error = error.cause
        if isinstance(error, GoogleAPICallError):
            return self._answered(error, url, setting)
        if isinstance(error, DefaultCredentialsError):
            return SourceUnavailableError(url, _line(error), setting=_CREDENTIALS, remedy=_REMEDY)
        if isinstance(error, RefreshError):
            problem = f"the credentials are refused: {_line(error)}"
            return SourceUnavailableError(url, problem, setting=_CREDENTIALS, remedy=_REMEDY)
        return self._unreachable(error, url)

    def _answered(self, error: GoogleAPICallError, url: str, setting: str) -> SourceUnavailableError:
        """What an answer of the server means; a listed object that is not there any more has changed."""
        reading = url != self.url or self._is_object
        if error.code == _CHANGED or (error.code == _MISSING and reading):
            return changed(url)
        if error.code == _MISSING:
            return SourceUnavailableError(url, "there is no such bucket", setting=setting)
        if error.code in _DENIED:
            return SourceUnavailableError(url, f"access is denied: {_said(error)}", setting=setting)
        return SourceUnavailableError(url, f"the server answers {error.code}: {_said(error)}", setting=setting)


class _Pieces:
    """An object's bytes by ranges, all of the generation that was listed."""

    def __init__(self, blob: Any, listed: StoredFile, url: str) -> None:  # noqa: ANN401 - the SDK has no types
        self._blob, self._listed, self._url = blob, listed, url
        self._at, self._held = 0, memoryview(b"")

    def read(self, size: int, /) -> bytes:
        if not self._held and self._at < self._listed.size:
            self._held = memoryview(self._fetched())
            self._at += len(self._held)
        piece, self._held = self._held[:size], self._held[size:]
        return bytes(piece)

    def _fetched(self) -> bytes:
        """The next range; a server that overlooks the condition is told by the generation that it hands out."""
        wanted = int(self._listed.etag)
        found: bytes = self._blob.download_as_bytes(
            start=self._at,
            end=min(self._at + PIECE_BYTES, self._listed.size) - 1,
            if_generation_match=wanted,
            raw_download=True,
            checksum=None,
            timeout=_TIMEOUT,
            retry=_retry(),
        )
        if int(self._blob.generation or wanted) != wanted:
            raise changed(self._url)
        return found

    def close(self) -> None:
        self._held = memoryview(b"")


def _retry() -> Retry:
    """A few attempts at one request."""
    more = iter(range(1, ATTEMPTS))
    return Retry(predicate=lambda error: _is_passing(error) and next(more, None) is not None, initial=0.3, maximum=2)


def _is_passing(error: BaseException) -> bool:
    code = getattr(error, "code", None) or getattr(getattr(error, "response", None), "status_code", None)
    return code in _PASSING or isinstance(error, _NETWORK)


def _said(error: GoogleAPICallError) -> str:
    """The server's own words, without the address that was asked."""
    told = (entry.get("message", "") for entry in error.errors or () if isinstance(entry, dict))
    return next(filter(None, told), type(error).__name__)


def _line(error: Exception) -> str:
    return " ".join(str(error.args[0] if error.args else error).split())
