"""What stands for the content of files of series, so that a change of them is noticed; and how they are opened.

Here do not belong formats. A file on disk stands for itself by its bytes, an object by size and time of change.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
from pyarrow import fs

from allocation.errors import SettingsError, SourceUnavailableError
from pipelines.metrics_entries import MetricsEntry

_SUFFIXES = (".parquet", ".pq")


def content_of(entry: MetricsEntry) -> list[tuple[str, str]]:
    """Name and content of each file that the entry's path leads to; empty where there is none."""
    if isinstance(entry.path, str):
        system, root = file_system(entry)
        return [(info.path, f"{info.size} {info.mtime_ns}") for info in files(entry, system, root)]
    if entry.path is None:
        return []
    found = [entry.path] if entry.path.is_file() else sorted(p for p in entry.path.rglob("*") if p.suffix in _SUFFIXES)
    return [(str(path.relative_to(entry.path)), _digest(path)) for path in found]


def _digest(path: Path) -> str:
    """Empty where the file cannot be read, which is an error of whoever reads it."""
    with suppress(OSError), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
    return ""


def file_system(entry: MetricsEntry) -> tuple[fs.FileSystem, str]:
    """The file system that the entry's path lies in, and the path there."""
    if not isinstance(entry.path, str):
        return fs.LocalFileSystem(), str(entry.path)
    options = {}
    if entry.path.startswith("s3://"):
        if entry.endpoint_url:
            scheme, _, host = entry.endpoint_url.rstrip("/").partition("://")
            options = {"endpoint_override": host, "scheme": scheme}
        if entry.region:
            options["region"] = entry.region
    try:
        return fs.FileSystem.from_uri(entry.path + ("?" + urlencode(options) if options else ""))  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, OSError) as error:
        said = " ".join(str(error).split())[:200]
        raise SettingsError(f"metrics.path {entry.path!r} is no file and no URL that can be opened: {said}") from error


def files(entry: MetricsEntry, system: fs.FileSystem, root: str) -> list[fs.FileInfo]:
    """The Parquet files there, in name order."""
    try:
        info = system.get_file_info(root)
        if info.type == fs.FileType.File:
            return [info]
        found = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    except OSError as error:
        problem = f"cannot be read: {' '.join(str(error).split())[:300]}"
        raise SourceUnavailableError(str(entry.path), problem, setting="metrics.path, metrics.endpoint_url") from error
    return sorted((f for f in found if f.type == fs.FileType.File and f.path.endswith(_SUFFIXES)), key=lambda f: str(f.path))
