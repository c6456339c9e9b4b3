"""The quick start's day with its bill in S3 as AWS delivers it: a report and a CUR 2.0 export give the rows of FOCUS."""

import csv
import shutil
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

import boto3
import pytest
import yaml

from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk
from tests.billing_adapters.bills import csv_bytes, write_export
from tests.billing_adapters.reports import legacy, write_report
from tests.servers import s3_server

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
BUCKET = "example-bucket"
KEYS = ("node", "gpu_uuid", "namespace", "pod", "bucket", "team", "model", "charge_period_start")
USAGE_TYPES = {"EGRESS": "DataTransfer-Out-Bytes", "VOLUME-GP3": "EBS:VolumeUsage.gp3"}
# Three nodes for 24 hours at 3.744, 8.40 and 8.40, less a credit of 2.40 on one of them.
SPLIT = Decimal("490.656")
# Beside them 2.70 of transfer, 0.80 of a volume and 12.50 of tax.
WHOLE = Decimal("506.656")


def as_aws(row: Mapping[str, str]) -> list[dict[str, str]]:
    """A row of the quick start's bill as AWS' own report says it; the plan's hour also as its negation."""
    plan, kind = row["PricingCategory"] == "Committed", row["ChargeCategory"]
    line = {
        "identity_line_item_id": "",
        "bill_payer_account_id": row["BillingAccountId"],
        "bill_billing_period_start_date": row["BillingPeriodStart"],
        "line_item_usage_account_id": row["SubAccountId"],
        "line_item_line_item_type": kind,
        "line_item_usage_start_date": row["ChargePeriodStart"],
        "line_item_usage_end_date": row["ChargePeriodEnd"],
        "line_item_product_code": "AmazonEC2",
        "line_item_usage_type": USAGE_TYPES.get(row["SkuId"], f"BoxUsage:{row['x_InstanceType']}"),
        "line_item_resource_id": row["ResourceId"],
        "line_item_usage_amount": row["ConsumedQuantity"],
        "line_item_currency_code": row["BillingCurrency"],
        "line_item_unblended_cost": row["BilledCost"],
        "pricing_unit": "Hrs" if row["ConsumedUnit"] == "Hours" else row["ConsumedUnit"],
        "savings_plan_savings_plan_effective_cost": "",
        "savings_plan_total_commitment_to_date": "",
        "savings_plan_used_commitment": "",
    }
    if kind == "Purchase":
        spent = dict.fromkeys(("savings_plan_total_commitment_to_date", "savings_plan_used_commitment"), row["BilledCost"])
        fee = {"line_item_line_item_type": "SavingsPlanRecurringFee", "line_item_product_code": "ComputeSavingsPlans", **spent}
        return [{**line, **fee}]
    if not plan:
        return [line]
    covered = {"line_item_line_item_type": "SavingsPlanCoveredUsage", "line_item_unblended_cost": row["ListCost"]}
    negated = {"line_item_line_item_type": "SavingsPlanNegation", "line_item_unblended_cost": f"-{row['ListCost']}"}
    effective = {"savings_plan_savings_plan_effective_cost": row["EffectiveCost"]}
    return [{**line, **covered, **effective}, {**line, **negated, "line_item_resource_id": ""}]


def bill() -> list[dict[str, str]]:
    with (QUICKSTART / "bill.csv").open(encoding="utf-8", newline="") as stream:
        return [line for row in csv.DictReader(stream) for line in as_aws(row)]


def delivered(kind: str, root: Path) -> Path:
    rows = bill()
    first, second = rows[:60], rows[60:]
    if kind == "aws-cur":
        named = [[{legacy(name): value for name, value in row.items()} for row in part] for part in (first, second)]
        return write_report(root, {"gpu-1.csv.gz": csv_bytes(named[0]), "gpu-2.csv.zip": csv_bytes(named[1])})
    return write_export(root, {"gpu-00001.csv.gz": csv_bytes(first), "gpu-00002.csv.gz": csv_bytes(second)})


def run(folder: Path, **billing: str) -> list[Results]:
    values = yaml.safe_load((QUICKSTART / "chargeback.yaml").read_text(encoding="utf-8"))
    values["billing"] = [values["billing"][0] | billing]
    folder.mkdir(exist_ok=True)
    shutil.copy(QUICKSTART / "metrics.om", folder)
    shutil.copy(QUICKSTART / "bill.csv", folder)
    (folder / "chargeback.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return run_day(open_walk(load_settings(folder / "chargeback.yaml")), date(2026, 10, 1))


def sums(results: list[Results]) -> dict[tuple[object, ...], Decimal]:
    found: dict[tuple[object, ...], Decimal] = {}
    for row in (row for r in results for row in r.chargeback.to_pylist()):
        key = tuple(row[name] for name in KEYS)
        found[key] = found.get(key, Decimal(0)) + row["cost"]
    return found


@pytest.fixture(scope="module")
def by_focus(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[object, ...], Decimal]:
    return sums(run(tmp_path_factory.mktemp("focus") / "day"))


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as url:
        boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield url


@pytest.mark.parametrize(("kind", "prefix"), [("aws-cur", "cur/gpu"), ("aws-cur2", "exports/gpu")])
def test_from_the_bucket_to_the_rows(
    tmp_path: Path, s3: str, by_focus: dict[tuple[object, ...], Decimal], kind: str, prefix: str
) -> None:
    root = delivered(kind, tmp_path / "gpu")
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    for file in (p for p in root.rglob("*") if p.is_file()):
        client.upload_file(str(file), BUCKET, f"{prefix}/{file.relative_to(root).as_posix()}")
    results = run(tmp_path / "day", kind=kind, path=f"s3://{BUCKET}/{prefix}", endpoint_url=s3, region="us-east-1")
    rows = [row for r in results for row in r.reconciliation.to_pylist()]
    assert sum(row["cost_in"] for row in rows) == WHOLE
    assert {row["rule"] for row in rows if row["state"] == "out_of_scope"} == {
        "no_resource",
        "not_a_node",
        "usage_not_instance",
    }
    assert sum(sums(results).values()) == SPLIT
    assert sums(results) == by_focus
