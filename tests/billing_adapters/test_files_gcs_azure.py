"""Bills in Google Cloud Storage and Azure Blob Storage: what both stores promise, against real servers of their protocols."""

import json
import sys
import time
from pathlib import Path

import pytest

from allocation.errors import AdapterError, MissingExtraError, SourceUnavailableError
from billing_adapters.base import BillOptions, Identity
from billing_adapters.files import LocalFiles, open_files
from billing_adapters.object_store import PIECE_BYTES
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import cur_bytes, focus_bytes, lines_of, parse_all, write, write_export
from tests.object_stores import AZURE_KEY, Bucket, without_ambient
from tests.servers import Answer, Request, free_port, protocol_server

RUN = "20230101-20230131/202301041442/73746dc5/000001.csv"
JSON = {"Content-Type": "application/json"}
URLS = {"gs://bucket/x": "gcs", "az://container/x": "azure"}


@pytest.fixture(params=["gcs", "azure_blobs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    found: Bucket = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place in either cloud, with a key of an account for Azure and nothing else in the environment."""
    without_ambient(monkeypatch)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "made1up")
    monkeypatch.setenv("AZURE_STORAGE_KEY", AZURE_KEY)
    place: str = request.param
    return place


def test_a_folder_is_the_same_delivery_in_a_bucket_and_on_disk(tmp_path: Path, bucket: Bucket) -> None:
    write(tmp_path / "a.csv", focus_bytes({}))
    write(tmp_path / "sub" / "b ü+%20#?.csv", focus_bytes({"BilledCost": "3"}))
    url = bucket.put_tree(tmp_path, "bills/focus")
    bucket.put("bills/focus-other/c.csv", focus_bytes({}))
    remote = parse_all("focus", url, endpoint_url=bucket.endpoint_url)
    assert remote.equals(parse_all("focus", tmp_path))
    assert remote["cost_nanos"].to_pylist() == [10 * 10**9, 3 * 10**9]


def test_an_export_with_its_manifest_is_the_same_in_a_bucket_and_on_disk(tmp_path: Path, bucket: Bucket) -> None:
    files = {"run/e-00001.csv.gz": cur_bytes({}, {"line_item_unblended_cost": "1"}), "old/e-00001.csv.gz": cur_bytes({})}
    root = write_export(tmp_path / "e", files, named=["run/e-00001.csv.gz"], uri=f"{bucket.url}/exports/e")
    remote = parse_all("aws-cur2", bucket.put_tree(root, "exports/e"), endpoint_url=bucket.endpoint_url)
    assert remote.equals(parse_all("aws-cur2", root))
    assert remote["cost_nanos"].to_pylist() == [98_320_000_000, 10**9]


def test_one_object_is_the_same_delivery_as_the_file(tmp_path: Path, bucket: Bucket) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}))
    url = f"{bucket.put_tree(tmp_path, 'one')}/bill.csv"
    bucket.put("one/bill.csv.old", b"x")
    options = BillOptions("bill", url, endpoint_url=bucket.endpoint_url)
    source = load_bill_source("focus", options)
    first, again = source.discover(), source.discover()
    assert first == again
    assert lines_of(source, first[0]).equals(parse_all("focus", path))
    assert lines_of(load_bill_source("focus", options), first[0]).num_rows == 1


