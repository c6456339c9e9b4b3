"""The layout of AWS Data Exports: which files a delivery of a billing period has, by its manifest and by nothing else.

``metadata/BILLING_PERIOD=YYYY-MM/*Manifest.json`` is the newest; copies in folders below it are older executions. Files
that no manifest names (surplus chunks, older executions) are never read.
"""

import re
from collections.abc import Iterable
from datetime import date

from allocation.errors import AdapterError
from billing_adapters.base import Delivery
from billing_adapters.files import FileStore, StoredFile
from billing_adapters.manifests import add_manifest, deliveries, ensure_of_period, names_in_store, read_manifest

_MANIFEST = re.compile(r"metadata/BILLING_PERIOD=(\d{4})-(0[1-9]|1[0-2])/[^/]*Manifest\.json", re.IGNORECASE)


def has_manifests(files: Iterable[StoredFile]) -> bool:
    """Whether these files are a Data Export's."""
    return any(_MANIFEST.fullmatch(f.name) for f in files)


def exported_deliveries(store: FileStore) -> list[Delivery]:
    """The newest delivery of each billing period, by period.

    Raises:
        AdapterError: no manifest, two for one period, one of unknown shape, or one whose files are not (all) there.
    """
    return deliveries(store, _manifests(store.list_files(), store.url), lambda manifest: _named(store, manifest))


def _manifests(there: Iterable[StoredFile], url: str) -> dict[date, str]:
    found: dict[date, str] = {}
    for file in there:
        match = _MANIFEST.fullmatch(file.name)
        if match is not None:
            add_manifest(found, date(int(match[1]), int(match[2]), 1), file.name, url)
    if not found:
        problem = "no metadata/BILLING_PERIOD=YYYY-MM/*Manifest.json is there"
        raise AdapterError(problem, file=url, remedy="Point billing.path at the export's own folder, with data/ and metadata/.")
    return found


def _named(store: FileStore, manifest: str) -> tuple[str, ...]:
    """The data files of one manifest."""
    names = names_in_store(store, manifest, read_manifest(store, manifest).get("dataFiles"), "dataFiles")
    month = manifest.split("/")[1].partition("=")[2]
    ensure_of_period(names, [f"data/BILLING_PERIOD={month}"], date.fromisoformat(f"{month}-01"), manifest)
    return names
