"""What manifests have in common: JSON of a known shape, one for each period or run, of files that must all be there."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Any

from allocation.errors import AdapterError
from billing_adapters.base import Delivery
from billing_adapters.files import DATA_SUFFIXES, FileStore, fingerprint

RACE_WAITS = (0.5, 1.0, 2.0)
"""Seconds between looks for a file that a manifest names: a delivery may be under way."""

_LARGEST = 64 << 20

Named = Callable[[str], tuple[str, ...]]
"""The files that the manifest of this name names, as names in the store."""


def deliveries(store: FileStore, manifests: Mapping[date, str], named: Named) -> list[Delivery]:
    """One delivery of each period, by period, once all its files are there."""
    found = []
    for period, manifest in sorted(manifests.items()):
        names = _complete(store, manifest, named)
        found.append(Delivery(fingerprint(store, names), names, period, {"manifest": manifest}))
    return found


def add_manifest(found: dict[date, str], period: date, name: str, url: str) -> None:
    """Notes the manifest of a period; a second one is refused."""
    if period in found:
        problem = f"two manifests for {period:%Y-%m}: {found[period]} and {name}"
        raise AdapterError(problem, file=url, remedy="Point billing.path at one export's own folder.")
    found[period] = name


def read_manifest(store: FileStore, name: str) -> Mapping[str, Any]:
    """The manifest's content, an object."""
    with store.open(name) as stream:
        raw = stream.read(_LARGEST)
    try:
        content = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise AdapterError("the manifest is no JSON", file=name, remedy="Have it delivered again.") from error
    if not isinstance(content, dict):
        raise unknown_shape(name, "it must be an object")
    return content


def unknown_shape(name: str, problem: str) -> AdapterError:
    """What ends the run where a manifest is not as AWS or Azure writes it."""
    known = "AWS Data Exports (aws-cur2, focus), of Cost and Usage Reports (aws-cur) and of Azure's exports (azure, focus)"
    remedy = f"Only manifests of {known} are read."
    return AdapterError(f"the manifest has an unknown shape: {problem}", file=name, remedy=remedy)


def names_in_store(store: FileStore, manifest: str, uris: object, key: str) -> tuple[str, ...]:
    """The files of a manifest's list as names in the store, each once, each a file of lines."""
    if not isinstance(uris, list) or not all(isinstance(f, str) for f in uris):
        raise unknown_shape(manifest, f"`{key}` must be a list of texts")
    try:
        names = tuple(store.resolve(uri) for uri in uris)
    except AdapterError as error:
        raise AdapterError(error.problem, file=manifest, remedy="Nothing was read.") from error
    if len(set(names)) != len(names):
        raise AdapterError("the manifest names a file twice", file=manifest)
    return names


def ensure_of_period(names: Sequence[str], folders: Sequence[str], period: date, manifest: str) -> None:
    """Refuses a name that does not lie in one of these folders, or is no file of lines."""
    for name in names:
        if not any(f"/{folder}/" in f"/{name}" for folder in folders) or not name.lower().endswith(DATA_SUFFIXES):
            raise AdapterError(f"the manifest names {name!r}, which is no data file of {period:%Y-%m}", file=manifest)


def _complete(store: FileStore, manifest: str, named: Named) -> tuple[str, ...]:
    """The manifest's files once all are there; it is read again at each look."""
    for wait in (*RACE_WAITS, None):
        names = named(manifest)
        missing = _missing(names, {f.name for f in store.list_files()})
        if not missing:
            return names
        if wait is not None:
            time.sleep(wait)
    problem = f"the manifest names files that are not there: {', '.join(missing[:3])}"
    raise AdapterError(problem, file=manifest, remedy="Run again when the delivery is complete, or have it delivered again.")


def _missing(names: Sequence[str], there: Collection[str]) -> list[str]:
    return [name for name in names if name not in there]
