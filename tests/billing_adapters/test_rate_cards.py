"""Rate cards: which lines a day has, what each hour costs to the nano, and what is refused."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from allocation.errors import AdapterError
from allocation.money import sum_nanos
from allocation.times import DAY_MS, HOUR_MS, to_ms
from billing_adapters.base import BillOptions
from billing_adapters.rate_files import RateCardBill
from billing_adapters.rate_lines import DayOfCard, card_lines, part_of_hour

DAY = to_ms(datetime(2026, 10, 1, tzinfo=UTC))
EVER = to_ms(datetime(2200, 1, 1, tzinfo=UTC))
UNIT = 10**9
MINUTE = 60_000
HEAD = "currency: EUR\nrates:\n"
SIMPLE = HEAD + "  - {name: a, match: {node: '*'}, per: node-hour, amount: 12.50}\n"


def stay(node: str = "gpu-1", start: int = 0, end: int = EVER, **more: object) -> dict[str, object]:
    told = {"node_key": node, "node": node, "node_id": f"metal://{node}", "instance_type": "hgx", "gpu_model": None, "gpus": 8.0}
    return told | {"cluster": "dc", "alive_from_ms": start, "alive_until_ms": end} | more


def day_of(
    folder: Path,
    text: str,
    *stays: dict[str, object],
    name: str = "card.yaml",
    costs: tuple[str, ...] = ("billed",),
    day: int = DAY,
) -> DayOfCard:
    (folder / name).write_text(text, encoding="utf-8")
    source = RateCardBill(BillOptions("own", str(folder / name), costs))
    (delivery,) = source.discover()
    card, charges = source.card(delivery)
    told = pd.DataFrame(list(stays or (stay(),)))
    return card_lines(card, charges, told, day, source.options, (delivery.delivery_id, delivery.files[0]))


def nanos(lines: pa.Table) -> list[int]:
    found: list[int] = lines["cost_nanos"].to_pylist()
    return found


def test_a_node_costs_its_hour_all_day_whoever_uses_it(tmp_path: Path) -> None:
    lines = day_of(tmp_path, SIMPLE).lines
    assert nanos(lines) == [12_500_000_000] * 24
    first = lines.slice(0, 1).to_pylist()[0]
    assert (first["resource_id"], first["node_key"], first["line_type"], first["usage_type"]) == (
        "metal://gpu-1",
        "gpu-1",
        "rate",
        "a",
    )
    assert (first["charge_period_start"], first["usage_quantity"], first["source_row"]) == (
        datetime(2026, 10, 1, tzinfo=UTC),
        1.0,
        1,
    )
    assert len(set(lines["line_item_id"].to_pylist())) == 24


def test_twenty_minutes_cost_a_third(tmp_path: Path) -> None:
    alive = stay(start=DAY + HOUR_MS + 40 * MINUTE, end=DAY + 2 * HOUR_MS + 15 * MINUTE)
    lines = day_of(tmp_path, SIMPLE, alive).lines
    # 12.5 / 3 = 4.1666666666..., 12.5 / 4 = 3.125
    assert nanos(lines) == [4_166_666_667, 3_125_000_000]
    assert lines["machine_ms"].to_pylist() == [20 * MINUTE, 15 * MINUTE]


def test_a_part_of_an_hour_and_its_rest_are_the_hour() -> None:
    alive = np.array([1, 1_200_000, 1_800_000, 3_599_999])
    for whole in (1, 7, 12_500_000_001, 9_223_372_036_854_775_807):
        there, gone = part_of_hour(np.full(4, whole), alive), part_of_hour(np.full(4, whole), HOUR_MS - alive)
        assert (np.abs(there + gone - whole) <= 1).all()
    assert part_of_hour(np.array([1]), np.array([HOUR_MS // 2])).tolist() == [1]


def test_a_month_adds_up_to_its_amount_exactly(tmp_path: Path) -> None:
    card = HEAD + "  - {name: a, match: {node: '*'}, per: month, amount: 1000.00}\n"
    days = [nanos(day_of(tmp_path, card, day=DAY + n * DAY_MS).lines) for n in range(31)]
    assert sum(map(sum, days)) == 1000 * UNIT
    # 10^12 = 744 x 1344086021 + 376: the 376th hour is hour 15 of the 16th day.
    assert (days[15][15], days[15][16]) == (1_344_086_022, 1_344_086_021)


@pytest.mark.parametrize("end", ["months: 48", "end: 2029-10-01"])
def test_a_depreciation_is_exact_over_its_whole_time(tmp_path: Path, end: str) -> None:
    part = f"{{purchase: '250000', residual: '25000', start: 2025-10-01, {end}}}"
    card = HEAD + f"  - {{name: a, match: {{node: '*'}}, parts: {{depreciation: {part}}}}}\n"
    (tmp_path / "card.yaml").write_text(card, encoding="utf-8")
    source = RateCardBill(BillOptions("own", str(tmp_path / "card.yaml")))
    (charge,) = source.card(source.discover()[0])[1]
    start = to_ms(datetime(2025, 10, 1, tzinfo=UTC))
    hours = start + HOUR_MS * np.arange(35064, dtype=np.int64)
    assert sum_nanos(charge.hourly(hours, charge.nanos)) == 225_000 * UNIT
    assert len(day_of(tmp_path, card, day=start + 1461 * DAY_MS).lines) == 0
    assert len(day_of(tmp_path, card, day=start + 1460 * DAY_MS).lines) == 24


PARTS = (
    HEAD
    + """
  - name: own
    match: {node: "gpu-*"}
    parts:
      depreciation: {purchase: 250000, residual: 25000, start: 2025-10-01, months: 48}
      power: {kw: 10.2, price_per_kwh: 0.21}
      cooling: {factor: 0.3, of: power}
      support: {amount: 1000.00, per: month}