def test_a_large_object_is_read_in_pieces(bucket: Bucket) -> None:
    content = bytes(range(256)) * (PIECE_BYTES // 256) + b"the rest"
    bucket.put("large/a.csv", content)
    with open_files(f"{bucket.url}/large", endpoint_url=bucket.endpoint_url).open("a.csv") as stream:
        begun = stream.read(100)
        assert begun + stream.read() == content
        assert stream.read(1) == b""


@pytest.mark.parametrize("content", [focus_bytes({}, {}), b""], ids=["replaced", "gone"])
def test_an_object_that_changes_between_listing_and_reading_is_refused(tmp_path: Path, bucket: Bucket, content: bytes) -> None:
    write(tmp_path / "a.csv", focus_bytes({}))
    source = load_bill_source("focus", BillOptions("bill", bucket.put_tree(tmp_path, "x"), endpoint_url=bucket.endpoint_url))
    (delivery,) = source.discover()
    bucket.put("x/a.csv", content) if content else bucket.remove("x/a.csv")
    with pytest.raises(SourceUnavailableError, match=rf"{bucket.url}/x/a\.csv: changed while"):
        list(source.parse(delivery))


def test_a_missing_bucket_an_empty_prefix_and_an_unlisted_name_are_told_apart(bucket: Bucket) -> None:
    missing = f"{bucket.url.partition('://')[0]}://no-such/bill"
    with pytest.raises(SourceUnavailableError, match=rf"{missing}: there is no such (bucket|container).*billing\.path"):
        parse_all("focus", missing, endpoint_url=bucket.endpoint_url)
    with pytest.raises(SourceUnavailableError, match=rf"{bucket.url}/nothing: there are no objects.*billing\.path"):
        parse_all("focus", f"{bucket.url}/nothing", endpoint_url=bucket.endpoint_url)
    bucket.put("x/a.csv", b"x")
    with pytest.raises(SourceUnavailableError, match=rf"{bucket.url}/x/b\.csv: there is no such object"):
        open_files(f"{bucket.url}/x", endpoint_url=bucket.endpoint_url).open("b.csv")


@pytest.mark.parametrize("place", ["gs://bucket", "az://container", "abfss://container@made1up.dfs.core.windows.net"])
def test_a_name_of_a_manifest_stays_below_the_prefix(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_ambient(monkeypatch)
    files = open_files(f"{place}/dir/export")
    assert files.resolve(f"dir/export/{RUN}") == RUN
    assert files.resolve(f"{place}/dir/export/{RUN}") == RUN
    outside = ["dir/exports/a.csv", "dir/export", f"/dir/export/{RUN}", "export/a.csv", ""]
    away = ["dir/export/../a.csv", "dir/export//a.csv", "dir/export/a\\b.csv", "dir/export/"]
    other = [f"{place}-2/dir/export/a.csv", "s3://bucket/dir/export/a.csv", "https://example.com/dir/export/a.csv"]
    for uri in [*outside, *away, *other, f"{place}/dir/export/../../a.csv", f"{place}/a.csv"]:
        with pytest.raises(AdapterError):
            files.resolve(uri)


def test_a_name_of_a_manifest_is_found_on_disk_by_its_longest_end(tmp_path: Path) -> None:
    for place in ("", "export/"):
        write(tmp_path / f"{place}{RUN}", b"x")
    assert LocalFiles(tmp_path).resolve(f"dir/export/{RUN}") == f"export/{RUN}"
    assert LocalFiles(tmp_path / "export").resolve(f"dir/export/{RUN}") == RUN
    for uri in ("dir/export/a.csv", f"dir/{RUN.replace('/000', '/../000')}"):
        with pytest.raises(AdapterError):
            LocalFiles(tmp_path).resolve(uri)


@pytest.mark.parametrize(
    "place", ["gs:///x", "gs://bucket/../x", "az:///x", "az://container/a//b", "abfs://@made1up.dfs.core.windows.net/x"]
)
def test_a_path_without_bucket_or_with_steps_up_is_refused(place: str) -> None:
    with pytest.raises(AdapterError, match=r"no bucket and prefix can be read.*Write (gs|az)://"):
        open_files(place)


def test_another_scheme_names_all_that_there_are() -> None:
    with pytest.raises(AdapterError, match=r"ftp://bucket/x: .*a folder, a file, s3://, gs://, az:// or abfss://"):
        open_files("ftp://bucket/x")


def test_what_only_s3_knows_is_refused_elsewhere(url: str) -> None:
    for more in ({"region": "us-east-1"}, {"identity": Identity(profile="billing")}):
        with pytest.raises(AdapterError, match=r"region, profile, role_arn and external_id belong to s3://"):
            open_files(url, **more)


def test_without_the_extra_the_package_to_install_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {"gcs": "google.cloud", "azure": "azure.storage.blob"}[URLS[url]]
    monkeypatch.setitem(sys.modules, hidden, None)
    monkeypatch.delitem(sys.modules, f"billing_adapters.{URLS[url]}_files", raising=False)
    with pytest.raises(MissingExtraError, match=r"(google-cloud-storage.*\[gcp\]|azure-storage-blob.*\[azure\])"):
        open_files(url)


def test_an_unreachable_endpoint_fails_soon_and_names_the_setting(url: str) -> None:
    endpoint, begun = f"http://127.0.0.1:{free_port()}", time.monotonic()
    with pytest.raises(SourceUnavailableError) as caught:
        parse_all("focus", url, endpoint_url=endpoint)
    assert str(caught.value).startswith(f"{url} at {endpoint}: ")
    assert "Connection refused (setting: billing.endpoint_url)" in str(caught.value)
    assert time.monotonic() - begun < 10


def test_a_server_in_trouble_is_asked_three_times(url: str) -> None:
    with protocol_server(lambda _: Answer(503, b"{}")) as server:
        with pytest.raises(SourceUnavailableError, match=rf"^{url}: the server answers 503[^\n]*billing\.path\)$"):
            parse_all("focus", url, endpoint_url=server.url)
        assert len(server.requests) == 3


def listing(request: Request) -> Answer | None:
    """Each cloud's list of one object of 1,000 bytes."""
    if request.param("comp") == "list":
        properties = "<Etag>0x1</Etag><Content-Length>1000</Content-Length><BlobType>BlockBlob</BlobType>"
        blobs = f"<Blobs><Blob><Name>x/a.csv</Name><Properties>{properties}</Properties></Blob></Blobs><NextMarker/>"
        found = f'<?xml version="1.0"?><EnumerationResults ContainerName="container">{blobs}</EnumerationResults>'
        return Answer(200, found.encode(), {"Content-Type": "application/xml"})
    if request.path.endswith("/b/bucket/o"):
        return Answer(
            200, b'{"items": [{"name": "x/a.csv", "size": "1000", "generation": "7"}]}', {"Content-Type": "application/json"}
        )
    return None


def test_an_answer_that_breaks_off_is_refused(url: str) -> None:
    cut = {"Content-Length": "1000", "Connection": "close", "Content-Range": "bytes 0-999/1000", "ETag": '"0x1"'}
    with protocol_server(lambda asked: listing(asked) or Answer(206, b"BilledCost\n", cut)) as server:
        with pytest.raises(
            SourceUnavailableError, match=rf"^{url}/a\.csv at {server.url}: [^\n]*broke off: [^\n]*endpoint_url\)$"
        ):
            parse_all("focus", url, endpoint_url=server.url)
        assert 2 <= len(server.requests) <= 4


def test_a_server_that_denies_is_told_in_one_line(url: str) -> None:
    said = "sa@example.com does not have storage.objects.list access."
    denied = Answer(403, json.dumps({"error": {"code": 403, "message": said, "errors": [{"message": said}]}}).encode(), JSON)
    if url.startswith("az://"):
        code = "AuthorizationPermissionMismatch"
        denied = Answer(
            403,
            f"<Error><Code>{code}</Code><Message>{said}</Message></Error>".encode(),
            {"Content-Type": "application/xml", "x-ms-error-code": code},
        )
    with protocol_server(lambda _: denied) as server:
        with pytest.raises(SourceUnavailableError, match=rf"^{url}: access is denied[^\n]*\(setting: [^\n]*\)$") as caught:
            parse_all("focus", url, endpoint_url=server.url)
        assert (said in str(caught.value)) == url.startswith("gs://")
        assert len(server.requests) == 1


@pytest.mark.parametrize("secret", ["?sv=2024-11-04&sig=hush", "?X-Goog-Signature=hush"])
def test_a_token_in_a_path_or_endpoint_is_refused_and_not_shown(url: str, secret: str) -> None:
    for path, endpoint in ((url + secret, None), (url, f"https://example.com/{secret}"), (url, "https://user:hush@example.com")):
        with pytest.raises(AdapterError, match=r"billing\.(path|endpoint_url) holds a token or a password") as caught:
            open_files(path, endpoint_url=endpoint)
        assert "hush" not in str(caught.value)
    with pytest.raises(AdapterError, match="holds a token") as caught:
        open_files(f"https://made1up.blob.core.windows.net/container{secret}")
    assert "hush" not in str(caught.value)
