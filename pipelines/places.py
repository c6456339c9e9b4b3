"""Files below one location, a folder or an object store, whichever it is.

Here belong reading and writing bytes, and turning a refusal into one clear line. Here do not belong tables or partitions.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from allocation.errors import SettingsError, SourceUnavailableError
from pipelines import clock

_CHUNK_BYTES = 1 << 20


class Place:
    """A location; paths below it are relative, with slashes. Can be sent to another process, wherever that works."""

    def __init__(self, location: str, endpoint_url: str | None, region: str | None) -> None:
        self.location, self._reached_by = location, (endpoint_url, region)
        self.is_disk = "://" not in location
        self.fs, self.root = _filesystem(location, endpoint_url, region)

    def __reduce__(self) -> "tuple[Callable[..., Place], tuple[str, str | None, str | None]]":
        return Place, self.key

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        """By what the same place is opened again, in whatever folder a process works."""
        return (self.root if self.is_disk else self.location, *self._reached_by)

    def full(self, path: str) -> str:
        """The path as the file system knows it."""
        return f"{self.root}/{path}"

    def on_disk(self, path: str) -> Path:
        """The path of a location that is a disk."""
        return Path(self.full(path))

    def make(self, folder: str) -> None:
        """A folder on disk; an object store needs none."""
        if self.is_disk:
            self.fs.create_dir(self.full(folder), recursive=True)

    def there(self, path: str) -> bool:
        """Whether there is such a file."""
        return bool(self.fs.get_file_info(self.full(path)).type == fs.FileType.File)

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        with self.fs.open_input_stream(self.full(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """A file of these bytes."""
        with self.fs.open_output_stream(self.full(path)) as stream:
            stream.write(content)

    def write_whole(self, path: str, content: bytes) -> None:
        """As ``write``; nobody sees a part of it, and of several that write it the last one stands."""
        if not self.is_disk:
            self.write(path, content)
            return
        aside = f"{path}.{uuid4().hex}"
        try:
            self.write(aside, content)
            self.on_disk(aside).replace(self.on_disk(path))
        except BaseException:
            self.on_disk(aside).unlink(missing_ok=True)
            raise

    def bring(self, made: Path, path: str) -> None:
        """A file that was made on a disk, in memory bounded by a part of it; on the disk of the location it is moved."""
        if self.is_disk:
            shutil.move(made, self.full(path))
            return
        with made.open("rb") as read, self.fs.open_output_stream(self.full(path)) as stream:
            shutil.copyfileobj(read, stream, _CHUNK_BYTES)

    def forget(self, path: str) -> None:
        """Removes a file, if it is there."""
        if self.there(path):
            self.fs.delete_file(self.full(path))

    def drop(self, folder: str) -> None:
        """Removes a folder with all that is in it, if it is there."""
        if self.is_disk:
            shutil.rmtree(self.full(folder), ignore_errors=True)
        elif self.names(folder):
            self.fs.delete_dir(self.full(folder))

    def names(self, folder: str) -> list[str]:
        """The names of what stands in a folder, sorted; none where there is no such folder."""
        found = self.fs.get_file_info(fs.FileSelector(self.full(folder), allow_not_found=True))
        return sorted(info.base_name for info in found)

    def ages(self, folder: str) -> list[tuple[str, timedelta]]:
        """The names of what stands in a folder, and how long ago each was written."""
        now = clock.now()
        found = self.fs.get_file_info(fs.FileSelector(self.full(folder), allow_not_found=True))
        return [(info.base_name, now - info.mtime if info.mtime else timedelta()) for info in found]

    def digest(self, path: str) -> tuple[str, int]:
        """The SHA-256 of a file, and its size in bytes."""
        digest, size = hashlib.sha256(), 0
        with self.fs.open_input_stream(self.full(path)) as stream:
            while block := stream.read_buffer(_CHUNK_BYTES):
                digest.update(block)
                size += block.size
        return digest.hexdigest(), size

    def below(self, folder: str) -> list[str]:
        """The full paths of all files below a folder."""
        found = self.fs.get_file_info(fs.FileSelector(self.full(folder), recursive=True, allow_not_found=True))
        return [info.path for info in found if info.type == fs.FileType.File]

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Turns an operating system's or a store's refusal into one clear line."""
        try:
            yield
        except OSError as error:
            raise SourceUnavailableError(
                self.location,
                f"cannot be read or written: {' '.join(str(error).split())[:300]}",
                setting="output, storage.endpoint_url",
            ) from error


def _filesystem(location: str, endpoint_url: str | None, region: str | None) -> tuple[fs.FileSystem, str]:
    if "://" not in location:
        return fs.LocalFileSystem(), str(Path(location).absolute())
    options = {}
    if endpoint_url and location.startswith("s3://"):
        scheme, _, host = endpoint_url.rstrip("/").partition("://")
        options = {"endpoint_override": host, "scheme": scheme}
    if region and location.startswith("s3://"):
        options["region"] = region
    try:
        system, root = fs.FileSystem.from_uri(location + ("?" + urlencode(options) if options else ""))
    except (pa.ArrowInvalid, OSError) as error:
        raise SettingsError(
            f"output {location!r} is no folder and no URL that can be opened: {' '.join(str(error).split())[:200]}"
        ) from error
    if not root.strip("/"):
        raise SettingsError(f"output {location!r} names no bucket; write it like s3://bucket/prefix")
    return system, root.rstrip("/")
