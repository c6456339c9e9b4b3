"""Where a bill lies: one small interface over a local folder or file and an object store.

A store lists names relative to its root, opens them as binary streams and fingerprints their content. Names never
leave the root. What a file means (data, manifest) is the adapters' knowledge, except for what is never data anywhere.
"""

import gzip
import hashlib
import io
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from allocation.errors import AdapterError, SourceUnavailableError
from billing_adapters.base import BillOptions, Delivery, Identity

DATA_SUFFIXES = (".csv", ".csv.gz", ".parquet", ".zip")
CHUNK_BYTES = 1 << 20
_STATUS_FOLDER = "cost_and_usage_data_status"
_PERIOD_FOLDER = re.compile(r"BILLING_PERIOD=|\d{8}-\d{8}$|year=\d{4}$")
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True)
class StoredFile:
    """One file: its name relative to the root (joined by ``/``), its size and a tag that changes with its content."""

    name: str
    size: int
    etag: str


class FileStore(Protocol):
    """Files below one root, which ``url`` names in messages."""

    url: str

    def list_files(self) -> list[StoredFile]:
        """All files by name. A root that is not there is an error."""
        ...

    def open(self, name: str) -> BinaryIO:
        """A binary stream over one file; an error where it changed since it was last listed."""
        ...

    def resolve(self, uri: str) -> str:
        """The name of a file that a manifest names, or an ``AdapterError`` where that lies outside the root."""
        ...


def open_files(
    path: str, *, endpoint_url: str | None = None, region: str | None = None, identity: Identity | None = None
) -> FileStore:
    """The store that a configured path means: ``s3://bucket/prefix``, a folder or a file."""
    if path.startswith("s3://"):
        from billing_adapters.s3_files import S3Files  # noqa: PLC0415 - loads the cloud's SDK

        return S3Files(path, endpoint_url=endpoint_url, region=region, identity=identity or Identity())
    if "://" in path:
        raise AdapterError(f"{path}: bills are read from a folder, a file or s3://", remedy="Correct billing.path.")
    return LocalFiles(Path(path))


def open_bill(options: BillOptions) -> FileStore:
    """The store of a billing entry."""
    return open_files(options.path, endpoint_url=options.endpoint_url, region=options.region, identity=options.identity)


class LocalFiles:
    """A folder, or one file of it."""

    def __init__(self, path: Path) -> None:
        self.url = str(path)
        self._only = path.name if path.is_file() else None
        self._root = path.parent if self._only else path
        self._etags: dict[str, str] = {}

    def list_files(self) -> list[StoredFile]:
        """See ``FileStore``."""
        if self._only:
            names = [self._only]
        elif self._root.is_dir():
            names = list(_names_below(self._root))
        else:
            raise SourceUnavailableError(self.url, "there is no such file or folder", setting="billing.path")
        found = [self._stored(name) for name in sorted(names)]
        self._etags.update({f.name: f.etag for f in found})
        return found

    def open(self, name: str) -> BinaryIO:
        """See ``FileStore``."""
        file = self._root / safe_name(name)
        try:
            now = self._stored(name).etag
            if self._etags.get(name, now) != now:
                raise changed(str(file))
            return file.open("rb")
        except OSError as error:
            raise SourceUnavailableError(str(file), f"cannot be read ({error.strerror})", setting="billing.path") from error

    def resolve(self, uri: str) -> str:
        """By the longest end of it that lies here: an export copied to a disk keeps its manifest's text.

        It holds at least the folder of a billing period, so that no other file of that name is taken for it.
        """
        parts = uri.split("/")
        anchor = next((i for i, part in enumerate(parts[:-1]) if _PERIOD_FOLDER.match(part)), None)
        if anchor is None or not all(parts[anchor:]):
            known = "data/BILLING_PERIOD=YYYY-MM/ nor below another folder of a billing period"
            raise AdapterError(f"the manifest names {uri!r}, which is not below {known}")
        anchor -= anchor > 0 and parts[anchor - 1] == "data"
        ends = [safe_name("/".join(parts[i:])) for i in range(anchor, -1, -1) if all(parts[i:])]
        there = [name for name in ends if (self._root / name).is_file()]
        return (there or ends[:1])[-1]

    def _stored(self, name: str) -> StoredFile:
        stat = (self._root / name).stat()
        return StoredFile(name, stat.st_size, f"{stat.st_size}-{stat.st_mtime_ns}")


