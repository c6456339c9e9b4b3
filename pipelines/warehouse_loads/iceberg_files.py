"""Columns as Iceberg has them, and one data file of a partition, written a row group at a time."""

import uuid
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from pyiceberg.io.pyarrow import ParquetFormatWriter, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from allocation.schemas import TEXT, TIME, Table
from pipelines.partition import Partition
from pipelines.warehouse.words import PARTITION, meaning
from pipelines.warehouse_loads.asked import columns_of

_TYPES = {
    TEXT: StringType(),
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    TIME: TimestamptzType(),
}
_FIRST_PARTITION_FIELD = 1000


def type_of(kind: pa.DataType) -> IcebergType:
    """Iceberg's type of an Arrow type that stands in a table users read."""
    return DecimalType(kind.precision, kind.scale) if pa.types.is_decimal128(kind) else _TYPES[kind]


def schema_of(table: Table) -> Schema:
    """The columns with their docs."""
    fields = (
        NestedField(number, column.name, type_of(column.type), required=not column.nullable, doc=meaning(column))
        for number, column in enumerate(columns_of(table), start=1)
    )
    return Schema(*fields)


def partition_spec(schema: Schema) -> PartitionSpec:
    """By day and by cluster, as they stand."""
    fields = (
        PartitionField(schema.find_field(column.name).field_id, _FIRST_PARTITION_FIELD + number, IdentityTransform(), column.name)
        for number, column in enumerate(PARTITION)
    )
    return PartitionSpec(*fields)


def write_file(table: IcebergTable, partition: Partition, batches: Iterator[pa.RecordBatch]) -> DataFile | None:
    """The file of a partition's rows, which belongs to no snapshot yet; None where there is no row."""
    key = _key(table, partition)
    path = table.location_provider().new_data_location(f"{uuid.uuid4()}.parquet", key)
    output = table.io.new_output(path)
    schema = schema_to_pyarrow(table.schema())
    writer = ParquetFormatWriter(output, table.schema(), table.properties)
    rows = 0
    try:
        for batch in batches:
            if len(batch):
                writer.write(_fitted(batch, schema))
                rows += len(batch)
        if not rows:
            return None
        told = writer.close()
    except BaseException:
        with suppress(Exception):  # what went wrong is told already
            writer.close()
        with suppress(Exception):
            table.io.delete(path)
        raise
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=key.partition,
        file_size_in_bytes=len(output),
        sort_order_id=None,
        spec_id=table.metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **told.to_serialized_dict(),
    )


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """In the order and types of the table in the catalog, with the ids of its fields."""
    return pa.Table.from_batches([batch]).select(schema.names).cast(schema)


def _key(table: IcebergTable, partition: Partition) -> PartitionKey:
    spec, schema = table.spec(), table.schema()
    values = (partition.day, partition.cluster)
    held = [PartitionFieldValue(field, value) for field, value in zip(spec.fields, values, strict=True)]
    return PartitionKey(held, spec, schema)
