"""Money between Arrow columns and whole numbers of any size, for tables as small as a report's."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import MONEY
from allocation.shown import Coin
from allocation.summed import summed

_WHOLE = pa.decimal128(38, 0)


def nanos_of(column: pa.ChunkedArray) -> list[int]:
    """Nano-units of a decimal column of nine places."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if not len(array):
        return []
    whole = pa.Array.from_buffers(_WHOLE, len(array), [None, array.buffers()[1]], offset=array.offset)
    return [int(n) for n in whole.to_pylist()]


def money(nanos: Sequence[int]) -> pa.Array:
    """A decimal column of nine places."""
    whole = pa.array(nanos, _WHOLE)
    return pa.Array.from_buffers(MONEY, len(whole), [None, whole.buffers()[1]])


def coins(numbers: Sequence[int], coin: Coin) -> pa.Array:
    """Numbers of coins as a decimal column with the currency's places; whole numbers where it has none."""
    if not coin.places:
        return pa.array(numbers, pa.int64())
    whole = pa.array(numbers, _WHOLE)
    return pa.Array.from_buffers(pa.decimal128(38, coin.places), len(whole), [None, whole.buffers()[1]])


def coins_of(column: pa.ChunkedArray, coin: Coin) -> list[int]:
    """The numbers of coins of such a column."""
    return nanos_of(column) if coin.places else [int(n) for n in column.to_pylist()]


def sums(table: pa.Table, keys: Sequence[str], figures: Sequence[str]) -> pa.Table:
    """Exact sums by keys, under the names of the figures."""
    found = summed(table, keys, figures)
    return pa.table({name: _as_money(found[name]) if name in figures else found[name] for name in found.column_names})


def _as_money(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(MONEY) if pa.types.is_decimal(column.type) else column


def total_nanos(column: pa.ChunkedArray) -> int:
    """The exact sum of a decimal column of nine places."""
    return sum(nanos_of(column)) if len(column) < _FEW else sum(nanos_of(pa.chunked_array([[pc.sum(column).as_py()]], MONEY)))


_FEW = 1 << 12
