"""A real server of S3's protocol for the tests of this folder, on a free port, with made-up credentials."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "example-bucket"


@dataclass(frozen=True)
class Server:
    """A running server and its bucket."""

    url: str
    client: Any

    def put_tree(self, folder: Path, prefix: str) -> str:
        """All files of a folder below a prefix, as the URL that a configuration would name."""
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            key = f"{prefix}/{file.relative_to(folder).as_posix()}"
            self.client.put_object(Bucket=BUCKET, Key=key, Body=file.read_bytes())
        return f"s3://{BUCKET}/{prefix}"


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_url: str, credentials: None) -> Server:  # noqa: ARG001 - the client needs the credentials
    client = boto3.client("s3", endpoint_url=s3_url, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for found in page.get("Contents", []):
            client.delete_object(Bucket=BUCKET, Key=found["Key"])
    return Server(s3_url, client)
