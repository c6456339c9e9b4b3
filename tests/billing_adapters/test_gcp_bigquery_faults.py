"""What BigQuery refuses or cannot do: one clear line each, with the setting or the role and what to do."""

import sys
from datetime import date

import pytest

from allocation.errors import AdapterError, ChargebackError, MissingExtraError, SourceUnavailableError
from billing_adapters.base import BillOptions, Warehouse
from billing_adapters.gcp_bigquery import GcpTableBill
from billing_adapters.registry import load_bill_source
from tests.billing_adapters.bills import lines_of
from tests.billing_adapters.detailed_rows import used
from tests.fake_bigquery import PATH, FakeBigQuery
from tests.fake_bigquery_rows import DETAILED, Table
from tests.fake_bigquery_storage import fake_storage
from tests.object_stores import without_ambient
from tests.servers import free_port

DAY = date(2026, 10, 5)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that pass are not waited for."""
    without_ambient(monkeypatch)
    monkeypatch.setattr("billing_adapters.gcp_warehouse.RETRY_SECONDS", 0.2)


def source_of(bigquery: FakeBigQuery, *costs: str, region: str | None = None) -> GcpTableBill:
    options = BillOptions("bill", PATH, costs or ("billed",), endpoint_url=bigquery.url, region=region)
    return GcpTableBill(BillOptions(**{**vars(options), "warehouse": Warehouse("payer-project")}))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("bigquery://finops-example.billing.gcp_billing_export_v1_01ABCD", r"standard usage cost export.*Detailed usage cost"),
        ("bigquery://finops-example.billing.cloud_pricing_export", r"another table.*gcp_billing_export_resource_v1_"),
        ("bigquery://finops-example.billing", r"no table can be read.*PROJECT\.DATASET\.gcp_billing_export_resource_v1_"),
        ("bigquery://finops-example/billing/gcp_billing_export_resource_v1_01", r"no table can be read"),
        ("bigquery://finops-example.bill`ing.gcp_billing_export_resource_v1_01", r"no table can be read"),
        ("bigquery://finops-example.billing.gcp_billing_export_resource_v1_01$20261005", r"no table can be read"),
        ("bigquery://-x.billing.gcp_billing_export_resource_v1_01", r"no table can be read"),
    ],
)
def test_a_path_that_is_no_detailed_export_is_refused(path: str, told: str) -> None:
    with pytest.raises(AdapterError, match=told):
        GcpTableBill(BillOptions("bill", path))


@pytest.mark.parametrize(
    ("method", "reason", "message", "told", "setting"),
    [
        (
            "tables.get",
            "accessDenied",
            "Access Denied: Table finops-example:billing.t: Permission bigquery.tables.get denied",
            r"roles/bigquery\.dataViewer on the dataset finops-example\.billing",
            "billing.path",
        ),
        (
            "jobs.insert",
            "accessDenied",
            "Access Denied: Project payer-project: User does not have bigquery.jobs.create permission in project payer-project.",
            r"roles/bigquery\.jobUser on the project payer-project",
            "billing.query_project",
        ),
        ("tables.get", "notFound", "Not found: Dataset finops-example:billing", "no such dataset", "billing.path"),
        ("tables.get", "notFound", "Not found: Table finops-example:billing.t", "no such table.*some hours", "billing.path"),
        (
            "jobs.insert",
            "quotaExceeded",
            "Quota exceeded: Your project exceeded quota for free query bytes scanned.",
            r"a quota of the project payer-project is used up: Quota exceeded.*later",
            "billing.query_project",
        ),
        ("jobs.getQueryResults", "backendError", "Try again", r"BigQuery answers 503: Try again.*Run again", "billing.path"),
    ],
)
def test_a_fault_names_the_role_or_the_setting(
    bigquery: FakeBigQuery, method: str, reason: str, message: str, told: str, setting: str
) -> None:
    bigquery.faults[method] = (reason, message)
    with pytest.raises(SourceUnavailableError, match=told) as error:
        source_of(bigquery).discover()
    assert error.value.setting == setting
    assert str(error.value).startswith(PATH)
    assert "\n" not in str(error.value)


def test_a_fault_that_passes_is_tried_again(bigquery: FakeBigQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("billing_adapters.gcp_warehouse.RETRY_SECONDS", 10)
    bigquery.table.load(DAY, [used("2026-10-05T00", 1.0)])
    bigquery.faults["tables.get"], bigquery.passing = ("backendError", "Try again"), True
    assert len(source_of(bigquery).discover()) == 1


def test_a_dataset_elsewhere_than_the_configured_region(bigquery: FakeBigQuery) -> None:
    with pytest.raises(SourceUnavailableError, match=r"in location US \(setting: billing\.region\)\. The dataset lies in EU"):
        source_of(bigquery, region="US").discover()
    assert source_of(bigquery, region="EU").discover() == []


def test_a_server_that_is_not_there() -> None:
    source = source_of(FakeBigQuery(url=f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(SourceUnavailableError, match=r"Connection refused \(setting: billing\.endpoint_url\)"):
        source.discover()


def test_a_statement_that_bigquery_refuses(bigquery: FakeBigQuery) -> None:
    bigquery.faults["jobs.insert"] = ("invalidQuery", "Unrecognized name: cost")
    with pytest.raises(AdapterError, match=r"BigQuery refuses the query: Unrecognized name: cost"):
        source_of(bigquery).discover()


@pytest.mark.parametrize(
    ("kind", "parts", "told"),
    [("VIEW", None, "a view"), ("TABLE", None, "not partitioned"), ("TABLE", {"type": "DAY", "field": "day"}, "by day")],
)
def test_a_copy_or_view_without_days_of_loading(
    bigquery: FakeBigQuery, kind: str, parts: dict[str, str] | None, told: str
) -> None:
    bigquery.kind, bigquery.partitioned = kind, parts
    with pytest.raises(AdapterError, match=rf"{told} and has no _PARTITIONTIME.*Name the table that Google's export writes"):
        source_of(bigquery).discover()
    assert bigquery.sent == []


def test_a_cost_that_the_table_cannot_say(bigquery: FakeBigQuery) -> None:
    bigquery.table = Table(tuple(one for one in DETAILED if one["name"] != "cost_at_list"), [])
    with pytest.raises(AdapterError, match=r"cost_at_list.*billed, effective"):
        source_of(bigquery, "list").discover()


def test_a_download_that_breaks_off(bigquery: FakeBigQuery) -> None:
    bigquery.table.load(DAY, [used(f"2026-10-05T{hour:02d}", 1.0) for hour in range(20)])
    bigquery.page_rows = 2
    with fake_storage(bigquery) as storage:
        storage.breaks_after = 1
        source = GcpTableBill(BillOptions("bill", PATH, endpoint_url=bigquery.url), storage.client)
        (delivery,) = source.discover()
        with pytest.raises(ChargebackError, match=r"not enough quota to read rows"):
            lines_of(source, delivery)


def test_credentials_are_for_google_alone(bigquery: FakeBigQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    assert source_of(bigquery).discover() == []
    assert not [request for request in bigquery.requests if "authorization" in request.headers]
    for endpoint in (None, "https://bigquery.googleapis.com"):
        with pytest.raises(SourceUnavailableError, match=r"key\.json.*setting: GOOGLE_APPLICATION_CREDENTIALS"):
            GcpTableBill(BillOptions("bill", PATH, endpoint_url=endpoint)).discover()
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    with pytest.raises(SourceUnavailableError, match=r"gcloud auth application-default login"):
        GcpTableBill(BillOptions("bill", PATH)).discover()


def test_a_secret_in_the_address_is_not_shown() -> None:
    with pytest.raises(AdapterError, match=r"billing\.endpoint_url holds a token or a password") as error:
        GcpTableBill(BillOptions("bill", PATH, endpoint_url="http://someone:pass-word@127.0.0.1"))
    assert "pass-word" not in str(error.value)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("google.cloud.bigquery")
    monkeypatch.setitem(sys.modules, "google.cloud.bigquery", None)
    for name in ("gcp_bigquery", "gcp_warehouse"):
        monkeypatch.delitem(sys.modules, f"billing_adapters.{name}")
    with pytest.raises(MissingExtraError, match=r"google-cloud-bigquery.*gpu-chargeback\[gcp\]"):
        load_bill_source("gcp", BillOptions("bill", PATH))