def _names_below(root: Path) -> Iterable[str]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        below = Path(folder).relative_to(root)
        yield from ((below / name).as_posix() for name in files if (root / below / name).is_file())


def safe_name(name: str) -> str:
    """The same name, or an ``AdapterError`` where it could lead out of the root."""
    parts = name.split("/")
    if not name or "\\" in name or "\0" in name or "://" in name or any(part in ("", ".", "..") for part in parts):
        raise AdapterError(f"the file name {name!r} does not stay below the configured path", remedy="Nothing was read.")
    return name


def changed(url: str) -> SourceUnavailableError:
    """A file was replaced between the listing and the reading."""
    return SourceUnavailableError(url, "changed while the delivery was read", setting="billing.path", remedy="Run again.")


def is_data(file: StoredFile, suffixes: tuple[str, ...] = DATA_SUFFIXES) -> bool:
    """Whether a file found by listing may hold bill lines: leftovers, hidden files and descriptions never do."""
    aside = any(part.startswith((".", "_")) or part == _STATUS_FOLDER for part in file.name.split("/"))
    return file.name.lower().endswith(suffixes) and not aside and file.size > 0


@contextmanager
def opened_plain(store: FileStore, name: str) -> Iterator[BinaryIO]:
    """A stream over a file's bytes, unpacked where its name ends in ``.gz``."""
    with store.open(name) as stream:
        yield cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if name.lower().endswith(".gz") else stream


BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a truncated or damaged gzip raises."""


class Rejoined(io.RawIOBase):
    """What was read of a stream, and the rest of it: a raw stream."""

    def __init__(self, before: bytes, stream: BinaryIO) -> None:
        self._before, self._stream = before, stream

    def readable(self) -> bool:  # noqa: D102
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401, D102 - any writable buffer
        piece, self._before = self._before[: len(buffer)], self._before[len(buffer) :]
        piece = piece or self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


@contextmanager
def seekable(stream: BinaryIO) -> Iterator[BinaryIO]:
    """The same bytes as a stream that can seek: one that cannot is first laid down on the local disk."""
    with tempfile.TemporaryFile() as spool:
        if not stream.seekable():
            shutil.copyfileobj(stream, spool, CHUNK_BYTES)
            spool.seek(0)
        yield stream if stream.seekable() else cast("BinaryIO", spool)


def single_file(store: FileStore) -> list[Delivery]:
    """The one delivery of a place that holds nothing but one file of lines; none where it holds more."""
    found = store.list_files()
    if len(found) != 1 or not is_data(found[0]):
        return []
    names = (found[0].name,)
    return [Delivery(fingerprint(store, names), names)]


def fingerprint(store: FileStore, names: Iterable[str]) -> str:
    """A hash of the files' names and bytes, wherever they lie; each is read once, in pieces.

    Raises:
        AdapterError: two files hold the same bytes, and more than a header: their lines would be charged twice.
    """
    whole, seen = hashlib.sha256(), dict[str, str]()
    for name in sorted(names):
        content = _hash(store, name)
        other = seen.setdefault(content, name)
        if other != name and not _is_header_only(store, name):
            problem = f"the same file twice: {other} and {name} hold the same bytes and would be charged twice"
            remedy = "Take one away, point billing.path at one folder, or have it delivered again."
            raise AdapterError(problem, file=store.url, remedy=remedy)
        whole.update(f"{name}\0{content}\n".encode())
    return whole.hexdigest()


def _hash(store: FileStore, name: str) -> str:
    one = hashlib.sha256()
    with store.open(name) as stream:
        while piece := stream.read(CHUNK_BYTES):
            one.update(piece)
    return one.hexdigest()


def _is_header_only(store: FileStore, name: str) -> bool:
    if not name.lower().endswith((".csv", ".csv.gz")):
        return False
    try:
        with opened_plain(store, name) as stream:
            return stream.readline(_HEADER_BYTES).count(b"\n") == 1 and not stream.read(_HEADER_BYTES).strip()
    except BROKEN_GZIP:
        return False
