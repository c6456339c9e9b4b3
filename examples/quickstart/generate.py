"""Writes the quick start's day: ``metrics.om`` and ``bill.csv`` beside this file, the same bytes every time.

Only the writing belongs here, the day itself stands in ``scene.py``. Nothing here knows how a bill is split. Standard
library only: run ``python examples/quickstart/generate.py``.
"""

import argparse
import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path

from scene import DAY, DAY_START, NODES, PODS, SCRAPE, Row, rows

INVENTORY = 840  # kube-state-metrics is thinned to this, first and last sight are kept
SERVICE = "Amazon Elastic Compute Cloud"
PLAN = "arn:aws:savingsplans::111122223333:savingsplan/5d0c6c0e-3b0f-4c39-9a53-2f6d1f0a7b11"


def series(metric: str, labels: dict[str, str]) -> str:
    """A series as OpenMetrics writes it."""
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def scrapes(row: Row) -> Iterator[int]:
    """The seconds at which the node's exporter answered while the row was there."""
    outages = NODES[row.node].outages
    for second in range(row.start, row.end, SCRAPE):
        if not any(last < second < following for last, following in outages):
            yield second


def device_lines(metric: str, value: Callable[[Row, int], int]) -> Iterator[str]:
    """One metric of all devices."""
    yield f"# TYPE {metric} gauge"
    for row in rows():
        holder = {"namespace": row.pod.namespace, "pod": row.pod.name} if row.pod else {}
        name = series(metric, {**row.labels, "Hostname": row.node, **holder})
        for second in scrapes(row):
            yield f"{name} {value(row, second)} {DAY_START + second}"


def sights(first: int = 0, last: int = DAY - SCRAPE) -> list[int]:
    """When the inventory was seen: first and last sight, and a coarse grid between."""
    return sorted({first, last, *(s for s in range(0, DAY, INVENTORY) if first <= s <= last)})


def inventory() -> dict[str, list[tuple[dict[str, str], int, list[int]]]]:
    """Metric of kube-state-metrics -> (labels, value, sights)."""
    found: dict[str, list[tuple[dict[str, str], int, list[int]]]] = {
        "kube_node_info": [],
        "kube_node_status_capacity": [],
        "kube_pod_info": [],
        "kube_pod_labels": [],
        "kube_pod_container_resource_requests": [],
    }
    for node in NODES.values():
        provider = {"node": node.name, "provider_id": f"aws:///us-east-1a/{node.instance_id}"}
        found["kube_node_info"].append((provider, 1, sights()))
        for resource, count in node.resources.items():
            labels = {"node": node.name, "resource": resource, "unit": "integer"}
            found["kube_node_status_capacity"].append((labels, count, sights()))
    for pod in PODS:
        key, seen = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}, sights(pod.first, pod.last)
        origin = {"node": pod.node, "created_by_kind": pod.kind, "created_by_name": pod.owner}
        wish = {"container": "main", "node": pod.node, "resource": pod.resource, "unit": "integer"}
        found["kube_pod_info"].append(({**key, **origin}, 1, seen))
        found["kube_pod_labels"].append(({**key, **pod.labels}, 1, seen))
        found["kube_pod_container_resource_requests"].append(({**key, **wish}, 1, seen))
    return found


def metrics_text() -> str:
    """The whole of ``metrics.om``."""
    lines = list(device_lines("DCGM_FI_DEV_FB_USED", lambda row, second: row.used(second)))
    lines += device_lines("DCGM_FI_DEV_FB_FREE", lambda row, second: row.visible_mib - row.used(second))
    for metric, found in inventory().items():
        lines.append(f"# TYPE {metric} gauge")
        for labels, value, seen in found:
            lines += [f"{series(metric, labels)} {value} {DAY_START + second}" for second in seen]
    return "\n".join([*lines, "# EOF", ""])


def hour_of(hour: int) -> dict[str, str]:
    """The charge period of an hour of the day."""
    start, end = f"2026-10-01T{hour:02d}:00:00Z", f"2026-10-01T{hour + 1:02d}:00:00Z"
    return {"ChargePeriodStart": start, "ChargePeriodEnd": end if hour < 23 else "2026-10-02T00:00:00Z"}


def costs(billed: str, effective: str, contracted: str, listed: str) -> dict[str, str]:
    """The four costs of FOCUS."""
    return {"BilledCost": billed, "EffectiveCost": effective, "ContractedCost": contracted, "ListCost": listed}


def amount(quantity: str, unit: str) -> dict[str, str]:
    """A quantity, priced as it was consumed."""
    return {"PricingQuantity": quantity, "PricingUnit": unit, "ConsumedQuantity": quantity, "ConsumedUnit": unit}


