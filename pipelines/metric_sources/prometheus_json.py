"""Answers of Prometheus' HTTP API, read fast and exactly.

The frame and the labels are decoded as JSON; the samples of each series stay raw bytes, and one compiled loop reads
plain decimals from them (times to whole milliseconds). Where a series has anything else in it (NaN, infinities, exponents,
more than 15 digits), that piece of it is read by ``json``. Here belongs nothing about connections or meanings.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import numpy as np
from numba import njit
from numpy.typing import NDArray

_BYTES_OF_SHORTEST_POINT = 8
_PIECE_BYTES = 2**16
_BORDER = re.compile(rb"\]\s*,\s*\[")
_MOST_TIME_DIGITS = 12
_MS_DIGITS = 3
EXACT_DIGITS = 15  # a whole number of so many digits, and a power of ten up to it, are exact floats: so is one division


class Answer(msgspec.Struct):
    """The frame of every answer; ``data`` is still raw."""

    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error_type: str = msgspec.field(default="", name="errorType")
    error: str = ""
    warnings: list[str] | None = None
    partial: bool = msgspec.field(default=False, name="isPartial")


class _Series(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")


class _Matrix(msgspec.Struct):
    result: list[_Series]
    result_type: str = msgspec.field(name="resultType")


Points = tuple[dict[str, str], NDArray[np.int64], NDArray[np.float64]]
"""Labels, times in ms and values of one series."""

_ANSWER = msgspec.json.Decoder(Answer)
_MATRIX = msgspec.json.Decoder(_Matrix)
_NAMES = msgspec.json.Decoder(list[str])
_LABEL_SETS = msgspec.json.Decoder(list[dict[str, str]])
_Decoded = TypeVar("_Decoded")
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")


def _as_text(error: UnicodeError) -> tuple[str, int]:
    r"""Bytes that are no UTF-8 as ``\xNN``, escaped for JSON."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(f"\\\\x{byte:02x}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("chargeback.json", _as_text)


def as_utf8(body: bytes) -> bytes:
    r"""JSON whose texts are whole: bytes that are no UTF-8 become ``\xNN``, halves of surrogate pairs ``\uNNNN``, as text.

    What is whole is left as it is.

    >>> as_utf8(b'"a\xff"'), as_utf8(rb'"\ud800 \ud83d\ude00"')
    (b'"a\\\\xff"', b'"\\\\ud800 \\ud83d\\ude00"')
    """
    text = body.decode("utf-8", errors="chargeback.json").encode()
    return _SURROGATES.sub(lambda found: b"\\" + found[0] if found[1] else found[0], text)


def decode(decoder: msgspec.json.Decoder[_Decoded], data: msgspec.Raw | bytes | bytearray) -> _Decoded:
    """What the decoder reads; texts of strange bytes are no reason to lose an answer."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError:
        body = bytes(data)
        whole = as_utf8(body)
        if whole == body:
            raise
        return decoder.decode(whole)


def read_answer(body: bytes | bytearray) -> Answer:
    """The frame, or a ``ValueError`` where the body is no answer of the API."""
    return decode(_ANSWER, body)


def read_matrix(data: msgspec.Raw) -> Iterator[Points]:
    """The series of a range vector, or a ``ValueError`` where the data are something else."""
    matrix = decode(_MATRIX, data)
    if matrix.result_type != "matrix":
        raise ValueError(f"the result is a {matrix.result_type}, not a matrix")
    for series in matrix.result:
        times, values = read_points(series.values)
        yield series.metric, times, values


def read_names(data: msgspec.Raw) -> list[str]:
    """A list of label values."""
    return decode(_NAMES, data)


def read_label_sets(data: msgspec.Raw) -> list[dict[str, str]]:
    """A list of series by their labels."""
    return decode(_LABEL_SETS, data)


def read_points(raw: msgspec.Raw | bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times in ms and values of ``[[seconds, "value"], ...]``."""
    text = np.frombuffer(memoryview(raw), np.uint8)
    room = len(text) // _BYTES_OF_SHORTEST_POINT + 1
    times, values = np.empty(room, np.int64), np.empty(room, np.float64)
    count = _compiled(text, times, values)
    if count >= 0:
        return times[:count].copy(), values[:count].copy()
    del times, values
    if len(text) <= _PIECE_BYTES:
        return _read_by_json(bytes(raw))
    return _read_in_pieces(memoryview(raw))


def _read_in_pieces(raw: memoryview) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A long series with something unusual in it: little of it is read by ``json`` at a time, so memory stays bounded."""
    found: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    start = 1
    while border := _BORDER.search(raw, start + _PIECE_BYTES // 2):
        found.append(read_points(b"[" + bytes(raw[start : border.start() + 1]) + b"]"))
        start = border.end() - 1
    found.append(_read_by_json(b"[" + bytes(raw[start:])))
    return np.concatenate([times for times, _ in found]), np.concatenate([values for _, values in found])


def _read_by_json(raw: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    points = json.loads(raw)
    times = np.array([round(seconds * 1000) for seconds, _ in points], np.int64)
    return times, np.array([float(value) for _, value in points], np.float64)


def read_digits(text: NDArray[np.uint8], place: int, number: int) -> tuple[int, int]:
    """Goes on reading a whole number at a place: the number, and the place after it. Runs compiled."""
    while ord("0") <= text[place] <= ord("9"):
        number = number * 10 + (int(text[place]) - ord("0"))
        place += 1
    return number, place


_digits: Callable[[NDArray[np.uint8], int, int], tuple[int, int]] = njit(cache=True, nogil=True)(read_digits)


def read_decimal(text: NDArray[np.uint8], start: int) -> tuple[int, int, int, int]:
    """Reads a plain decimal: its digits as a number, how many stand before and after the point, the place after it.

    Runs compiled.
    """
    number, place = _digits(text, start, 0)
    whole, after = place - start, 0
    if text[place] == ord("."):
        number, end = _digits(text, place + 1, number)
        after, place = end - place - 1, end
    return number, whole, after, place


_decimal: Callable[[NDArray[np.uint8], int], tuple[int, int, int, int]] = njit(cache=True, nogil=True)(read_decimal)


def read_plain(text: NDArray[np.uint8], times: NDArray[np.int64], values: NDArray[np.float64]) -> int:
    """Reads points of valid JSON while they are plain: their number, or -1 where one is not. Runs compiled."""
    count, i, end = 0, 1, len(text) - 1
    if end < 1 or text[0] != ord("["):
        return -1
    while i < end:
        if count and text[i] == ord(","):
            i += 1
        if text[i] != ord("["):
            return -1
        ms, whole, after, i = _decimal(text, i + 1)
        if whole == 0 or whole > _MOST_TIME_DIGITS or after > _MS_DIGITS or text[i] != ord(",") or text[i + 1] != ord('"'):
            return -1
        number, digits, decimals, i = _decimal(text, i + 2)
        if digits == 0 or digits + decimals > EXACT_DIGITS or text[i] != ord('"') or text[i + 1] != ord("]"):
            return -1
        times[count] = ms * 10 ** (_MS_DIGITS - after)
        values[count] = number / 10.0**decimals
        count += 1
        i += 2
    return count


_Read = Callable[[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float64]], int]
_compiled: _Read = njit(cache=True, nogil=True)(read_plain)
