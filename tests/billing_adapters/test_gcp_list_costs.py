"""List costs of Google's rows by the price list: price x quantity, to the last digit. Every figure is worked out by hand."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from allocation.errors import AdapterError
from allocation.money import to_nanos
from billing_adapters.gcp_list_costs import list_amounts
from billing_adapters.gcp_price_cache import SKUS, PriceList
from billing_adapters.row_batches import RowBatch
from tests.billing_adapters.test_gcp_machines import price

LATER = datetime(2026, 10, 20, tzinfo=UTC)
COMPUTE, STORAGE = "6F81-5844-456A", "95FF-2EF5-5EA1"
GPU, CORE, RAM, DISK = "039F-D0DA-4055", "2922-40C5-B19F", "2390-DCAF-DA38", "D973-5D65-BAB2"
ROWS = [
    price("gpu", 2_933_908_000, sku_id=GPU), price("gpu", 3_000_000_000, LATER, sku_id=GPU),
    price("core", 31_611_000, sku_id=CORE), price("ram", 4_237_000, sku_id=RAM),
    price("disk", 0, sku_id=DISK, region="global"), price("disk", 40_000_000, sku_id=DISK, region="global", tier_start=30.0),
]  # fmt: skip
ORDER = ("sku_id", "region", "effective_from", "tier_start")
LIST = PriceList(pa.Table.from_pylist(sorted(ROWS, key=lambda r: [str(r[k]) for k in ORDER]), schema=SKUS), LATER, "USD", "kept")


def row(sku: str, quantity: object, **more: object) -> dict[str, object]:
    told: dict[str, object] = {"sku.id": sku, "usage.amount_in_pricing_units": quantity, "location.region": "us-central1"}
    return told | {"service.id": COMPUTE, "cost": "9.99", "usage_start_time": "2026-10-05 00:00:00 UTC", "currency": "USD"} | more


def amounts(*rows: dict[str, object]) -> list[str | None]:
    columns = {name: pa.array([r[name] for r in rows]) for name in rows[0]}
    told: list[str | None] = list_amounts(RowBatch("bill.jsonl", 1, len(rows), columns), LIST).to_pylist()
    return told


def test_an_hour_of_an_a2_machine() -> None:
    assert amounts(row(GPU, "1"), row(CORE, "12"), row(RAM, "85")) == ["2.933908", "0.379332", "0.360145"]


def test_the_price_is_that_of_the_time_and_before_all_known_times_the_first() -> None:
    starts = ("2026-08-01 00:00:00 UTC", "2026-10-19 23:00:00 UTC", "2026-10-20 00:00:00 UTC", "2026-11-05 00:00:00 UTC")
    assert amounts(*(row(GPU, "1", usage_start_time=s) for s in starts)) == ["2.933908", "2.933908", "3", "3"]


@pytest.mark.parametrize(
    ("quantity", "amount"),
    [
        ("0.000000001", "0.000000002933908"), ("0", "0"), ("-2", "-5.867816"), ("1e-7", "0.0000002933908"), (0.1, "0.2933908"),
        (1 / 3, "0.9779693333333332355364"), ("100", "293.3908"), (None, None),
    ],
)  # fmt: skip
def test_nothing_is_rounded_before_money_is(quantity: object, amount: str | None) -> None:
    """A third is 0.3333333333333333 as it stands in the file: x 2.933908 = 0.9779693333333332355364 (16 and 6 decimals)."""
    (told,) = amounts(row(GPU, quantity))
    assert (told and Decimal(told)) == (amount and Decimal(amount))


def test_a_sum_of_nanos_comes_out_of_the_texts() -> None:
    nanos, residue = to_nanos(pa.array(amounts(row(GPU, str(1 / 3)), row(GPU, "1e-7"), row(GPU, "0"), row(GPU, "100"))))
    assert nanos.to_pylist() == [977_969_333, 293, 0, 293_390_800_000]
    assert residue.to_pylist() == [Decimal("3.333332355364E-10"), Decimal("3.908E-10"), 0, 0]


def test_of_several_tiers_the_first_that_costs_anything_and_a_global_price_holds_everywhere() -> None:
    assert amounts(row(DISK, "2.5")) == ["0.1"]


def test_without_a_price_there_is_none_and_other_services_stand_at_their_cost() -> None:
    assert amounts(row("0000", "1"), row(GPU, "1", **{"location.region": "asia-east1"})) == [None, None]
    assert amounts(row("0000", "1", **{"service.id": STORAGE}), row(GPU, "2")) == ["9.99", "5.867816"]


def test_another_currency_and_a_quantity_that_is_none_are_refused() -> None:
    with pytest.raises(
        AdapterError, match=r"bill\.jsonl, row 2: the row is in EUR, and the list prices .* in USD.*prices\.currency"
    ):
        amounts(row(GPU, "1"), row(GPU, "1", currency="EUR"))
    with pytest.raises(AdapterError, match=r"row 1: usage\.amount_in_pricing_units: '1,5' is no number"):
        amounts(row(GPU, "1,5"))
    with pytest.raises(AdapterError, match="too many digits"):
        amounts(row(GPU, "1e-40"))
