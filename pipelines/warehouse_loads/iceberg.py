"""Tables of an Iceberg catalog: one snapshot a partition takes away its old files and brings its new one, with the mark.

PyIceberg's own configuration names the catalog, its storage and its credentials. Here does not belong how a data file is
written (``iceberg_files``).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date

import pyarrow as pa

from allocation.errors import ChargebackError, MissingExtraError, SettingsError
from allocation.schemas import Table
from pipelines.partition import Partition
from pipelines.warehouse.words import row_meaning
from pipelines.warehouse_loads.asked import columns_of
from pipelines.warehouse_loads.fits import columns_to_add

try:
    from pyiceberg import exceptions
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.expressions import And, EqualTo
    from pyiceberg.table import Table as IcebergTable

    from pipelines.warehouse_loads.iceberg_files import partition_spec, schema_of, type_of, write_file
except ImportError as error:
    raise MissingExtraError("pyiceberg", "iceberg") from error

_DAY, _CLUSTER, _MARK = (f"gpu-chargeback.{name}" for name in ("date", "cluster", "mark"))
"""What the summary of a snapshot says of the partition that it replaced."""
_REWRITE = "replace"
"""The operation of a snapshot that has the same rows in other files."""
_PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "50"}
"""A snapshot a partition writes many versions of the metadata; the oldest of them go. No snapshot does."""
_FAILURES: tuple[type[Exception], ...] = (
    *(kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    OSError,
    ValueError,
    pa.ArrowException,
)
_CHANGED = (exceptions.CommitFailedException, exceptions.ValidationException)
"""What is raised when a commit has not landed because somebody else's has."""


def opened(name: str, namespace: str) -> "IcebergTables":
    """A namespace of a catalog of PyIceberg's configuration."""
    if not all(namespace.split(".")):
        raise SettingsError(f"--namespace {namespace!r} is no name of a namespace; write it like finops, or finops.gpu")
    try:
        catalog = load_catalog(name)
        catalog.create_namespace_if_not_exists(namespace)
    except _failures() as error:
        raise ChargebackError(
            f"--catalog {name}: {_said(error)}. Describe the catalog in .pyiceberg.yaml, or by "
            f"PYICEBERG_CATALOG__{name.upper()}__URI and their like"
        ) from error
    return IcebergTables(catalog, namespace)


class IcebergTables:
    """A namespace of a catalog."""

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._catalog, self._namespace = catalog, namespace
        self._tables: dict[str, IcebergTable] = {}

    def prepare(self, table: Table) -> None:
        """The table, partitioned by day and cluster, with a doc a column."""
        place = f"{self._namespace}.{table.name}"
        with _told(place):
            found = self._made(place, table)
            self._tables[table.name] = found
            self._ensure_partitioned(place, found)
            there = {field.name: str(field.field_type) for field in found.schema().fields}
            wanted = {column.name: str(type_of(column.type)) for column in columns_of(table)}
            new = columns_to_add(f"Iceberg table {place}", table, wanted, there, "--namespace NAME")
            if new:
                docs = {field.name: field.doc for field in schema_of(table).fields}
                with found.update_schema() as change:
                    for column in new:
                        change.add_column(column.name, type_of(column.type), docs[column.name])

    def _made(self, place: str, table: Table) -> IcebergTable:
        if self._catalog.table_exists(place):
            return self._catalog.load_table(place)
        schema = schema_of(table)
        properties = {**_PROPERTIES, "comment": row_meaning(table)}
        return self._catalog.create_table_if_not_exists(
            place, schema, partition_spec=partition_spec(schema), properties=properties
        )

    def _ensure_partitioned(self, place: str, found: IcebergTable) -> None:
        names = {field.field_id: field.name for field in found.schema().fields}
        spec = [(names.get(field.source_id), str(field.transform)) for field in found.spec().fields]
        if spec != [("date", "identity"), ("cluster", "identity")]:
            raise ChargebackError(
                f"Iceberg table {place}: is partitioned by {found.spec()!s} and not by date and cluster. Rename or drop that "
                "table, or load into another place by --namespace NAME"
            )

    def marks(self, table: Table) -> Mapping[Partition, str]:
        """By the snapshots from the newest back to the first that somebody else's writing left unsure."""
        found: dict[Partition, str] = {}
        metadata = self._tables[table.name].metadata
        snapshot = metadata.current_snapshot()
        while snapshot is not None:
            said = snapshot.summary.additional_properties if snapshot.summary else {}
            if _MARK in said:
                found.setdefault(Partition(date.fromisoformat(said[_DAY]), said[_CLUSTER]), said[_MARK])
            elif snapshot.summary is None or snapshot.summary.operation.value != _REWRITE:
                break
            parent = snapshot.parent_snapshot_id
            snapshot = metadata.snapshot_by_id(parent) if parent is not None else None
        return found

    def replace(self, table: Table, partition: Partition, mark: str, batches: Iterator[pa.RecordBatch]) -> int:
        """In one snapshot; the new file is whole before it is made, and no reader sees it until then."""
        place = f"{self._namespace}.{table.name}, {partition}"
        with _told(place):
            there = self._tables[table.name]
            written = write_file(there, partition, batches)
            try:
                self._commit(there, partition, mark, written)
            except _CHANGED as error:
                if written is not None:
                    there.io.delete(written.file_path)
                raise ChargebackError(
                    f"Iceberg table {place}: somebody else changed this partition meanwhile; nothing of it was loaded. Load again"
                ) from error
        return int(written.record_count) if written is not None else 0

    def _commit(self, there: IcebergTable, partition: Partition, mark: str, written: object) -> None:
        """The predicate makes PyIceberg refuse the commit if another writer brought rows of the partition meanwhile."""
        mine = And(EqualTo("date", partition.day.isoformat()), EqualTo("cluster", partition.cluster))
        said = {_DAY: partition.day.isoformat(), _CLUSTER: partition.cluster, _MARK: mark}
        transaction = there.transaction()
        replacing = transaction.update_snapshot(snapshot_properties=said).overwrite()
        replacing.delete_by_predicate(mine)
        for task in there.scan(row_filter=mine).plan_files():
            replacing.delete_data_file(task.file)
        if written is not None:
            replacing.append_data_file(written)
        replacing.commit()
        transaction.commit_transaction()


@contextmanager
def _told(place: str) -> Iterator[None]:
    """What the catalog or its storage refuses, as one line."""
    try:
        yield
    except _failures() as error:
        raise ChargebackError(
            f"Iceberg table {place}: {_said(error)}. Readers see what was there before; mend it and load again"
        ) from error


def _failures() -> tuple[type[Exception], ...]:
    """With those of the database behind a catalog of SQL, which is no part of other catalogs' installations."""
    try:
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415
    except ImportError:
        return _FAILURES
    return (*_FAILURES, SQLAlchemyError)


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
