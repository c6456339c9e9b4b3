"""Bills in S3, or in anything that speaks its protocol, through boto3 and the SDK's own chain of credentials.

boto3 is imported when a bucket is configured. Every fault of the network, of the credentials or of the bucket becomes
one ``SourceUnavailableError`` that names the URL and the setting.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from allocation.errors import MissingExtraError, SourceUnavailableError
from billing_adapters.base import Identity
from billing_adapters.files import StoredFile, changed
from billing_adapters.object_store import ATTEMPTS, CONNECT_SECONDS, READ_SECONDS, Body, ObjectStore

try:
    import boto3
    from botocore import exceptions as sdk
    from botocore.config import Config
except ModuleNotFoundError as error:
    raise MissingExtraError("boto3", "aws") from error

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


class S3Files(ObjectStore):
    """The objects below a prefix of a bucket, or one object."""

    faults = (sdk.ClientError, sdk.BotoCoreError, ValueError)

    def __init__(
        self, url: str, *, endpoint_url: str | None = None, region: str | None = None, identity: Identity | None = None
    ) -> None:
        self._bucket, _, key = url.removeprefix("s3://").partition("/")
        super().__init__(url, f"s3://{self._bucket}/", key, "s3://bucket/prefix", endpoint_url)
        self._identity = identity or Identity()
        self._region = region
        self._client: Any = None

    def _objects(self, prefix: str) -> Iterator[StoredFile]:
        with self.explained(self.url):
            pages = self._connected().get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            for page in pages:
                for found in page.get("Contents", []):
                    yield StoredFile(found["Key"], found["Size"], found["ETag"])

    def _body(self, key: str, listed: StoredFile) -> Body:
        body: Body = self._connected().get_object(Bucket=self._bucket, Key=key, IfMatch=listed.etag)["Body"]
        return body

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
        with self.explained(role, setting="billing.role_arn"):
            sts = session.client("sts", region_name=region, endpoint_url=self._endpoint, config=config)
            given = sts.assume_role(**request)["Credentials"]
        return {
            "aws_access_key_id": given["AccessKeyId"],
            "aws_secret_access_key": given["SecretAccessKey"],
            "aws_session_token": given["SessionToken"],
        }

    def _explained(self, error: Exception, url: str, setting: str) -> SourceUnavailableError:
        if isinstance(error, sdk.ClientError):
            code = error.response.get("Error", {}).get("Code", "")
            if code in ("PreconditionFailed", "412"):
                return changed(url)
            problem = _PROBLEMS.get(code, f"the server answers {code}: {error.response.get('Error', {}).get('Message', '')}")
            return SourceUnavailableError(url, problem, setting=setting)
        network = isinstance(error, sdk.ConnectionError | sdk.HTTPClientError | ValueError) and self._endpoint
        setting = "billing.endpoint_url" if network else "billing.profile" if _is_profile(error) else setting
        where = f"{url} at {self._endpoint}" if self._endpoint else url
        return SourceUnavailableError(where, " ".join(str(error).split()), setting=setting)


def _is_profile(error: Exception) -> bool:
    return isinstance(error, sdk.ProfileNotFound | sdk.PartialCredentialsError | sdk.ConfigParseError)


def _config(*, path_style: bool) -> Any:  # noqa: ANN401 - the SDK has no types here
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        s3={"addressing_style": "path"} if path_style else {},
    )
