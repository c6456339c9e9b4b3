"""Stable ids of lines: a hash of a row's content (R31).

It depends neither on the order of rows or files, nor on which columns a file has beside the ones that are hashed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.row_batches import RowBatch

_KEYS = ("gpu-chargeback:a", "gpu-chargeback:b")
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


@dataclass(frozen=True)
class RowHashes:
    """128 bits of each row's content: two words a row."""

    words: npt.NDArray[np.uint64]

    def texts(self) -> pa.Array:
        """As 32 hexadecimal digits."""
        return _hex_texts(self.words.astype(">u8"))

    def first_words(self) -> pa.Array:
        """64 bits of each: they order rows by content."""
        return pa.array(np.ascontiguousarray(self.words[:, 0]))

    def of_ids(self, ids: pa.Array) -> pa.Array:
        """64 bits of each id."""
        return pa.array(pd.util.hash_array(ids.to_numpy(zero_copy_only=False), hash_key=_KEYS[0], categorize=False))


def content_hashes(batch: RowBatch, names: Sequence[str]) -> RowHashes:
    """The hash of each row's content in these columns; an absent column counts as null."""
    columns = [batch.text(name) for name in names]
    joined = pc.binary_join_element_wise(*columns, "\x1f", null_handling="replace", null_replacement="\x00")
    texts = joined.to_numpy(zero_copy_only=False)
    words = np.empty((batch.rows, 2), dtype=np.uint64)
    for i, key in enumerate(_KEYS):
        words[:, i] = pd.util.hash_array(texts, hash_key=key, categorize=False)
    return RowHashes(words)


def _hex_texts(words: npt.NDArray[np.unsignedinteger]) -> pa.Array:
    octets = words.view(np.uint8).reshape(len(words), 16)
    digits = np.empty((len(words), 32), dtype=np.uint8)
    digits[:, 0::2] = _HEX[octets >> 4]
    digits[:, 1::2] = _HEX[octets & 15]
    offsets = np.arange(len(words) + 1, dtype=np.int64) * 32
    whole = pa.Array.from_buffers(pa.large_string(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(digits.reshape(-1))])
    return pc.cast(whole, pa.string())
