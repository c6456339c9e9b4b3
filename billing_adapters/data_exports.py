"""The layout of AWS Data Exports: which files a delivery of a billing period has, by its manifest and by nothing else.

``metadata/BILLING_PERIOD=YYYY-MM/*Manifest.json`` is the newest; copies in folders below it are older executions. Files
that no manifest names (surplus chunks, older executions) are never read.
"""

import json
import re
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import date

from allocation.errors import AdapterError
from billing_adapters.base import Delivery
from billing_adapters.files import DATA_SUFFIXES, FileStore, StoredFile, fingerprint

RACE_WAITS = (0.5, 1.0, 2.0)
"""Seconds between looks for a file that a manifest names: a delivery may be under way."""

_MANIFEST = re.compile(r"metadata/BILLING_PERIOD=(\d{4})-(0[1-9]|1[0-2])/[^/]*Manifest\.json", re.IGNORECASE)
_LARGEST_MANIFEST = 64 << 20


def has_manifests(files: Iterable[StoredFile]) -> bool:
    """Whether these files are a Data Export's."""
    return any(_MANIFEST.fullmatch(f.name) for f in files)


def exported_deliveries(store: FileStore) -> list[Delivery]:
    """The newest delivery of each billing period, by period.

    Raises:
        AdapterError: no manifest, two for one period, one of unknown shape, or one whose files are not (all) there.
    """
    there = store.list_files()
    deliveries = []
    for period, manifest in sorted(_manifests(there, store.url).items()):
        names = _complete(store, manifest, period)
        identity = fingerprint(store, names)
        deliveries.append(Delivery(identity, names, period, {"manifest": manifest}))
    return deliveries


def _manifests(there: Iterable[StoredFile], url: str) -> dict[date, str]:
    found: dict[date, str] = {}
    for file in there:
        match = _MANIFEST.fullmatch(file.name)
        if match is None:
            continue
        period = date(int(match[1]), int(match[2]), 1)
        if period in found:
            raise AdapterError(f"two manifests for {period:%Y-%m}: {found[period]} and {file.name}", file=url)
        found[period] = file.name
    if not found:
        problem = "no metadata/BILLING_PERIOD=YYYY-MM/*Manifest.json is there"
        raise AdapterError(problem, file=url, remedy="Point billing.path at the export's own folder, with data/ and metadata/.")
    return found


def _complete(store: FileStore, manifest: str, period: date) -> tuple[str, ...]:
    """The manifest's files once all are there; it is read again at each look."""
    for wait in (*RACE_WAITS, None):
        names = _named(store, manifest, period)
        missing = _missing(names, {f.name for f in store.list_files()})
        if not missing:
            return names
        if wait is not None:
            time.sleep(wait)
    problem = f"the manifest names files that are not there: {', '.join(missing[:3])}"
    raise AdapterError(problem, file=manifest, remedy="Run again when the delivery is complete, or have it delivered again.")


def _missing(names: Sequence[str], there: Collection[str]) -> list[str]:
    return [name for name in names if name not in there]


def _named(store: FileStore, manifest: str, period: date) -> tuple[str, ...]:
    """The data files of one manifest as names in the store."""
    with store.open(manifest) as stream:
        raw = stream.read(_LARGEST_MANIFEST)
    try:
        content = json.loads(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise AdapterError("the manifest is no JSON", file=manifest, remedy="Have it delivered again.") from error
    files = content.get("dataFiles") if isinstance(content, dict) else None
    if not isinstance(files, list) or not all(isinstance(f, str) for f in files):
        problem = "the manifest has an unknown shape: `dataFiles` must be a list of texts"
        raise AdapterError(problem, file=manifest, remedy="Only manifests of AWS Data Exports are read.")
    try:
        names = tuple(store.resolve(uri) for uri in files)
    except AdapterError as error:
        raise AdapterError(error.problem, file=manifest, remedy="Nothing was read.") from error
    for name in names:
        if not name.startswith(f"data/BILLING_PERIOD={period:%Y-%m}/") or not name.lower().endswith(DATA_SUFFIXES):
            raise AdapterError(f"the manifest names {name!r}, which is no data file of {period:%Y-%m}", file=manifest)
    if len(set(names)) != len(names):
        raise AdapterError("the manifest names a file twice", file=manifest)
    return names
