"""Small bills for the tests of this folder, and where the real samples lie. No expectations here."""

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from billing_adapters.base import BillOptions, BillSource, Delivery
from billing_adapters.parsed import all_lines
from billing_adapters.registry import load_bill_source

_SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "billing"

FOCUS_ROW = {
    "BillingAccountId": "111122223333",
    "BillingPeriodStart": "2026-10-01T00:00:00Z",
    "BillingPeriodEnd": "2026-11-01T00:00:00Z",
    "ChargePeriodStart": "2026-10-01T00:00:00Z",
    "ChargePeriodEnd": "2026-10-01T01:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "BilledCost": "10.00",
    "EffectiveCost": "8.00",
    "ListCost": "12.00",
    "ContractedCost": "9.00",
    "BillingCurrency": "USD",
    "ProviderName": "AWS",
    "ServiceCategory": "Compute",
    "ServiceName": "Amazon Elastic Compute Cloud",
    "ResourceId": "i-0a00000000000001a",
    "SkuId": "SKU-GPU-1",
    "PricingCategory": "Standard",
    "PricingQuantity": "1",
    "PricingUnit": "Hours",
    "ConsumedQuantity": "1",
    "ConsumedUnit": "Hours",
    "CommitmentDiscountStatus": "",
    "CapacityReservationStatus": "",
    "x_InstanceType": "gpu.1x80",
}

CUR_ROW = {
    "identity_line_item_id": "id1",
    "bill_payer_account_id": "111122223333",
    "bill_billing_period_start_date": "2026-10-01T00:00:00.000Z",
    "line_item_usage_account_id": "444455556666",
    "line_item_line_item_type": "Usage",
    "line_item_usage_start_date": "2026-10-01T00:00:00.000Z",
    "line_item_usage_end_date": "2026-10-01T01:00:00.000Z",
    "line_item_product_code": "AmazonEC2",
    "line_item_usage_type": "USW2-BoxUsage:p5.48xlarge",
    "line_item_operation": "RunInstances",
    "line_item_availability_zone": "us-west-2b",
    "line_item_resource_id": "i-0a00000000000001a",
    "line_item_usage_amount": "1",
    "pricing_unit": "Hrs",
    "line_item_currency_code": "USD",
    "line_item_unblended_cost": "98.32",
    "pricing_public_on_demand_cost": "110.00",
    "product": '{"instance_type": "p5.48xlarge", "region": "us-west-2"}',
}

SCALE_SET = "/subscriptions/1111/resourceGroups/MC_example/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-1234-vmss"
AZURE_ROW = {
    "BillingAccountId": "111122223333",
    "SubscriptionId": "00000000-0000-4000-8000-000000001111",
    "BillingPeriodStartDate": "2026-10-01",
    "BillingPeriodEndDate": "2026-10-31",
    "Date": "2026-10-01",
    "MeterCategory": "Virtual Machines",
    "MeterName": "NC24ads A100 v4",
    "ConsumedService": "Microsoft.Compute",
    "ResourceId": SCALE_SET,
    "ResourceLocation": "westeurope",
    "AdditionalInfo": '{"UsageType":"ComputeHR","ServiceType":"Standard_NC24ads_A100_v4","VMName":"aks-gpu-1234-vmss_3"}',
    "UnitOfMeasure": "1 Hour",
    "Quantity": "24",
    "EffectivePrice": "3.673",
    "CostInBillingCurrency": "88.152",
    "BillingCurrency": "USD",
    "ChargeType": "Usage",
    "PricingModel": "OnDemand",
}


def sample(*parts: str) -> Path:
    """A file or folder of the real samples; the test is skipped where they are not beside the checkout."""
    place = _SAMPLES.joinpath(*parts)
    if not place.exists():
        pytest.skip(f"the shared billing samples are not beside this checkout ({'/'.join(parts)})")
    return place


def csv_bytes(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Rows as CSV, with the columns of all of them in order of appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def focus_bytes(*changes: Mapping[str, str]) -> bytes:
    """A FOCUS file with one row per set of changes."""
    return csv_bytes([{**FOCUS_ROW, **change} for change in changes])


def cur_bytes(*changes: Mapping[str, str]) -> bytes:
    """A CUR 2.0 file with one row per set of changes."""
    return csv_bytes([{**CUR_ROW, **change} for change in changes])


def write(path: Path, content: bytes) -> Path:
    """The file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_export(root: Path, files: Mapping[str, bytes], *, named: Sequence[str] | None = None, uri: str = "") -> Path:
    """A Data Export of October 2026; ``named`` are the chunks of the manifest, by default all."""
    period = "BILLING_PERIOD=2026-10"
    for name, content in files.items():
        write(root / "data" / period / name, gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    names = list(files) if named is None else named
    base = uri or f"s3://example-bucket/exports/{root.name}"
    manifest = {"executionId": "e-1", "dataFiles": [f"{base}/data/{period}/{name}" for name in names]}
    write(root / "metadata" / period / f"{root.name}-Manifest.json", json.dumps(manifest).encode())
    return root


def lines_of(source: BillSource, delivery: Delivery, *costs: str) -> pa.Table:
    """The table ``line_items`` of one delivery."""
    return all_lines(source.parse(delivery), costs or ("billed",), source="bill")


def parse_all(
    kind: str,
    path: Path | str,
    *,
    cost: str | tuple[str, ...] = "billed",
    currency: str | None = None,
    **more: Any,  # noqa: ANN401 - any option
) -> pa.Table:
    """The table ``line_items`` of the single delivery that stands at a place."""
    costs = (cost,) if isinstance(cost, str) else cost
    source = load_bill_source(kind, BillOptions("bill", str(path), costs, currency, **more))
    (delivery,) = source.discover()
    return lines_of(source, delivery, *costs)
