"""Bills in Google Cloud Storage and Azure Blob Storage: what both stores promise, against real servers of their protocols."""

from pathlib import Path

import pytest

from tests.billing_adapters.bills import focus_bytes, parse_all, write
from tests.object_stores import Bucket


@pytest.fixture(params=["gcs", "azure_blobs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    found: Bucket = request.getfixturevalue(request.param)
    return found


def test_a_folder_is_the_same_delivery_in_a_bucket_and_on_disk(tmp_path: Path, bucket: Bucket) -> None:
    write(tmp_path / "a.csv", focus_bytes({}))
    write(tmp_path / "sub" / "b ü+%20#?.csv", focus_bytes({"BilledCost": "3"}))
    url = bucket.put_tree(tmp_path, "bills/focus")
    bucket.put("bills/focus-other/c.csv", focus_bytes({}))
    remote = parse_all("focus", url, endpoint_url=bucket.endpoint_url)
    assert remote.equals(parse_all("focus", tmp_path))
    assert remote["cost_nanos"].to_pylist() == [10 * 10**9, 3 * 10**9]
