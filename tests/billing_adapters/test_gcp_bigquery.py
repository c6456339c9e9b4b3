"""Google's detailed export in BigQuery: what is asked, what is paid, and what a state of the table is.

The real client talks to a fake of BigQuery's REST protocol (``tests.fake_bigquery``) and, over gRPC, of its Storage Read API.
"""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from allocation.errors import AdapterError
from billing_adapters.base import BillOptions, Warehouse
from billing_adapters.gcp_bigquery import GcpTableBill
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import lines_of, sample
from tests.billing_adapters.detailed_rows import NODE_KEY, used
from tests.fake_bigquery import LEAST_BILLED_BYTES, PATH, FakeBigQuery, Sent
from tests.fake_bigquery_storage import FakeStorage, fake_storage

SINCE = date(2026, 10, 1)
FIFTH, SIXTH = date(2026, 10, 5), date(2026, 10, 6)
NANO = Decimal("1e-9")
HANDMADE = "gce:gpu-proj-123/us-central1-a/gke-train-gpu-pool-0a1b2c3d-x1y2"


def source_of(bigquery: FakeBigQuery, *costs: str, storage: FakeStorage | None = None, **more: Any) -> GcpTableBill:  # noqa: ANN401
    options = {"since": SINCE, **more}
    found = BillOptions("bill", PATH, costs or ("billed",), endpoint_url=bigquery.url, **options)
    return GcpTableBill(found, storage.client if storage else None)


def all_of(source: GcpTableBill, *costs: str) -> pa.Table:
    return pa.concat_tables([lines_of(source, delivery, *costs) for delivery in source.discover()])


def by_hour(lines: pa.Table, *, node: str = NODE_KEY, net: bool = False) -> dict[int, Decimal]:
    """What the node's usage costs by the hour of the day; with its credits where asked."""
    found: dict[int, Decimal] = {}
    for line in lines.to_pylist():
        if line["node_key"] == node and not line["scope_rule"] and (net or line["charge_category"] != "Credit"):
            hour = line["charge_period_start"].hour
            found[hour] = found.get(hour, Decimal(0)) + line["cost_nanos"] * NANO
    return found


@pytest.fixture
def storage(bigquery: FakeBigQuery) -> Iterator[FakeStorage]:
    with fake_storage(bigquery) as running:
        yield running


