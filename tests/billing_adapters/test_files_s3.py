import socket
import sys
import threading
import time
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError, MissingExtraError, SourceUnavailableError
from billing_adapters.base import BillOptions
from billing_adapters.manifests import RACE_WAITS
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import cur_bytes, focus_bytes, lines_of, parse_all, write, write_export
from tests.billing_adapters.conftest import BUCKET, Server


def test_focus_folder_is_the_same_delivery_in_s3_and_on_disk(tmp_path: Path, s3: Server) -> None:
    write(tmp_path / "a.csv", focus_bytes({}))
    write(tmp_path / "sub" / "b.csv", focus_bytes({"BilledCost": "3"}))
    url = s3.put_tree(tmp_path, "bills/focus")
    s3.client.put_object(Bucket=BUCKET, Key="bills/focus-other/c.csv", Body=focus_bytes({}))
    local = parse_all("focus", tmp_path)
    remote = parse_all("focus", url, endpoint_url=s3.url)
    assert remote.equals(local)
    assert remote["cost_nanos"].to_pylist() == [10 * 10**9, 3 * 10**9]


def test_one_object_is_the_same_delivery_as_the_file(tmp_path: Path, s3: Server) -> None:
    path = write(tmp_path / "bill.csv", focus_bytes({}))
    s3.put_tree(tmp_path, "one")
    s3.client.put_object(Bucket=BUCKET, Key="one/bill.csv.old", Body=b"x")
    source = load_bill_source("focus", BillOptions("bill", f"s3://{BUCKET}/one/bill.csv", endpoint_url=s3.url))
    first, again = source.discover(), source.discover()
    assert first == again
    assert lines_of(source, first[0]).equals(parse_all("focus", path))
    fresh = load_bill_source("focus", BillOptions("bill", f"s3://{BUCKET}/one/bill.csv", endpoint_url=s3.url))
    assert lines_of(fresh, first[0]).num_rows == 1


def test_data_export_is_the_same_delivery_in_s3_and_on_disk(tmp_path: Path, s3: Server) -> None:
    files = {
        "run/e-00001.csv.gz": cur_bytes({}, {"line_item_unblended_cost": "1"}),
        "old/e-00001.csv.gz": cur_bytes({}),
    }
    root = write_export(tmp_path / "e", files, named=["run/e-00001.csv.gz"])
    write(root / "metadata" / "BILLING_PERIOD=2026-10" / "old" / "e-Manifest.json", b"an older copy")
    url = s3.put_tree(root, "exports/e")
    remote = parse_all("aws-cur2", url, endpoint_url=s3.url)
    assert remote.equals(parse_all("aws-cur2", root))
    assert remote.num_rows == 2


def test_parquet_from_s3(tmp_path: Path, s3: Server) -> None:
    write(tmp_path / "bill.csv", focus_bytes({"BilledCost": "4.25"}))
    pq.write_table(pyarrow.csv.read_csv(tmp_path / "bill.csv"), tmp_path / "bill.parquet")
    (tmp_path / "bill.csv").unlink()
    url = s3.put_tree(tmp_path, "parquet")
    lines = parse_all("focus", url, endpoint_url=s3.url)
    assert lines["cost_nanos"].to_pylist() == [4_250_000_000]
    assert lines.equals(parse_all("focus", tmp_path))


@pytest.mark.parametrize("uri", ["s3://another-bucket/exports/e", f"s3://{BUCKET}/elsewhere/e", "https://example.com/e"])
def test_a_manifest_that_leads_out_of_the_prefix_is_refused(tmp_path: Path, s3: Server, uri: str) -> None:
    root = write_export(tmp_path / "e", {"e-00001.csv.gz": cur_bytes({})}, uri=uri)
    url = s3.put_tree(root, "exports/e")
    with pytest.raises(AdapterError, match=r"e-Manifest\.json.*names"):
        parse_all("aws-cur2", url, endpoint_url=s3.url)


def test_a_missing_bucket_is_named_with_its_setting(s3: Server) -> None:
    with pytest.raises(SourceUnavailableError, match=r"s3://no-such/bill.*no such bucket.*billing\.path"):
        parse_all("focus", "s3://no-such/bill", endpoint_url=s3.url)


def test_an_empty_prefix_is_named(s3: Server) -> None:
    with pytest.raises(SourceUnavailableError, match=r"s3://example-bucket/nothing.*no objects"):
        parse_all("focus", "s3://example-bucket/nothing", endpoint_url=s3.url)


def test_missing_credentials_are_named(s3: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(SourceUnavailableError, match=r"credentials.*billing\.path"):
        parse_all("focus", "s3://example-bucket/x", endpoint_url=s3.url)


@pytest.mark.usefixtures("credentials")
def test_an_unreachable_endpoint_fails_soon_and_names_the_setting() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(SourceUnavailableError, match=rf"127\.0\.0\.1:{port}.*billing\.endpoint_url"):
        parse_all("focus", "s3://example-bucket/x", endpoint_url=f"http://127.0.0.1:{port}")
    assert time.monotonic() - begun < 15


def test_without_the_extra_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "billing_adapters.s3_files", raising=False)
    with pytest.raises(MissingExtraError, match=r"boto3.*gpu-chargeback\[aws\]"):
        parse_all("focus", "s3://example-bucket/x")


def test_an_object_that_changes_between_listing_and_reading_is_refused(tmp_path: Path, s3: Server) -> None:
    write(tmp_path / "a.csv", focus_bytes({}))
    url = s3.put_tree(tmp_path, "moving")
    source = load_bill_source("focus", BillOptions("bill", url, endpoint_url=s3.url))
    (delivery,) = source.discover()
    s3.client.put_object(Bucket=BUCKET, Key="moving/a.csv", Body=focus_bytes({}, {}))
    with pytest.raises(SourceUnavailableError, match="changed while"):
        list(source.parse(delivery))


def test_a_local_file_that_changes_between_listing_and_reading_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", focus_bytes({}))
    source = load_bill_source("focus", BillOptions("bill", str(path)))
    (delivery,) = source.discover()
    write(path, focus_bytes({}, {}))
    with pytest.raises(SourceUnavailableError, match="changed while"):
        list(source.parse(delivery))


def test_a_file_that_arrives_late_is_waited_for(tmp_path: Path) -> None:
    root = write_export(tmp_path / "e", {"e-00001.csv.gz": cur_bytes({})})
    chunk = root / "data" / "BILLING_PERIOD=2026-10" / "e-00001.csv.gz"
    content = chunk.read_bytes()
    chunk.unlink()
    late = threading.Timer(RACE_WAITS[0] / 2, write, (chunk, content))
    late.start()
    assert parse_all("aws-cur2", root).num_rows == 1
    late.join()
