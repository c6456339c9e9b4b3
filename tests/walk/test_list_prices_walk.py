"""List prices through the whole walk: from the catalog's own protocol to rows, offline after, and walked back by ``explain``."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import grpc
import pytest

from pipelines.explain import Query, document, explain
from pipelines.partition import Partition
from pipelines.settings import load_settings
from pipelines.walk import open_walk
from tests.catalog import A2_CORE, A2_RAM, A100, Catalog, catalog_server, sku
from tests.pipelines.explained import check_walk
from tests.pipelines.test_explain import CASES, computed
from tests.walk.test_faults import DAY, Place, gpu, line

SINCE = datetime(2026, 9, 1, tzinfo=UTC)
NODE = {"name": "a", "provider_id": "gce://proj/us-central1-a/a", "instance_type": "a2-highgpu-1g"}
RESOURCE = "//compute.googleapis.com/projects/proj/zones/us-central1-a/instances/a"
OUTDATED, UNPRICED = "list_prices_not_of_the_day", "no_list_price"


@pytest.fixture(scope="module")
def server() -> Iterator[Catalog]:
    with catalog_server() as catalog:
        catalog.skus = [sku(A100, SINCE), sku(A2_CORE, SINCE), sku(A2_RAM, SINCE)]
        yield catalog


@pytest.fixture
def catalog(server: Catalog) -> Catalog:
    server.fault = None
    server.requests.clear()
    return server


def place_of(folder: Path, catalog: Catalog, **changes: object) -> Place:
    """One machine with one GPU that pod p holds from 00:00 to 01:00, billed at 3.673385."""
    prices = {"endpoint_url": catalog.url, "cache": "kept"}
    values = {"nodes": [NODE], "prices": prices, "policy": {"gpu_share": "from_list_prices"}} | changes
    return Place(folder, gpu("a", "GPU-1", "p", (0, 1)), [line(RESOURCE, (0, 1), "3.673385")], **values)


def codes(place: Place) -> set[object]:
    return {row["code"] for cluster in ("prod", "_bill") for row in place.rows(cluster, "findings")}


def test_the_share_of_the_gpus_comes_over_the_wire_and_is_kept(tmp_path: Path, catalog: Catalog) -> None:
    """0.798693303 of 3,673,385,000 nanos are 2,933,907,998.84: with the larger remainder 2,933,907,999."""
    place = place_of(tmp_path, catalog)
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal("2.933907999"), "host": Decimal("0.739477001")}
    assert (len(catalog.requests), codes(place) & {OUTDATED, UNPRICED}) == (2, set())
    before = place.kept()
    catalog.fault = grpc.StatusCode.UNAVAILABLE
    assert place.run() == 0
    assert (place.kept(), len(catalog.requests)) == (before, 2), "within its age nobody is asked, and nothing changes"
    found = json.loads(
        json.dumps(document(explain(open_walk(load_settings(tmp_path / "chargeback.yaml")), Query(DAY, pod="ns/p"))))
    )
    assert (found["rows_matched"], found["adds_up"]) == (1, True)
    (walk,) = found["rows"]
    check_walk(walk)
    assert (walk["changed_inputs"], [g["reason"] for g in walk["node"]["gpus"]]) == ([], [None, "gpu_share"])


def test_a_gpu_that_series_alone_name_is_priced_in_the_first_run_too(tmp_path: Path) -> None:
    """An n1-standard-8 costs 8 x 0.031611 + 30 x 0.004237 = 0.379998, the T4 0.35: 0.479453368 of 3.673385 are the GPU's."""
    n1 = [("2E27-4F75-95CD", "N1 Predefined Instance Core running in Americas", "N1Standard", "h", 31_611_000),
          ("6C71-E844-38BC", "N1 Predefined Instance Ram running in Americas", "N1Standard", "GiBy.h", 4_237_000),
          ("77BC-9E6C-8E33", "Nvidia Tesla T4 GPU running in Americas", "GPU", "h", 350_000_000)]  # fmt: skip
    with catalog_server() as catalog:
        catalog.skus = [sku(one, SINCE) for one in n1]
        place = place_of(tmp_path, catalog, nodes=[NODE | {"instance_type": "n1-standard-8", "gpus": 1}])
        place.metrics(gpu("a", "GPU-1", "p", (0, 1), modelName="Tesla T4"))
        for _ in range(2):
            assert place.run() == 0
            assert place.by_pod() == {"p": Decimal("1.761216810"), "host": Decimal("1.912168190")}
            assert UNPRICED not in codes(place)


