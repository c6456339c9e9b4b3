"""Bills in S3, or in anything that speaks its protocol, through boto3 and the SDK's own chain of credentials.

boto3 is imported when a bucket is configured. Every fault of the network, of the credentials or of the bucket becomes
one ``SourceUnavailableError`` that names the URL and the setting.
"""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from allocation.errors import AdapterError, MissingExtraError, SourceUnavailableError
from billing_adapters.base import Identity
from billing_adapters.files import CHUNK_BYTES, StoredFile, changed, safe_name

try:
    import boto3
    from botocore import exceptions as sdk
    from botocore.config import Config
except ModuleNotFoundError as error:
    raise MissingExtraError("boto3", "aws") from error

_CONNECT_SECONDS = 3
_READ_SECONDS = 20
_ATTEMPTS = 3
_PROBLEMS: Mapping[str, str] = {
    "NoSuchBucket": "there is no such bucket",
    "NoSuchKey": "there is no such object",
    "404": "there is no such bucket or object",
    "AccessDenied": "access is denied to these credentials",
    "403": "access is denied to these credentials",
    "InvalidAccessKeyId": "the access key is not known there",
    "SignatureDoesNotMatch": "the secret key does not fit the access key",
    "ExpiredToken": "the credentials have expired",
    "PermanentRedirect": "the bucket is in another region (see billing.region)",
}


class S3Files:
    """The objects below a prefix of a bucket, or one object."""

    def __init__(
        self, url: str, *, endpoint_url: str | None = None, region: str | None = None, identity: Identity | None = None
    ) -> None:
        self.url = url
        self._identity = identity or Identity()
        self._endpoint = endpoint_url
        self._bucket, _, key = url.removeprefix("s3://").partition("/")
        self._key = key.strip("/")
        if not self._bucket or any(part in ("", ".", "..") for part in self._key.split("/") if self._key):
            raise AdapterError(f"{url}: no bucket and prefix can be read from this", remedy="Write s3://bucket/prefix.")
        self._prefix = f"{self._key}/" if self._key else ""
        self._is_object = False
        self._region = region
        self._client: Any = None
        self._etags: dict[str, str] = {}

    def list_files(self) -> list[StoredFile]:
        """See ``FileStore``. A path that is itself an object has that one file."""
        found = [] if self._is_object else self._below()
        if not found and self._key:
            found = self._single()
        if not found:
            raise SourceUnavailableError(self.url, "there are no objects", setting="billing.path")
        self._etags.update({f.name: f.etag for f in found})
        return sorted(found, key=lambda f: f.name)

    def open(self, name: str) -> BinaryIO:
        """See ``FileStore``."""
        if not self._etags:
            self.list_files()
        key = self._prefix + safe_name(name)
        request: dict[str, Any] = {"Bucket": self._bucket, "Key": key}
        if name in self._etags:
            request["IfMatch"] = self._etags[name]
        with self._explained(f"s3://{self._bucket}/{key}"):
            body = self._connected().get_object(**request)["Body"]
        return cast("BinaryIO", io.BufferedReader(_Body(body, self, f"s3://{self._bucket}/{key}"), CHUNK_BYTES))

    def resolve(self, uri: str) -> str:
        """See ``FileStore``; the bucket must be this one and the key must lie below the prefix."""
        key = uri
        if "://" in uri:
            scheme, _, rest = uri.partition("://")
            bucket, _, key = rest.partition("/")
            if (scheme, bucket) != ("s3", self._bucket):
                raise AdapterError(f"the manifest names {uri!r}, which is not in the bucket {self._bucket!r}")
        if not key.startswith(self._prefix):
            raise AdapterError(f"the manifest names {uri!r}, which is not below {self.url}")
        return safe_name(key.removeprefix(self._prefix))

    def _below(self) -> list[StoredFile]:
        """The objects below the prefix; a key that ends in ``/`` is a folder's mark."""
        objects = self._objects(self._prefix)
        return [StoredFile(key.removeprefix(self._prefix), size, tag) for key, size, tag in objects if key[-1] != "/"]

    def _single(self) -> list[StoredFile]:
        """The object that the path itself names; its folder becomes the root."""
        folder, _, base = self._key.rpartition("/")
        found = [StoredFile(base, size, tag) for key, size, tag in self._objects(self._key) if key == self._key]
        if found:
            self._is_object, self._prefix = True, f"{folder}/" if folder else ""
        return found

    def _objects(self, prefix: str) -> Iterator[tuple[str, int, str]]:
        """Key, size and tag of each object whose key starts so."""
        with self._explained(self.url):
            pages = self._connected().get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            for page in pages:
                for found in page.get("Contents", []):
                    yield found["Key"], found["Size"], found["ETag"]

    def _connected(self) -> Any:  # noqa: ANN401 - the SDK makes its classes as it runs
        if self._client is None:
            session: Any = boto3.session.Session(profile_name=self._identity.profile)
            region = self._region or session.region_name or "us-east-1"
            self._client = session.client(
                "s3",
                region_name=region,
                endpoint_url=self._endpoint,
                config=_config(path_style=self._endpoint is not None),
                **self._assumed(session, region),
            )
        return self._client

    def _assumed(self, session: Any, region: str) -> dict[str, str]:  # noqa: ANN401 - the SDK makes its classes as it runs
        """The credentials of the configured role, an hour long; nothing where none is configured."""
        role = self._identity.role_arn
        if role is None:
            return {}
        request = {"RoleArn": role, "RoleSessionName": "gpu-chargeback"}
        if self._identity.external_id is not None:
            request["ExternalId"] = self._identity.external_id
        config = _config(path_style=False)
        with self._explained(role, setting="billing.role_arn"):
            sts = session.client("sts", region_name=region, endpoint_url=self._endpoint, config=config)
            given = sts.assume_role(**request)["Credentials"]
        return {
            "aws_access_key_id": given["AccessKeyId"],
            "aws_secret_access_key": given["SecretAccessKey"],
            "aws_session_token": given["SessionToken"],
        }

    @contextmanager
    def _explained(self, url: str, setting: str = "billing.path") -> Iterator[None]:
        """One clear line for whatever the SDK raises."""
        try:
            yield
        except sdk.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in ("PreconditionFailed", "412"):
                raise changed(url) from error
            problem = _PROBLEMS.get(code, f"the server answers {code}: {error.response.get('Error', {}).get('Message', '')}")
            raise SourceUnavailableError(url, problem, setting=setting) from error
        except (sdk.BotoCoreError, ValueError) as error:
            network = isinstance(error, sdk.ConnectionError | sdk.HTTPClientError | ValueError) and self._endpoint
            setting = "billing.endpoint_url" if network else "billing.profile" if _is_profile(error) else setting
            where = f"{url} at {self._endpoint}" if self._endpoint else url
            raise SourceUnavailableError(where, " ".join(str(error).split()), setting=setting) from error


def _is_profile(error: Exception) -> bool:
    return isinstance(error, sdk.ProfileNotFound | sdk.PartialCredentialsError | sdk.ConfigParseError)


def _config(*, path_style: bool) -> Any:  # noqa: ANN401 - the SDK has no types here
    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
        s3={"addressing_style": "path"} if path_style else {},
    )


class _Body(io.RawIOBase):
    """An answer's body as a raw stream whose faults are explained."""

    def __init__(self, body: BinaryIO, store: S3Files, url: str) -> None:
        self._body, self._store, self._url = body, store, url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        with self._store._explained(self._url):  # noqa: SLF001 - one module, one explanation
            piece = self._body.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()
