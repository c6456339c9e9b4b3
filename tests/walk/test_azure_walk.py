"""The quick start's day on Azure, its bill in Blob Storage as Azure exports it: amortized costs give the rows of FOCUS."""

import shutil
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import yaml

from pipelines.results import Results
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.walk import open_walk
from tests.billing_adapters.azure_runs import write_run
from tests.billing_adapters.bills import AZURE_ROW, FOCUS_ROW, SCALE_SET, csv_bytes
from tests.object_stores import Bucket
from tests.walk.test_aws_walk import QUICKSTART, SPLIT, WHOLE, sums

INSTANCES = {"i-0a1f3c5e7d9b2a4c6": "0", "i-0b2e4d6f8a1c3e5b7": "1", "i-0c3d5e7f9b1a2c4d6": "40"}
SMALL, LARGE = "Standard_NC96ads_A100_v4", "Standard_NC80adis_H100_v5"
# One line a machine and day: 24 h at 3.744, 8.40 and 8.40; then the credit, the transfer, the disk and the tax.
DAY: list[dict[str, str]] = [
    {"machine": "0", "type": SMALL, "cost": "89.856", "price": "3.744", "PricingModel": "SavingsPlan"},
    {"machine": "1", "type": LARGE, "cost": "201.60", "price": "8.40"},
    {"machine": "40", "type": LARGE, "cost": "201.60", "price": "8.40"},
    {"machine": "1", "type": LARGE, "cost": "-2.40", "ChargeType": "Refund"},
    {"machine": "0", "type": "", "cost": "2.70", "MeterCategory": "Bandwidth", "UnitOfMeasure": "1 GB"},
    {"ResourceId": f"{SCALE_SET.rpartition('/')[0]}/disks/pvc-1", "cost": "0.80", "MeterCategory": "Storage"},
    {"ResourceId": "", "cost": "12.50", "ChargeType": "Tax", "MeterCategory": ""},
]


def as_azure(line: Mapping[str, str]) -> dict[str, str]:
    row = {**AZURE_ROW, "Date": "10/01/2026", "BillingPeriodStartDate": "10/01/2026", "BillingPeriodEndDate": "10/31/2026"}
    told = f'"UsageType":"ComputeHR","ServiceType":"{line.get("type")}","VMName":"aks-gpu-1234-vmss_{line.get("machine")}"'
    row |= {"AdditionalInfo": told if "machine" in line else "", "CostInBillingCurrency": line["cost"]}
    return row | {"EffectivePrice": line.get("price", "0")} | {k: v for k, v in line.items() if k in row}


def as_focus(line: Mapping[str, str]) -> dict[str, str]:
    kind = {"Refund": "Adjustment"}.get(line.get("ChargeType", "Usage"), line.get("ChargeType", "Usage"))
    compute = line.get("MeterCategory", "") == "" or kind != "Usage"
    told = {"VMName": f"aks-gpu-1234-vmss_{line['machine']}", "ServiceType": line["type"]} if "machine" in line else {}
    return {
        **FOCUS_ROW,
        "ProviderName": "Microsoft",
        "ChargePeriodEnd": "2026-10-02T00:00:00Z",
        "ChargeCategory": kind,
        "ResourceId": line.get("ResourceId", SCALE_SET),
        "EffectiveCost": line["cost"],
        "ConsumedQuantity": "24",
        "ServiceCategory": "Compute" if compute else "Networking",
        "x_InstanceType": "",
        "x_SkuDetails": str(told).replace("'", '"'),
    }


def run(folder: Path, **billing: str) -> list[Results]:
    values = yaml.safe_load((QUICKSTART / "chargeback.yaml").read_text(encoding="utf-8"))
    values["billing"] = [{"cost": "effective", "currency": "USD", **billing}]
    metrics = (QUICKSTART / "metrics.om").read_text(encoding="utf-8")
    for instance, number in INSTANCES.items():
        metrics = metrics.replace(f"aws:///us-east-1a/{instance}", f"azure://{SCALE_SET}/virtualMachines/{number}")
    folder.mkdir()
    (folder / "metrics.om").write_text(metrics, encoding="utf-8")
    (folder / "chargeback.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return run_day(open_walk(load_settings(folder / "chargeback.yaml")), date(2026, 10, 1))


def test_from_the_container_to_the_rows(tmp_path: Path, azure_blobs: Bucket) -> None:
    rows = [as_azure(line) for line in DAY]
    files = {"part_0_0001.csv.gz": csv_bytes(rows[:3]), "part_1_0001.csv.gz": csv_bytes(rows[3:])}
    root = write_run(tmp_path / "gpu", files, kind="AmortizedCost")
    write_run(root, {"part_0_0001.csv": csv_bytes(rows[:1])}, kind="AmortizedCost", run="202610010700")
    path = azure_blobs.put_tree(root, "cost/gpu")
    results = run(tmp_path / "azure", kind="azure", path=path, endpoint_url=azure_blobs.endpoint_url)
    told = [row for r in results for row in r.reconciliation.to_pylist()]
    assert sum(row["cost_in"] for row in told) == WHOLE
    assert {row["rule"] for row in told if row["state"] == "out_of_scope"} == {"no_resource", "service_not_compute"}
    found = sums(results)
    assert sum(found.values()) == SPLIT
    assert {key[0] for key in found} == {"gpu-a", "gpu-b", "gpu-c"}
    shutil.rmtree(root)
    focus = write_run(tmp_path / "gpu", {"000001.csv": csv_bytes([as_focus(line) for line in DAY])}, kind="FocusCost")
    assert sums(run(tmp_path / "focus", kind="focus", path=str(focus))) == found
