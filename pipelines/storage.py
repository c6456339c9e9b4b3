"""Parquet by table, date and cluster in a folder or an object store; a partition is written whole or not at all.

Layout: ``TABLE/date=YYYY-MM-DD/cluster=NAME/part-0.parquet`` beside ``_commit.json``; ``samples`` has a file a shard, named by
content. On disk a file is written aside and renamed. An object store shows an object when it is whole; the marker comes last. A
partition without its marker is not there. Names are percent-encoded, so none leaves its folder.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from allocation.errors import ChargebackError, SettingsError, SourceUnavailableError
from allocation.schemas import LINE_ITEMS, SCHEMA_VERSION

COMMIT = "_commit.json"
_BLOCK_ROWS, _GROUP_ROWS = 1 << 18, 1 << 13


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
        """Replaces a partition by one file of a fixed name: a reader of the folder never sees old and new rows together."""
        folder = f"{self._root}/{table}/{partition.path}"
        target = self._aside(table, partition) if self._local else folder
        with self._reaching():
            self._make(target)
            try:
                name, content, digest = "part-0.parquet", *_parquet(data)
                if not self._local:
                    self._forget(f"{folder}/{COMMIT}")
                self._write_bytes(f"{target}/{name}", content)
                self._finish(table, partition, Commit({name: digest}, detail or {}))
            except BaseException:
                self._drop(target, {"part-0.parquet"})
                raise

    def write_parts(
        self,
        table: str,
        partition: Partition,
        parts: Iterator[pa.Table],
        detail: Mapping[str, object] | None = None,
        *,
        beside: Mapping[str, pa.Table] | None = None,
        check: Callable[[], None] | None = None,
    ) -> Commit:
        """Replaces a partition by one file a part, each read from the iterator when the one before is written.

        Files are named by their content and the old ones stand until the marker names the new, so a failure at any time, or a
        ``check`` that raises when all is written, leaves the partition as it was. Tables ``beside`` belong to the same commit.
        """
        target = self._aside(table, partition) if self._local else f"{self._root}/{table}/{partition.path}"
        kept = self.commit(table, partition)
        hashes: dict[str, str] = {}
        with self._reaching():
            self._make(target)
            try:
                for number, part in enumerate(parts):
                    self._add(target, f"part-{number:06d}", part, hashes)
                for name, extra in (beside or {}).items():
                    self._add(target, name, extra, hashes)
                if check:
                    check()
                commit = Commit(hashes, detail or {})
                self._finish(table, partition, commit)
            except BaseException:
                self._drop(target, hashes.keys() - (kept.files.keys() if kept else set()))
                raise
        return commit

    def _aside(self, table: str, partition: Partition) -> str:
        name = f".aside-{os.getpid()}-{partition.day.isoformat()}-{quote(partition.cluster, safe='')}"
        return f"{self._root}/{table}/{name}"

    def _add(self, target: str, stem: str, data: pa.Table, hashes: dict[str, str]) -> None:
        content, digest = _parquet(data)
        name = f"{stem}-{digest[:16]}.parquet"
        hashes[name] = digest
        self._write_bytes(f"{target}/{name}", content)

    def _drop(self, target: str, names: Iterable[str]) -> None:
        """Takes back what a failed write has left."""
        if self._local:
            shutil.rmtree(target, ignore_errors=True)
            return
        for name in names:
            self._forget(f"{target}/{name}")

    def _finish(self, table: str, partition: Partition, commit: Commit) -> None:
        """Makes the new files the partition: files, then the marker, then the old files go."""
        folder = f"{self._root}/{table}/{partition.path}"
        text = _commit_text(table, commit)
        if self._local:
            self._finish_on_disk(Path(self._aside(table, partition)), Path(folder), commit, text)
            return
        self._write_bytes(f"{folder}/{COMMIT}", text.encode())
        for info in self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
            if info.base_name.endswith(".parquet") and info.base_name not in commit.files:
                self._fs.delete_file(info.path)

    @staticmethod
    def _finish_on_disk(aside: Path, final: Path, commit: Commit, text: str) -> None:
        (aside / COMMIT).write_text(text, encoding="utf-8")
        final.mkdir(parents=True, exist_ok=True)
        for name in sorted(commit.files):
            (aside / name).replace(final / name)
        (aside / COMMIT).replace(final / COMMIT)
        for old in final.glob("*.parquet"):
            if old.name not in commit.files:
                old.unlink()
        shutil.rmtree(aside)

    def _write_bytes(self, path: str, content: bytes | pa.Buffer) -> None:
        with self._fs.open_output_stream(path) as stream:
            stream.write(content)

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
                content = stream.read()
        try:
            held = json.loads(content)
            return Commit(dict(held["files"]), dict(held["detail"]))
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(f"{self.location}/{table}/{partition.path}/{COMMIT}") from error

    def read(self, table: str, partition: Partition) -> pa.Table | None:
        """A partition's rows, or None where there is no whole partition."""
        parts = list(self.read_parts(table, partition))
        return pa.concat_tables(parts) if parts else None

    def read_parts(self, table: str, partition: Partition) -> Iterator[pa.Table]:
        """A partition file by file."""
        commit = self.commit(table, partition)
        for name in sorted(commit.files) if commit else []:
            if name.startswith("part-"):
                yield self._read_file(f"{table}/{partition.path}/{name}")

    def read_beside(self, table: str, partition: Partition, name: str) -> pa.Table | None:
        """A table that was committed beside a partition's rows, or None."""
        commit = self.commit(table, partition)
        found = [f for f in commit.files if f.startswith(f"{name}-")] if commit else []
        return self._read_file(f"{table}/{partition.path}/{found[0]}") if found else None

    def _read_file(self, place: str) -> pa.Table:
        try:
            with self._reaching(), self._fs.open_input_file(f"{self._root}/{place}") as source:
                return pq.read_table(source, partitioning=None)
        except pa.ArrowException as error:
            raise _damaged(f"{self.location}/{place}") from error

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

    def write_bill(self, key: str, batches: Iterable[pa.Table], ordinals: Callable[[], pa.Table]) -> None:
        """Keeps the parsed lines of one delivery under its fingerprint, in memory bounded by a block of lines.

        Lines of a block stand by time, so that a day is read from few row groups. What a delivery's ordinals are is asked when
        all batches are written. A failure leaves nothing that a reader would take for the delivery.
        """
        folder = f"{self._root}/line_items"
        with self._reaching(), tempfile.TemporaryDirectory(prefix="gpu-chargeback-") as local:
            self._make(f"{folder}/_ordinals")
            aside = Path(f"{folder}/.aside-{os.getpid()}-{key}.parquet") if self._local else Path(local) / "lines.parquet"
            try:
                _write_blocks(aside, batches)
                self._write_bytes(f"{folder}/_ordinals/{key}.parquet", _parquet(ordinals())[0])
                if self._local:
                    aside.replace(f"{folder}/{key}.parquet")
                else:
                    with aside.open("rb") as read, self._fs.open_output_stream(f"{folder}/{key}.parquet") as stream:
                        shutil.copyfileobj(read, stream, 1 << 20)
            finally:
                aside.unlink(missing_ok=True)

    def read_bill(self, key: str, first: pa.Scalar, until: pa.Scalar) -> tuple[pa.Table, pa.Table] | None:
        """The kept lines of a delivery that touch ``[first, until)`` and its ordinals, or None where it was never parsed."""
        path = f"{self._root}/line_items/{key}.parquet"
        with self._reaching():
            if self._fs.get_file_info(path).type != fs.FileType.File:
                return None
            touching = [("charge_period_start", "<", until), ("charge_period_end", ">", first)]
            try:
                lines = pq.read_table(path, filesystem=self._fs, filters=touching, partitioning=None)
            except pa.ArrowException as error:
                raise _damaged(f"{self.location}/line_items/{key}.parquet") from error
        return lines, self._read_file(f"line_items/_ordinals/{key}.parquet")

    def check_writable(self) -> None:
        """Proves that the location can be written; raises what a run would raise."""
        path = f"{self._root}/.write-check-{os.getpid()}"
        with self._reaching():
            self._make(self._root)
            self._write_bytes(path, b"")
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


