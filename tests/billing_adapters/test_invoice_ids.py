"""On which invoice a line stands, in every format that says it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from billing_adapters.base import BillOptions, TellsInvoices
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.azure_runs import azure_bytes
from tests.billing_adapters.bills import cur_bytes, focus_bytes, parse_all, write
from tests.billing_adapters.gcp_files import gcp_bytes
from tests.billing_adapters.reports import legacy_bytes

Content = Callable[..., bytes]
FORMATS: list[tuple[str, Content, str]] = [
    ("aws-cur", legacy_bytes, "bill/InvoiceId"),
    ("aws-cur", legacy_bytes, "bill/InvoiceID"),
    ("aws-cur2", cur_bytes, "bill_invoice_id"),
    ("azure", azure_bytes, "invoiceId"),
    ("azure", azure_bytes, "Rechnungs-ID (InvoiceId)"),
    ("azure", focus_bytes, "x_InvoiceId"),
    ("focus", focus_bytes, "InvoiceId"),
    ("focus", focus_bytes, "x_InvoiceId"),
]
each_format = pytest.mark.parametrize(("kind", "content", "column"), FORMATS, ids=[f"{f[0]} {f[2]}" for f in FORMATS])


def tells(kind: str, path: Path) -> bool:
    source = load_bill_source(kind, BillOptions("bill", str(path)))
    return isinstance(source, TellsInvoices) and all(map(source.tells_invoices, source.discover()))


@each_format
def test_the_invoice_of_each_line_and_null_where_none_is_issued(tmp_path: Path, kind: str, content: Content, column: str) -> None:
    rows: list[Mapping[str, str]] = [{column: " EUINGB-1 "}, {column: ""}, {column: "null"}, {column: "0042"}]
    path = write(tmp_path / "bill.csv", content(*rows))
    assert parse_all(kind, path)["invoice_id"].to_pylist() == ["EUINGB-1", None, None, "0042"]
    assert tells(kind, path)


@each_format
def test_an_empty_column_is_there_all_the_same(tmp_path: Path, kind: str, content: Content, column: str) -> None:
    path = write(tmp_path / "bill.csv", content({column: ""}))
    assert parse_all(kind, path)["invoice_id"].to_pylist() == [None]
    assert tells(kind, path)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("aws-cur", legacy_bytes),
        ("aws-cur2", cur_bytes),
        ("azure", azure_bytes),
        ("azure", focus_bytes),
        ("focus", focus_bytes),
        ("gcp", gcp_bytes),
    ],
)
def test_without_the_column_there_is_none(tmp_path: Path, kind: str, content: Content) -> None:
    path = write(tmp_path / "bill.csv", content({}, {}))
    assert parse_all(kind, path)["invoice_id"].to_pylist() == [None, None]
    assert not tells(kind, path)


def test_the_specification_s_column_goes_before_azure_s_own(tmp_path: Path) -> None:
    rows = [{"InvoiceId": "A", "x_InvoiceId": "B"}, {"InvoiceId": "", "x_InvoiceId": "C"}]
    path = write(tmp_path / "bill.csv", focus_bytes(*rows))
    assert parse_all("focus", path)["invoice_id"].to_pylist() == ["A", "C"]


@pytest.mark.parametrize("empty", [pa.null(), pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_a_parquet_column_of_nothing_but_nulls(tmp_path: Path, empty: pa.DataType) -> None:
    plain = write(tmp_path / "plain.csv", cur_bytes({}, {}))
    rows = pa.csv.read_csv(plain, convert_options=pa.csv.ConvertOptions(column_types={n: pa.string() for n in _names(plain)}))
    pq.write_table(rows.append_column("bill_invoice_id", pa.nulls(2, empty)), tmp_path / "bill.parquet")
    assert parse_all("aws-cur2", tmp_path / "bill.parquet")["invoice_id"].to_pylist() == [None, None]


def _names(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[0].split(",")


@pytest.mark.parametrize(("kind", "content", "column"), [f for f in FORMATS if f[0] != "gcp"])
def test_it_is_encoded_by_dictionary_whether_the_column_is_there_or_not(
    tmp_path: Path, kind: str, content: Content, column: str
) -> None:
    """One type in all batches, so that files with and without the column are one delivery."""
    for change in ({column: "I-1"}, {}):
        path = write(tmp_path / "bill.csv", content(change))
        source = load_bill_source(kind, BillOptions("bill", str(path)))
        (delivery,) = source.discover()
        (batch,) = source.parse(delivery)
        assert batch.schema.field("invoice_id").type == pa.dictionary(pa.int32(), pa.string())


def test_files_of_one_delivery_with_and_without_the_column(tmp_path: Path) -> None:
    write(tmp_path / "focus" / "a.csv", focus_bytes({}))
    write(tmp_path / "focus" / "b.csv", focus_bytes({"InvoiceId": ""}))
    write(tmp_path / "focus" / "c.csv", focus_bytes({"x_InvoiceId": "I-2"}))
    assert parse_all("focus", tmp_path / "focus")["invoice_id"].to_pylist() == [None, None, "I-2"]
    assert tells("focus", tmp_path / "focus")