def test_an_older_list_is_used_offline_with_a_finding(tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of(tmp_path, catalog)
    assert place.run() == 0
    monkeypatch.setenv("CHARGEBACK__PRICES__MAX_AGE", "1ms")
    catalog.fault = grpc.StatusCode.PERMISSION_DENIED
    assert place.run() == 0
    assert place.by_pod()["host"] == Decimal("0.739477001")
    (told,) = (row for row in place.rows("prod", "findings") if row["code"] == OUTDATED)
    assert "PermissionDenied: told to fail" in str(told["evidence"])
    assert f"list prices are those of {datetime.now(UTC):%Y-}" in str(told["evidence"])


def test_never_fetched_and_no_network_ends_the_run_and_nothing_is_written(
    tmp_path: Path, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog.fault = grpc.StatusCode.PERMISSION_DENIED
    place = place_of(tmp_path, catalog)
    assert place.run() == 1
    assert "no price list is kept at" in capsys.readouterr().err
    assert place.rows() == []


def test_a_rate_card_by_list_price(tmp_path: Path, catalog: Catalog) -> None:
    place = place_of(tmp_path, catalog, billing=[{"kind": "rate-card", "path": "card.yaml"}], policy={})
    text = "currency: USD\nrates:\n  - {name: a2, match: {instance_type: 'a2-*'}, price: gcp-list}\n"
    (tmp_path / "card.yaml").write_text(text, encoding="utf-8")
    assert place.run() == 0
    first = min(place.rows(), key=lambda row: str(row["charge_period_start"]))
    assert (first["pod"], first["cost"]) == ("p", Decimal("3.673385"))
    assert sum(Decimal(str(r["cost"])) for r in place.rows()) == 24 * Decimal("3.673385")


@pytest.mark.parametrize("share", ["by_sku", {"a2-*": "by_sku", "default": 0.5}])
def test_by_sku_where_no_line_tells_its_part(tmp_path: Path, catalog: Catalog, share: object) -> None:
    place = place_of(tmp_path, catalog, policy={"gpu_share": share})
    assert place.run() == 0
    assert (place.by_pod(), catalog.requests) == ({"p": Decimal("3.673385")}, [])
    (told,) = (row for row in place.rows("_bill", "findings") if row["code"] == "unused_setting")
    assert told["subject"] == "policy.gpu_share"
    assert "no line of the machines of type a2-highgpu-1g says whether it pays for GPUs, cores or memory" in str(told["evidence"])


def test_a_machine_without_a_list_price_is_named_with_its_money(tmp_path: Path, catalog: Catalog) -> None:
    place = place_of(tmp_path, catalog, nodes=[NODE | {"instance_type": "a2-custom"}])
    assert place.run() == 0
    assert place.by_pod() == {"p": Decimal("3.673385")}
    (told,) = (row for row in place.rows("prod", "findings") if row["code"] == UNPRICED)
    assert (told["subject"], told["cost_at_risk"]) == ("a", Decimal("3.673385"))


def test_by_sku_on_googles_own_lines_is_walked_back_line_by_line(tmp_path: Path) -> None:
    """Case 109: of four rows and two credits, those of the GPU and of no part have two pods' rows each, the others the host's."""
    walk = computed(CASES / "109-share-by-sku" / "chargeback.yaml", tmp_path, DAY)
    stored = walk.store.read("chargeback", Partition(DAY, "prod"))
    assert stored is not None
    counts = []
    for line_id in sorted(set(stored["line_item_id"].to_pylist())):
        found = json.loads(json.dumps(document(explain(walk, Query(DAY, line_item=line_id)))))
        for told in found["rows"]:
            check_walk(told)
        counts.append(found["rows_matched"])
    assert sorted(counts) == [1, 1, 1, 2, 2, 2]


def test_list_costs_of_an_export_that_has_none(tmp_path: Path) -> None:
    """The rows of GPU, cores and memory of case 109 by the list of case 110: 2.933908 + 0.379332 + 0.360145, credits 0."""
    case = CASES / "109-share-by-sku"
    rows = (case / "bill.jsonl").read_text(encoding="utf-8").splitlines()[:3]
    (tmp_path / "bill.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    shutil.copy(case / "metrics.om", tmp_path)
    text = (case / "chargeback.yaml").read_text(encoding="utf-8").replace("cost: billed", "cost: [billed, list]")
    cache = CASES / "110-share-by-list-prices"
    (tmp_path / "chargeback.yaml").write_text(f"{text}prices: {{cache: '{cache}'}}\n", encoding="utf-8")
    walk = computed(tmp_path / "chargeback.yaml", tmp_path, DAY)
    stored = walk.store.read("chargeback", Partition(DAY, "prod"))
    assert stored is not None
    sums = {metric: sum(r["cost"] for r in stored.to_pylist() if r["cost_metric"] == metric) for metric in ("billed", "list")}
    assert sums == {"billed": Decimal("3.223385"), "list": Decimal("3.673385")}
    host = sum(r["cost"] for r in stored.to_pylist() if r["cost_metric"] == "list" and r["bucket"] == "host")
    assert host == Decimal("0.739477")
