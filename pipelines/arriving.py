"""A partition on its way: files are brought one by one, and one marker makes them the partition.

On disk a file is written aside and renamed. An object store shows an object when it is whole; the marker comes last.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from pipelines.asides import Aside
from pipelines.parquet_files import parquet_of, write_groups
from pipelines.partition import COMMIT, Commit, Partition
from pipelines.places import Place

SHARED = "run"
"""The key of what no later run goes on with."""
_ONE_FILE = "part-0.parquet"


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
            write_groups(path, batches, schema)
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
        text = Commit(self._hashes, detail).content(self._table)
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
