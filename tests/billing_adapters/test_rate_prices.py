"""Rates that say ``price: gcp-list``: lines over time, and what is refused. Every amount is worked out by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from allocation.errors import AdapterError
from allocation.times import to_ms
from billing_adapters.base import BillOptions, PriceOptions
from billing_adapters.gcp_machines import MachinePrices
from billing_adapters.rate_files import RateCardBill
from billing_adapters.rate_lines import DayOfCard, card_lines
from tests.billing_adapters.test_gcp_machines import A2, GPU, listed, price
from tests.billing_adapters.test_rate_cards import DAY, nanos, stay

HALF_PAST_ONE = datetime(2026, 10, 1, 1, 30, tzinfo=UTC)
HEAD = "currency: USD\nrates:\n"
LISTED = HEAD + "  - {name: a2, match: {instance_type: 'a2-*'}, price: gcp-list}\n"


def google(name: str, kind: str = "a2-highgpu-1g", zone: str = "us-central1-a", **more: object) -> dict[str, object]:
    key = f"gce:proj/{zone}/{name}"
    return stay(name, node_key=key, node_id=key.replace(":", "://", 1), instance_type=kind, gpus=1.0, **more)  # type: ignore[arg-type]


def day_of(
    folder: Path, text: str, prices: MachinePrices, *stays: dict[str, object], costs: tuple[str, ...] = ("billed",)
) -> DayOfCard:
    path = folder / ("card.csv" if text.startswith("currency,") else "card.yaml")
    path.write_text(text, encoding="utf-8")
    source = RateCardBill(BillOptions("own", str(path), costs))
    source.prices = prices
    (delivery,) = source.discover()
    card, charges = source.card(delivery)
    return card_lines(card, charges, pd.DataFrame(list(stays)), DAY, source.options, (delivery.delivery_id, "card"), prices)


def test_an_hour_is_the_sum_of_the_list_prices_of_its_parts(tmp_path: Path) -> None:
    lines = day_of(tmp_path, LISTED, listed(*A2), google("n"), google("m", "a2-highgpu-8g"), costs=("billed", "list")).lines
    assert sorted(set(nanos(lines))) == [3_673_385_000, 8 * 3_673_385_000]
    assert len(lines) == 2 * 2 * 24
    assert lines["cost_metric"].unique().to_pylist() == ["billed", "list"]


def test_a_price_that_changes_inside_an_hour_splits_it(tmp_path: Path) -> None:
    """Until 01:30 3.673385 an hour, then 3.739477: the second hour is 1.8366925 + 1.8697385 = 3.706431, one line."""
    prices = listed(*A2, price(GPU, 3_000_000_000, HALF_PAST_ONE))
    found = day_of(tmp_path, LISTED, prices, google("n"))
    assert nanos(found.lines) == [3_673_385_000, 3_706_431_000] + [3_739_477_000] * 22
    assert (found.lines["usage_quantity"].to_pylist(), found.early) == ([1.0] * 24, ())
    assert len(set(found.lines["line_item_id"].to_pylist())) == 24


def test_a_price_known_only_later_stands_for_the_time_before_and_is_told(tmp_path: Path) -> None:
    prices = listed(*(row | {"effective_from": HALF_PAST_ONE + timedelta(days=3)} for row in A2))
    found = day_of(tmp_path, LISTED, prices, google("n"))
    assert (nanos(found.lines), found.early) == ([3_673_385_000] * 24, ("a2",))


def test_beside_an_amount_and_in_csv(tmp_path: Path) -> None:
    text = "currency,name,instance_type,price,per,amount\nUSD,a2,a2-*,gcp-list,,\nUSD,own,hgx,,node-hour,2\n"
    found = day_of(tmp_path, text, listed(*A2), google("n"), stay("rack"))
    assert sorted(set(nanos(found.lines))) == [2_000_000_000, 3_673_385_000]


def test_a_rate_that_fits_no_machine_is_unused(tmp_path: Path) -> None:
    assert day_of(tmp_path, LISTED, listed(*A2), stay("rack")).unused == ("a2",)


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        (google("n", zone="europe-west4-b"), "of the node n the price list has no on-demand SKU .* in europe-west4"),
        (google("n", "a2-custom"), "of the node n the parts of the machine type 'a2-custom' are not known"),
        (stay("n", instance_type="a2-highgpu-1g"), "of the node n it is no machine of Google"),
    ],
)
def test_a_machine_without_a_price_ends_the_run(tmp_path: Path, machine: dict[str, object], text: str) -> None:
    with pytest.raises(AdapterError, match=f"the rate 'a2' is a list price of Google, and {text}.*Give such nodes an `amount`"):
        day_of(tmp_path, LISTED, listed(*A2), machine)


@pytest.mark.parametrize(
    "more", ["amount: 1, per: node-hour", "parts: {x: {amount: 1, per: month}}", "per: month", "list: 1, amount: 2"]
)
def test_a_list_price_stands_alone(tmp_path: Path, more: str) -> None:
    text = HEAD + f"  - {{name: a2, match: {{node: '*'}}, price: gcp-list, {more}}}\n"
    with pytest.raises(AdapterError, match="'a2': `price` is that of a node-hour and stands alone"):
        day_of(tmp_path, text, listed(*A2), google("n"))


def test_a_card_in_another_currency_and_another_list(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match=r"the card is in EUR and the list prices are in USD; set prices\.currency"):
        day_of(tmp_path, LISTED.replace("USD", "EUR"), listed(*A2), google("n"))
    with pytest.raises(AdapterError, match="gcp-list"):
        day_of(tmp_path, LISTED.replace("gcp-list", "gcp"), listed(*A2), google("n"))


def test_other_prices_are_another_delivery_of_the_same_card(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(LISTED, encoding="utf-8")
    marks = []
    for prices in (listed(*A2), listed(*A2), listed(*A2, price(GPU, 1, HALF_PAST_ONE))):
        source = RateCardBill(BillOptions("own", str(path), prices=PriceOptions(str(tmp_path), HALF_PAST_ONE)))
        source.prices = prices
        marks.append(source.discover()[0].delivery_id)
    assert marks[0] == marks[1] != marks[2]
    assert to_ms(HALF_PAST_ONE) > DAY
