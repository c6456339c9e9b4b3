"""Whether a month's bills are final, and what they say in all. Expected figures are worked out by hand."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from allocation.errors import SettingsError
from allocation.schemas import LINE_ITEMS
from pipelines.bill_finality import TOTALS, Finality, delivered_totals, finality
from pipelines.bills import discover, read_lines
from pipelines.kept_bills import KeptBills
from pipelines.months import Month
from pipelines.settings import Settings, load_settings
from pipelines.storage import TableStore
from tests.billing_adapters.azure_runs import azure_bytes, write_run
from tests.billing_adapters.bills import cur_bytes, focus_bytes, write, write_export
from tests.billing_adapters.gcp_files import gcp_bytes
from tests.billing_adapters.reports import legacy_bytes, write_report

OCTOBER = Month.parse("2026-10")
OVER = datetime(2026, 11, 1, tzinfo=UTC)
INVOICE = "bill_invoice_id"


def settings_of(folder: Path, *entries: Mapping[str, object]) -> Settings:
    values = {"version": 1, "output": "out", "clusters": [{"name": "prod", "metrics": []}], "billing": list(entries)}
    return load_settings(write(folder / "chargeback.yaml", yaml.safe_dump(values).encode()))


def asked(settings: Settings, now: datetime = OVER, month: Month = OCTOBER) -> list[Finality]:
    return finality(settings, TableStore(settings.output), month, now)


def one(settings: Settings, now: datetime = OVER) -> tuple[str, bool, str]:
    (found,) = asked(settings, now)
    return found.sign, found.final, found.evidence


def cur2(folder: Path, *changes: Mapping[str, str]) -> Path:
    return write_export(folder / "cur2", {"f.csv.gz": cur_bytes(*changes)})


def test_a_bill_is_final_when_every_line_that_costs_something_has_an_invoice(tmp_path: Path) -> None:
    free = {"line_item_unblended_cost": "0", INVOICE: "", "identity_line_item_id": "id2"}
    cur2(tmp_path, {INVOICE: "77"}, free)
    settings = settings_of(tmp_path, {"kind": "aws-cur2", "path": "cur2", "name": "aws"})
    assert asked(settings) == [Finality("aws", "invoice", True, "all 1 lines that cost something have an invoice id")]
    told = ("invoice", False, "all 1 lines that cost something have an invoice id, but 2026-10 is not over")
    assert one(settings, OVER - timedelta(microseconds=1)) == told


def test_lines_without_an_invoice_are_counted_with_their_money(tmp_path: Path) -> None:
    rest = {INVOICE: "", "line_item_unblended_cost": "1.5", "pricing_public_on_demand_cost": "2"}
    cur2(tmp_path, {INVOICE: "77"}, rest, {**rest, "line_item_currency_code": "EUR"}, rest)
    settings = settings_of(tmp_path, {"kind": "aws-cur2", "path": "cur2", "cost": ["billed", "list"]})
    money = "1.50 EUR (billed), 3.00 USD (billed), 2.00 EUR (list), 4.00 USD (list)"
    lack = f"3 of 4 lines that cost something have no invoice id: {money}"
    todo = "wait for the invoice, set billing[].final_after, or close with --accept-open"
    assert one(settings) == ("invoice", False, f"{lack}; {todo}")


def test_a_cost_below_a_nano_wants_an_invoice_too(tmp_path: Path) -> None:
    cur2(tmp_path, {INVOICE: "77"}, {INVOICE: "", "line_item_unblended_cost": "0.0000000001"})
    found = one(settings_of(tmp_path, {"kind": "aws-cur2", "path": "cur2"}))
    assert found[:2] == ("invoice", False)
    assert found[2].startswith("1 of 2 lines that cost something have no invoice id: 0.00 USD (billed)")


def test_an_empty_column_is_no_sign_and_age_is_one(tmp_path: Path) -> None:
    cur2(tmp_path, {INVOICE: ""})
    settings = settings_of(tmp_path, {"kind": "aws-cur2", "path": "cur2", "final_after": "5d"})
    lack = "1 of 1 lines that cost something have no invoice id: 98.32 USD (billed)"
    due = datetime(2026, 11, 6, tzinfo=UTC)
    open_until = "final by age from 2026-11-06T00:00:00Z on (final_after), or close with --accept-open"
    assert one(settings, due - timedelta(seconds=1)) == ("invoice", False, f"{lack}; {open_until}")
    assert one(settings, due) == ("age", True, f"{lack}; final by age: final_after was over at 2026-11-06T00:00:00Z")


def test_a_format_without_the_column_is_final_by_age_alone(tmp_path: Path) -> None:
    cur2(tmp_path, {})
    write(tmp_path / "gcp" / "rows.csv", gcp_bytes({}))
    plain = [{"kind": "aws-cur2", "path": "cur2"}, {"kind": "gcp", "path": "gcp"}]
    told = "the bill has no invoice ids (1 lines cost something)"
    todo = "set billing[].final_after, or close with --accept-open"
    assert asked(settings_of(tmp_path, *plain)) == [
        Finality("aws-cur2-0", "none", False, f"{told}; {todo}"),
        Finality("gcp-1", "none", False, f"{told}; {todo}"),
    ]
    aged = settings_of(tmp_path, *(entry | {"final_after": "36h"} for entry in plain))
    due = datetime(2026, 11, 2, 12, tzinfo=UTC)
    assert [(f.sign, f.final) for f in asked(aged, due - timedelta(seconds=1))] == [("age", False)] * 2
    assert [(f.sign, f.final) for f in asked(aged, due)] == [("age", True)] * 2


def test_a_month_without_lines_is_final_by_age_alone(tmp_path: Path) -> None:
    cur2(tmp_path, {INVOICE: "77"})
    november = Month.parse("2026-11")
    entry = {"kind": "aws-cur2", "path": "cur2", "name": "aws"}
    now = datetime(2026, 12, 2, tzinfo=UTC)
    (found,) = asked(settings_of(tmp_path, entry), now, november)
    assert (found.sign, found.final) == ("none", False)
    assert found.evidence.startswith("no line of the month costs anything; set billing[].final_after")
    (found,) = asked(settings_of(tmp_path, entry | {"final_after": "1d"}), now, november)
    assert (found.sign, found.final) == ("age", True)


def test_a_rate_card_is_final_once_the_month_is_over(tmp_path: Path) -> None:
    card = {"currency": "EUR", "rates": [{"name": "own", "per": "node-hour", "amount": "1"}]}
    write(tmp_path / "card.yaml", yaml.safe_dump(card).encode())
    settings = settings_of(tmp_path, {"kind": "rate-card", "path": "card.yaml"})
    assert one(settings, OVER - timedelta(seconds=1))[:2] == ("age", False)
    assert one(settings)[:2] == ("age", True)
    assert len(delivered_totals(settings, TableStore(settings.output), OCTOBER)) == 0


def test_a_rate_card_has_no_final_after_and_a_duration_has_a_unit(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a rate card has no `final_after`: it is final when the month is over"):
        settings_of(tmp_path, {"kind": "rate-card", "path": "card.yaml", "final_after": "1d"})
    with pytest.raises(SettingsError, match=r"billing\.0\.final_after: 5 is no duration; write it like 30s, 2m or 1h30m"):
        settings_of(tmp_path, {"kind": "gcp", "path": "gcp", "final_after": 5})


def test_every_format_with_invoices_is_final_by_them(tmp_path: Path) -> None:
    """Their exports of the costs of October, first without the invoice and then delivered again with it."""
    entries = [
        {"kind": "aws-cur", "path": "legacy"},
        {"kind": "aws-cur2", "path": "cur2"},
        {"kind": "azure", "path": "azure"},
        {"kind": "focus", "path": "focus"},
        {"kind": "azure", "path": "azure-focus"},
    ]
    for invoice, final in (("", False), ("E-1", True)):
        write_report(tmp_path / "legacy", {"f.csv.gz": legacy_bytes({INVOICE: invoice})})
        cur2(tmp_path, {INVOICE: invoice})
        write_run(tmp_path / "azure", {"f.csv": azure_bytes({"invoiceId": invoice})})
        write(tmp_path / "focus" / "f.csv", focus_bytes({"InvoiceId": invoice}))
        of_azure = focus_bytes({"x_InvoiceId": invoice, "BilledCost": "3", "ProviderName": "Microsoft"})
        write_run(tmp_path / "azure-focus", {"f.csv": of_azure}, kind="FocusCost")
        assert [(f.sign, f.final) for f in asked(settings_of(tmp_path, *entries))] == [("invoice", final)] * 5


def test_ids_of_lines_stay_when_the_invoice_is_issued(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, {"kind": "aws-cur2", "path": "cur2"}, {"kind": "azure", "path": "azure"})
    store, ids = TableStore(settings.output), []
    for invoice in ("", "E-1"):
        cur2(tmp_path, {INVOICE: invoice, "identity_line_item_id": ""})
        write_run(tmp_path / "azure", {"f.csv": azure_bytes({"invoiceId": invoice})})
        lines, _ = read_lines(discover(settings), store, date(2026, 10, 1))
        assert lines["invoice_id"].to_pylist() == [invoice or None] * 2
        ids.append(lines["line_item_id"].to_pylist())
    assert ids[0] == ids[1]


def test_totals_by_day_entry_metric_and_currency(tmp_path: Path) -> None:
    """Three currencies and three metrics; hours of another month in October's invoice; lines of November's invoice stay out."""
    day = {"ChargePeriodStart": "2026-10-02T23:00:00Z", "ChargePeriodEnd": "2026-10-03T00:00:00Z"}
    before = {"ChargePeriodStart": "2026-09-30T23:00:00Z", "ChargePeriodEnd": "2026-10-01T00:00:00Z"}
    later = {"BillingPeriodStart": "2026-11-01T00:00:00Z", "BillingPeriodEnd": "2026-12-01T00:00:00Z"}
    rows = [{}, {"BilledCost": "0.000000001"}, day | {"BillingCurrency": "EUR", "BilledCost": "-2.5"}]
    rows += [before | {"BillingCurrency": "JPY"}, later]
    write(tmp_path / "focus" / "f.csv", focus_bytes(*rows))
    cur2(tmp_path, {}, {"line_item_unblended_cost": "1.68"})
    settings = settings_of(
        tmp_path,
        {"kind": "focus", "path": "focus", "cost": ["billed", "effective", "list"], "name": "all"},
        {"kind": "aws-cur2", "path": "cur2", "name": "aws"},
    )
    found = delivered_totals(settings, TableStore(settings.output), OCTOBER)
    assert found.schema.equals(TOTALS)
    september, first, second = date(2026, 9, 30), date(2026, 10, 1), date(2026, 10, 2)
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (september, "all", "billed", "JPY", Decimal("10.000000000"), 1),
        (september, "all", "effective", "JPY", Decimal("8.000000000"), 1),
        (september, "all", "list", "JPY", Decimal("12.000000000"), 1),
        (first, "all", "billed", "USD", Decimal("10.000000001"), 2),
        (first, "all", "effective", "USD", Decimal("16.000000000"), 2),
        (first, "all", "list", "USD", Decimal("24.000000000"), 2),
        (first, "aws", "billed", "USD", Decimal("100.000000000"), 2),
        (second, "all", "billed", "EUR", Decimal("-2.500000000"), 1),
        (second, "all", "effective", "EUR", Decimal("8.000000000"), 1),
        (second, "all", "list", "EUR", Decimal("12.000000000"), 1),
    ]


def test_a_restated_delivery_replaces_the_month_and_the_invoice_comes_with_it(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, {"kind": "azure", "path": "azure", "name": "az"})
    store = TableStore(settings.output)
    write_run(tmp_path / "azure", {"f.csv": azure_bytes({"InvoiceId": ""}, {"InvoiceId": "", "MeterName": "other"})})
    assert delivered_totals(settings, store, OCTOBER)["cost"].to_pylist() == [Decimal("176.304")]
    assert not one(settings)[1]
    again = azure_bytes({"InvoiceId": "T-1", "CostInBillingCurrency": "80"})
    write_run(tmp_path / "azure", {"f.csv": again}, run="202611030712", guid="00000000-0000-4000-8000-000000000002")
    assert delivered_totals(settings, store, OCTOBER).to_pylist() == [
        {
            "date": date(2026, 10, 1),
            "source_id": "az",
            "cost_metric": "billed",
            "currency": "USD",
            "cost": Decimal("80.000000000"),
            "lines": 1,
        }
    ]
    assert one(settings)[:2] == ("invoice", True)


def test_sums_beyond_int64_do_not_wrap(tmp_path: Path) -> None:
    """Three lines of nine billion are 2.7e19 nanos, more than int64 holds."""
    cur2(tmp_path, *[{"line_item_unblended_cost": "9000000000", INVOICE: ""}] * 3)
    settings = settings_of(tmp_path, {"kind": "aws-cur2", "path": "cur2"})
    assert delivered_totals(settings, TableStore(settings.output), OCTOBER)["cost"].to_pylist() == [Decimal(27_000_000_000)]
    assert "no invoice id: 27000000000.00 USD (billed)" in one(settings)[2]


def test_the_same_delivery_under_two_entries_is_refused(tmp_path: Path) -> None:
    cur2(tmp_path, {})
    entry = {"kind": "aws-cur2", "path": "cur2"}
    settings = settings_of(tmp_path, entry | {"name": "a"}, entry | {"name": "b"})
    with pytest.raises(SettingsError, match="it would be charged twice"):
        delivered_totals(settings, TableStore(settings.output), OCTOBER)


def test_a_delivery_that_was_kept_with_other_columns_is_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a version before the column ``invoice_id`` kept it: under another key, and without the column."""
    cur2(tmp_path, {INVOICE: "77"})
    settings = settings_of(tmp_path, {"kind": "aws-cur2", "path": "cur2"})
    store = TableStore(settings.output)
    with monkeypatch.context() as older:
        older.setattr("pipelines.bills._COLUMNS", tuple(n for n in LINE_ITEMS.names if n != "invoice_id"))
        (bill,) = discover(settings)
        rows = [b.drop_columns(["invoice_id"]) for b in bill.source.parse(bill.delivery)]
        KeptBills(store).write(bill.key, rows, lambda: pa.table({"line_number": pa.array([], pa.int64())}))
    assert one(settings)[:2] == ("invoice", True)
    assert read_lines(discover(settings), store, date(2026, 10, 1))[0]["invoice_id"].to_pylist() == ["77"]
    assert len(list(Path(settings.output).glob("line_items/*.parquet"))) == 2


def test_only_row_groups_of_the_month_are_read(tmp_path: Path) -> None:
    """September's block is damaged on disk after it was kept: October is read all the same."""
    early = {"BillingPeriodStart": "2026-09-01T00:00:00Z", "ChargePeriodStart": "2026-09-01T00:00:00Z"}
    early |= {"ChargePeriodEnd": "2026-09-01T01:00:00Z"}
    write(tmp_path / "focus" / "f.csv", focus_bytes(*[early] * 8192, *[{}] * 3))
    settings = settings_of(tmp_path, {"kind": "focus", "path": "focus"})
    store = TableStore(settings.output)
    assert delivered_totals(settings, store, OCTOBER)["lines"].to_pylist() == [3]
    (kept,) = Path(settings.output).glob("line_items/*.parquet")
    content = bytearray(kept.read_bytes())
    content[4:2000] = bytes(1996)
    kept.write_bytes(content)
    assert delivered_totals(settings, store, OCTOBER)["lines"].to_pylist() == [3]