def machine_hours() -> Iterator[dict[str, str]]:
    """Three instances by the hour; the savings plan covers ``gpu-a`` and appears as a purchase of its own."""
    covered = {"PricingCategory": "Committed", "CommitmentDiscountId": PLAN, "CommitmentDiscountStatus": "Used"}
    for hour in range(24):
        for node in NODES.values():
            plan = node.name == "gpu-a"
            price = costs("0", "3.744", "5.76", "5.76") if plan else costs("8.40", "8.40", "8.40", "8.40")
            yield {
                **hour_of(hour),
                **price,
                **amount("1", "Hours"),
                **(covered if plan else {"PricingCategory": "Standard"}),
                "ResourceId": node.instance_id,
                "x_InstanceType": node.instance_type,
                "SkuId": f"BOX-{node.instance_type}",
                "ChargeDescription": f"{node.instance_type} Linux, per hour",
                "Tags": f'{{"cluster": "prod", "node": "{node.name}"}}',
            }
        yield {
            **hour_of(hour),
            **costs("3.744", "0", "3.744", "3.744"),
            "ChargeCategory": "Purchase",
            "PricingCategory": "Committed",
            "PricingQuantity": "1",
            "PricingUnit": "Hours",
            "ServiceName": "Savings Plans for Compute Usage",
            "ResourceId": PLAN,
            "SkuId": "COMPUTE-SP",
            "CommitmentDiscountId": PLAN,
            "ChargeDescription": "Compute Savings Plan, hourly commitment",
        }


def other_lines() -> Iterator[dict[str, str]]:
    """A credit on a node, egress that carries an instance id, a volume, and tax that names no resource."""
    yield {
        **hour_of(5),
        **costs("-2.40", "-2.40", "-2.40", "-2.40"),
        "ChargeCategory": "Credit",
        "ResourceId": NODES["gpu-b"].instance_id,
        "x_InstanceType": NODES["gpu-b"].instance_type,
        "ChargeDescription": "Service level credit",
    }
    yield {
        **hour_of(11),
        **costs("2.70", "2.70", "2.70", "2.70"),
        **amount("30", "GB"),
        "PricingCategory": "Standard",
        "ResourceId": NODES["gpu-a"].instance_id,
        "SkuId": "EGRESS",
        "ChargeDescription": "Data transfer out to the internet, per GB",
    }
    yield {
        **hour_of(0),
        **costs("0.80", "0.80", "0.80", "0.80"),
        **amount("10", "GB-Mo"),
        "PricingCategory": "Standard",
        "ServiceCategory": "Storage",
        "ResourceId": "vol-0f9e8d7c6b5a43210",
        "SkuId": "VOLUME-GP3",
        "ChargeDescription": "Volume, per GB and month",
    }
    yield {
        "ChargePeriodStart": "2026-10-01T00:00:00Z",
        "ChargePeriodEnd": "2026-10-02T00:00:00Z",
        **costs("12.50", "12.50", "12.50", "12.50"),
        "ChargeCategory": "Tax",
        "ServiceCategory": "Other",
        "ServiceName": "Tax",
        "ChargeDescription": "Sales tax",
    }


COLUMNS = (
    "BillingAccountId",
    "SubAccountId",
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "ChargeCategory",
    "ChargeDescription",
    "PricingCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountStatus",
    "BilledCost",
    "EffectiveCost",
    "ListCost",
    "ContractedCost",
    "BillingCurrency",
    "ProviderName",
    "RegionId",
    "ServiceCategory",
    "ServiceName",
    "ResourceId",
    "SkuId",
    "PricingQuantity",
    "PricingUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "x_InstanceType",
    "Tags",
)

ALWAYS = {
    "BillingAccountId": "111122223333",
    "SubAccountId": "444455556666",
    "BillingPeriodStart": "2026-10-01T00:00:00Z",
    "BillingPeriodEnd": "2026-11-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "BillingCurrency": "USD",
    "ProviderName": "AWS",
    "RegionId": "us-east-1",
    "ServiceCategory": "Compute",
    "ServiceName": SERVICE,
}


def bill_text() -> str:
    """The whole of ``bill.csv``."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**ALWAYS, **line} for line in (*machine_hours(), *other_lines()))
    return out.getvalue()


def main() -> None:
    """Write both files into the folder that ``--out`` names, by default this one."""
    parser = argparse.ArgumentParser(description="Write the quick start's metrics.om and bill.csv.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    folder: Path = parser.parse_args().out
    for name, text in (("metrics.om", metrics_text()), ("bill.csv", bill_text())):
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"{folder / name}: {len(text):,} bytes")


if __name__ == "__main__":
    main()
