"""Parquet by table, date and cluster in a folder or an object store; a partition is written whole or not at all.

Layout: ``TABLE/date=YYYY-MM-DD/cluster=NAME/part-0.parquet`` beside ``_commit.json``. On disk a file is written aside and
renamed. An object store shows an object when it is whole, and the marker comes last. A partition without its marker is not
there. Names are percent-encoded, so none leaves its folder.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from allocation.errors import SettingsError, SourceUnavailableError
from allocation.schemas import SCHEMA_VERSION

COMMIT = "_commit.json"


@dataclass(frozen=True)
class Partition:
    """One UTC day of one cluster (or of ``_bill``)."""

    day: date
    cluster: str

    @property
    def path(self) -> str:
        """The folder below a table's."""
        return f"date={self.day.isoformat()}/cluster={quote(self.cluster, safe='')}"

    def __str__(self) -> str:
        return f"{self.day.isoformat()}|{self.cluster}"


@dataclass(frozen=True)
class Commit:
    """A partition's marker: its files with their hashes, and what was said of it."""

    files: Mapping[str, str]
    detail: Mapping[str, object]


class TableStore:
    """Tables of one output location."""

    def __init__(self, location: str, *, endpoint_url: str | None = None, region: str | None = None) -> None:
        self.location = location
        self._local = "://" not in location
        self._fs, self._root = _filesystem(location, endpoint_url, region)

    def place(self, table: str) -> str:
        """Where a table's partitions are, for people."""
        return f"{self.location.rstrip('/')}/{table}"

    def write(self, table: str, partition: Partition, data: pa.Table, detail: Mapping[str, object] | None = None) -> None:
        """Replaces a partition whole."""
        self.write_parts(table, partition, iter([data]), detail)

    def write_parts(
        self, table: str, partition: Partition, parts: Iterator[pa.Table], detail: Mapping[str, object] | None = None
    ) -> Commit:
        """Replaces a partition by one file a part, each read from the iterator when the one before is written."""
        folder = f"{self._root}/{table}/{partition.path}"
        aside = f"{self._root}/{table}/.aside-{os.getpid()}-{partition.day.isoformat()}-{quote(partition.cluster, safe='')}"
        target = aside if self._local else folder
        with self._reaching():
            self._make(target)
            hashes: dict[str, str] = {}
            try:
                for number, part in enumerate(parts):
                    if number == 0 and not self._local:
                        self._forget(f"{folder}/{COMMIT}")
                    hashes[f"part-{number}.parquet"] = self._write_file(f"{target}/part-{number}.parquet", part)
                commit = Commit(hashes, detail or {})
                self._write_text(f"{target}/{COMMIT}", _commit_text(table, commit))
                self._publish(aside, folder, set(hashes))
            except BaseException:
                if self._local:
                    shutil.rmtree(aside, ignore_errors=True)
                raise
        return commit

    def _publish(self, aside: str, folder: str, names: set[str]) -> None:
        """Makes the new files the partition: by rename on disk; objects are already in place, surplus ones go."""
        if self._local:
            final = Path(folder)
            final.mkdir(parents=True, exist_ok=True)
            (final / COMMIT).unlink(missing_ok=True)
            for name in sorted(names):
                Path(aside, name).replace(final / name)
            for old in final.glob("part-*.parquet"):
                if old.name not in names:
                    old.unlink()
            Path(aside, COMMIT).replace(final / COMMIT)
            shutil.rmtree(aside)
            return
        for info in self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
            if info.base_name.startswith("part-") and info.base_name not in names:
                self._fs.delete_file(info.path)

    def _write_file(self, path: str, data: pa.Table) -> str:
        sink = pa.BufferOutputStream()
        pq.write_table(data, sink, compression="zstd", write_statistics=True)
        buffer = sink.getvalue()
        with self._fs.open_output_stream(path) as stream:
            stream.write(buffer)
        return hashlib.sha256(buffer).hexdigest()

    def _write_text(self, path: str, text: str) -> None:
        with self._fs.open_output_stream(path) as stream:
            stream.write(text.encode())

    def _make(self, folder: str) -> None:
        """A folder on disk; an object store needs none."""
        if self._local:
            self._fs.create_dir(folder, recursive=True)

    def _forget(self, path: str) -> None:
        if self._fs.get_file_info(path).type == fs.FileType.File:
            self._fs.delete_file(path)

    def commit(self, table: str, partition: Partition) -> Commit | None:
        """The partition's marker, or None where there is no whole partition."""
        path = f"{self._root}/{table}/{partition.path}/{COMMIT}"
        with self._reaching():
            if self._fs.get_file_info(path).type != fs.FileType.File:
                return None
            with self._fs.open_input_stream(path) as stream:
                held = json.loads(stream.read().decode())
        return Commit(held["files"], held["detail"])

    def read(self, table: str, partition: Partition) -> pa.Table | None:
        """A partition's rows, or None where there is no whole partition."""
        parts = list(self.read_parts(table, partition))
        return pa.concat_tables(parts) if parts else None

    def read_parts(self, table: str, partition: Partition) -> Iterator[pa.Table]:
        """A partition file by file."""
        commit = self.commit(table, partition)
        for name in sorted(commit.files, key=lambda n: (len(n), n)) if commit else []:
            with self._reaching(), self._fs.open_input_file(f"{self._root}/{table}/{partition.path}/{name}") as source:
                yield pq.read_table(source, partitioning=None)

    def partitions(self, table: str) -> Sequence[Partition]:
        """The whole partitions of a table, in order."""
        with self._reaching():
            found = self._fs.get_file_info(fs.FileSelector(f"{self._root}/{table}", recursive=True, allow_not_found=True))
        paths = [info.path.split("/")[-3:-1] for info in found if info.base_name == COMMIT]
        keys = [
            Partition(date.fromisoformat(day.removeprefix("date=")), unquote(cluster.removeprefix("cluster=")))
            for day, cluster in paths
        ]
        return sorted(keys, key=lambda p: (p.day, p.cluster))

    def write_bill(self, key: str, lines: pa.Table) -> None:
        """Keeps the line items of one delivery under its fingerprint."""
        path = f"{self._root}/line_items/{key}.parquet"
        with self._reaching():
            self._make(f"{self._root}/line_items")
            if self._local:
                aside = f"{self._root}/line_items/.aside-{os.getpid()}-{key}.parquet"
                pq.write_table(lines, aside, compression="zstd", row_group_size=1 << 17)
                Path(aside).replace(path)
            else:
                with self._fs.open_output_stream(path) as stream:
                    pq.write_table(lines, stream, compression="zstd", row_group_size=1 << 17)

    def read_bill(self, key: str, first: pa.Scalar, until: pa.Scalar) -> pa.Table | None:
        """The kept lines of a delivery that touch ``[first, until)``, or None where it was never parsed."""
        path = f"{self._root}/line_items/{key}.parquet"
        with self._reaching():
            if self._fs.get_file_info(path).type != fs.FileType.File:
                return None
            touching = [("charge_period_start", "<", until), ("charge_period_end", ">", first)]
            return pq.read_table(path, filesystem=self._fs, filters=touching, partitioning=None)

    def check_writable(self) -> None:
        """Proves that the location can be written; raises what a run would raise."""
        path = f"{self._root}/.write-check-{os.getpid()}"
        with self._reaching():
            self._make(self._root)
            self._write_text(path, "")
            self._fs.delete_file(path)

    def _reaching(self) -> "_Reaching":
        return _Reaching(self.location)


class _Reaching:
    """Turns an operating system's or a store's refusal into one clear line."""

    def __init__(self, location: str) -> None:
        self._location = location

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise SourceUnavailableError(
                self._location,
                f"cannot be read or written: {' '.join(str(error).split())[:300]}",
                setting="output, storage.endpoint_url",
            ) from error


def _commit_text(table: str, commit: Commit) -> str:
    held = {
        "table": table,
        "schema_version": SCHEMA_VERSION,
        "files": dict(commit.files),
        "detail": dict(commit.detail),
    }
    return json.dumps(held, indent=1, sort_keys=True, default=str)


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
    return system, root.rstrip("/")
