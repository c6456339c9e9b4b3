"""VictoriaMetrics' export, one series a line, read fast and exactly.

Labels are decoded as JSON; values and times stay raw bytes, and compiled loops read plain numbers from them. A line with
anything else in it (null, infinities, exponents, more than 15 digits, spaces) is read by ``json``. Here belongs nothing about
connections or meanings.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipelines.metric_sources.prometheus_json import EXACT_DIGITS, Points, decode, read_decimal, read_digits

_MOST_TIME_DIGITS = 15
_BYTES_OF_SHORTEST_NUMBER = 2
_BARE = re.compile(rb"(?<![\w\"])[+-]?(?:Inf(?:inity)?|NaN|nan)(?![\w\"])")
"""Words that older versions write for what JSON has no number for."""


class _Line(msgspec.Struct, gc=False):
    metric: dict[str, str] = {}
    values: msgspec.Raw = msgspec.Raw(b"")
    timestamps: msgspec.Raw = msgspec.Raw(b"")
    status: str = ""
    error: str = ""


_LINE = msgspec.json.Decoder(_Line)


class BrokenExportError(ValueError):
    """The server says in the middle of its answer what went wrong; ``said`` are its words."""

    def __init__(self, said: str) -> None:
        self.said = said
        super().__init__(f"the export broke off: {said}")


def read_export(pieces: Iterable[bytes]) -> Iterator[Points]:
    """The series of an export as its bytes come in, without values that are null or not a number.

    VictoriaMetrics keeps the marks that end a series as values and exports them as null: they are no samples.

    Raises:
        ValueError: a line is no series.
        BrokenExportError: it is an error of the server.
    """
    for line in lines_of(pieces):
        yield read_line(line)


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    r"""The lines of a text that comes in pieces; empty ones are left out.

    >>> list(lines_of([b"a", b"b\n\nc\n", b"d"]))
    [b'ab', b'c', b'd']
    """
    begun: list[bytes] = []
    for piece in pieces:
        first, *more = piece.split(b"\n")
        begun.append(first)
        for text in more:
            yield from filter(None, (b"".join(begun),))
            begun = [text]
    yield from filter(None, (b"".join(begun),))


def read_line(line: bytes) -> Points:
    """Labels, times in ms and values of one line."""
    try:
        told = decode(_LINE, line)
    except msgspec.DecodeError as error:
        whole = _with_quoted_words(line)
        if whole == line:
            raise ValueError(f"{error}: {line[:100]!r}") from error
        told = decode(_LINE, whole)
    if told.error or told.status:
        raise BrokenExportError(told.error or told.status)
    if not told.values or not told.timestamps:
        raise ValueError(f"no series of an export: {line[:100]!r}")
    times, values = read_numbers(told.timestamps, told.values)
    return told.metric, times, values


def read_numbers(timestamps: msgspec.Raw | bytes, values: msgspec.Raw | bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times in ms and values of two lists of one length."""
    at = np.frombuffer(memoryview(timestamps), np.uint8)
    told = np.frombuffer(memoryview(values), np.uint8)
    times = np.empty(len(at) // _BYTES_OF_SHORTEST_NUMBER + 1, np.int64)
    floats = np.empty(len(told) // _BYTES_OF_SHORTEST_NUMBER + 1, np.float64)
    count, counted = _compiled_times(at, times), _compiled_values(told, floats)
    if count < 0 or counted < 0:
        return _read_by_json(bytes(timestamps), bytes(values))
    if count != counted:
        raise ValueError(f"a series has {count} times and {counted} values")
    return times[:count].copy(), floats[:count].copy()


def _read_by_json(timestamps: bytes, values: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    at, told = json.loads(timestamps), json.loads(values)
    if len(at) != len(told):
        raise ValueError(f"a series has {len(at)} times and {len(told)} values")
    floats = np.array([np.nan if value is None else float(value) for value in told], np.float64)
    there = ~np.isnan(floats)
    return np.array([round(ms) for ms in at], np.int64)[there], floats[there]


def _with_quoted_words(line: bytes) -> bytes:
    """The line with bare words among its values as texts; the keys cannot stand inside a label, where quotes are escaped."""
    start, end = line.rfind(b'"values":'), line.rfind(b'"timestamps":')
    if not 0 <= start < end:
        return line
    return line[:start] + _BARE.sub(rb'"\g<0>"', line[start:end]) + line[end:]


_digits: Callable[[NDArray[np.uint8], int, int], tuple[int, int]] = njit(cache=True, nogil=True)(read_digits)
_decimal: Callable[[NDArray[np.uint8], int], tuple[int, int, int, int]] = njit(cache=True, nogil=True)(read_decimal)


def read_times(text: NDArray[np.uint8], times: NDArray[np.int64]) -> int:
    """Reads a list of plain whole numbers: how many, or -1 where one is not plain. Runs compiled."""
    count, i, end = 0, 1, len(text) - 1
    if end < 1 or text[0] != ord("["):
        return -1
    while i < end:
        if count:
            if text[i] != ord(","):
                return -1
            i += 1
        number, place = _digits(text, i, 0)
        if place == i or place - i > _MOST_TIME_DIGITS:
            return -1
        times[count] = number
        count, i = count + 1, place
    return count


def read_values(text: NDArray[np.uint8], values: NDArray[np.float64]) -> int:
    """Reads a list of plain decimals: how many, or -1 where one is not plain. Runs compiled."""
    count, i, end = 0, 1, len(text) - 1
    if end < 1 or text[0] != ord("["):
        return -1
    while i < end:
        if count:
            if text[i] != ord(","):
                return -1
            i += 1
        number, digits, decimals, place = _decimal(text, i)
        if digits == 0 or digits + decimals > EXACT_DIGITS:
            return -1
        values[count] = number / 10.0**decimals
        count, i = count + 1, place
    return count


_compiled_times: Callable[[NDArray[np.uint8], NDArray[np.int64]], int] = njit(cache=True, nogil=True)(read_times)
_compiled_values: Callable[[NDArray[np.uint8], NDArray[np.float64]], int] = njit(cache=True, nogil=True)(read_values)