def handmade(bigquery: FakeBigQuery, *days: date) -> None:
    """The shared worked example, loaded by the day of its export."""
    text = sample("gcp", "handmade_detailed_export_gpu.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    for day in days:
        bigquery.table.load(day, [row for row in rows if row["export_time"].startswith(str(day))])


def test_a_later_correction_is_read_with_its_own_day_of_loading(bigquery: FakeBigQuery) -> None:
    handmade(bigquery, FIFTH)
    early = all_of(source_of(bigquery))
    assert by_hour(early, node=HANDMADE) == {0: Decimal("3.673385"), 1: Decimal("3.673385"), 2: Decimal("1.836693")}
    handmade(bigquery, date(2026, 10, 14))
    late = all_of(source_of(bigquery))
    assert by_hour(late, node=HANDMADE) == {0: Decimal("3.673385"), 1: Decimal("3.239477"), 2: Decimal("1.836693")}
    assert by_hour(late, node=HANDMADE, net=True) == {0: Decimal("3.673385"), 1: Decimal("3.165530"), 2: Decimal("1.653024")}
    costs = [line["cost_nanos"] * NANO for line in late.to_pylist() if line["charge_category"] != "Credit"]
    assert sum(costs) == Decimal("9.481567")


def test_only_partitions_that_the_configured_days_can_be_in_are_read(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(date(2026, 9, 29), [used("2026-09-29T23", 100.0)])
    bigquery.table.load(date(2026, 9, 30), [used("2026-09-30T22", 50.0), used("2026-09-30T23", 25.0)])
    bigquery.table.load(date(2026, 10, 1), [used("2026-09-30T23", 7.0), used("2026-10-01T00", 1.0), used("2026-10-01T01", 2.0)])
    source = source_of(bigquery)
    found = source.discover()
    assert [(d.detail["loaded"], d.detail["rows"], d.days) for d in found] == [
        ("2026-10-01", "2", (date(2026, 10, 1), date(2026, 10, 2)))
    ]
    assert by_hour(lines_of(source, found[0])) == {0: Decimal(1), 1: Decimal(2)}
    assert [sent.partitions for sent in bigquery.sent] == [("2026-09-30", "9999-12-31"), ("2026-10-01", "2026-10-02")]
    assert all("2026" not in sent.text for sent in bigquery.sent)
    # Labels are most of the export and are not read.
    assert not [sent for sent in bigquery.sent if " labels" in sent.text or "ancestry" in sent.text]


def test_a_machine_over_midnight_touches_both_days(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(FIFTH, [used("2026-10-04T23", 1.0), used("2026-10-05T00", 1.0)])
    (delivery,) = source_of(bigquery).discover()
    assert delivery.days == (date(2026, 10, 4), date(2026, 10, 6))
    assert delivery.may_touch(date(2026, 10, 5))
    assert not delivery.may_touch(date(2026, 10, 6))


def test_the_same_state_is_the_same_delivery_and_another_is_another(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(FIFTH, [used("2026-10-05T00", 1.0)])
    bigquery.table.load(SIXTH, [used("2026-10-05T01", 1.0)])
    before = [d.delivery_id for d in source_of(bigquery).discover()]
    assert [d.delivery_id for d in source_of(bigquery).discover()] == before
    bigquery.table.load(SIXTH, [used("2026-10-05T02", 1.0, exported="2026-10-06T09:00:00")])
    sixth, fifth = (d.delivery_id for d in source_of(bigquery).discover())
    assert (sixth == before[0], fifth == before[1]) == (False, True)
    assert {d.delivery_id for d in source_of(bigquery, since=FIFTH).discover()} & {sixth, fifth} == set()


def test_rows_that_arrive_while_it_is_read_wait_for_the_next_run(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(FIFTH, [used("2026-10-05T00", 1.0)])
    source = source_of(bigquery)
    (delivery,) = source.discover()
    bigquery.table.load(FIFTH, [used("2026-10-05T00", 64.0, exported="2026-10-05T09:00:01")])
    assert by_hour(lines_of(source, delivery)) == {0: Decimal(1)}
    assert bigquery.read[0].parameters["watermark"] == datetime(2026, 10, 5, 9, tzinfo=UTC)
    assert by_hour(all_of(source_of(bigquery))) == {0: Decimal(65)}


def test_rows_that_arrive_late_under_an_old_time_of_export_are_told(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(FIFTH, [used("2026-10-05T00", 1.0)])
    source = source_of(bigquery)
    (delivery,) = source.discover()
    bigquery.table.load(FIFTH, [used("2026-10-05T01", 1.0)])
    with pytest.raises(AdapterError, match=r"2026-10-05: 1 rows were there, and 2 were read.*changed while.*Run again"):
        lines_of(source, delivery)


def test_the_limit_is_of_a_run_and_refused_with_estimate_limit_and_setting(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(FIFTH, [used("2026-10-05T00", 1.0)])
    bigquery.table.load(SIXTH, [used("2026-10-05T01", 1.0)])
    limit = 2 * LEAST_BILLED_BYTES
    source = source_of(bigquery, warehouse=Warehouse(max_bytes_billed=limit))
    sixth, fifth = source.discover()
    assert by_hour(lines_of(source, sixth)) == {1: Decimal(1)}
    assert [sent.maximum_bytes_billed for sent in bigquery.sent] == [limit, LEAST_BILLED_BYTES]
    with pytest.raises(AdapterError, match=r"bill 0\.010 GiB.*allows 0\.020 GiB.*0\.000 GiB are left.*Raise billing\.max_bytes"):
        lines_of(source, fifth)
    assert len(bigquery.read) == 1
    bigquery.value_bytes = 1 << 30
    mean = source_of(bigquery, warehouse=Warehouse(max_bytes_billed=8 << 30))
    # Discovery names three columns, of two rows: 6 GiB.
    assert len(mean.discover()) == 2
    with pytest.raises(AdapterError, match=r"allows 8\.0 GiB.*of which 2\.0 GiB are left") as refused:
        lines_of(mean, fifth)
    estimate = bigquery.sent[-1]
    # A value is a GiB here, and the day has one row.
    assert estimate.dry_run
    assert f"would bill {estimate.text.count(' AS ')}.0 GiB" in str(refused.value)


def test_a_first_run_is_estimated_without_being_paid(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(date(2026, 9, 1), [used("2026-09-01T00", 1.0)])
    bigquery.table.load(FIFTH, [used("2026-10-05T00", 1.0)])
    bigquery.table.load(SIXTH, [used("2026-10-05T01", 1.0)])
    bigquery.value_bytes = 1000
    scanned, limit = source_of(bigquery).first_run_bytes()
    assert all(sent.dry_run for sent in bigquery.sent)
    states, rows = bigquery.sent
    # Three columns for the states; those of the rows name usage_end_time and export_time among what is read.
    assert (states.partitions, scanned) == (rows.partitions, 2 * 1000 * (3 + rows.text.count(" AS ")))
    assert limit == 100 << 30


def test_another_project_pays_where_one_is_named(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(FIFTH, [used("2026-10-05T00", 1.0)])
    assert len(source_of(bigquery).discover()) == 1
    assert len(source_of(bigquery, warehouse=Warehouse("payer-project")).discover()) == 1
    assert [sent.project for sent in bigquery.sent] == ["finops-example", "payer-project"]


def test_pages_and_types_of_rest(bigquery: FakeBigQuery) -> None:
    rows = [used(f"2026-10-05T{hour:02d}", 0.1, -0.01, -0.02, cost_at_list="0.123456789") for hour in range(5)]
    bigquery.table.load(
        FIFTH, [*rows, used("2026-10-05T05", 0.30000000000000004, cost_type="tax", resource=None, cost_at_list="0")]
    )
    source = source_of(bigquery, "billed", "list")
    (delivery,) = source.discover()
    bigquery.pages, bigquery.page_rows = 0, 2
    lines = lines_of(source, delivery, "billed", "list")
    assert bigquery.pages == 3
    assert (
        sum(line["cost_nanos"] for line in lines.to_pylist() if line["cost_metric"] == "billed") == 5 * 70_000_000 + 300_000_000
    )
    assert sum(line["cost_nanos"] for line in lines.to_pylist() if line["cost_metric"] == "list") == 5 * 123_456_789
    assert {line["node_key"] for line in lines.to_pylist()} == {NODE_KEY, None}
    assert max(lines["charge_period_end"].to_pylist()) == datetime(2026, 10, 5, 6, tzinfo=UTC)


def test_the_storage_api_gives_the_lines_of_rest(bigquery: FakeBigQuery, storage: FakeStorage) -> None:
    rows = [used(f"2026-10-05T{hour:02d}", 1.0 + hour, -0.5, cost_at_list="1.5") for hour in range(10)]
    bigquery.table.load(FIFTH, [*rows, used("2026-10-05T10", 1.0, resource=None, adjustment_info={"id": "a"})])
    bigquery.page_rows = 2
    by_rest = all_of(source_of(bigquery, "billed", "list"), "billed", "list")
    assert not storage.sessions
    by_storage = all_of(source_of(bigquery, "billed", "list", storage=storage), "billed", "list")
    assert len(storage.sessions) == 1
    ordered = [("line_item_id", "ascending"), ("cost_metric", "ascending")]
    without = by_rest.drop_columns("source_row").sort_by(ordered)
    assert by_storage.drop_columns("source_row").sort_by(ordered).to_pylist() == without.to_pylist()
    assert len(by_rest) == 2 * (11 + 10)


def test_without_the_right_to_read_sessions_rest_is_used(bigquery: FakeBigQuery, storage: FakeStorage) -> None:
    bigquery.table.load(FIFTH, [used(f"2026-10-05T{hour:02d}", 1.0) for hour in range(10)])
    bigquery.page_rows, storage.denies = 2, True
    assert sum(by_hour(all_of(source_of(bigquery, storage=storage))).values()) == 10
    assert len(storage.sessions) == 1


def test_the_kind_and_the_path_choose_the_table(bigquery: FakeBigQuery) -> None:
    source = load_bill_source("gcp", BillOptions("bill", PATH, endpoint_url=bigquery.url))
    assert isinstance(source, GcpTableBill)
    bigquery.table.load(date(2020, 1, 2), [used("2020-01-01T00", 1.0)])
    (delivery,) = source.discover()
    assert source.format_of(delivery) == "the detailed export in BigQuery, 1 rows loaded on 2020-01-02"
    assert isinstance(bigquery.sent[0], Sent)
