"""Small rows of Google's detailed export, in its records. No expectations here."""

from datetime import datetime, timedelta
from typing import Any

PROJECT, ZONE, MACHINE = "gpu-project-1", "us-central1-a", "gpu-node-1"
NODE_KEY = f"gce:{PROJECT}/{ZONE}/{MACHINE}"
_SKUS = {
    "gpu": ("039F-D0DA-4055", "Nvidia Tesla A100 GPU running in Americas"),
    "core": ("2922-40C5-B19F", "A2 Instance Core running in Americas"),
    "memory": ("2390-DCAF-DA38", "A2 Instance Ram running in Americas"),
}
_NUMBERS = {"gpu-a": 101, "gpu-b": 102, "gpu-c": 103}


def discount(number: str, amount: float, kind: str = "DISCOUNT") -> dict[str, Any]:
    """A credit of a row."""
    return {"id": number, "full_name": number, "type": kind, "name": number, "amount": amount}


def used(
    start: str,
    cost: float,
    *given: float,
    exported: str = "2026-10-05T09:00:00",
    part: str = "gpu",
    name: str = MACHINE,
    **more: Any,  # noqa: ANN401 - cells of any type
) -> dict[str, Any]:
    """One part of a machine's hour that starts at ``YYYY-MM-DDTHH``, with a discount for each of those given."""
    begins = datetime.fromisoformat(f"{start}:00:00+00:00")
    number, text = _SKUS[part]
    whole = f"//compute.googleapis.com/projects/123456789012/zones/{ZONE}/instances/{_NUMBERS.get(name, 4711)}"
    return {
        "billing_account_id": "01ABCD-23EF45-67890A",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": number, "description": text},
        "usage_start_time": begins,
        "usage_end_time": begins + timedelta(hours=1),
        "project": {"id": PROJECT, "number": "123456789012", "name": PROJECT, "labels": []},
        "labels": [{"key": "goog-gke-node", "value": ""}],
        "system_labels": [{"key": "compute.googleapis.com/machine_spec", "value": "a2-highgpu-1g"}],
        "location": {"location": ZONE, "country": "US", "region": "us-central1", "zone": ZONE},
        "resource": {"name": name, "global_name": whole},
        "cost": cost,
        "currency": "USD",
        "currency_conversion_rate": 1.0,
        "usage": {"amount": 3600.0, "unit": "seconds", "amount_in_pricing_units": 1.0, "pricing_unit": "hour"},
        "credits": [discount(f"d{i}", amount) for i, amount in enumerate(given)],
        "invoice": {"month": f"{begins:%Y%m}"},
        "cost_type": "regular",
        "export_time": datetime.fromisoformat(f"{exported}+00:00"),
        "cost_at_list": cost,
        "transaction_type": "GOOGLE",
        "consumption_model": {"id": "7754-699E-0EBF", "description": "Default"},
        **more,
    }
