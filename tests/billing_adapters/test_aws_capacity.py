"""What several machines pay for together: capacity reservations, capacity blocks, HyperPod clusters."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import AdapterError
from billing_adapters.base import CapacityBlock
from tests.billing_adapters.bills import cur_bytes, parse_all, write
from tests.billing_adapters.reports import legacy_bytes

ARN = "arn:aws:ec2:us-west-2:111122223333:capacity-reservation/cr-0ABC"
CLUSTER = "arn:aws:sagemaker:us-west-2:111122223333:cluster/a1b2c3d4e5f6"
BLOCK = CapacityBlock(
    "cr-0abc", datetime(2026, 10, 1, 11, 30, tzinfo=UTC), datetime(2026, 10, 3, 11, 30, tzinfo=UTC), 2, ("i-0a00000000000001a",)
)
FEE = {
    "line_item_line_item_type": "Fee",
    "line_item_resource_id": ARN,
    "line_item_usage_type": "USW2-Purchase",
    "line_item_unblended_cost": "3776",
}
IN_COLUMN = {
    "capacity_reservation_capacity_reservation_arn": ARN,
    "capacity_reservation_capacity_reservation_status": "Used",
    "capacity_reservation_capacity_reservation_type": "CapacityBlock",
}


def hour(start: int, **more: str) -> dict[str, str]:
    day, begin = divmod(start, 24)
    later, end = divmod(start + 1, 24)
    return {
        "line_item_usage_start_date": f"2026-10-{day + 1:02}T{begin:02}:00:00Z",
        "line_item_usage_end_date": f"2026-10-{later + 1:02}T{end:02}:00:00Z",
        **more,
    }


def lines(tmp_path: Path, *rows: dict[str, str], blocks: tuple[CapacityBlock, ...] = (), **more: str) -> pa.Table:
    return parse_all("aws-cur2", write(tmp_path / "bill.csv", cur_bytes(*rows)), capacity_blocks=blocks, **more)


def test_lines_of_a_capacity_reservation_carry_its_id(tmp_path: Path) -> None:
    unused = {"line_item_resource_id": ARN}
    rows: tuple[dict[str, str], ...] = (
        IN_COLUMN,
        {},
        {**unused, "line_item_usage_type": "USW2-UnusedBox:p5.48xlarge"},
        {**unused, "line_item_usage_type": "UnusedDed:p5.48xlarge"},
        {**unused, "line_item_usage_type": "USW2-Reservation:p5.48xlarge"},
        {**unused, "line_item_usage_type": "DedicatedRes:p5.48xlarge"},
        {**IN_COLUMN, "capacity_reservation_capacity_reservation_status": "Unused", "line_item_resource_id": ARN},
    )
    table = lines(tmp_path, *rows)
    assert table["capacity_reservation"].to_pylist() == ["cr-0abc", None, *["cr-0abc"] * 5]
    assert table["scope_rule"].to_pylist() == [None, None, *["reserved_unused"] * 5]
    assert table["machine_ms"].to_pylist() == [3_600_000, 3_600_000, *[None] * 5]
    assert table["pool"].to_pylist() == [None] * 7


def test_an_hour_in_several_rows_of_reservations_keeps_them_all(tmp_path: Path) -> None:
    half = {"line_item_usage_amount": "0.5", "line_item_unblended_cost": "49.16"}
    other = {**IN_COLUMN, "capacity_reservation_capacity_reservation_arn": ARN.replace("0ABC", "0def")}
    table = lines(tmp_path, {**IN_COLUMN, **half}, {**other, **half})
    assert table["capacity_reservation"].to_pylist() == ["cr-0abc", "cr-0def"]
    assert sum(table["cost_nanos"].to_pylist()) == 98_320_000_000
    assert sum(table["machine_ms"].to_pylist()) == 3_600_000


@pytest.mark.parametrize("resource", [ARN, "cr-0abc", "capacity-reservation/cr-0Abc"])
def test_the_fee_of_a_block_is_of_its_whole_time_and_of_its_machines(tmp_path: Path, resource: str) -> None:
    table = lines(tmp_path, {**FEE, "line_item_resource_id": resource}, {}, blocks=(BLOCK,))
    fee, usage = table.to_pylist()
    assert (fee["charge_period_start"], fee["charge_period_end"]) == (BLOCK.start, BLOCK.end)
    assert (fee["pool"], fee["pool_size"], fee["scope_rule"]) == ("reservation:cr-0abc", 2, None)
    assert (fee["cost_nanos"], fee["charge_category"], fee["machine_ms"]) == (3776 * 10**9, "Purchase", None)
    assert (usage["pool"], usage["pool_size"]) == (None, None)
    assert usage["charge_period_start"] == datetime(2026, 10, 1, tzinfo=UTC)


def test_what_is_given_back_of_a_block_goes_where_its_fee_went(tmp_path: Path) -> None:
    rows = [
        {**FEE, "line_item_line_item_type": name, "line_item_unblended_cost": "-1"} for name in ("Refund", "Tax", "EdpDiscount")
    ]
    table = lines(tmp_path, *rows, blocks=(BLOCK,))
    assert table["pool"].to_pylist() == ["reservation:cr-0abc"] * 3
    assert set(table["charge_period_end"].to_pylist()) == {BLOCK.end}


def test_the_fee_of_a_block_stays_what_it_is_under_effective(tmp_path: Path) -> None:
    """A reservation's ARN makes other fees 0 under effective; a block's fee has no other line that carries it."""
    row = {**FEE, "reservation_reservation_a_r_n": ARN}
    table = lines(tmp_path, row, blocks=(BLOCK,), cost="effective")
    assert table["cost_nanos"].to_pylist() == [3776 * 10**9]


def test_a_fee_without_its_block_is_out_of_scope(tmp_path: Path) -> None:
    other = CapacityBlock("cr-0other", BLOCK.start, BLOCK.end, 1)
    for blocks in ((), (other,)):
        (fee,) = lines(tmp_path, FEE, blocks=blocks).to_pylist()
        assert (fee["scope_rule"], fee["pool"], fee["capacity_reservation"]) == ("capacity_block", None, "cr-0abc")
        assert fee["charge_period_start"] == datetime(2026, 10, 1, tzinfo=UTC)


def test_machines_that_the_configuration_names_ran_in_the_block_during_its_time(tmp_path: Path) -> None:
    other = {"line_item_resource_id": "i-0b00000000000001b"}
    rows = (hour(10), hour(11), hour(58), hour(59), hour(60), hour(12, **other), hour(12, **IN_COLUMN))
    kept = CapacityBlock("cr-0def", BLOCK.start, BLOCK.end, 1, ("i-0a00000000000001a",))
    table = lines(tmp_path, *rows, blocks=(kept,))
    marked = [None, "cr-0def", "cr-0def", "cr-0def", None, None, "cr-0abc"]
    assert table["capacity_reservation"].to_pylist() == marked


def test_the_legacy_report_has_blocks_too(tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", legacy_bytes(FEE, hour(12)))
    table = parse_all("aws-cur", path, capacity_blocks=(BLOCK,))
    assert table["pool"].to_pylist() == ["reservation:cr-0abc", None]
    assert table["capacity_reservation"].to_pylist() == ["cr-0abc", "cr-0abc"]


def test_hyperpod_lines_are_paid_by_the_machines_of_their_cluster(tmp_path: Path) -> None:
    pod = {
        "line_item_product_code": "AmazonSageMaker",
        "line_item_usage_type": "USW2-Cluster:ml.p5.48xlarge",
        "line_item_resource_id": CLUSTER,
        "product_instance_type": "p5.48xlarge",
    }
    rows = (
        pod,
        {**pod, "line_item_resource_id": "i-0a00000000000001a"},
        {**pod, "line_item_usage_type": "USW2-Train:ml.p5.48xlarge"},
        {**pod, "line_item_line_item_type": "Tax"},
        {**pod, "line_item_product_code": "AmazonEC2"},
    )
    table = lines(tmp_path, *rows)
    assert table["pool"].to_pylist() == ["hyperpod:a1b2c3d4e5f6", None, None, "hyperpod:a1b2c3d4e5f6", None]
    assert table["scope_rule"].to_pylist() == [None, None, "usage_not_instance", None, "usage_not_instance"]
    assert table["instance_type"].to_pylist()[:3] == ["ml.p5.48xlarge", "ml.p5.48xlarge", "p5.48xlarge"]
    assert table["machine_ms"].to_pylist() == [None, 3_600_000, None, None, None]
    assert table["pool_size"].to_pylist() == [None] * 5


@pytest.mark.parametrize("years", [-1, 2])
def test_a_block_whose_time_is_far_from_its_fee_is_refused(tmp_path: Path, years: int) -> None:
    far = timedelta(days=365 * years)
    slip = CapacityBlock(BLOCK.reservation, BLOCK.start + far, BLOCK.end + far, 1)
    with pytest.raises(AdapterError, match=r"row 1: .*billing\.capacity_blocks says that it runs from.*`from` and `until`"):
        lines(tmp_path, FEE, blocks=(slip,))
