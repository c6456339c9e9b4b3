"""Small files of Google's detailed billing export for the tests of this folder. No expectations here."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.billing_adapters.bills import csv_bytes, write
from tests.billing_adapters.reports import packed

VM = "//compute.googleapis.com/projects/123456789012/zones/us-central1-a/instances/4711471147114711"
GPU_SKU = "Nvidia Tesla A100 GPU running in Americas"

GCP_ROW = {
    "billing_account_id": "01ABCD-23EF45-111122223333",
    "service.id": "6F81-5844-456A",
    "service.description": "Compute Engine",
    "sku.id": "039F-D0DA-4055",
    "sku.description": GPU_SKU,
    "usage_start_time": "2026-10-01 00:00:00 UTC",
    "usage_end_time": "2026-10-01 01:00:00 UTC",
    "project.id": "gpu-proj",
    "location.region": "us-central1",
    "location.zone": "us-central1-a",
    "resource.name": "gpu-a",
    "cost": "2.933908",
    "currency": "USD",
    "usage.amount": "3600.0",
    "usage.unit": "seconds",
    "usage.pricing_unit": "hour",
    "invoice.month": "202610",
    "cost_type": "regular",
    "export_time": "2026-10-01 09:12:31.123456 UTC",
    "cost_at_list": "2.933908",
}


def gcp_bytes(*changes: Mapping[str, str]) -> bytes:
    """A flat CSV with one row per set of changes."""
    return csv_bytes([{**GCP_ROW, "credits": "[]", **change} for change in changes])


def write_folder(root: Path, files: Mapping[str, bytes]) -> Path:
    """Files side by side in a folder, packed where the name says so."""
    for name, content in files.items():
        write(root / name, packed(name, content))
    return root


def record(change: Mapping[str, Any]) -> dict[str, Any]:
    """One row with records and lists, as BigQuery writes JSON; ``change`` is by dotted names, None takes a field out."""
    row: dict[str, Any] = {}
    for name, value in {**GCP_ROW, **change}.items():
        top, _, field = name.partition(".")
        if value is None:
            continue
        if field:
            row.setdefault(top, {})[field] = value
        else:
            row[top] = value
    return row


def json_bytes(changes: Sequence[Mapping[str, Any]]) -> bytes:
    """JSON lines with one row per set of changes; amounts may be numbers or texts."""
    return "".join(json.dumps(record(change)) + "\n" for change in changes).encode()


def credit(kind: str, amount: float | str, name: str = "c-1") -> dict[str, Any]:
    """One credit of a row."""
    return {"id": name, "type": kind, "full_name": name, "name": name, "amount": amount}
