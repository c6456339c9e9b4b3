"""The layout of legacy AWS Cost and Usage Reports: which files the newest assembly of a billing period has.

``REPORT/YYYYMMDD-YYYYMMDD/REPORT-Manifest.json`` is overwritten with each assembly and names its files; in the layout for
Athena these lie in ``REPORT/REPORT/year=YYYY/month=M/``, and the manifest may lie there too. Manifests in the folder of
an assembly, and files that no manifest names, are never read.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from allocation.errors import AdapterError
from billing_adapters.base import Delivery
from billing_adapters.files import FileStore
from billing_adapters.manifests import add_manifest, deliveries, ensure_of_period, names_in_store, read_manifest, unknown_shape

_OF_PERIOD = re.compile(r"(?:.*/)?\d{8}-\d{8}/[^/]*Manifest\.json", re.IGNORECASE)
_OF_MONTH = re.compile(r"(?:.*/)?year=\d{4}/month=\d{1,2}/[^/]*Manifest\.json", re.IGNORECASE)
_START = re.compile(r"(\d{4})-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])T.*")


def reported_deliveries(store: FileStore) -> list[Delivery]:
    """The newest assembly of each billing period, by period.

    Raises:
        AdapterError: no manifest, two for one period, one of unknown shape, or one whose files are not (all) there.
    """
    return deliveries(store, _manifests(store), lambda manifest: _named(store, manifest))


def _manifests(store: FileStore) -> dict[date, str]:
    """The manifest of each period; those beside Parquet files count for periods that have no other."""
    there = [file.name for file in store.list_files()]
    found = _by_period(store, [name for name in there if _OF_PERIOD.fullmatch(name)])
    more = _by_period(store, [name for name in there if _OF_MONTH.fullmatch(name)])
    if not found and not more:
        problem = "no YYYYMMDD-YYYYMMDD/REPORT-Manifest.json is there, and more than one file"
        remedy = "Point billing.path at the report's own folder, which holds a folder for each period, or at one file."
        raise AdapterError(problem, file=store.url, remedy=remedy)
    return more | found


def _by_period(store: FileStore, names: list[str]) -> dict[date, str]:
    found: dict[date, str] = {}
    for name in names:
        add_manifest(found, _period(read_manifest(store, name), name), name, store.url)
    return found


def _period(content: Mapping[str, Any], manifest: str) -> date:
    """The first day of the billing period, by the manifest: the end of the folder's name is written in two ways."""
    told = content.get("billingPeriod")
    start = told.get("start") if isinstance(told, dict) else None
    match = _START.fullmatch(start) if isinstance(start, str) else None
    if match is None:
        raise unknown_shape(manifest, "`billingPeriod.start` must be a time such as 20261001T000000.000Z")
    return date(int(match[1]), int(match[2]), 1)


def _named(store: FileStore, manifest: str) -> tuple[str, ...]:
    """The data files of one manifest."""
    content = read_manifest(store, manifest)
    keys, bucket, period = content.get("reportKeys"), content.get("bucket"), _period(content, manifest)
    if not isinstance(bucket, str) or not bucket:
        raise unknown_shape(manifest, "`bucket` must be a text")
    if keys == []:
        problem = "the manifest names no file (`reportKeys` is empty)"
        raise AdapterError(problem, file=manifest, remedy="Run again when the report was delivered.")
    uris = [f"s3://{bucket}/{key}" if isinstance(key, str) else key for key in keys] if isinstance(keys, list) else keys
    names = names_in_store(store, manifest, uris, "reportKeys")
    folder = manifest.split("/")[-2]
    months = [f"year={period.year}/month={month}" for month in (period.month, f"{period.month:02}")]
    ensure_of_period(names, months if folder.startswith("month=") else [folder, *months], period, manifest)
    return names
