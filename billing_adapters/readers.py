"""One file of a delivery into row batches, by the format that its name tells."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from allocation.errors import AdapterError
from billing_adapters.csv_batches import read_csv
from billing_adapters.files import BROKEN_GZIP, FileStore, opened_plain
from billing_adapters.json_batches import JSON_SUFFIXES, read_json
from billing_adapters.parquet_batches import read_parquet
from billing_adapters.row_batches import HeaderCheck, RowBatch, Spelling
from billing_adapters.zip_members import read_zip


def read_batches(
    store: FileStore,
    name: str,
    wanted: Sequence[str],
    check: HeaderCheck,
    spelling: Spelling = str.lower,
    json_schema: pa.Schema | None = None,
) -> Iterator[RowBatch]:
    """The rows of one file with the wanted columns, in order, in bounded memory.

    Args:
        store: where the file lies.
        name: its name there; ``.parquet``, ``.zip`` (of CSV files), JSON lines and CSV with or without ``.gz``.
        wanted: the columns to read, in the one spelling that the batches have.
        check: asked once for each header.
        spelling: makes the names of ``wanted`` and of the file equal.
        json_schema: the fields of JSON rows, where the format has files of these.

    Raises:
        AdapterError: the file is truncated, ragged, in another encoding, or refused by ``check``.
    """
    with opened_plain(store, name) as stream, _explained(name):
        if name.lower().endswith(".zip"):
            yield from read_zip(stream, name, lambda part, member: read_csv(part, member, wanted, check, spelling))
            return
        if name.lower().endswith(".parquet"):
            yield from read_parquet(stream, name, wanted, check, spelling)
            return
        if json_schema is not None and name.lower().endswith(JSON_SUFFIXES):
            yield from read_json(stream, name, json_schema, wanted, check, spelling)
            return
        yield from read_csv(stream, name, wanted, check, spelling)


def header_of(store: FileStore, name: str) -> list[str]:
    """The column names of one file as they stand there; no row is read."""

    def look(_: str, columns: Collection[str]) -> None:
        raise _HeaderSeen(list(columns))

    try:
        next(read_batches(store, name, (), look), None)
    except _HeaderSeen as seen:
        return seen.columns
    return []


def has_column(store: FileStore, names: Sequence[str], columns: Sequence[str], spelling: Spelling = str.lower) -> bool:
    """Whether any of the files has one of these columns in any spelling; headers alone are read, up to the first that has."""
    wanted = set(map(spelling, columns))
    return any(spelling(column.strip()) in wanted for name in names for column in header_of(store, name))


class _HeaderSeen(Exception):  # noqa: N818 - ends a reading, no fault
    def __init__(self, columns: list[str]) -> None:
        self.columns = columns
        super().__init__()


@contextmanager
def _explained(file: str) -> Iterator[None]:
    try:
        yield
    except BROKEN_GZIP as error:
        remedy = "Have it delivered or copied again; nothing was used."
        raise AdapterError(f"the gzip is truncated or damaged ({error})", file=file, remedy=remedy) from error
