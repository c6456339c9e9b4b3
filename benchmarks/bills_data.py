"""Made-up AWS CUR 2.0 deliveries for ``bills``: the same bytes for the same seed. No expectations here."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

FILE_LINES = 1_000_000
_MONTH = "2026-10"
_TYPES = ("p5.48xlarge", "p4d.24xlarge", "g5.12xlarge", "g6e.8xlarge", "m5.large", "c6i.4xlarge", "r6i.2xlarge", "t3.nano")
_USAGES = (
    *(f"USW2-BoxUsage:{t}" for t in _TYPES), *(f"USW2-SpotUsage:{t}" for t in _TYPES), "USW2-EBS:VolumeUsage.gp3",
    "USW2-DataTransfer-Out-Bytes", "USW2-DataTransfer-Regional-Bytes", "USW2-NatGateway-Hours", "USW2-Requests-Tier1",
    *(f"USW2-LCUUsage-{n}" for n in range(40)),
)  # fmt: skip
_LINE_TYPES = ("Usage", "Usage", "Usage", "SavingsPlanCoveredUsage", "DiscountedUsage", "EdpDiscount", "Tax")


def write_export(root: Path, lines: int) -> None:
    """A Data Export of one month in Parquet files of a million lines, with its manifest."""
    folder = root / "data" / f"BILLING_PERIOD={_MONTH}"
    folder.mkdir(parents=True)
    names = []
    for seed in range(-(-lines // FILE_LINES)):
        names.append(f"cur-{seed + 1:05d}.snappy.parquet")
        pq.write_table(made_up(seed, min(FILE_LINES, lines - seed * FILE_LINES)), folder / names[-1], compression="snappy")
    manifest = root / "metadata" / f"BILLING_PERIOD={_MONTH}" / "cur-Manifest.json"
    manifest.parent.mkdir(parents=True)
    files = [f"s3://example-bucket/cur/data/BILLING_PERIOD={_MONTH}/{name}" for name in names]
    manifest.write_text(json.dumps({"executionId": "e-1", "dataFiles": files}), encoding="utf-8")


def write_csv(path: Path, lines: int) -> None:
    """The same lines as one CSV.gz."""
    with gzip.open(path, "wb", compresslevel=1) as stream:
        pyarrow.csv.write_csv(made_up(0, lines), stream)


def made_up(seed: int, lines: int) -> pa.Table:
    """Lines of a month in no order of time: many hours, machines and costs, few of everything else."""
    random = np.random.default_rng(seed)
    hour = random.integers(0, 744, lines)
    begin = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp()) * 10**6 + hour * 3_600_000_000
    usage = random.integers(0, len(_USAGES), lines)
    kind = random.integers(0, len(_LINE_TYPES), lines)
    account = random.integers(0, 60, lines)
    amount = np.round(random.random(lines), 6)
    cost = np.round(random.random(lines) * 40, 10)
    covered, reserved = kind == 3, kind == 4
    machine = random.integers(0, 50_000, lines)

    def times(micros: np.ndarray) -> pa.Array:
        return pa.array(micros).cast(pa.timestamp("us", tz="UTC"))

    def few(words: tuple[str, ...], codes: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words)).cast(pa.string())

    def only(mask: np.ndarray, values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=~mask)

    columns = {
        "identity_line_item_id": _hex(random, lines, 52),
        "bill_payer_account_id": few(("111122223333",), account * 0),
        "bill_billing_period_start_date": times(np.full(lines, int(datetime(2026, 10, 1, tzinfo=UTC).timestamp()) * 10**6)),
        "line_item_usage_account_id": few(tuple(f"4444{n:08d}" for n in range(60)), account),
        "line_item_line_item_type": few(_LINE_TYPES, kind),
        "line_item_usage_start_date": times(begin),
        "line_item_usage_end_date": times(begin + 3_600_000_000),
        "line_item_product_code": few(("AmazonEC2", "AmazonS3"), (usage >= len(_USAGES) - 41).astype(np.int64)),
        "line_item_usage_type": few(_USAGES, usage),
        "line_item_operation": few(("RunInstances", "RunInstances:0002", "CreateVolume-Gp3"), random.integers(0, 3, lines)),
        "line_item_availability_zone": few(("us-west-2a", "us-west-2b", "us-west-2c"), machine % 3),
        "line_item_resource_id": few(tuple(f"i-{n:017x}" for n in range(50_000)), machine),
        "line_item_usage_amount": pa.array(amount),
        "line_item_line_item_description": few(tuple(f"${n}.00 per unit of {u}" for n, u in enumerate(_USAGES)), usage),
        "pricing_unit": few(("Hrs", "GB-Mo", "GB"), usage % 3),
        "product_instance_type": few((*_TYPES, *_TYPES, *("",) * (len(_USAGES) - 16)), usage),
        "product_region_code": few(("us-west-2",), account * 0),
        "line_item_currency_code": few(("USD",), account * 0),
        "line_item_unblended_cost": pa.array(cost),
        "line_item_net_unblended_cost": pa.array(np.round(cost * 0.9, 10)),
        "pricing_public_on_demand_cost": pa.array(np.round(cost * 1.3, 10)),
        "savings_plan_savings_plan_effective_cost": only(covered, np.round(cost * 0.6, 10)),
        "reservation_effective_cost": only(reserved, np.round(cost * 0.5, 10)),
        "line_item_blended_cost": pa.array(cost),
        "line_item_unblended_rate": few(("0.10", "0.20"), usage % 2),
        "bill_invoice_id": few(("",), account * 0),
    }
    return pa.table(columns)


def _hex(random: np.random.Generator, lines: int, digits: int) -> pa.Array:
    """A text of its own for each line."""
    table = np.frombuffer(b"0123456789abcdef", np.uint8)
    data = table[random.integers(0, 16, lines * digits, dtype=np.uint8)]
    offsets = np.arange(lines + 1, dtype=np.int32) * digits
    return pa.Array.from_buffers(pa.string(), lines, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
