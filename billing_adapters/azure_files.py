"""Bills in Azure Blob Storage, through azure-storage-blob; which account and as whom, ``azure_account`` says.

The SDK is imported when a container is configured. Its own messages are not shown: they are many lines, and an address
that was asked may hold a token.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from allocation.errors import MissingExtraError, SourceUnavailableError
from billing_adapters.files import StoredFile, changed
from billing_adapters.object_store import ATTEMPTS, CONNECT_SECONDS, PIECE_BYTES, READ_SECONDS, Body, ObjectStore

try:
    from azure.core import MatchConditions
    from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
    from azure.storage.blob import BlobServiceClient, ExponentialRetry
except ModuleNotFoundError as error:
    raise MissingExtraError("azure-storage-blob", "azure") from error

from billing_adapters.azure_account import CONNECTION, IDENTITY, KEY, SAS, Account, account_of

logging.getLogger("azure").addHandler(logging.NullHandler())

_DENIED = "access is denied to these credentials"
_UNFIT = "the credentials are refused, or the network's rules of the account"
_PROBLEMS: Mapping[str, str] = {
    "ContainerNotFound": "there is no such container",
    "ContainerBeingDeleted": "the container is being deleted",
    "BlobNotFound": "there is no such blob",
    "AuthenticationFailed": _UNFIT,
    "AuthorizationFailure": _UNFIT,
    "InvalidAuthenticationInfo": _UNFIT,
    "NoAuthenticationInformation": _UNFIT,
    "AuthorizationPermissionMismatch": _DENIED,
    "AuthorizationResourceTypeMismatch": _DENIED,
    "AuthorizationServiceMismatch": _DENIED,
    "AuthorizationProtocolMismatch": _DENIED,
    "AuthorizationSourceIPMismatch": _DENIED,
    "InsufficientAccountPermissions": _DENIED,
    "PublicAccessNotPermitted": _DENIED,
    "KeyBasedAuthenticationNotPermitted": "the account takes no keys: use an identity",
    "AccountIsDisabled": "the account is disabled",
    "BlobArchived": "the blob lies in the archive tier and must be brought back first",
}
_OF_CREDENTIALS = (_UNFIT, _DENIED, _PROBLEMS["KeyBasedAuthenticationNotPermitted"])
_CHANGED = "ConditionNotMet"
_REMEDY = f"Set {CONNECTION}, {KEY} or {SAS}, run `az login`, or use a managed identity."


class AzureFiles(ObjectStore):
    """The blobs below a prefix of a container, or one blob."""

    faults = (AzureError, ValueError)

    def __init__(self, url: str, *, endpoint_url: str | None = None) -> None:
        scheme, _, rest = url.partition("://")
        authority, _, key = rest.partition("/")
        self._container, _, self._host = authority.partition("@")
        start = f"{scheme}://{authority if self._container else ''}/"
        super().__init__(url, start, key, "az://container/prefix", endpoint_url)
        self._account: Account | None = None
        self._client: Any = None

    def _objects(self, prefix: str) -> Iterator[StoredFile]:
        with self.explained(self.url):
            for found in self._connected().list_blobs(name_starts_with=prefix, include=["metadata"]):
                if (found.metadata or {}).get("hdi_isfolder") != "true":
                    yield StoredFile(found.name, found.size, found.etag)

    def _body(self, key: str, listed: StoredFile) -> Body:
        asked = {"etag": listed.etag, "match_condition": MatchConditions.IfNotModified, "decompress": False}
        return _Blob(self._connected().get_blob_client(key).download_blob(max_concurrency=1, **asked))

    def _connected(self) -> Any:  # noqa: ANN401 - the container's client; the SDK is not typed here
        if self._client is None:
            self._account = account_of(self.url, self._host, self._endpoint)
            service = BlobServiceClient(
                self._account.url,
                credential=self._account.credential,
                connection_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                max_single_get_size=PIECE_BYTES,
                max_chunk_get_size=PIECE_BYTES,
                retry_policy=ExponentialRetry(
                    initial_backoff=0, increment_base=2, retry_total=ATTEMPTS - 1, random_jitter_range=0
                ),
            )
            self._client = service.get_container_client(self._container)
        return self._client

    def _explained(self, error: Exception, url: str, setting: str) -> SourceUnavailableError:
        source = self._account.source if self._account else setting
        if isinstance(error, HttpResponseError) and error.status_code:
            told = getattr(error, "error_code", None)
            code = str(getattr(told, "value", told) or "")
            if code == _CHANGED:
                return changed(url)
            problem = _PROBLEMS.get(code, f"the server answers {error.status_code} {code}".rstrip())
            return SourceUnavailableError(url, problem, setting=source if problem in _OF_CREDENTIALS else setting)
        if isinstance(error, ClientAuthenticationError):
            unfit = "no identity was found" if source == IDENTITY else "the key is no key of a storage account"
            return SourceUnavailableError(url, unfit, setting=source, remedy=_REMEDY)
        return self._unreachable(error, url)


class _Blob:
    """A download as a body; between its pieces no connection is held."""

    def __init__(self, download: Any) -> None:  # noqa: ANN401 - the SDK is not typed here
        self._download = download

    def read(self, size: int, /) -> bytes:
        piece: bytes = self._download.read(size)
        return piece

    def close(self) -> None:
        self._download = None
