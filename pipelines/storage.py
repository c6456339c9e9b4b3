"""Parquet by table, date and cluster in a folder or an object store; a partition is written whole or not at all.

Layout: ``TABLE/date=YYYY-MM-DD/cluster=NAME/part-0.parquet`` beside ``_commit.json``; ``samples`` and ``usage`` have a file
a shard, named by content. On disk a file is written aside and renamed. An object store shows an object when it is whole; the
marker comes last. A partition without its marker is not there. Names are percent-encoded, so none leaves its folder.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from allocation.errors import ChargebackError
from allocation.schemas import LINE_ITEMS, SCHEMA_VERSION
from pipelines.asides import Aside, sweep
from pipelines.places import Place

COMMIT = "_commit.json"
_ONE_FILE = "part-0.parquet"
_SHARED = "run"
"""The key of what no later run goes on with."""
_BLOCK_ROWS, _GROUP_ROWS = 1 << 18, 1 << 13
_ROW_GROUP = 1 << 14


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
    """Tables of one output location. Can be sent to another process."""

    def __init__(self, location: str, *, endpoint_url: str | None = None, region: str | None = None) -> None:
        self.location = location
        self._place = Place(location, endpoint_url, region)

    def __reduce__(self) -> tuple[Callable[..., "TableStore"], tuple[str, str | None, str | None]]:
        return _open, self._place.key

    @property
    def root(self) -> Place:
        """The location itself."""
        return self._place

    def place(self, table: str) -> str:
        """Where a table's partitions are, for people."""
        return f"{self.location.rstrip('/')}/{table}"

    def write(self, table: str, partition: Partition, data: pa.Table, detail: Mapping[str, object] | None = None) -> None:
        """Replaces a partition by one file of a fixed name: a reader of the folder never sees old and new rows together."""
        self.write_batches(table, partition, data.to_batches(), data.schema, detail or {})

    def write_batches(
        self, table: str, partition: Partition, batches: Iterable[pa.RecordBatch], schema: pa.Schema, detail: Mapping[str, object]
    ) -> None:
        """As ``write``, from batches, with one row group of them in memory."""
        with self._place.reaching():
            arriving = Arriving(self._place, table, partition, _SHARED)
            try:
                arriving.add_only(batches, schema)
                arriving.commit(detail)
            except BaseException:
                arriving.drop()
                raise

    def write_parts(
        self, table: str, partition: Partition, parts: Iterable[pa.Table], detail: Callable[[], Mapping[str, object]] = dict
    ) -> None:
        """Replaces a partition by one file a part, each read from the iterator when the one before is written.

        ``detail`` is asked when all are written. A failure at any time leaves the partition as it was.
        """
        arriving = self.arriving(table, partition, _SHARED)
        try:
            for number, part in enumerate(parts):
                arriving.add(number, part)
            arriving.commit(detail())
        except BaseException:
            arriving.drop()
            raise

    def arriving(self, table: str, partition: Partition, key: str) -> "Arriving":
        """A partition on its way. What an ended run brought under the same key (letters and digits) is there."""
        with self._place.reaching():
            return Arriving(self._place, table, partition, key)

    def clean(self, table: str, partition: Partition) -> None:
        """Removes what ended runs left on its way to a partition that stays as it is; nothing that a run has in hand."""
        with self._place.reaching():
            sweep(self._place, table, str(partition))

    def commit(self, table: str, partition: Partition) -> Commit | None:
        """The partition's marker, or None where there is no whole partition."""
        path = f"{table}/{partition.path}/{COMMIT}"
        with self._place.reaching():
            if not self._place.there(path):
                return None
            content = self._place.read(path)
        try:
            held = json.loads(content)
            return Commit(dict(held["files"]), dict(held["detail"]))
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(f"{self.location}/{path}") from error

    def read(self, table: str, partition: Partition) -> pa.Table | None:
        """A partition's rows, or None where there is no whole partition."""
        parts = list(self.read_parts(table, partition))
        return pa.concat_tables(parts) if parts else None

    def read_parts(self, table: str, partition: Partition) -> Iterator[pa.Table]:
        """A partition file by file."""
        yield from map(self.read_file, self.part_files(table, partition))

    def part_files(self, table: str, partition: Partition) -> list[str]:
        """The places of a partition's files below the store, in order; none where there is no whole partition."""
        commit = self.commit(table, partition)
        return [f"{table}/{partition.path}/{name}" for name in sorted(commit.files) if name.startswith("part-")] if commit else []

    def batches(self, table: str, partition: Partition, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """A partition's rows with few of them in memory; all columns or some.

        Each row group is asked for by itself: of all that one call asks for, Arrow keeps what it has read.
        """
        wanted = None if columns is None else list(columns)
        for place in self.part_files(table, partition):
            with self._opened(place) as file:
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(batch_size=_ROW_GROUP, row_groups=[group], columns=wanted)

    def read_beside(self, table: str, partition: Partition, name: str) -> pa.Table | None:
        """A table that was committed beside a partition's rows, or None."""
        commit = self.commit(table, partition)
        found = [f for f in commit.files if f.startswith(f"{name}-")] if commit else []
        return self.read_file(f"{table}/{partition.path}/{found[0]}") if found else None

    def rows_of(self, place: str) -> int:
        """How many rows a file has, by its footer."""
        with self._opened(place) as file:
            return int(file.metadata.num_rows)

    def first_rows(self, place: str, rows: int) -> pa.Table:
        """The first rows of a file."""
        with self._opened(place) as file:
            batch = next(file.iter_batches(batch_size=rows), None)
            return file.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])

    @contextmanager
    def _opened(self, place: str) -> Iterator[pq.ParquetFile]:
        try:
            with self._place.reaching(), self._place.fs.open_input_file(self._place.full(place)) as source:
                yield pq.ParquetFile(source)
        except pa.ArrowException as error:
            raise _damaged(f"{self.location}/{place}") from error

    def read_file(self, place: str, columns: Sequence[str] | None = None) -> pa.Table:
        """One file by its place below the store; all its columns or some."""
        wanted = None if columns is None else list(columns)
        try:
            with self._place.reaching(), self._place.fs.open_input_file(self._place.full(place)) as source:
                return pq.read_table(source, columns=wanted, partitioning=None)
        except pa.ArrowException as error:
            raise _damaged(f"{self.location}/{place}") from error

    def partitions(self, table: str) -> Sequence[Partition]:
        """The whole partitions of a table, in order."""
        with self._place.reaching():
            found = self._place.below(table)
        paths = [path.split("/")[-3:-1] for path in found if path.endswith(f"/{COMMIT}") and "/.aside-" not in path]
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
        with self._place.reaching():
            self._place.make("line_items/_ordinals")
            with self._scratch_of_bill(key) as folder:
                lines = Path(folder) / "lines.parquet"
                _write_blocks(lines, batches)
                self._place.write(f"line_items/_ordinals/{key}.parquet", parquet_of(ordinals()))
                self._place.bring(lines, f"line_items/{key}.parquet")

    @contextmanager
    def _scratch_of_bill(self, key: str) -> Iterator[str]:
        """A folder on the disk of the store where that is one; what a killed run left of the same delivery goes."""
        if not self._place.is_disk:
            with tempfile.TemporaryDirectory(prefix="gpu-chargeback-") as folder:
                yield folder
            return
        aside = Aside(self._place, "line_items", key, _SHARED)
        try:
            yield str(self._place.on_disk(aside.folder))
        finally:
            aside.let_go()

    def read_bill(self, key: str, first: pa.Scalar, until: pa.Scalar) -> tuple[pa.Table, pa.Table] | None:
        """The kept lines of a delivery that touch ``[first, until)`` and its ordinals, or None where it was never parsed."""
        path = f"line_items/{key}.parquet"
        with self._place.reaching():
            if not self._place.there(path):
                return None
            touching = [("charge_period_start", "<", until), ("charge_period_end", ">", first)]
            try:
                lines = pq.read_table(self._place.full(path), filesystem=self._place.fs, filters=touching, partitioning=None)
            except pa.ArrowException as error:
                raise _damaged(f"{self.location}/{path}") from error
        return lines, self.read_file(f"line_items/_ordinals/{key}.parquet")

    def bill_batches(self, key: str, month: date, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a delivery's kept lines whose ``billing_period`` is the month, with few lines in memory.

        A row group that has no line of the month, by its statistics, is not read.
        """
        with self._opened(f"line_items/{key}.parquet") as file:
            place = file.schema_arrow.get_field_index("billing_period")
            for group in range(file.num_row_groups):
                told = file.metadata.row_group(group).column(place).statistics
                if told is not None and told.has_min_max and not told.min <= month <= told.max:
                    continue
                for batch in file.iter_batches(_ROW_GROUP, [group], ["billing_period", *columns]):
                    lines = batch.filter(pc.equal(batch["billing_period"], pa.scalar(month)))
                    if len(lines):
                        yield lines.select(list(columns))

    def keeps_bill(self, key: str) -> bool:
        """Whether the lines of a delivery are kept."""
        with self._place.reaching():
            return self._place.there(f"line_items/{key}.parquet")

    def check_writable(self) -> None:
        """Proves that the location can be written; raises what a run would raise."""
        path = f".write-check-{os.getpid()}"
        with self._place.reaching():
            self._place.make("")
            self._place.write(path, b"")
            self._place.forget(path)


class Arriving:
    """The files of a partition, one by one, until ``commit`` makes them the partition; the old one stands until then.

    Files are named by their content and only the marker makes them count. What is told of each file is kept beside it, so that
    a later run can go on with what an ended one brought. On disk all of it lies in a folder that readers skip.
    """

    def __init__(self, place: Place, table: str, partition: Partition, key: str) -> None:
        self._place, self._table, self._partition = place, table, partition
        self._final = f"{table}/{partition.path}"
        self._aside = Aside(place, table, str(partition), key)
        self._folder = self._aside.folder if place.is_disk else self._final
        self._hashes: dict[str, str] = {}
        self._added: set[str] = set()

    def kept(self, number: int) -> tuple[str, Mapping[str, object]] | None:
        """The place of a file that an ended run brought, and what was told of it; it counts as added."""
        told = f"{self._aside.folder}/{number:06d}.json"
        with self._place.reaching():
            if not self._place.there(told):
                return None
            said = json.loads(self._place.read(told))
            if not self._place.there(f"{self._folder}/{said['name']}"):
                return None
        self._hashes[said["name"]] = said["digest"]
        return f"{self._folder}/{said['name']}", said["told"]

    def add(self, number: int, data: pa.Table, told: Mapping[str, object] | None = None) -> str:
        """Writes the file of that number; its place below the store."""
        name = self._write(f"part-{number:06d}", data)
        said = json.dumps({"name": name, "digest": self._hashes[name], "told": told or {}}, default=str)
        with self._place.reaching():
            self._place.write(f"{self._aside.folder}/{number:06d}.json", said.encode())
        return f"{self._folder}/{name}"

    def add_beside(self, name: str, data: pa.Table) -> None:
        """A table that belongs to the same commit and is no part of the rows."""
        self._write(name, data)

    def add_only(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """The one file of a partition that has one, by a fixed name."""
        scratch = str(self._place.on_disk(self._aside.folder)) if self._place.is_disk else None
        with tempfile.TemporaryDirectory(prefix="gpu-chargeback-", dir=scratch) as folder:
            path = Path(folder) / _ONE_FILE
            texts = [field.name for field in schema if pa.types.is_string(field.type)]
            with pq.ParquetWriter(path, schema, compression="zstd", write_statistics=True, use_dictionary=texts) as writer:
                for group in _row_groups(batches, schema):
                    writer.write_table(group, row_group_size=max(len(group), 1))
                    del group
            with path.open("rb") as written:
                self._hashes[_ONE_FILE] = hashlib.file_digest(written, "sha256").hexdigest()
            self._added.add(_ONE_FILE)
            if not self._place.is_disk:
                self._place.forget(f"{self._final}/{COMMIT}")
            self._place.bring(path, f"{self._folder}/{_ONE_FILE}")

    def _write(self, stem: str, data: pa.Table) -> str:
        content = parquet_of(data)
        digest = hashlib.sha256(content).hexdigest()
        name = f"{stem}-{digest[:16]}.parquet"
        with self._place.reaching():
            self._place.write(f"{self._folder}/{name}", content)
        self._hashes[name] = digest
        self._added.add(name)
        return name

    def commit(self, detail: Mapping[str, object]) -> None:
        """Makes the files the partition: files, then the marker, then the old files go."""
        text = _commit_text(self._table, Commit(self._hashes, detail)).encode()
        with self._place.reaching():
            if self._place.is_disk:
                final = self._place.on_disk(self._final)
                final.mkdir(parents=True, exist_ok=True)
                self._place.write(f"{self._folder}/{COMMIT}", text)
                for name in (*sorted(self._hashes), COMMIT):
                    self._place.on_disk(f"{self._folder}/{name}").replace(final / name)
            else:
                self._place.write(f"{self._final}/{COMMIT}", text)
            for name in self._place.names(self._final):
                if name.endswith(".parquet") and name not in self._hashes:
                    self._place.forget(f"{self._final}/{name}")
            self._aside.let_go()

    def drop(self) -> None:
        """Takes back what was added."""
        if not self._place.is_disk:
            for name in self._added:
                self._place.forget(f"{self._final}/{name}")
        self._aside.let_go()

    def leave(self) -> None:
        """Leaves what was added for a later run that goes on with it."""
        self._aside.let_go(keep=True)


def _open(location: str, endpoint_url: str | None, region: str | None) -> TableStore:
    return TableStore(location, endpoint_url=endpoint_url, region=region)


def parquet_of(data: pa.Table) -> pa.Buffer:
    """A table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, compression="zstd", write_statistics=True)
    return sink.getvalue()


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Groups of a fixed number of rows, wherever batches end; one empty group where there is no row."""
    waiting, count, written = list[pa.RecordBatch](), 0, False
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        while count >= _ROW_GROUP:
            whole = pa.Table.from_batches(waiting, schema)
            waiting, count, written = whole.slice(_ROW_GROUP).to_batches(), count - _ROW_GROUP, True
            whole = whole.slice(0, _ROW_GROUP).combine_chunks()
            yield whole
            del whole
    if count or not written:
        yield pa.Table.from_batches(waiting, schema).combine_chunks()


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
