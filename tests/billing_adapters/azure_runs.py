"""Small Azure exports in their layout of runs for the tests of this folder. No expectations here."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.billing_adapters.bills import AZURE_ROW, csv_bytes, write

PERIOD = "20261001-20261031"
RUN = "202610020712"
GUID = "73746dc5-5dcc-4b83-b340-bb1bd2b1ca30"


def azure_bytes(*changes: Mapping[str, str]) -> bytes:
    """A file of Azure's own columns with one row per set of changes."""
    return csv_bytes([{**AZURE_ROW, **change} for change in changes])


def rows_of(content: bytes) -> int:
    """How many rows a plain CSV has whose cells hold no newline."""
    return content.count(b"\n") - 1


def write_run(
    root: Path,
    files: Mapping[str, bytes],
    *,
    kind: str | None = "ActualCost",
    period: str = PERIOD,
    run: str = RUN,
    guid: str = GUID,
    manifest: bool = True,
    **changes: Any,  # noqa: ANN401 - any value of the manifest
) -> Path:
    """One run of an export; ``kind`` is its type, None leaves it out as the first version did, ``changes`` are the manifest's."""
    folder = root / period / run / guid
    blobs = []
    for name, content in files.items():
        stored = gzip.compress(content, mtime=0) if name.endswith(".gz") else content
        write(folder / name, stored)
        place = f"finops/{root.name}/{period}/{run}/{guid}/{name}"
        blobs.append({"blobName": place, "byteCount": len(stored), "dataRowCount": rows_of(content)})
    told: dict[str, Any] = {
        "manifestVersion": "2024-04-01",
        "byteCount": sum(blob["byteCount"] for blob in blobs),
        "blobCount": len(blobs),
        "dataRowCount": sum(blob["dataRowCount"] for blob in blobs),
        "dataFormat": "csv",
        "blobs": blobs,
    }
    if kind is not None:
        told["exportConfig"] = {"exportName": root.name, "type": kind, "dataVersion": "2021-10-01"}
        told["runInfo"] = {"runId": guid, "submittedTime": "2026-10-02T07:12:00Z"}
    if manifest:
        write(folder / "manifest.json", json.dumps({**told, **changes}).encode())
    return root
