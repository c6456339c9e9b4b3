"""Stable ids of lines: a hash of a row's content (R31), compiled.

It depends neither on the order of rows or files, nor on which columns a file has beside the ones that are hashed. Values are
hashed as the file holds them: the bytes of a text, the bits of a number or a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from allocation.compiled import inner, kernel, read_only
from allocation.text_buffers import text_buffers
from billing_adapters.row_batches import RowBatch

Words = npt.NDArray[np.uint64]
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_FACTORS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
_NULL = 0x27D4EB2F165667C5


@dataclass(frozen=True)
class RowHashes:
    """128 bits of each row's content: two words a row."""

    words: Words

    def texts(self) -> pa.Array:
        """As 32 hexadecimal digits."""
        return _hex_texts(self.words.astype(">u8"))

    def first_words(self) -> pa.Array:
        """64 bits of each: they order rows by content."""
        return pa.array(np.ascontiguousarray(self.words[:, 0]))


def content_hashes(batch: RowBatch, names: Sequence[str]) -> RowHashes:
    """The hash of each row's content in these columns; an absent column counts as null."""
    words = np.empty((batch.rows, 2), np.uint64)
    words[:] = _SEEDS
    for name in names:
        hashed = _hashed(batch, name)
        if hashed is None:
            _mix_one(words, _NULL)
        else:
            places, values = hashed
            _mix(words, read_only(places), read_only(values))
    return RowHashes(words)


def joined_hashes(one: RowHashes, other: RowHashes) -> RowHashes:
    """The hash of each row's content in two parts."""
    words = one.words.copy()
    _mix(words, read_only(np.arange(len(words), dtype=np.int32)), read_only(other.words))
    return RowHashes(words)


def text_hashes(texts: pa.Array) -> RowHashes:
    """The hash of each text; none is null."""
    words = np.empty((len(texts), 2), np.uint64)
    _hash_texts(*text_buffers(texts), words)
    return RowHashes(words)


def _hashed(batch: RowBatch, name: str) -> tuple[npt.NDArray[np.int32], Words] | None:
    """The hashes of a column's distinct or single values, the last one null's, and the place of each row's; None where absent."""
    column = batch.columns.get(name.lower())
    if column is None or pa.types.is_nested(column.type):
        return None
    if pa.types.is_dictionary(column.type):
        encoded = batch.encoded(name)
        texts, places = encoded.dictionary, encoded.indices
    else:
        texts = column if _has_bits(column.type) else batch.text(name)
        absent = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None
        places = pa.array(np.arange(batch.rows, dtype=np.int32), mask=absent)
    words = np.empty((len(texts) + 1, 2), np.uint64)
    if _has_bits(texts.type):
        each = texts.type.bit_width // 64
        bits = np.frombuffer(texts.buffers()[1], np.uint64).reshape(-1, each)
        words[:-1] = bits[texts.offset : texts.offset + len(texts)]
    else:
        _hash_texts(*text_buffers(texts), words[:-1])
    words[-1] = _NULL
    return pc.fill_null(places.cast(pa.int32()), len(words) - 1).to_numpy(zero_copy_only=False), words


def _has_bits(kind: pa.DataType) -> bool:
    """Whether a value of this type is 64 bits, or 128."""
    plain = pa.types.is_float64(kind) or pa.types.is_int64(kind) or pa.types.is_timestamp(kind)
    return bool(plain or pa.types.is_decimal128(kind))


@inner
def _stirred(word: Any, value: Any, factor: Any) -> Any:  # noqa: ANN401 - unsigned words of 64 bits, which int is not
    """One word of a hash with one more value in it."""
    word = (word ^ value) * factor
    return word ^ (word >> np.uint64(29))


@kernel
def _mix(words: Words, places: npt.NDArray[np.int32], values: Words) -> None:
    """Stirs each row's value into its hash."""
    for i in range(len(words)):
        for lane in range(2):
            words[i, lane] = _stirred(words[i, lane], values[places[i], lane], np.uint64(_FACTORS[lane]))


@kernel
def _mix_one(words: Words, value: int) -> None:
    """Stirs one value into all hashes."""
    for i in range(len(words)):
        for lane in range(2):
            words[i, lane] = _stirred(words[i, lane], np.uint64(value), np.uint64(_FACTORS[lane]))


@kernel
def _hash_texts(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], words: Words) -> None:
    """The hash of each text, by eight bytes at a time, its length first."""
    for i in range(len(offsets) - 1):
        at, end = offsets[i], offsets[i + 1]
        a, b = np.uint64(_SEEDS[0]), np.uint64(_SEEDS[1])
        value = np.uint64(end - at)
        while True:
            a = _stirred(a, value, np.uint64(_FACTORS[0]))
            b = _stirred(b, value, np.uint64(_FACTORS[1]))
            if at >= end:
                break
            value = np.uint64(0)
            for k in range(at, min(at + 8, end)):
                value = (value << np.uint64(8)) | np.uint64(data[k])
            at += 8
        words[i, 0], words[i, 1] = a, b


def _hex_texts(words: npt.NDArray[np.unsignedinteger]) -> pa.Array:
    octets = words.view(np.uint8).reshape(len(words), 16)
    digits = np.empty((len(words), 32), dtype=np.uint8)
    digits[:, 0::2] = _HEX[octets >> 4]
    digits[:, 1::2] = _HEX[octets & 15]
    offsets = np.arange(len(words) + 1, dtype=np.int32) * 32
    return pa.Array.from_buffers(pa.string(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(digits.reshape(-1))])
