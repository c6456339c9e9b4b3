"""What every kind of bill does: the same promises, asked of each."""

import csv
import gzip
import io
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import AdapterError
from allocation.schemas import LINE_ITEMS
from billing_adapters.base import BillOptions
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import lines_of, parse_all, write
from tests.billing_adapters.kinds import Kind, each_kind

COSTS = ["12.3456789012", "-3.1", "0", "1e-7", "8999999999.123456789", "5.0000000005", "-5.0000000015"]
PLACES = ["source_file", "source_row", "delivery_id"]


def bill(kind: Kind, folder: Path) -> Path:
    return write(folder / "bill.csv", kind.content(*[{kind.cost: text} for text in COSTS * 3]))


def refused(kind: Kind, path: Path, *parts: str, currency: str | None = None, cost: str = "billed") -> None:
    with pytest.raises(AdapterError) as caught:
        parse_all(kind.name, path, cost=cost, currency=currency)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def placeless(lines: pa.Table) -> list[str]:
    return sorted(map(str, lines.drop_columns(PLACES).to_pylist()))


@each_kind
def test_lines_conform_and_keys_are_unique(kind: Kind, tmp_path: Path) -> None:
    source = load_bill_source(kind.name, BillOptions("bill", str(bill(kind, tmp_path))))
    (delivery,) = source.discover()
    lines = lines_of(source, delivery)
    assert lines.schema.equals(LINE_ITEMS.arrow(), check_metadata=True)
    assert len(set(lines["line_item_id"].to_pylist())) == lines.num_rows == len(COSTS) * 3
    assert set(lines["delivery_id"].to_pylist()) == {delivery.delivery_id}
    assert lines["source_row"].to_pylist() == list(range(1, lines.num_rows + 1))


@each_kind
def test_parsing_again_gives_the_same(kind: Kind, tmp_path: Path) -> None:
    path = bill(kind, tmp_path)
    first, second = (load_bill_source(kind.name, BillOptions("bill", str(path))) for _ in range(2))
    one, two = first.discover(), second.discover()
    assert one == two
    assert lines_of(first, one[0]).equals(lines_of(second, two[0]))
    assert lines_of(first, one[0]).equals(lines_of(first, one[0]))


@each_kind
def test_sum_equals_an_independent_sum(kind: Kind, tmp_path: Path) -> None:
    path = bill(kind, tmp_path)
    lines = parse_all(kind.name, path)
    wanted = sum(Decimal(row[kind.cost]) for row in csv.DictReader(io.StringIO(path.read_text())))
    nanos, residues = lines["cost_nanos"].to_pylist(), lines["cost_residue"].to_pylist()
    assert sum(nanos) * Decimal("1e-9") + sum(residues) == wanted
    assert all(abs(r) <= Decimal("5e-10") for r in residues)


@each_kind
def test_content_decides_the_delivery_and_place_does_not(kind: Kind, tmp_path: Path) -> None:
    path = bill(kind, tmp_path)
    copy = write(tmp_path / "elsewhere" / "bill.csv", path.read_bytes())
    other = write(tmp_path / "other" / "bill.csv", kind.content({}))
    ids = [load_bill_source(kind.name, BillOptions("bill", str(p))).discover()[0].delivery_id for p in (path, copy, other)]
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]


@each_kind
def test_order_of_rows_and_files_changes_places_only(kind: Kind, tmp_path: Path) -> None:
    changes = [{kind.cost: str(n % 5), kind.resource: f"i-{n % 3}"} for n in range(30)]
    parts = [kind.content(*changes[:11]), kind.content(*changes[11:])]
    two = kind.layout(tmp_path / "two", {"e-00001.csv.gz": parts[0], "e-00002.csv.gz": parts[1]})
    swapped = kind.layout(tmp_path / "swapped", {"e-00001.csv.gz": parts[1], "e-00002.csv.gz": parts[0]})
    random.Random(11).shuffle(changes)  # noqa: S311 - an order, no secret
    one = kind.layout(tmp_path / "one", {"e-00001.csv.gz": kind.content(*changes)})
    lines = [placeless(parse_all(kind.name, path)) for path in (two, swapped, one)]
    assert len(lines[0]) == 30
    assert lines[0] == lines[1] == lines[2]


@each_kind
def test_equal_rows_are_two_lines(kind: Kind, tmp_path: Path) -> None:
    lines = parse_all(kind.name, write(tmp_path / "bill.csv", kind.content({kind.cost: "4"}, {kind.cost: "4"})))
    assert lines["cost_nanos"].to_pylist() == [4 * 10**9] * 2
    ids = lines["line_item_id"].to_pylist()
    assert [i.rpartition("-")[2] for i in ids] == ["1", "2"]
    assert len({i.rpartition("-")[0] for i in ids}) == 1