"""
)
PARTS_CSV = """currency,name,node,part,per,amount,purchase,residual,start,months,kw,price_per_kwh,factor,of
EUR,own,gpu-*,depreciation,,,250000,25000,2025-10-01,48,,,,
,own,,power,,,,,,,10.2,0.21,,
,own,,cooling,,,,,,,,,0.3,power
,own,,support,month,1000.00,,,,,,,,
"""


def test_parts_are_a_line_each_and_csv_says_the_same_as_yaml(tmp_path: Path) -> None:
    yaml, csv = day_of(tmp_path, PARTS).lines, day_of(tmp_path, PARTS_CSV, name="card.csv").lines
    ours = ["line_item_id", "line_type", "cost_nanos", "charge_period_start", "resource_id"]
    keys = [("line_item_id", "ascending")]
    assert yaml.select(ours).sort_by(keys).to_pylist() == csv.select(ours).sort_by(keys).to_pylist()
    hour = dict(zip(yaml["line_type"].to_pylist()[:4], nanos(yaml)[:4], strict=True))
    # 225000 x 10^9 = 35064 x 6416837782 + 11952, and this is hour 8760 of them.
    assert hour == {"depreciation": 6_416_837_783, "power": 2_142_000_000, "cooling": 642_600_000, "support": 1_344_086_022}
    assert sorted(set(csv["source_row"].to_pylist())) == [1, 2, 3, 4]


def test_a_price_changes_at_midnight_and_within_an_hour(tmp_path: Path) -> None:
    card = HEAD + (
        "  - {name: old, match: {node: '*'}, per: node-hour, amount: 6, until: 2026-10-02}\n"
        "  - {name: new, match: {node: '*'}, per: node-hour, amount: 9, from: 2026-10-02, until: '2026-10-02T01:20:00Z'}\n"
        "  - {name: newer, match: {node: '*'}, per: node-hour, amount: 3, from: '2026-10-02 03:20:00+02:00'}\n"
    )
    assert nanos(day_of(tmp_path, card).lines) == [6 * UNIT] * 24
    second = day_of(tmp_path, card, day=DAY + DAY_MS).lines
    # 00:00 new 9; 01:00 new 9 x 20/60 = 3 and newer 3 x 40/60 = 2; then 3.
    assert nanos(second) == [9 * UNIT, 3 * UNIT, 2 * UNIT, *[3 * UNIT] * 22]
    assert second["machine_ms"].to_pylist() == [HOUR_MS] * 25


def test_gpus_are_counted_and_none_cost_nothing(tmp_path: Path) -> None:
    card = HEAD + "  - {name: a, match: {instance_type: HGX}, per: gpu-hour, amount: 1.5}\n"
    lines = day_of(tmp_path, card, stay(), stay("cpu-1", gpus=0.0)).lines
    assert (set(nanos(lines)), set(lines["node_key"].to_pylist())) == ({12 * UNIT}, {"gpu-1"})
    with pytest.raises(AdapterError, match="how many GPUs has the node gpu-2"):
        day_of(tmp_path, card, stay("gpu-2", gpus=float("nan")))


def test_a_machine_under_two_names_costs_once(tmp_path: Path) -> None:
    stays = [stay(end=DAY + 2 * HOUR_MS), stay(node="gpu-9", node_key="gpu-1", start=DAY + HOUR_MS, end=DAY + 3 * HOUR_MS)]
    assert nanos(day_of(tmp_path, SIMPLE, *stays).lines) == [12_500_000_000] * 3


def test_clusters_patterns_and_rates_that_fit_nothing(tmp_path: Path) -> None:
    card = HEAD + (
        "  - {name: a, match: {node: 'gpu-?', gpu_model: '*H100*'}, cluster: dc, per: node-hour, amount: 1}\n"
        "  - {name: b, match: {provider_id: 'metal://other*'}, per: node-hour, amount: 2}\n"
        "  - {name: past, match: {node: 'x'}, per: node-hour, amount: 2, until: 2026-01-01}\n"
    )
    found = day_of(
        tmp_path, card, stay(gpu_model="nvidia-h100"), stay("gpu-2"), stay("gpu-3", cluster="lab", gpu_model="H100"),
    )  # fmt: skip
    assert set(found.lines["node_key"].to_pylist()) == {"gpu-1"}
    assert found.unused == ("b",)


def test_the_one_price_is_each_metric_and_list_where_it_is_told(tmp_path: Path) -> None:
    card = HEAD + "  - {name: a, match: {node: '*'}, per: node-hour, amount: 2, list: 3}\n"
    lines = day_of(tmp_path, card, stay(start=DAY, end=DAY + HOUR_MS), costs=("billed", "effective", "contracted", "list")).lines
    assert dict(zip(lines["cost_metric"].to_pylist(), nanos(lines), strict=True)) == {
        "billed": 2 * UNIT, "effective": 2 * UNIT, "contracted": 2 * UNIT, "list": 3 * UNIT,
    }  # fmt: skip
    with pytest.raises(AdapterError, match="no `list` price; the card can say billed, effective, contracted"):
        day_of(tmp_path, SIMPLE, costs=("list",))


def test_ids_stay_when_the_price_changes(tmp_path: Path) -> None:
    before, after = day_of(tmp_path, SIMPLE).lines, day_of(tmp_path, SIMPLE.replace("12.50", "13")).lines
    assert before["line_item_id"].to_pylist() == after["line_item_id"].to_pylist()
    assert before["delivery_id"][0] != after["delivery_id"][0]


def rate(text: str) -> str:
    return HEAD + "  - {name: a, match: {node: '*'}, " + text + "}\n"


WRONG = [
    ("", "holds no rate card"),
    ("currency: EUR\nrates: []\n", "rates"),
    (SIMPLE.replace("currency: EUR\n", ""), "currency is missing"),
    (SIMPLE.replace("EUR", "EURO"), "no currency code of ISO 4217"),
    (rate("per: node-hour, amount: -1"), "is negative"),
    (rate("per: node-hour, amount: .nan"), "is no number"),
    (rate("per: node-hour, amount: '1,5'"), "is no number"),
    (rate("per: node-hour, amount: 0.0000000001"), "more than nine decimals"),
    (rate("per: node-hour, amount: 1e12"), "does not fit"),
    (rate("per: day, amount: 1"), "'node-hour', 'gpu-hour' or 'month'"),
    (rate("amount: 1"), "`amount` and `per`"),
    (rate("per: node-hour, amuont: 1"), "unknown key 'amuont' at rates.1.amuont; did you mean 'amount'"),
    (rate("per: node-hour, amount: 1, amount: 2"), "the key 'amount' stands twice"),
    (rate("per: node-hour, amount: 1, from: 2026-10-02, until: 2026-10-02"), "ends (`until`) before it begins"),
    (rate("per: node-hour, amount: 1, from: soon"), "the time 'soon' is impossible"),
    (rate("per: node-hour, amount: 1, parts: {x: {kw: 1, price_per_kwh: 1}}"), "and not both"),
    (rate("parts: {x: {kw: 1}}"), "`kw` and `price_per_kwh`"),
    (rate("parts: {x: {kw: 1.00001, price_per_kwh: 0.00001}}"), "more than nine decimals"),
    (rate("parts: {x: {factor: 1, of: power}}"), "is a factor of 'power'"),
    (rate("parts: {x: {purchase: 1, residual: 2, start: 2026-01-01, months: 1}}"), "`residual` is more than `purchase`"),
    (rate("parts: {x: {purchase: 1, start: 2026-01-01}}"), "say one of them"),
    (HEAD + "  - {name: a, match: {}, per: month, amount: 1}\n", "name at least one of node"),
    (SIMPLE + "  - {name: a, match: {node: x}, per: month, amount: 1}\n", "two rates have the name 'a'"),
    ("currency: [\n", "is no YAML"),
]


@pytest.mark.parametrize(("text", "problem"), WRONG)
def test_a_wrong_card_is_refused_with_its_file_and_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(AdapterError) as error:
        day_of(tmp_path, text)
    assert problem in str(error.value)
    assert "card.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no rates"),
        ("currency,nane\nEUR,a\n", "unknown column 'nane'; did you mean 'name'"),
        ("currency,name,name\nEUR,a,a\n", "the column 'name' stands twice"),
        ("currency,name,node,per,amount\nEUR,a,*,month,1\nUSD,b,*,month,1\n", "row 2: currency is 'USD' here and 'EUR'"),
        ("currency,name,node,per,amount\nEUR,a,*,month,1\nEUR,a,*,month,2\n", "row 2: the rate 'a' (rate) stands twice"),
        ("currency,name,node,per,amount\nEUR,a,*,month\n", "row 1: the row has not as many cells"),
    ],
)
def test_a_wrong_csv_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(AdapterError) as error:
        day_of(tmp_path, text, name="card.csv")
    assert problem in str(error.value)


@pytest.mark.parametrize("second", ["per: node-hour, amount: 1", "parts: {power: {kw: 1, price_per_kwh: 1}}"])
def test_two_prices_for_one_node_at_one_time_are_refused(tmp_path: Path, second: str) -> None:
    card = SIMPLE + "  - {name: b, match: {instance_type: hgx}, from: '2026-10-01T12:00:00Z', " + second + "}\n"
    with pytest.raises(AdapterError, match=r"'a' \(rate\) and 'b'.*gpu-1 from 2026-10-01T12:00:00Z on"):
        day_of(tmp_path, card)
    assert len(day_of(tmp_path, card, stay(end=DAY + 12 * HOUR_MS)).lines) == 12


def test_different_parts_of_two_rates_add_up(tmp_path: Path) -> None:
    card = HEAD + (
        "  - {name: a, match: {node: '*'}, parts: {power: {kw: 2, price_per_kwh: 1}}}\n"
        "  - {name: b, match: {node: '*'}, parts: {room: {amount: 1, per: node-hour}}}\n"
    )
    assert sum(nanos(day_of(tmp_path, card).lines)) == 24 * 3 * UNIT


def test_a_folder_of_cards_is_refused(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.csv"):
        (tmp_path / name).write_text(SIMPLE, encoding="utf-8")
    with pytest.raises(AdapterError, match="a rate card is one file"):
        RateCardBill(BillOptions("own", str(tmp_path))).discover()


def test_any_model_that_is_told_of_a_node_may_fit(tmp_path: Path) -> None:
    card = HEAD + "  - {name: a, match: {gpu_model: 'NVIDIA H100*'}, per: node-hour, amount: 1}\n"
    nodes = [stay(gpu_model="NVIDIA-H100-80GB-HBM3\nNVIDIA H100 80GB HBM3"), stay("gpu-2", gpu_model="NVIDIA A100\nx H100")]
    assert set(day_of(tmp_path, card, *nodes).lines["node_key"].to_pylist()) == {"gpu-1"}
