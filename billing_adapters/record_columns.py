"""Columns that are records or lists: their fields by dotted names, and lists of key and value.

Parquet, JSON and Arrow batches hold them so; a CSV holds them as text.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def leaf_names(schema: pa.Schema) -> list[str]:
    """All names by which a column can be asked for: those of the columns, and ``record.field`` for fields of records.

    >>> leaf_names(pa.schema([("service", pa.struct([("id", pa.string())])), ("cost", pa.float64())]))
    ['service', 'service.id', 'cost']
    """
    return [name for field in schema for name in _names(field, "")]


def _names(field: pa.Field, before: str) -> Iterator[str]:
    name = f"{before}{field.name}"
    yield name
    if pa.types.is_struct(field.type):
        for inner in field.type:
            yield from _names(inner, f"{name}.")


def column_at(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column, or the field of a record, of that dotted name; null where a record on the way is null."""
    if batch.schema.get_field_index(name) >= 0:
        return batch.column(name)
    top, *path = name.split(".")
    return pc.struct_field(batch.column(top), path)


def plain_decimals(values: pa.Array) -> pa.Array:
    """Decimals of 256 bits as texts without the zeros that their scale adds; any other column as it is.

    >>> plain_decimals(pa.array(["1.50", "0"]).cast(pa.decimal256(76, 40))).to_pylist()
    ['1.5', '0E-40']
    """
    if not pa.types.is_decimal256(values.type):
        return values
    return pc.replace_substring_regex(pc.cast(values, pa.string()), r"(\.\d*?)0*(E|$)", r"\1\2")


def values_of_key(lists: pa.Array, keys: Sequence[str]) -> list[pa.Array]:
    """For each key its value in a list of ``key`` and ``value`` records, the first of several; null where a list has none.

    Returns:
        One array of texts a key, each as long as ``lists``.
    """
    rows, flat = pc.list_parent_indices(lists), pc.list_flatten(lists)
    names, values = pc.struct_field(flat, "key"), pc.struct_field(flat, "value")
    return [_first_by_row(rows, names, values, key, len(lists)) for key in keys]


def _first_by_row(rows: pa.Array, names: pa.Array, values: pa.Array, key: str, count: int) -> pa.Array:
    """Of each row the value beside the first such key."""
    if pa.types.is_dictionary(names.type):
        number = pc.index(names.dictionary, key).as_py()
        mine = pc.equal(names.indices, number)
    else:
        mine = pc.equal(names, key)
    found = np.flatnonzero(pc.fill_null(mine, False).to_numpy(zero_copy_only=False))
    place = np.full(count, -1)
    place[rows.to_numpy()[found][::-1]] = found[::-1]
    texts: pa.Array = values.take(pa.array(place, mask=place < 0))
    return texts
