"""A hash of a table's content, column by column.

It depends on names, types, values and nulls, and not on how the table is cut into chunks or where its buffers begin. Here does
not belong what a hash is compared with.
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from allocation.text_buffers import text_buffers


def table_digest(table: pa.Table) -> str:
    """The hash of a table of texts, numbers, truths, times, and lists and maps of these."""
    digest = hashlib.sha256()
    for name in table.column_names:
        column = table[name]
        digest.update(f"{name}\0{column.type}\0{len(column)}\0".encode())
        _add(digest, pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type))
    return digest.hexdigest()


def _add(digest: Any, values: pa.Array) -> None:  # noqa: ANN401
    if values.null_count:
        digest.update(np.packbits(values.is_valid().to_numpy(zero_copy_only=False)))
        values = values.drop_null()
    kind = values.type
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        offsets = values.offsets.to_numpy()
        digest.update(np.diff(offsets))
        for part in (values.keys, values.items) if pa.types.is_map(kind) else (values.values,):
            _add(digest, part.slice(offsets[0], offsets[-1] - offsets[0]))
    elif pa.types.is_string(kind):
        offsets, data = text_buffers(values)
        digest.update(np.diff(offsets))
        digest.update(data[offsets[0] : offsets[-1]])
    else:
        plain = pa.int64() if pa.types.is_timestamp(kind) else pa.uint8() if pa.types.is_boolean(kind) else kind
        digest.update(values.cast(plain).to_numpy())
