"""Stable ids of lines: a hash of a row's content, and an ordinal among rows that have the same id (R31).

Neither depends on the order of rows or files, nor on which columns a file has beside the ones that are hashed.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.row_batches import RowBatch

_KEYS = ("gpu-chargeback:a", "gpu-chargeback:b")
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def content_hashes(batch: RowBatch, names: Sequence[str]) -> pa.Array:
    """128 bits of each row's content in these columns, as 32 hexadecimal digits; an absent column counts as null."""
    columns = [batch.text(name) for name in names]
    joined = pc.binary_join_element_wise(*columns, "\x1f", null_handling="replace", null_replacement="\x00")
    texts = joined.to_numpy(zero_copy_only=False)
    words = np.empty((batch.rows, 2), dtype=">u8")
    for i, key in enumerate(_KEYS):
        words[:, i] = pd.util.hash_array(texts, hash_key=key, categorize=False)
    return _hex_texts(words)


def _hex_texts(words: npt.NDArray[np.unsignedinteger]) -> pa.Array:
    octets = words.view(np.uint8).reshape(len(words), 16)
    digits = np.empty((len(words), 32), dtype=np.uint8)
    digits[:, 0::2] = _HEX[octets >> 4]
    digits[:, 1::2] = _HEX[octets & 15]
    offsets = np.arange(len(words) + 1, dtype=np.int64) * 32
    whole = pa.Array.from_buffers(pa.large_string(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(digits.reshape(-1))])
    return pc.cast(whole, pa.string())


def with_ordinals(ids: pa.ChunkedArray, content: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each id with ``-1``, ``-2`` ... among the rows that share it, counted in order of content.

    >>> a = pa.chunked_array([["x", "y", "x"]])
    >>> with_ordinals(a, pa.chunked_array([["2", "9", "1"]])).to_pylist()
    ['x-2', 'y-1', 'x-1']
    """
    codes = _codes(ids)
    order = np.lexsort((_ranks(content), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    ordinals = np.empty(len(order), dtype=np.int64)
    ordinals[order] = np.arange(len(order)) - np.repeat(starts, lengths) + 1
    return pc.binary_join_element_wise(ids, pa.array(ordinals).cast(pa.string()), "-")


def _codes(texts: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number per distinct text."""
    encoded = pa.chunked_array(texts).combine_chunks().dictionary_encode()
    codes: npt.NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
    return codes


def _ranks(texts: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number per distinct text that ascends with the text."""
    ranks: npt.NDArray[np.int64] = pc.rank(texts, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks
