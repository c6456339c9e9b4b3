"""One run of an Azure export: what its ``manifest.json`` says, and whether its files are as it says.

A manifest's files lie in its own folder; a name that leads anywhere else ends the run. Which run counts is ``azure_exports``'.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from allocation.errors import AdapterError
from billing_adapters.base import Delivery
from billing_adapters.files import DATA_SUFFIXES, FileStore, safe_name
from billing_adapters.manifests import read_manifest, unknown_shape

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Run:
    """One run: its folder, when it began (texts that order), and its files' names with size and rows, where these are told."""

    folder: str
    at: str
    submitted: str
    type: str | None
    files: Mapping[str, tuple[int | None, int | None]] | None
    """None where the manifest is not there."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its files, in the manifest's order."""
        return tuple(self.files or ())

    @property
    def detail(self) -> dict[str, str]:
        """What a delivery keeps of it."""
        rows = {name: rows for name, (_, rows) in (self.files or {}).items() if rows is not None}
        told = {"manifest": _manifest_of(self.folder), "rows": json.dumps(rows)}
        return told | ({"type": self.type} if self.type else {})

    def lacking(self, sizes: Mapping[str, int]) -> str | None:
        """What of it is not there as its manifest says; None where it is complete."""
        if self.files is None:
            return f"the run {self.folder} has no {MANIFEST}: it is not finished, or was copied without it"
        missing = [name for name in self.files if name not in sizes]
        if missing:
            return f"the manifest names files that are not there: {', '.join(missing[:3])}"
        for name, (size, _) in self.files.items():
            if size is not None and sizes[name] != size:
                return f"the manifest says that {name} has {size} bytes, but it has {sizes[name]}"
        return None

    def error(self, sizes: Mapping[str, int]) -> AdapterError:
        """What ends the run where no run of the period is complete."""
        remedy = "Run again when the export is complete, copy its folder whole, or have it delivered again (Exports, Run now)."
        return AdapterError(self.lacking(sizes) or "", file=_manifest_of(self.folder), remedy=remedy)


def read_run(store: FileStore, folder: str, at: str | None, has_manifest: bool) -> Run:
    """A run by its manifest.

    Raises:
        AdapterError: the manifest has an unknown shape, contradicts itself, or names a file outside its folder.
    """
    if not has_manifest:
        return Run(folder, at or "", "", None, None)
    manifest = _manifest_of(folder)
    content = read_manifest(store, manifest)
    config, info = _object(content, "exportConfig", manifest), _object(content, "runInfo", manifest)
    kind, submitted = config.get("type"), info.get("submittedTime")
    files = _files(content, folder, manifest)
    return Run(folder, at or "", submitted if isinstance(submitted, str) else "", kind if isinstance(kind, str) else None, files)


def rows_told(delivery: Delivery) -> Mapping[str, int]:
    """How many rows each file of a delivery has, where its manifest says so."""
    told: Mapping[str, int] = json.loads(delivery.detail.get("rows", "{}"))
    return told


def counted(name: str, batches: Iterable[pa.Table], told: Mapping[str, int]) -> Iterator[pa.Table]:
    """The batches of one file; it ends the run where these are not as many rows as its manifest says."""
    rows = 0
    for batch in batches:
        rows += len(batch)
        yield batch
    if rows != told.get(name, rows):
        problem = f"the manifest says {told[name]} rows, but the file has {rows}"
        raise AdapterError(problem, file=name, remedy="Have it delivered again; nothing was used.")


def _manifest_of(folder: str) -> str:
    return f"{folder}/{MANIFEST}".lstrip("/")


def _object(content: Mapping[str, Any], key: str, manifest: str) -> Mapping[str, Any]:
    """A part of the manifest that older versions do not have."""
    part = content.get(key)
    if part is not None and not isinstance(part, dict):
        raise unknown_shape(manifest, f"`{key}` must be an object")
    return part or {}


def _files(content: Mapping[str, Any], folder: str, manifest: str) -> dict[str, tuple[int | None, int | None]]:
    blobs = content.get("blobs")
    if not isinstance(blobs, list) or not all(isinstance(b, dict) and isinstance(b.get("blobName"), str) for b in blobs):
        raise unknown_shape(manifest, "`blobs` must be a list of objects with `blobName`")
    found: dict[str, tuple[int | None, int | None]] = {}
    for blob in blobs:
        name = _in_folder(blob["blobName"], folder, manifest)
        if name in found:
            raise AdapterError("the manifest names a file twice", file=manifest)
        found[name] = (_count(blob, "byteCount", manifest), _count(blob, "dataRowCount", manifest))
    _ensure_sums(content, list(found.values()), manifest)
    return found


def _in_folder(uri: str, folder: str, manifest: str) -> str:
    """The blob's name in the store: it must lie beside the manifest, by as much of its folder as is known here."""
    try:
        parts = safe_name(uri).split("/")
    except AdapterError as error:
        raise AdapterError(error.problem, file=manifest, remedy="Nothing was read.") from error
    known = folder.split("/") if folder else []
    own = parts[:-1][-3:]
    beside = not own or not known or own[-len(known) :] == known[-len(own) :]
    if not beside or not parts[-1].lower().endswith(DATA_SUFFIXES):
        problem = f"the manifest names {uri!r}, which is no data file of its own folder"
        raise AdapterError(problem, file=manifest, remedy="Nothing was read.")
    return f"{folder}/{parts[-1]}".lstrip("/")


def _count(values: Mapping[str, Any], key: str, manifest: str) -> int | None:
    count = values.get(key)
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
        raise unknown_shape(manifest, f"`{key}` must be a whole number")
    return count


def _ensure_sums(content: Mapping[str, Any], files: list[tuple[int | None, int | None]], manifest: str) -> None:
    """The manifest's own totals must be those of its files."""
    sums: dict[str, list[int | None]] = {
        "blobCount": [1] * len(files),
        "byteCount": [size for size, _ in files],
        "dataRowCount": [rows for _, rows in files],
    }
    for key, counts in sums.items():
        whole, known = _count(content, key, manifest), [c for c in counts if c is not None]
        if whole is not None and len(known) == len(counts) and sum(known) != whole:
            problem = f"the manifest contradicts itself: {key} is {whole}, but its files have {sum(known)}"
            raise AdapterError(problem, file=manifest, remedy="Have it delivered again.")