def _parquet(data: pa.Table) -> tuple[pa.Buffer, str]:
    """A table as the bytes of a Parquet file, and their hash."""
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, compression="zstd", write_statistics=True)
    content = sink.getvalue()
    return content, hashlib.sha256(content).hexdigest()


def _write_blocks(path: Path, batches: Iterable[pa.Table]) -> None:
    """Batches of one schema as one file, in blocks that are sorted by time; no batch is no rows."""
    writer: pq.ParquetWriter | None = None
    try:
        for block in _blocks(batches):
            writer = writer or pq.ParquetWriter(path, block.schema, compression="zstd")
            writer.write_table(block.sort_by("charge_period_start"), row_group_size=_GROUP_ROWS)
        if writer is None:
            pq.write_table(LINE_ITEMS.empty(), path)
    finally:
        if writer is not None:
            writer.close()


def _blocks(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _BLOCK_ROWS:
            yield pa.concat_tables(waiting).unify_dictionaries().combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries().combine_chunks()


def _damaged(place: str) -> ChargebackError:
    return ChargebackError(f"{place}: is damaged and cannot be read; restore it, or delete its partition and run the day again")


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
    if not root.strip("/"):
        raise SettingsError(f"output {location!r} names no bucket; write it like s3://bucket/prefix")
    return system, root.rstrip("/")
