"""Small AWS bills in the legacy spelling and layout for the tests of this folder. No expectations here."""

import gzip
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from tests.billing_adapters.bills import CUR_ROW, csv_bytes, write

PERIOD = "20261001-20261101"
ASSEMBLY = "3ad008ec-4d9c-449f-b1ad-a4e92f21d08e"
_CATEGORIES = ("identity", "bill", "line_item", "pricing", "product", "reservation", "savings_plan", "split_line_item")


def legacy(name: str) -> str:
    """``lineItem/ResourceId`` for ``line_item_resource_id``, and for itself."""
    if "/" in name:
        return name
    category = next(c for c in _CATEGORIES if name.startswith(f"{c}_"))
    rest = "".join(word.capitalize() for word in name.removeprefix(f"{category}_").split("_"))
    first, *more = category.split("_")
    return f"{first}{''.join(word.capitalize() for word in more)}/{rest}"


def legacy_bytes(*changes: Mapping[str, str]) -> bytes:
    """A legacy report file with one row per set of changes, which are told in the names of CUR 2.0."""
    rows = [{**CUR_ROW, "product_instance_type": "p5.48xlarge", "product_region": "us-west-2", **change} for change in changes]
    return csv_bytes([{legacy(name): value for name, value in row.items() if name != "product"} for row in rows])


def packed(name: str, content: bytes) -> bytes:
    """The content as a file of this name would hold it."""
    if name.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    return zipped({"report-1.csv": content}) if name.endswith(".zip") else content


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as whole:
        for name, content in members.items():
            whole.writestr(name, content)
    return out.getvalue()


def manifest_of(keys: Sequence[str], *, bucket: str = "example-bucket", start: str = "20261001T000000.000Z") -> bytes:
    """A period's manifest that names these keys."""
    period = {"start": start, "end": "20261101T000000.000Z"}
    return json.dumps({"assemblyId": ASSEMBLY, "billingPeriod": period, "bucket": bucket, "reportKeys": list(keys)}).encode()


def write_report(root: Path, files: Mapping[str, bytes], *, named: Sequence[str] | None = None, prefix: str = "cur") -> Path:
    """A report of October 2026 in the layout that makes new versions: each file in the assembly's folder, packed by name."""
    folder = root / PERIOD
    for name, content in files.items():
        write(folder / ASSEMBLY / name, packed(name, content))
    keys = [f"{prefix}/{root.name}/{PERIOD}/{ASSEMBLY}/{name}" for name in (files if named is None else named)]
    write(folder / f"{root.name}-Manifest.json", manifest_of(keys))
    return root


def total(lines: pa.Table, metric: str = "billed") -> Decimal:
    """What the lines cost under a metric, nothing cut."""
    rows = [
        row for row in lines.select(["cost_metric", "cost_nanos", "cost_residue"]).to_pylist() if row["cost_metric"] == metric
    ]
    return sum((row["cost_nanos"] * Decimal("1e-9") + row["cost_residue"] for row in rows), Decimal(0))
