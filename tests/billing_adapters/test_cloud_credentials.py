"""As whom Google's and Azure's buckets are read, what is said where that fails, and that no secret is ever shown."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.identity import DefaultAzureCredential
from azure.storage.blob import generate_container_sas

from allocation.errors import AdapterError, SourceUnavailableError
from billing_adapters.azure_account import IDENTITY, chosen
from pipelines.billing_entries import BillingEntry
from tests.billing_adapters.bills import focus_bytes, parse_all, write
from tests.object_stores import AZURE_ACCOUNT, AZURE_KEY, Bucket, without_ambient
from tests.servers import Answer, protocol_server

OTHER_KEY = base64.b64encode(b"another account's key").decode()
AT = "https://one1.blob.core.windows.net"
CONNECTION = {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName=one1;AccountKey={OTHER_KEY};EndpointSuffix=core.windows.net"}
ONE = {"AZURE_STORAGE_ACCOUNT": "one1"}
KEY = {"AZURE_STORAGE_KEY": OTHER_KEY}
SAS = {"AZURE_STORAGE_SAS_TOKEN": "?sv=2024-11-04&sig=hush"}


@pytest.fixture
def focus(tmp_path: Path, azure_blobs: Bucket) -> str:
    write(tmp_path / "a.csv", focus_bytes({}))
    return azure_blobs.put_tree(tmp_path, "focus")


def refused(url: str, endpoint: str | None) -> SourceUnavailableError:
    with pytest.raises(SourceUnavailableError) as caught:
        parse_all("focus", url, endpoint_url=endpoint)
    assert "\n" not in str(caught.value)
    assert url in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("told", "endpoint", "env", "name", "url", "source"),
    [
        ("", None, CONNECTION, "one1", AT, "AZURE_STORAGE_CONNECTION_STRING"),
        ("", None, ONE | KEY, "one1", AT, "AZURE_STORAGE_KEY"),
        ("", None, ONE | SAS, "one1", AT, "AZURE_STORAGE_SAS_TOKEN"),
        ("", None, CONNECTION | KEY | SAS, "one1", AT, "AZURE_STORAGE_CONNECTION_STRING"),
        ("", None, ONE, "one1", AT, IDENTITY),
        ("one1.dfs.core.windows.net", None, KEY, "one1", AT, "AZURE_STORAGE_KEY"),
        ("one1.blob.core.usgovcloudapi.net", None, {}, "one1", "https://one1.blob.core.usgovcloudapi.net", IDENTITY),
        ("two2.dfs.core.windows.net", None, CONNECTION, "two2", AT.replace("one1", "two2"), IDENTITY),
        ("two2.dfs.core.windows.net", None, ONE | KEY | SAS, "two2", AT.replace("one1", "two2"), IDENTITY),
        ("", f"{AT}/", SAS, "one1", AT, "AZURE_STORAGE_SAS_TOKEN"),
        ("", "https://one1.z7.blob.storage.azure.net", {}, "one1", "https://one1.z7.blob.storage.azure.net", IDENTITY),
        ("", "http://127.0.0.1:1/one1", KEY, "one1", "http://127.0.0.1:1/one1", "AZURE_STORAGE_KEY"),
        ("one1.dfs.core.windows.net", "https://bills.example.com", KEY, "one1", "https://bills.example.com", "AZURE_STORAGE_KEY"),
    ],
)
def test_account_and_credential_follow_path_endpoint_and_environment(
    told: str, endpoint: str | None, env: dict[str, str], name: str, url: str, source: str
) -> None:
    account = chosen("az://c/x", told, endpoint, env)
    assert (account.name, account.url, account.source) == (name, url, source)
    kinds = {"AZURE_STORAGE_SAS_TOKEN": AzureSasCredential, IDENTITY: DefaultAzureCredential}
    assert type(account.credential) is kinds.get(source, AzureNamedKeyCredential)
    assert OTHER_KEY not in repr(account)


@pytest.mark.parametrize(
    ("told", "endpoint", "env", "part"),
    [
        ("", None, {}, "no storage account is named (setting: billing.path or AZURE_STORAGE_ACCOUNT)"),
        ("one1.example.com", None, {}, "is no host of a storage account"),
        ("one1.dfs.core.windows.net", AT.replace("one1", "two2"), {}, "another account than billing.endpoint_url, 'two2'"),
        ("", None, {"AZURE_STORAGE_CONNECTION_STRING": "hush"}, "cannot be read (setting: AZURE_STORAGE_CONNECTION_STRING)"),
        ("", "https://blob.example.com", {}, "Azure's own addresses only"),
        ("", "https://one1.blob.core.windows.net.example.com", {}, "Azure's own addresses only"),
        ("", "http://one1.blob.core.windows.net", {}, "Azure's own addresses only"),
    ],
)
def test_an_account_that_cannot_be_chosen_is_told(told: str, endpoint: str | None, env: dict[str, str], part: str) -> None:
    with pytest.raises((AdapterError, SourceUnavailableError)) as caught:
        chosen("az://c/x", told, endpoint, env)
    assert part in str(caught.value)
    assert "az://c/x" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_connection_string_and_a_token_open_a_container(
    focus: str, azure_blobs: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    parts = {"AccountName": AZURE_ACCOUNT, "AccountKey": AZURE_KEY, "BlobEndpoint": azure_blobs.endpoint_url}
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", ";".join(f"{name}={value}" for name, value in parts.items()))
    lines = parse_all("focus", focus)
    assert lines["cost_nanos"].to_pylist() == [10 * 10**9]
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    until = datetime.now(UTC) + timedelta(hours=1)
    name = focus.split("/")[2]
    token = generate_container_sas(AZURE_ACCOUNT, name, account_key=AZURE_KEY, permission="rl", expiry=until)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", token)
    assert parse_all("focus", focus, endpoint_url=azure_blobs.endpoint_url).equals(lines)
    place = focus.replace("az://", "abfss://").replace(name, f"{name}@{AZURE_ACCOUNT}.dfs.core.windows.net")
    assert parse_all("focus", place, endpoint_url=azure_blobs.endpoint_url).equals(lines)


@pytest.mark.parametrize("key", [OTHER_KEY, "no base64"])
def test_a_wrong_key_is_refused_without_showing_it(
    focus: str, azure_blobs: Bucket, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", key)
    error = refused(focus, azure_blobs.endpoint_url)
    assert error.setting == "AZURE_STORAGE_KEY"
    assert key not in str(error)


def test_a_token_is_never_shown(focus: str, azure_blobs: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    until = datetime.now(UTC) - timedelta(hours=1)
    name = focus.split("/")[2]
    token = generate_container_sas(AZURE_ACCOUNT, name, account_key=AZURE_KEY, permission="rl", expiry=until)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", token)
    expired, away = refused(focus, azure_blobs.endpoint_url), refused(focus, f"http://127.0.0.1:9/{AZURE_ACCOUNT}")
    assert (expired.setting, away.setting) == ("AZURE_STORAGE_SAS_TOKEN", "billing.endpoint_url")
    for error in (expired, away):
        assert parse_qs(token)["sig"][0] not in str(error)
        assert "sig=" not in str(error)
    with protocol_server(lambda _: Answer(409, b"", {"x-ms-error-code": "LeaseIdMissing"})) as server:
        assert refused(focus, server.url).problem == "the server answers 409 LeaseIdMissing"
        assert "sig" in dict(server.requests[0].params)


def test_without_any_identity_the_variables_are_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    without_ambient(monkeypatch)
    error = refused("abfss://container@made1up.dfs.core.windows.net/x", None)
    assert error.problem == "there is no key, no token, and no identity that may sign in"
    assert "Set AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN" in str(error)
    assert capfd.readouterr() == ("", "")


def test_marks_of_folders_are_no_files(focus: str, azure_blobs: Bucket) -> None:
    azure_blobs.client.upload_blob("focus/a folder.csv", b"", metadata={"hdi_isfolder": "true"})
    azure_blobs.client.upload_blob("focus", b"", metadata={"hdi_isfolder": "true"})
    assert parse_all("focus", focus, endpoint_url=azure_blobs.endpoint_url).num_rows == 1


def test_without_google_credentials_the_variable_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_ambient(monkeypatch)
    error = refused("gs://example-bucket/x", None)
    assert error.setting == "GOOGLE_APPLICATION_CREDENTIALS"
    assert "gcloud auth application-default login" in str(error)
    held = write(tmp_path / "key.json", json.dumps({"type": "service_account", "private_key": "hush"}).encode())
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(held))
    error = refused("gs://example-bucket/x", None)
    assert error.setting == "GOOGLE_APPLICATION_CREDENTIALS"
    assert "hush" not in str(error)


def test_google_credentials_go_to_google_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_ambient(monkeypatch)
    with protocol_server(lambda _: Answer(404, b"{}")) as server:
        refused("gs://example-bucket/x", server.url)
        assert [request for request in server.requests if "authorization" in request.headers] == []
    for own in ("https://storage.europe-west3.rep.googleapis.com", "https://storage.googleapis.com/"):
        assert refused("gs://example-bucket/x", own).setting == "GOOGLE_APPLICATION_CREDENTIALS"
    for other in ("http://storage.googleapis.com:9", "https://googleapis.com.invalid", "https://storage-googleapis.com.invalid"):
        assert refused("gs://example-bucket/x", other).setting == "billing.endpoint_url"


def test_an_emulator_named_in_the_environment_is_read(gcs: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.csv", focus_bytes({}))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs.endpoint_url)
    assert parse_all("focus", gcs.put_tree(tmp_path, "x")).num_rows == 1


@pytest.mark.parametrize(
    "where", [{"path": "az://c/x?sig=hush"}, {"path": "az://c/x", "endpoint_url": "https://me:hush@example.com"}]
)
def test_the_configuration_takes_no_token(where: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="holds a token or a password; it belongs in the environment"):
        BillingEntry.model_validate({"kind": "focus"} | where)
