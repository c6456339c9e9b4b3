"""AWS bills in two servers of S3's protocol, and as whom they are read."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import requests

from allocation.errors import AdapterError, SourceUnavailableError
from billing_adapters.base import BillOptions, Identity
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import cur_bytes, parse_all, write_export
from tests.billing_adapters.conftest import BUCKET, SecondServer, Server
from tests.billing_adapters.reports import PERIOD, legacy_bytes, manifest_of, write_report

ROLE = "arn:aws:iam::111122223333:role/bills"


def trees(tmp_path: Path) -> dict[str, Path]:
    """The same rows as a report (with a zip and an older assembly) and as an export."""
    rows: tuple[dict[str, str], ...] = ({}, {"line_item_unblended_cost": "1.25"})
    report = write_report(tmp_path / "report", {"r-1.csv.gz": legacy_bytes(*rows), "r-2.csv.zip": legacy_bytes({})})
    (report / PERIOD / "older").mkdir()
    (report / PERIOD / "older" / "report-Manifest.json").write_bytes(manifest_of(["cur/report/x/older.csv.gz"]))
    export = write_export(tmp_path / "export", {"e-00001.csv.gz": cur_bytes(*rows), "e-00002.csv.gz": cur_bytes({})})
    return {"aws-cur": report, "aws-cur2": export}


@pytest.mark.parametrize(("kind", "prefix"), [("aws-cur", "cur/report"), ("aws-cur2", "exports/export")])
def test_a_bill_is_the_same_in_two_servers_and_on_disk(
    tmp_path: Path, s3: Server, second_s3: SecondServer, kind: str, prefix: str
) -> None:
    root = trees(tmp_path)[kind]
    local = parse_all(kind, root)
    assert [cost / 10**9 for cost in local["cost_nanos"].to_pylist()] == [98.32, 1.25, 98.32]
    for server in (s3, second_s3):
        url = server.put_tree(root, prefix)
        assert parse_all(kind, url, endpoint_url=server.url).equals(local)


def test_a_wrong_secret_is_refused_in_one_line(tmp_path: Path, second_s3: SecondServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = second_s3.put_tree(trees(tmp_path)["aws-cur"], "cur/report")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(SourceUnavailableError, match="the secret key does not fit the access key") as caught:
        parse_all("aws-cur", url, endpoint_url=second_s3.url)
    assert url in str(caught.value)
    assert "another" not in str(caught.value)
    assert second_s3.secret not in str(caught.value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
    with pytest.raises(SourceUnavailableError, match="the access key is not known there"):
        parse_all("aws-cur", url, endpoint_url=second_s3.url)


def test_a_profile_of_the_credentials_file(tmp_path: Path, second_s3: SecondServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = second_s3.put_tree(trees(tmp_path)["aws-cur2"], "exports/export")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    known = f"[billing]\naws_access_key_id={second_s3.key}\naws_secret_access_key={second_s3.secret}\n"
    (tmp_path / "credentials").write_text(known, encoding="utf-8")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    lines = parse_all("aws-cur2", url, endpoint_url=second_s3.url, identity=Identity(profile="billing"))
    assert lines.num_rows == 3
    with pytest.raises(SourceUnavailableError, match=r"no-such.*billing\.profile"):
        parse_all("aws-cur2", url, endpoint_url=second_s3.url, identity=Identity(profile="no-such"))


@pytest.mark.parametrize(
    ("bucket", "key", "part"),
    [
        ("another-bucket", f"cur/report/{PERIOD}/x.csv.gz", "not in the bucket 'example-bucket'"),
        (BUCKET, f"cur/other/{PERIOD}/x.csv.gz", "not below s3://example-bucket/cur/report"),
        (BUCKET, f"cur/report/../other/{PERIOD}/x.csv.gz", "does not stay below"),
        (BUCKET, f"cur/report/20260901-20261001/{PERIOD}.csv.gz", "no data file of 2026-10"),
    ],
)
def test_a_report_that_leads_elsewhere_is_refused(tmp_path: Path, s3: Server, bucket: str, key: str, part: str) -> None:
    root = write_report(tmp_path / "report", {"r-1.csv.gz": legacy_bytes({})})
    (root / PERIOD / "report-Manifest.json").write_bytes(manifest_of([key], bucket=bucket))
    with pytest.raises(AdapterError, match=r"report-Manifest\.json: the (manifest|file name)") as caught:
        parse_all("aws-cur", s3.put_tree(root, "cur/report"), endpoint_url=s3.url)
    assert part in str(caught.value)


def test_a_role_is_assumed_for_the_bucket(tmp_path: Path, s3: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.put_tree(trees(tmp_path)["aws-cur"], "cur/report")
    used: list[str] = []
    options = BillOptions("bill", url, endpoint_url=s3.url, identity=Identity(None, ROLE, "an-external-id"))
    source = load_bill_source("aws-cur", options)
    monkeypatch.setattr(
        "billing_adapters.s3_files.boto3.session.Session.client", watched(boto3.session.Session.client, used), raising=True
    )
    (delivery,) = source.discover()
    assert len(list(source.parse(delivery))) == 2
    assert used == ["sts", "s3 with a session"]


def watched(original: object, used: list[str]) -> object:
    def client(self: object, service: str, **more: object) -> object:
        used.append(service + (" with a session" if more.get("aws_session_token") else ""))
        return original(self, service, **more)  # type: ignore[operator]

    return client


@pytest.fixture
def guarded(s3: Server) -> Iterator[Server]:
    """The server while it checks signatures and policies."""
    reset(s3, "0")
    yield s3
    reset(s3, "inf")


def reset(server: Server, free_requests: str) -> None:
    answer = requests.post(f"{server.url}/moto-api/reset-auth", data=free_requests, timeout=10)
    assert answer.status_code == 200


def test_a_role_that_may_not_be_assumed_is_named_with_its_setting(guarded: Server) -> None:
    options = BillOptions("bill", f"s3://{BUCKET}/x", endpoint_url=guarded.url, identity=Identity(None, ROLE))
    with pytest.raises(SourceUnavailableError) as caught:
        load_bill_source("aws-cur2", options).discover()
    assert ROLE in str(caught.value)
    assert "billing.role_arn" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bucket_that_may_not_be_read_is_named(guarded: Server) -> None:
    with pytest.raises(SourceUnavailableError, match=r"s3://example-bucket/x: the access key is not known there"):
        parse_all("aws-cur2", f"s3://{BUCKET}/x", endpoint_url=guarded.url)