@each_kind
def test_a_truncated_file_is_refused_by_its_name(kind: Kind, tmp_path: Path) -> None:
    rows = [{kind.cost: str(n), kind.resource: f"i-{n * 7919}"} for n in range(2000)]
    packed = gzip.compress(kind.content(*rows))
    refused(kind, write(tmp_path / "cut.csv.gz", packed[: len(packed) // 2]), "cut.csv.gz", "truncated")
    whole = kind.parquet(tmp_path / "whole.parquet", *rows)
    assert parse_all(kind.name, whole).num_rows == 2000
    refused(kind, write(tmp_path / "cut.parquet", whole.read_bytes()[:-300]), "cut.parquet", "truncated")


@each_kind
def test_header_only_has_no_lines(kind: Kind, tmp_path: Path) -> None:
    header = kind.content({}).splitlines(keepends=True)[0]
    assert parse_all(kind.name, write(tmp_path / "bill.csv", header)).num_rows == 0


@each_kind
def test_negative_lines_keep_their_sign(kind: Kind, tmp_path: Path) -> None:
    lines = parse_all(kind.name, write(tmp_path / "bill.csv", kind.content({kind.cost: "-2.5"}, {kind.cost: "1"})))
    assert lines["cost_nanos"].to_pylist() == [-2_500_000_000, 1_000_000_000]


ODD = [
    "💸🧾",
    "\u200fשרת\u200f",
    "=cmd('x')",
    "two\nlines",
    'a "quoted", comma',
    "x" * 256,
    "../../etc/passwd",
    "-1+1",
    "é\u0301",
]


@each_kind
def test_odd_characters_are_kept(kind: Kind, tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", kind.content(*[{kind.resource: f"i-{text}", kind.text: text} for text in ODD]))
    for lines in (parse_all(kind.name, path), parse_all(kind.name, kind.parquet(tmp_path / "b.parquet", *odd_changes(kind)))):
        assert lines["resource_id"].to_pylist() == [f"i-{text}" for text in ODD]
        assert lines["service"].to_pylist() == ODD


def odd_changes(kind: Kind) -> list[dict[str, str]]:
    return [{kind.resource: f"i-{text}", kind.text: text} for text in ODD]


@each_kind
def test_several_costs_in_one_reading_equal_readings_of_each(kind: Kind, tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", kind.content({}, {kind.cost: "7"}))
    together = parse_all(kind.name, path, cost=kind.sayable)
    assert together.equals(pa.concat_tables([parse_all(kind.name, path, cost=cost) for cost in kind.sayable]))
    assert together["cost_metric"].to_pylist() == [cost for cost in kind.sayable for _ in range(2)]
    assert len(set(together["line_item_id"].to_pylist())) == 2


@each_kind
def test_a_metric_that_cannot_be_said_is_refused_naming_those_that_can(kind: Kind, tmp_path: Path) -> None:
    if kind.unsayable:
        refused(kind, bill(kind, tmp_path), ", ".join(kind.sayable), kind.unsayable, cost=kind.unsayable)
    else:
        lacking = kind.content({}).replace(b"ListCost", b"x_Other")
        refused(kind, write(tmp_path / "b.csv", lacking), "b.csv", "billed, effective, contracted", cost="list")


@each_kind
@pytest.mark.parametrize("empty", ["", "NULL", "null", "(null)", "None", "N/A", "  "])
def test_an_empty_cost_is_refused_with_file_and_row(kind: Kind, tmp_path: Path, empty: str) -> None:
    path = write(tmp_path / "bill.csv", kind.content({}, {kind.cost: empty}, {}))
    refused(kind, path, "bill.csv, row 2", kind.told(kind.cost), "empty")


@each_kind
@pytest.mark.parametrize("text", ["NaN", "inf", "-Infinity", "1.234,56", "1,234.56", "12,5", "$5", "5 USD", "0x10", "١٢"])
def test_a_cost_that_is_no_number_is_refused_with_its_text(kind: Kind, tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "bill.csv", kind.content({kind.cost: text}))
    refused(kind, path, "bill.csv, row 1", kind.told(kind.cost), text, "no number")


@each_kind
@pytest.mark.parametrize(
    ("text", "nanos"),
    [("1e-7", 100), ("1E-9", 1), ("-0", 0), ("-0.0", 0), ("+1", 10**9), ("1.", 10**9), (".5", 5 * 10**8), (" 2 ", 2 * 10**9)],
)
def test_spellings_of_numbers(kind: Kind, tmp_path: Path, text: str, nanos: int) -> None:
    lines = parse_all(kind.name, write(tmp_path / "bill.csv", kind.content({kind.cost: text})))
    assert lines["cost_nanos"].to_pylist() == [nanos]


@each_kind
def test_another_currency_than_configured_is_refused(kind: Kind, tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", kind.content({}, {kind.currency: "EUR"}))
    refused(kind, path, "bill.csv, row 2", "EUR", "USD", currency="USD")


@each_kind
def test_two_currencies_stay_apart(kind: Kind, tmp_path: Path) -> None:
    path = write(tmp_path / "bill.csv", kind.content({kind.cost: "1"}, {kind.currency: "EUR", kind.cost: "2"}))
    lines = parse_all(kind.name, path)
    assert list(zip(lines["currency"].to_pylist(), lines["cost_nanos"].to_pylist(), strict=True)) == [
        ("USD", 10**9),
        ("EUR", 2 * 10**9),
    ]


@each_kind
@pytest.mark.parametrize("code", ["usd", "XXQ", "US", "$"])
def test_what_is_no_currency_is_refused(kind: Kind, tmp_path: Path, code: str) -> None:
    refused(kind, write(tmp_path / "bill.csv", kind.content({kind.currency: code})), "row 1", code, "ISO 4217")


@each_kind
def test_byte_order_mark_and_line_ends_of_either_kind(kind: Kind, tmp_path: Path) -> None:
    plain = kind.content({kind.cost: "1"}, {kind.cost: "2"})
    wanted = placeless(parse_all(kind.name, write(tmp_path / "plain.csv", plain)))
    for content in (b"\xef\xbb\xbf" + plain, plain.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")):
        assert placeless(parse_all(kind.name, write(tmp_path / "other.csv", content))) == wanted


@each_kind
def test_utf_16_and_nul_are_refused(kind: Kind, tmp_path: Path) -> None:
    plain = kind.content({}, {})
    refused(kind, write(tmp_path / "wide.csv", plain.decode().encode("utf-16")), "wide.csv", "UTF-8")
    cells = plain.replace(b"111122223333", b"1111\x002222")
    refused(kind, write(tmp_path / "nul.csv", cells), "nul.csv, row 1", "UTF-8", "NUL")


@each_kind
def test_a_time_without_offset_is_utc(kind: Kind, tmp_path: Path) -> None:
    texts = ["2026-10-01 00:00:00", "2026-10-01T00:00:00", "2026-10-01", "2026-10-01T02:00:00+02:00"]
    lines = parse_all(kind.name, write(tmp_path / "bill.csv", kind.content(*[{kind.start: text} for text in texts])))
    assert set(lines["charge_period_start"].to_pylist()) == {datetime(2026, 10, 1, tzinfo=UTC)}


@each_kind
@pytest.mark.parametrize(
    "text", ["", "1970-01-01T00:00:00Z", "2026-02-30", "2026-10-01T30:00:00Z", "10/01/2026", "2099-01-01", "0001-01-01"]
)
def test_an_impossible_time_is_refused(kind: Kind, tmp_path: Path, text: str) -> None:
    refused(kind, write(tmp_path / "bill.csv", kind.content({}, {kind.start: text})), "bill.csv, row 2", kind.told(kind.start))


@each_kind
def test_a_row_of_another_length_and_a_repeated_column_are_refused(kind: Kind, tmp_path: Path) -> None:
    refused(kind, write(tmp_path / "ragged.csv", kind.content({}, {}) + b"1,2,3\n"), "ragged.csv, row 3", "ragged")
    repeated = kind.content({}).replace(kind.text.encode(), kind.cost.encode())
    refused(kind, write(tmp_path / "twice.csv", repeated), "twice.csv", kind.cost, "2 times")


@each_kind
def test_a_field_of_a_megabyte_is_read(kind: Kind, tmp_path: Path) -> None:
    lines = parse_all(kind.name, write(tmp_path / "bill.csv", kind.content({}, {kind.text: "y" * 2**20}, {})))
    assert [len(text) for text in lines["service"].to_pylist()][1] == 2**20


@each_kind
def test_files_of_other_columns_and_orders_are_joined_by_name(kind: Kind, tmp_path: Path) -> None:
    plain = kind.content({kind.cost: "1"})
    rows = list(csv.reader(io.StringIO(plain.decode())))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        [[*reversed(r), extra] for r, extra in zip(rows, ["x_more", "1"], strict=True)]
    )
    path = kind.layout(tmp_path / "e", {"e-00001.csv.gz": plain, "e-00002.csv.gz": out.getvalue().encode()})
    lines = parse_all(kind.name, path)
    assert lines["cost_nanos"].to_pylist() == [10**9] * 2
    assert len({i.rpartition("-")[0] for i in lines["line_item_id"].to_pylist()}) == 1
