"""Google's list prices: fetched through the real client over gRPC, kept with their date, and what happens without a network."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pyarrow.parquet as pq
import pytest

from allocation.errors import AdapterError, SourceUnavailableError
from billing_adapters.base import PriceOptions
from billing_adapters.gcp_price_cache import price_list
from tests.catalog import A2_CORE, A2_RAM, A100, Catalog, catalog_server, sku

SINCE = datetime(2026, 9, 1, 7, tzinfo=UTC)
NOW = datetime(2026, 10, 5, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
FILE = "gcp-compute-engine-USD.parquet"
SPOT_CORE = ("A1B2-0000-0001", "Spot Preemptible A2 Instance Core running in Americas", "CPU", "h", 9_000_000)
DISK = ("D973-5D65-BAB2", "Storage PD Capacity", "PDStandard", "GiBy.mo", 0)


@pytest.fixture(scope="module")
def _server() -> Iterator[Catalog]:
    with catalog_server() as catalog:
        yield catalog


@pytest.fixture
def catalog(_server: Catalog) -> Catalog:
    _server.skus = [
        sku(A100, SINCE),
        sku(A2_CORE, SINCE),
        sku(A2_RAM, SINCE),
        sku(SPOT_CORE, SINCE, usage_type="Preemptible"),
        sku(DISK, SINCE, regions=("us-central1",), tiers=((0.0, 0), (30.0, 40_000_000))),
    ]  # fmt: skip
    _server.page_size, _server.fault, _server.fault_at = 2, None, 0
    _server.requests.clear()
    return _server


def options(folder: Path, catalog: Catalog, **more: object) -> PriceOptions:
    told = PriceOptions(str(folder), NOW, endpoint_url=catalog.url, patience_s=0.5)
    return replace(told, **more)  # type: ignore[arg-type]


def rows(folder: Path, catalog: Catalog, **more: object) -> list[tuple[object, ...]]:
    table = price_list(options(folder, catalog, **more)).table
    names = ("sku_id", "region", "effective_from", "usage_unit", "tier_start", "price_nanos")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_all_pages_become_one_table_of_exact_prices(tmp_path: Path, catalog: Catalog) -> None:
    found = rows(tmp_path, catalog)
    assert ("039F-D0DA-4055", "us-central1", SINCE, "h", 0.0, 2_933_908_000) in found
    assert ("2390-DCAF-DA38", "us-east1", SINCE, "GiBy.h", 0.0, 4_237_000) in found
    assert [r[4:] for r in found if r[0] == DISK[0]] == [(0.0, 0), (30.0, 40_000_000)], "both tiers, in order"
    assert len(found) == 2 + 2 + 2 + 2 + 2
    assert [r.page_token for r in catalog.requests] == ["", "2", "4"]
    first = catalog.requests[0]
    assert (first.parent, first.currency_code, first.page_size) == ("services/6F81-5844-456A", "USD", 5000)


def test_units_and_nanos_are_one_whole_number(tmp_path: Path, catalog: Catalog) -> None:
    catalog.skus = [sku((*A100[:4], 93_123_456_789_123_456_789 // 10**10), SINCE)]
    assert rows(tmp_path, catalog)[0][5] == 9_312_345_678
    catalog.skus = [sku((*A100[:4], 2**63), SINCE)]
    with pytest.raises(AdapterError, match=r"039F-D0DA-4055 costs 9223372036 units and 854775808 nanos, which is no price"):
        rows(tmp_path / "x", catalog)


def test_within_its_age_the_kept_list_is_used_and_nobody_is_asked(tmp_path: Path, catalog: Catalog) -> None:
    first = price_list(options(tmp_path, catalog))
    catalog.requests.clear()
    again = price_list(options(tmp_path, catalog, now=NOW + WEEK))
    assert (again.fetched_at, again.outdated, catalog.requests) == (NOW, "", [])
    assert again.table.equals(first.table)
    assert again.price_id == first.price_id
    price_list(options(tmp_path, catalog, now=NOW + WEEK + timedelta(seconds=1)))
    assert len(catalog.requests) == 3


def test_an_older_list_is_used_offline_and_says_so(tmp_path: Path, catalog: Catalog) -> None:
    price_list(options(tmp_path, catalog))
    catalog.fault = grpc.StatusCode.UNAVAILABLE
    found = price_list(options(tmp_path, catalog, now=NOW + 2 * WEEK))
    assert (found.fetched_at, len(found.table)) == (NOW, 10)
    assert "the price list cannot be read: ServiceUnavailable: told to fail" in found.outdated
    catalog.fault = None
    assert price_list(options(tmp_path, catalog, now=NOW + 2 * WEEK)).outdated == ""


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, "PermissionDenied: told to fail.*Switch on the Cloud Billing API"),
        (grpc.StatusCode.UNAUTHENTICATED, "Unauthenticated: told to fail.*gcloud auth application-default login"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "ResourceExhausted: told to fail.*quota of the Cloud Billing API is used up"),
        (grpc.StatusCode.UNAVAILABLE, "ServiceUnavailable: told to fail.*Check the network"),
    ],
)
def test_never_fetched_and_refused_is_one_clear_line(tmp_path: Path, catalog: Catalog, fault: grpc.StatusCode, text: str) -> None:
    catalog.fault, catalog.fault_at = fault, 1
    with pytest.raises(SourceUnavailableError, match=text) as error:
        price_list(options(tmp_path, catalog))
    assert f"no price list is kept at {tmp_path / FILE} (setting: prices)" in str(error.value)
    assert list(tmp_path.iterdir()) == [], "the pages that were read are not kept"


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    nobody = Catalog(url="http://127.0.0.1:1")
    with pytest.raises(
        SourceUnavailableError, match=r"http://127\.0\.0\.1:1/v1/services/6F81-5844-456A/skus: .*ServiceUnavailable"
    ):
        price_list(options(tmp_path, nobody))


def test_a_changed_price_is_a_version_and_an_equal_one_is_none(tmp_path: Path, catalog: Catalog) -> None:
    before = price_list(options(tmp_path, catalog))
    later, nearly = datetime(2026, 10, 20, tzinfo=UTC), NOW + 2 * WEEK
    catalog.skus = [sku((*A100[:4], 3_000_000_000), later), sku(A2_CORE, later), sku(A2_RAM, later)]
    after = price_list(options(tmp_path, catalog, now=nearly))
    found = [
        (r["effective_from"], r["price_nanos"])
        for r in after.table.to_pylist()
        if r["sku_id"] == A100[0] and r["region"] == "us-central1"
    ]
    assert found == [(SINCE, 2_933_908_000), (later, 3_000_000_000)]
    assert len(after.table) == len(before.table) + 2, "one more version in each of two regions; what is told no more stays"
    assert after.price_id != before.price_id
    catalog.skus = [sku((*A100[:4], 3_100_000_000), later)]
    corrected = price_list(options(tmp_path, catalog, now=nearly + 2 * WEEK))
    assert [r["price_nanos"] for r in corrected.table.to_pylist() if r["effective_from"] == later] == [3_100_000_000] * 2
    assert len(corrected.table) == len(after.table)


def test_a_file_that_is_no_price_list_is_refused(tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / FILE
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(AdapterError, match=r"gcp-compute-engine-USD\.parquet: the kept price list .*Delete the file"):
        price_list(options(tmp_path, catalog))
    path.unlink()
    price_list(options(tmp_path, catalog))
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    with pytest.raises(AdapterError, match="is no price list of this version"):
        price_list(options(tmp_path, catalog))


def test_another_currency_is_asked_for_and_kept_apart(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(AdapterError, match="is priced in 'USD' where EUR was asked for"):
        price_list(options(tmp_path, catalog, currency="EUR"))
    catalog.skus = [sku(A100, SINCE, currency="EUR")]
    assert price_list(options(tmp_path, catalog, currency="EUR")).currency == "EUR"
    assert [p.name for p in tmp_path.iterdir()] == ["gcp-compute-engine-EUR.parquet"]


def test_an_empty_answer_is_not_kept(tmp_path: Path, catalog: Catalog) -> None:
    catalog.skus = []
    with pytest.raises(AdapterError, match="the catalog told no prices"):
        price_list(options(tmp_path, catalog))
    assert list(tmp_path.iterdir()) == []
