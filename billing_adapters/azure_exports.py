"""The layout of Azure's cost exports: which files the delivery of a month has.

``EXPORT/YYYYMMDD-YYYYMMDD/YYYYMMDDhhmm/GUID/manifest.json`` is written last and names the run's files; each run of a month
holds the month again, so one run counts. A run without its manifest is not finished and never counts. Older exports lay one
file a run into the month's folder, without a manifest. Here belongs which run counts; ``azure_manifests`` reads it.
"""

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from allocation.errors import AdapterError
from billing_adapters.azure_manifests import MANIFEST, Run, read_run
from billing_adapters.base import Delivery
from billing_adapters.files import DATA_SUFFIXES, FileStore, StoredFile, fingerprint, is_data
from billing_adapters.manifests import RACE_WAITS

_PERIOD = r"(?P<period>\d{8}-\d{8})/"
_GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_IN_RUN = re.compile(rf"(?:.*/)?{_PERIOD}(?:(?P<at>\d{{12}})/)?(?P<id>{_GUID})/[^/]+", re.IGNORECASE)
_IN_PERIOD = re.compile(rf"(?:.*/)?{_PERIOD}[^/]+", re.IGNORECASE)
_SUFFIXES = tuple(suffix for suffix in DATA_SUFFIXES if suffix != ".zip")


@dataclass(frozen=True)
class _Place:
    """Where a file lies: its export's folder, its period, and of a run its time (or nothing) and its own folder."""

    export: str
    period: str
    at: str | None
    folder: str
    in_run: bool


def has_runs(store: FileStore, files: Iterable[StoredFile]) -> bool:
    """Whether these files are an Azure export's with runs and manifests."""
    return any(place.in_run and (place.at or name.endswith(f"/{MANIFEST}")) for name, place in _placed(store, files).items())


def azure_deliveries(store: FileStore) -> list[Delivery]:
    """One delivery of each period of the export, by period; of a place without that layout all files as one.

    ``detail`` has the manifest's name, the export's ``type`` where it is told, and ``rows``, the rows of each file as JSON.

    Raises:
        AdapterError: no file at all, several exports, periods that overlap, a period without a complete run, a manifest of
            unknown shape, or several files of which the newest cannot be told.
    """
    found = store.list_files()
    placed = _placed(store, found)
    if not placed:
        names = tuple(f.name for f in found if is_data(f, _SUFFIXES))
        if not names:
            problem = f"no bill is there (a file that ends in {', '.join(_SUFFIXES)})"
            raise AdapterError(problem, file=store.url, remedy="Check billing.path.")
        return [Delivery(fingerprint(store, names), names)]
    _ensure_one_export(store, placed.values())
    periods = sorted({place.period for place in placed.values()})
    _ensure_apart(store, periods)
    return [_delivery(store, period, found) for period in periods]


def _placed(store: FileStore, files: Iterable[StoredFile]) -> dict[str, _Place]:
    """The place of each data file and manifest that lies in the layout, wherever in it the configured path begins."""
    files = list(files)
    if len(files) == 1 and f"/{store.url}".endswith(f"/{files[0].name}"):
        return {}
    root = f"{store.url.replace(chr(92), '/').rstrip('/')}/"
    found = {}
    for file in files:
        match = _IN_RUN.fullmatch(root + file.name) or _IN_PERIOD.fullmatch(root + file.name)
        if match is None or not (is_data(file, _SUFFIXES) or file.name.rpartition("/")[2] == MANIFEST):
            continue
        named = match.groupdict()
        export = (root + file.name)[: match.start("period")]
        folder = file.name.rpartition("/")[0]
        found[file.name] = _Place(export, named["period"], named.get("at"), folder, "id" in named)
    return found


def _ensure_one_export(store: FileStore, places: Iterable[_Place]) -> None:
    exports = sorted({place.export for place in places})
    if len(exports) > 1:
        names = " and ".join(repr(export.rstrip("/").rpartition("/")[2]) for export in exports[:2])
        problem = f"{len(exports)} exports lie there ({names}); costs of two are never added"
        raise AdapterError(problem, file=store.url, remedy="Point billing.path at one export's own folder.")


def _ensure_apart(store: FileStore, periods: Sequence[str]) -> None:
    """Refuses periods that share a day: its rows would be charged twice."""
    spans = []
    for period in periods:
        try:
            spans.append((_day(period[:8]), _day(period[9:]), period))
        except ValueError:
            raise AdapterError(f"the folder {period} is no period", file=store.url, remedy="Check billing.path.") from None
    spans.sort()
    for (_, end, one), (start, _, other) in pairwise(spans):
        if start <= end:
            problem = f"the periods {one} and {other} overlap; their days would be charged twice"
            raise AdapterError(problem, file=store.url, remedy="Keep one of them below billing.path.")


def _day(text: str) -> date:
    return date(int(text[:4]), int(text[4:6]), int(text[6:]))


def _delivery(store: FileStore, period: str, found: list[StoredFile]) -> Delivery:
    """The newest complete run of a period; while none is complete, it is looked for again."""
    month = _day(period[:8]).replace(day=1)
    problem: AdapterError | None = None
    for wait in (*RACE_WAITS, None):
        placed = {name: place for name, place in _placed(store, found).items() if place.period == period}
        if not any(place.in_run for place in placed.values()):
            names = _only_file(store, period, sorted(placed))
            return Delivery(fingerprint(store, names), names, month)
        runs = _newest_first(store, placed)
        for run in runs:
            told = run.lacking({f.name: f.size for f in found})
            if told is None:
                return Delivery(fingerprint(store, run.names), run.names, month, run.detail)
        problem = runs[0].error({f.name: f.size for f in found})
        if wait is not None:
            time.sleep(wait)
            found = store.list_files()
    assert problem is not None  # noqa: S101 - the loop ends by a delivery or a problem
    raise problem


def _newest_first(store: FileStore, placed: dict[str, _Place]) -> list[Run]:
    """The runs of a period; which is the newest, the folder's time tells, else the manifest's."""
    folders = {place.folder: place for place in placed.values() if place.in_run}
    several = len(folders) > len({place.at for place in folders.values()})
    runs = [read_run(store, folder, place.at, f"{folder}/{MANIFEST}".lstrip("/") in placed) for folder, place in folders.items()]
    runs.sort(key=lambda run: (run.at, run.submitted, run.folder), reverse=True)
    if several and len(runs) > 1 and (runs[0].at, runs[0].submitted) == (runs[1].at, runs[1].submitted):
        problem = f"which is the newer run cannot be told: {runs[0].folder} and {runs[1].folder}"
        raise AdapterError(problem, file=store.url, remedy="Take one of them away.")
    return runs


def _only_file(store: FileStore, period: str, names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > 1:
        problem = (
            f"several files for {period} and no manifest.json: {names[0]} and {names[1]}; which is the newest, no name tells"
        )
        remedy = "Keep the newest alone, or export with file partitioning, which writes a manifest."
        raise AdapterError(problem, file=store.url, remedy=remedy)
    return tuple(names)
