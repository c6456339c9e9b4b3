"""The pages of bills: what a user copies from them is accepted, and the links lead somewhere."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml

from allocation.times import DAY_MS, to_ms
from billing_adapters.aws_columns import HASHED, ensure_readable
from billing_adapters.azure_columns import ensure_readable as ensure_azure
from billing_adapters.azure_columns import one_word
from billing_adapters.azure_costs import ensure_dataset
from billing_adapters.base import BillOptions
from billing_adapters.gcp_columns import WANTED
from billing_adapters.gcp_statements import table_of
from billing_adapters.rate_files import RateCardBill
from pipelines.billing_entries import BillingEntry
from pipelines.settings import PricesEntry

FOLDER = Path(__file__).parents[1] / "docs" / "bills"
PAGES = sorted(page.name for page in FOLDER.glob("*.md"))


def blocks(page: str, language: str) -> list[str]:
    text = (FOLDER / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (FOLDER / page).read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (FOLDER / link).exists()] == []


@pytest.mark.parametrize("page", ["aws-cur.md", "aws-cur2.md", "azure.md"])
def test_settings_are_accepted(page: str) -> None:
    entries = [entry for block in blocks(page, "yaml") for entry in yaml.safe_load(block)["billing"]]
    assert {BillingEntry(**entry).kind for entry in entries} == {page.removesuffix(".md")}


@pytest.mark.parametrize("page", ["aws-cur.md", "aws-cur2.md"])
def test_policies_allow_to_list_and_to_get_and_nothing_else(page: str) -> None:
    policies = [content for block in blocks(page, "json") if "Statement" in (content := json.loads(block))]
    assert len(policies) == 1
    statements = policies[0]["Statement"]
    assert [s["Action"] for s in statements] == ["s3:ListBucket", "s3:GetObject"]
    assert all(s["Resource"] != "*" for s in statements)


def test_the_rate_card_of_the_page_is_read_and_costs_what_the_page_says(tmp_path: Path) -> None:
    billing, card = blocks("rate-card.md", "yaml")
    (entry,) = yaml.safe_load(billing)["billing"]
    assert BillingEntry(**entry).kind == "rate-card"
    (table,) = blocks("rate-card.md", "csv")
    hour, found = datetime(2026, 10, 1, tzinfo=UTC), {}
    for name, text in (("card.yaml", card), ("card.csv", table)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        source = RateCardBill(BillOptions("own", str(tmp_path / name)))
        charges = source.card(source.discover()[0])[1]
        found[name] = {c.part: int(c.hourly(np.array([to_ms(hour)]), c.nanos)[0]) for c in charges}
    assert sum(found["card.csv"].values()) == 10_545_523_805
    assert found["card.yaml"] == {**found["card.csv"], "rate": 12_500_000_000}


def test_the_table_of_the_page_of_bigquery_is_accepted_and_its_roles_are_those_that_errors_name() -> None:
    (settings,) = (yaml.safe_load(block) for block in blocks("gcp-bigquery.md", "yaml"))
    entry = BillingEntry(**settings["billing"][0])
    assert (entry.kind, entry.max_bytes_billed) == ("gcp", BillingEntry.model_fields["max_bytes_billed"].default)
    table = table_of(entry.path)
    roles = {f"roles/bigquery.{name}" for name in ("jobUser", "readSessionUser", "dataViewer")}
    granted = "".join(blocks("gcp-bigquery.md", "sh") + blocks("gcp-bigquery.md", "sql"))
    assert set(re.findall(r"roles/[\w.]+", granted)) == roles
    assert f"{table.project}.{table.dataset}" in granted


def test_the_export_that_the_page_makes_has_every_column_that_is_read() -> None:
    export = next(content for block in blocks("aws-cur2.md", "json") if "DataQuery" in (content := json.loads(block)))
    select, table = re.fullmatch(r"SELECT (.*) FROM (\w+)", export["DataQuery"]["QueryStatement"]).groups()  # type: ignore[union-attr]
    columns = select.split(", ")
    ensure_readable("export", columns)
    elsewhere = {
        "capacity_reservation_capacity_reservation_arn",
        "capacity_reservation_capacity_reservation_status",
        "product_region",
        "split_line_item_parent_resource_id",
    }
    assert set(HASHED) - set(columns) == elsewhere
    assert list(export["DataQuery"]["TableConfigurations"]) == [table]


def test_the_export_of_the_azure_page_says_what_its_setting_charges() -> None:
    (export,) = [json.loads(block)["properties"] for block in blocks("azure.md", "json")]
    (entry,) = yaml.safe_load(blocks("azure.md", "yaml")[0])["billing"]
    ensure_dataset(export["definition"]["type"], BillingEntry(**entry).costs, "export")
    assert export["partitionData"] is True
    assert export["definition"]["dataSet"]["granularity"] == "Daily"


def test_the_columns_of_the_azure_page_are_those_that_are_read() -> None:
    text = (FOLDER / "azure.md").read_text(encoding="utf-8").partition("| column | also |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines()[2:]]
    for name, others in rows:
        words = {one_word(other) for other in re.findall(r"`(\w+)`", others) if other != "Date"}
        assert words <= {one_word(own) for own in re.findall(r"`(\w+)`", name)}
    ensure_azure(
        "export", ["PreTaxCost", "Date", "MeterCategory", "ResourceId", "AdditionalInfo", "SubscriptionGuid"], ["billed"], "EUR"
    )
    assert one_word("BillingPeriodStart") == one_word("BillingPeriodStartDate")
    assert len(rows) == 9


def test_the_settings_of_list_prices_are_accepted() -> None:
    (text,) = blocks("gcp-prices.md", "yaml")
    told = PricesEntry(**yaml.safe_load(text)["prices"])
    assert (str(told.cache), told.max_age, told.currency, told.api_key and told.api_key.env) == (
        "prices", 7 * DAY_MS, "USD", "GOOGLE_API_KEY",
    )  # fmt: skip
    assert told.model_copy(update={"api_key": None}) == PricesEntry()


def test_the_google_page_names_columns_that_are_read_and_settings_that_there_are() -> None:
    (entry,) = yaml.safe_load(blocks("gcp.md", "yaml")[0])["billing"]
    assert BillingEntry(**entry).kind == "gcp"
    page = (FOLDER / "gcp.md").read_text(encoding="utf-8")
    table = page.partition("## What each cost means")[2].partition("Under `effective`")[0]
    named = {name for name in re.findall(r"`([a-z_]+)`", table) if name.startswith("cost")} - {"cost"}
    assert named == {"cost_at_list", "cost_at_effective_price_default"}
    assert named <= set(WANTED)
    assert table_of(f"bigquery://{re.findall(r'FROM `([^`]+)`', page)[0]}")
