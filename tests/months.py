"""A company of one machine and two pods over two months, whose bill, owners and metrics can change afterwards.

Each day the machine is billed for two hours at 4 dollars; `train` holds 30 GiB and `chat` 10 of its one card, so of each hour 3
dollars are `train`'s and 1 is `chat`'s. A support fee of 7 dollars a day names no machine. Metrics go on for a
day after the bill.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import yaml

HOURS, STEP_S = 2, 300
GIB = 2**30
OCTOBER, NOVEMBER = date(2026, 10, 1), date(2026, 11, 1)
_HEAD = (
    "BillingAccountId,BillingPeriodStart,BillingPeriodEnd,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,"
    "BillingCurrency,ProviderName,ServiceCategory,ServiceName,ResourceId,ConsumedQuantity,ConsumedUnit,InvoiceId"
)


def days(first: date, count: int) -> list[date]:
    """So many days from the first."""
    return [first + timedelta(days=n) for n in range(count)]


@dataclass
class Company:
    """The inputs, in a folder; ``write`` puts them there as they are now."""

    folder: Path
    days: list[date] = field(default_factory=lambda: days(OCTOBER, 31))
    price: dict[date, str] = field(default_factory=dict)
    memory_gib: dict[tuple[date, str], int] = field(default_factory=dict)
    owners: dict[str, object] = field(default_factory=dict)
    invoices: Mapping[date, str] = field(default_factory=dict)
    entry: dict[str, object] = field(default_factory=lambda: {"final_after": "5d"})
    start: date = OCTOBER
    clusters: tuple[str, ...] = ("prod",)
    output: str = "out"
    storage: dict[str, object] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "chargeback.yaml"

    def write(self) -> "Company":
        self.folder.mkdir(exist_ok=True)
        (self.folder / "bill.csv").write_text("\n".join([_HEAD, *self._lines()]) + "\n", encoding="utf-8")
        (self.folder / "metrics.om").write_text("\n".join([*self._samples(), "# EOF"]) + "\n", encoding="utf-8")
        node = {"name": "gpu-a", "provider_id": "aws:///z/i-0a", "instance_type": "x", "gpus": 1, "gpu_memory": "40GiB"}
        none = {"kind": "openmetrics", "path": "none.om", "profile": "dcgm"}
        settings = {
            "version": 1, "output": self.output, "storage": self.storage, "start": self.start,
            "clusters": [{"name": "prod", "metrics": [{"kind": "openmetrics", "path": "metrics.om", "profile": "custom",
                "custom": {
                    "pod_memory": {"metric": "pod_gpu_memory_bytes", "unit": "bytes", "level": "container"},
                    "labels": {"node": "node", "gpu": "gpu_uuid", **{n: n for n in ("namespace", "pod", "container")}},
                }}], "nodes": [node]}, *({"name": name, "metrics": [none]} for name in self.clusters[1:])],
            "billing": [{"kind": "focus", "path": "bill.csv", "cost": "billed", **self.entry}],
            "owners": {"team": ["namespace"], **self.owners},
        }  # fmt: skip
        (self.folder / "none.om").write_text("# EOF\n", encoding="utf-8")
        self.config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        return self

    def _lines(self) -> list[str]:
        found = list(self.extra)
        for day in self.days:
            month, following = day.replace(day=1), (day.replace(day=1) + timedelta(days=31)).replace(day=1)
            invoice = self.invoices.get(month, "")
            head = f"acct,{month}T00:00:00Z,{following}T00:00:00Z"
            for hour in range(HOURS):
                span = f"{day}T{hour:02}:00:00Z,{day}T{hour + 1:02}:00:00Z"
                found.append(f"{head},{span},Usage,{self.price.get(day, '4')},USD,AWS,Compute,EC2,i-0a,1,Hours,{invoice}")
            whole = f"{day}T00:00:00Z,{day + timedelta(days=1)}T00:00:00Z"
            found.append(f"{head},{whole},Purchase,7,USD,AWS,Management,Support,,,,{invoice}")
        return found

    def _samples(self) -> list[str]:
        found = ["# TYPE pod_gpu_memory_bytes gauge"]
        for pod, usual in (("train", 30), ("chat", 10)):
            labels = f'node="gpu-a",gpu_uuid="GPU-1",namespace="{pod}-team",pod="{pod}",container="c"'
            for day in [*self.days, self.days[-1] + timedelta(days=1)]:
                start = round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
                size = self.memory_gib.get((day, pod), usual) * GIB
                found += [f"pod_gpu_memory_bytes{{{labels}}} {size} {start + s}" for s in range(0, 3600 * HOURS + 1, STEP_S)]
        return found
