"""An export as a file: Parquet or CSV by its ending, written aside and renamed, so that there is never half of one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from allocation.errors import SettingsError, nearest
from pipelines.csv_text import csv_rows, header
from pipelines.focus_export.ready import Asked
from pipelines.focus_export.rows import charges
from pipelines.focus_export.versions import schema_of
from pipelines.version import VERSION

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Written:
    """What an export holds."""

    path: Path
    rows: int
    cost_metric: str


def export(asked: Asked, path: Path, version: str) -> Written:
    """Writes all charges that are asked for; an existing file is replaced when the new one is whole."""
    write, schema = writer_of(path), schema_of(version)
    with aside(path) as new:
        rows = write(new, charges(asked, schema), schema.with_metadata({**(schema.metadata or {}), "gpu_chargeback": VERSION}))
    return Written(path, rows, asked.cost_metric)


def writer_of(path: Path) -> Callable[[Path, Batches, pa.Schema], int]:
    """What writes files of this ending."""
    if path.suffix.lower() not in _WRITERS:
        ending = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
        raise SettingsError(f"--to {path} {ending}; {nearest(path.suffix.lower(), _WRITERS)}")
    return _WRITERS[path.suffix.lower()]


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A new file beside ``path`` that takes its place when all went well, and is gone otherwise."""
    new = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield new
        new.replace(path)
    except OSError as error:
        raise SettingsError(
            f"--to {path}: cannot be written ({error.strerror or error}); name a file in a folder that can"
        ) from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _parquet(path: Path, batches: Batches, schema: pa.Schema) -> int:
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch.cast(schema)], schema))
            rows += len(batch)
    return rows


def _csv(path: Path, batches: Batches, schema: pa.Schema) -> int:
    rows = 0
    with path.open("wb") as file:
        file.write(header(schema.names))
        for batch in batches:
            file.write(csv_rows(batch))
            rows += len(batch)
    return rows


_WRITERS: dict[str, Callable[[Path, Batches, pa.Schema], int]] = {".parquet": _parquet, ".csv": _csv}
