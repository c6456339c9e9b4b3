"""What a Google machine costs by the price list: its parts, their versions over time, and what is not known. Derived by hand."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from allocation.times import to_ms
from billing_adapters.gcp_machines import (
    MachinePrice,
    MachinePrices,
    NoListPriceError,
    machine_of,
    region_of,
)
from billing_adapters.gcp_price_cache import SKUS, PriceList

SINCE, LATER = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 20, tzinfo=UTC)
GPU, CORE, RAM = "Nvidia Tesla A100 GPU", "A2 Instance Core", "A2 Instance Ram"


def price(name: str, nanos: int, since: datetime = SINCE, **more: object) -> dict[str, object]:
    group, unit = ("RAM", "GiBy.h") if name.endswith("Ram") else ("CPU", "h")
    told: dict[str, object] = {
        "sku_id": name.replace(" ", "-"),
        "description": f"{name} running in Americas",
        "resource_family": "Compute",
        "resource_group": group,
    }
    told |= {"usage_type": "OnDemand", "region": "us-central1", "effective_from": since, "usage_unit": unit, "tier_start": 0.0}
    return told | {"currency": "USD", "price_nanos": nanos} | more


def listed(*rows: dict[str, object]) -> MachinePrices:
    order = sorted(rows, key=lambda r: (str(r["sku_id"]), str(r["region"]), str(r["effective_from"])))
    return MachinePrices(PriceList(pa.Table.from_pylist(order, schema=SKUS), LATER, "USD", "prices"))


A2 = (price(GPU, 2_933_908_000), price(CORE, 31_611_000), price(RAM, 4_237_000))


def test_an_a2_machine_is_the_sum_of_its_parts() -> None:
    """2.933908 + 12 x 0.031611 + 85 x 0.004237 = 3.673385; the GPU is 2.933908 / 3.673385 = 0.79869330331... of it."""
    (found,) = listed(*A2).of(machine_of("a2-highgpu-1g"), "us-central1")
    assert (found.hour_nanos, found.gpu_share_ppb) == (3_673_385_000, 798_693_303)
    (eight,) = listed(*A2).of(machine_of("a2-highgpu-8g"), "us-central1")
    assert eight.hour_nanos == 8 * 3_673_385_000


def test_spot_commitments_and_other_regions_are_other_prices() -> None:
    others = [
        price(f"Spot Preemptible {CORE}", 1, usage_type="OnDemand"), price(CORE, 2, sku_id="x", usage_type="Preemptible"),
        price(f"Commitment v1: {GPU}", 3, usage_type="Commit1Yr"), price(GPU, 4, region="europe-west4"),
        price(RAM, 5, tier_start=100.0),
    ]  # fmt: skip
    (found,) = listed(*A2, *others).of(machine_of("a2-highgpu-1g"), "us-central1")
    assert found.hour_nanos == 3_673_385_000


def test_a_change_of_one_part_is_a_new_version_of_the_machine() -> None:
    later = price(GPU, 3_000_000_000, LATER)
    before, after = listed(*A2, later).of(machine_of("a2-highgpu-1g"), "us-central1")
    assert (before.hour_nanos, after.hour_nanos) == (3_673_385_000, 3_739_477_000)
    assert before.until_ms == after.from_ms == to_ms(LATER)
    assert before.from_ms == 0, "before it is known the first price stands"
    assert listed(*A2, later).known_from_ms(machine_of("a2-highgpu-1g"), "us-central1") == to_ms(SINCE)


def test_an_n1_machine_has_what_is_attached_and_memory_in_parts_of_a_gib() -> None:
    """n1-highcpu-2: 2 cores, 1.8 GiB, two T4: 2 x 0.35 + 2 x 0.031611 + 1.8 x 0.004237 = 0.7708486."""
    prices = listed(
        price("Nvidia Tesla T4 GPU", 350_000_000), price("N1 Predefined Instance Core", 31_611_000),
        price("N1 Predefined Instance Ram", 4_237_000, sku_id="ram"),
    )  # fmt: skip
    for models in ("Tesla T4", "nvidia-tesla-t4", "Tesla-T4-SHARED\nTesla T4"):
        (found,) = prices.of(machine_of("n1-highcpu-2", 2, models), "us-central1")
        assert found.hour_nanos == 770_848_600
    for gpus, models in ((2, ""), (None, "Tesla T4"), (2, "Tesla T4\nTesla V100-SXM2-16GB")):
        with pytest.raises(NoListPriceError, match="attached to the n1-highcpu-2 is unknown"):
            machine_of("n1-highcpu-2", gpus, models)


def test_an_a4_machine_has_one_price_for_all_of_it() -> None:
    prices = listed(price("A4 Nvidia B200 (1 gpu slice)", 16_110_000_000))
    (found,) = prices.of(machine_of("a4-highgpu-8g"), "us-central1")
    assert (found.hour_nanos, found.gpu_share_ppb) == (128_880_000_000, 10**9)


def test_the_first_of_several_names_that_a_region_has() -> None:
    core, ram = price("A3Plus Instance Core", 0), price("A3Plus Instance Ram", 0, sku_id="ram")
    mega, plus = price("Nvidia H100 80GB Mega GPU", 2, sku_id="m"), price("Nvidia H100 80GB Plus GPU", 1, sku_id="p")
    machine = machine_of("a3-megagpu-8g")
    assert [listed(core, ram, *gpus).of(machine, "us-central1")[0].hour_nanos for gpus in ((mega,), (mega, plus))] == [16, 8]


@pytest.mark.parametrize(
    ("rows", "region", "text"),
    [
        (A2[1:], "us-central1", "no on-demand SKU 'Nvidia Tesla A100 GPU' in us-central1"),
        (A2, "europe-west4", "no on-demand SKU 'Nvidia Tesla A100 GPU' in europe-west4"),
        (A2[:2], "us-central1", "no on-demand SKU 'A2 Instance Ram' in us-central1"),
        ((*A2, price(CORE, 1, sku_id="other")), "us-central1", "the SKUs A2-Instance-Core, other price .*differently"),
        ((*A2[:2], price(RAM, 1, usage_unit="GiBy.mo")), "us-central1", r"priced per 'GiBy\.mo', not per 'GiBy\.h'"),
        ((price(GPU, 0), *A2[1:]), "us-central1", "a list price of 0"),
    ],
)  # fmt: skip
def test_what_the_list_does_not_say(rows: tuple[dict[str, object], ...], region: str, text: str) -> None:
    with pytest.raises(NoListPriceError, match=text):
        listed(*rows).of(machine_of("a2-highgpu-1g"), region)


@pytest.mark.parametrize(
    ("key", "region"), [("gce:p/us-central1-a/n", "us-central1"), ("gce:p.com:x/europe-west4-b/n", "europe-west4")]
)
def test_a_region_is_in_the_key(key: str, region: str) -> None:
    assert region_of(key) == region


@pytest.mark.parametrize("key", ["i-0abc", "gpu-1", "gce:p/n", "/subscriptions/s"])
def test_machines_of_others_have_none(key: str) -> None:
    with pytest.raises(NoListPriceError, match="no machine of Google"):
        region_of(key)


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(NoListPriceError, match="'e2-standard-8' are not known"):
        machine_of("e2-standard-8")


@pytest.mark.parametrize(("milli", "nanos"), [(499, 0), (500, 0), (501, 1), (1500, 2), (2500, 2)])
def test_an_hour_is_rounded_half_to_even(milli: int, nanos: int) -> None:
    assert MachinePrice(0, 1, milli).hour_nanos == nanos
