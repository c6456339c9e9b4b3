"""What every kind of bill does: the same promises, asked of each."""

import csv
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from allocation.schemas import LINE_ITEMS
from billing_adapters.base import BillOptions
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import cur_bytes, focus_bytes, lines_of, write
from tests.billing_adapters.reports import legacy_bytes

COSTS = ["12.3456789012", "-3.1", "0", "1e-7", "8999999999.123456789", "5.0000000005", "-5.0000000015"]
KINDS: list[tuple[str, Callable[..., bytes], str]] = [
    ("focus", focus_bytes, "BilledCost"),
    ("aws-cur", legacy_bytes, "lineItem/UnblendedCost"),
    ("aws-cur2", cur_bytes, "line_item_unblended_cost"),
]
each_kind = pytest.mark.parametrize(("kind", "content", "cost"), KINDS, ids=[k[0] for k in KINDS])


@pytest.fixture
def bill(tmp_path: Path, content: Callable[..., bytes], cost: str) -> Path:
    return write(tmp_path / "bill.csv", content(*[{cost: text} for text in COSTS * 3]))


@each_kind
def test_lines_conform_and_keys_are_unique(kind: str, bill: Path) -> None:
    source = load_bill_source(kind, BillOptions("bill", str(bill)))
    (delivery,) = source.discover()
    lines = lines_of(source, delivery)
    assert lines.schema.equals(LINE_ITEMS.arrow(), check_metadata=True)
    assert len(set(lines["line_item_id"].to_pylist())) == lines.num_rows == len(COSTS) * 3
    assert set(lines["delivery_id"].to_pylist()) == {delivery.delivery_id}
    assert lines["source_row"].to_pylist() == list(range(1, lines.num_rows + 1))


@each_kind
def test_parsing_again_gives_the_same(kind: str, bill: Path) -> None:
    first, second = (load_bill_source(kind, BillOptions("bill", str(bill))) for _ in range(2))
    one, two = first.discover(), second.discover()
    assert one == two
    assert lines_of(first, one[0]).equals(lines_of(second, two[0]))


@each_kind
def test_sum_equals_an_independent_sum(kind: str, bill: Path, cost: str) -> None:
    source = load_bill_source(kind, BillOptions("bill", str(bill)))
    lines = lines_of(source, source.discover()[0])
    wanted = sum(Decimal(row[cost]) for row in csv.DictReader(io.StringIO(bill.read_text())))
    nanos, residues = lines["cost_nanos"].to_pylist(), lines["cost_residue"].to_pylist()
    assert sum(nanos) * Decimal("1e-9") + sum(residues) == wanted
    assert all(abs(r) <= Decimal("5e-10") for r in residues)


@each_kind
def test_content_decides_the_delivery_and_place_does_not(
    kind: str, bill: Path, content: Callable[..., bytes], tmp_path: Path
) -> None:
    copy = write(tmp_path / "elsewhere" / "bill.csv", bill.read_bytes())
    other = write(tmp_path / "other" / "bill.csv", content({}))
    ids = [load_bill_source(kind, BillOptions("bill", str(path))).discover()[0].delivery_id for path in (bill, copy, other)]
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]
