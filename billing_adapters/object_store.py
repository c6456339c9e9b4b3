"""What stores of objects have in common, whoever's cloud it is: prefixes, names, reading in pieces, faults as one line.

Here belongs no cloud's SDK. A store lists objects by the start of their key, opens one, and says what its faults mean.
"""

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import urlsplit

from allocation.errors import AdapterError, ChargebackError, SourceUnavailableError
from billing_adapters.files import CHUNK_BYTES, StoredFile, ensure_no_secret, safe_name

CONNECT_SECONDS = 3
READ_SECONDS = 20
ATTEMPTS = 3
PIECE_BYTES = 8 << 20
"""How much of an object is asked for at once where an SDK reads by ranges."""

_LONGEST_CHAIN = 20


class Body(Protocol):
    """An object's bytes as an SDK hands them out."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...

    def close(self) -> None:
        """Gives back the connection."""
        ...


class ObjectStore(ABC):
    """The objects below a prefix of a bucket, or one object (see ``FileStore``)."""

    faults: tuple[type[Exception], ...] = ()
    """What the SDK raises where a request fails."""

    def __init__(self, url: str, bucket_url: str, key: str, form: str, endpoint_url: str | None = None) -> None:
        """``bucket_url`` is the start of ``url`` down to the bucket and ends in ``/``; ``form`` is how a path is written."""
        ensure_no_secret(url, "billing.path")
        ensure_no_secret(endpoint_url or "", "billing.endpoint_url")
        self.url = url
        self._bucket_url = bucket_url
        self._endpoint = endpoint_url
        self._key = key.strip("/")
        nameless = bucket_url.endswith("//")
        if nameless or any(part in ("", ".", "..") for part in self._key.split("/") if self._key):
            raise AdapterError(f"{url}: no bucket and prefix can be read from this", remedy=f"Write {form}.")
        self._prefix = f"{self._key}/" if self._key else ""
        self._is_object = False
        self._listed: dict[str, StoredFile] = {}

    @abstractmethod
    def _objects(self, prefix: str) -> Iterator[StoredFile]:
        """Each object whose key starts so, named by its whole key."""

    @abstractmethod
    def _body(self, key: str, listed: StoredFile) -> Body:
        """The bytes of an object as it was listed."""

    @abstractmethod
    def _explained(self, error: Exception, url: str, setting: str) -> ChargebackError:
        """What one of ``faults`` means."""

    def list_files(self) -> list[StoredFile]:
        """See ``FileStore``. A path that is itself an object has that one file."""
        found = [] if self._is_object else self._below()
        if not found and self._key:
            found = self._single()
        if not found:
            raise SourceUnavailableError(self.url, "there are no objects", setting="billing.path")
        self._listed.update({f.name: f for f in found})
        return sorted(found, key=lambda f: f.name)

    def open(self, name: str) -> BinaryIO:
        """See ``FileStore``."""
        if safe_name(name) not in self._listed:
            self.list_files()
        key = self._prefix + name
        url = self._bucket_url + key
        listed = self._listed.get(name)
        if listed is None:
            raise SourceUnavailableError(url, "there is no such object", setting="billing.path")
        with self.explained(url):
            body = self._body(key, listed)
        return cast("BinaryIO", io.BufferedReader(_Body(body, self, url, listed.size), CHUNK_BYTES))

    def resolve(self, uri: str) -> str:
        """See ``FileStore``: a URL or a key of this bucket, which must lie below the prefix."""
        key = uri
        if "://" in uri:
            if not uri.startswith(self._bucket_url):
                bucket = self._bucket_url.partition("://")[2].rstrip("/")
                raise AdapterError(f"the manifest names {uri!r}, which is not in the bucket {bucket!r}")
            key = uri.removeprefix(self._bucket_url)
        if not key.startswith(self._prefix):
            raise AdapterError(f"the manifest names {uri!r}, which is not below {self.url}")
        return safe_name(key.removeprefix(self._prefix))

    @contextmanager
    def explained(self, url: str, setting: str = "billing.path") -> Iterator[None]:
        """One clear line for whatever the SDK raises."""
        try:
            yield
        except self.faults as error:
            raise self._explained(error, url, setting) from error

    def _below(self) -> list[StoredFile]:
        """The objects below the prefix; a key that ends in ``/`` is a folder's mark."""
        found = self._objects(self._prefix)
        return [StoredFile(f.name.removeprefix(self._prefix), f.size, f.etag) for f in found if f.name[-1] != "/"]

    def _single(self) -> list[StoredFile]:
        """The object that the path itself names; its folder becomes the root."""
        folder, _, base = self._key.rpartition("/")
        found = [StoredFile(base, f.size, f.etag) for f in self._objects(self._key) if f.name == self._key]
        if found:
            self._is_object, self._prefix = True, f"{folder}/" if folder else ""
        return found

    def _unreachable(self, error: Exception, url: str) -> SourceUnavailableError:
        """A request that nobody answered, with the reason at its root; never with what was asked, which may hold a token."""
        setting = "billing.endpoint_url" if self._endpoint else "billing.path"
        where = f"{url} at {self._endpoint}" if self._endpoint else url
        problem = f"the server cannot be reached or broke off: {reason(error)}"
        return SourceUnavailableError(where, problem, setting=setting)


def reason(error: BaseException) -> str:
    """The words of the operating system at the root of a fault, or the kind of the last one known.

    >>> reason(ConnectionRefusedError(111, "Connection refused"))
    'Connection refused'
    """
    told, kind = "", type(error).__name__
    at: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if at is None:
            break
        kind = type(at).__name__
        if isinstance(at, OSError) and at.strerror:
            told = at.strerror
        inner = getattr(at, "reason", None)
        held = next((a for a in at.args if isinstance(a, BaseException)), None)
        at = at.__cause__ or (inner if isinstance(inner, BaseException) else None) or held or at.__context__
    return told or kind


def host_of(url: str) -> str:
    """The host of an address that is reached by TLS, in lower case; empty for any other."""
    parts = urlsplit(url)
    return (parts.hostname or "") if parts.scheme == "https" else ""


class _Body(io.RawIOBase):
    """An object's body as a raw stream whose faults are explained, and which may not end before its time."""

    def __init__(self, body: Body, store: ObjectStore, url: str, size: int) -> None:
        self._body, self._store, self._url, self._left = body, store, url, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        with self._store.explained(self._url):
            piece = self._body.read(len(buffer))
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        if not piece and self._left > 0:
            problem = f"the answer ended {self._left} bytes too soon"
            raise SourceUnavailableError(self._url, problem, setting="billing.path", remedy="Run again.")
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()
