"""Parquet by table, date and cluster in a folder or an object store; a partition is written whole or not at all.

Layout: ``TABLE/date=YYYY-MM-DD/cluster=NAME/part-0.parquet`` beside ``_commit.json``; ``samples`` and ``usage`` have a file
a shard, named by content. On disk a file is written aside and renamed. An object store shows an object when it is whole; the
marker comes last. A partition without its marker is not there. Names are percent-encoded, so none leaves its folder.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.arriving import SHARED, Arriving
from pipelines.asides import sweep
from pipelines.parquet_files import ROW_GROUP
from pipelines.partition import COMMIT, Commit, Partition, damaged
from pipelines.places import Place


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
            arriving = Arriving(self._place, table, partition, SHARED)
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
        arriving = self.arriving(table, partition, SHARED)
        try:
            for number, part in enumerate(parts):
                arriving.add(number, part)
            arriving.commit(detail())
        except BaseException:
            arriving.drop()
            raise

    def arriving(self, table: str, partition: Partition, key: str) -> Arriving:
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
        return Commit.parse(content, f"{self.location}/{path}")

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
            with self.opened(place) as file:
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(batch_size=ROW_GROUP, row_groups=[group], columns=wanted)

    def read_beside(self, table: str, partition: Partition, name: str) -> pa.Table | None:
        """A table that was committed beside a partition's rows, or None."""
        commit = self.commit(table, partition)
        found = [f for f in commit.files if f.startswith(f"{name}-")] if commit else []
        return self.read_file(f"{table}/{partition.path}/{found[0]}") if found else None

    def rows_of(self, place: str) -> int:
        """How many rows a file has, by its footer."""
        with self.opened(place) as file:
            return int(file.metadata.num_rows)

    def first_rows(self, place: str, rows: int) -> pa.Table:
        """The first rows of a file."""
        with self.opened(place) as file:
            batch = next(file.iter_batches(batch_size=rows), None)
            return file.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])

    @contextmanager
    def opened(self, place: str) -> Iterator[pq.ParquetFile]:
        """One file by its place below the store, for reading parts of it."""
        try:
            with self._place.reaching(), self._place.fs.open_input_file(self._place.full(place)) as source:
                yield pq.ParquetFile(source)
        except pa.ArrowException as error:
            raise damaged(f"{self.location}/{place}") from error

    def read_file(self, place: str, columns: Sequence[str] | None = None) -> pa.Table:
        """One file by its place below the store; all its columns or some."""
        wanted = None if columns is None else list(columns)
        try:
            with self._place.reaching(), self._place.fs.open_input_file(self._place.full(place)) as source:
                return pq.read_table(source, columns=wanted, partitioning=None)
        except pa.ArrowException as error:
            raise damaged(f"{self.location}/{place}") from error

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

    def check_writable(self) -> None:
        """Proves that the location can be written; raises what a run would raise."""
        path = f".write-check-{os.getpid()}"
        with self._place.reaching():
            self._place.make("")
            self._place.write(path, b"")
            self._place.forget(path)


def _open(location: str, endpoint_url: str | None, region: str | None) -> TableStore:
    return TableStore(location, endpoint_url=endpoint_url, region=region)
