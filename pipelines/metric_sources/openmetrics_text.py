"""OpenMetrics text with timestamps into flat arrays, or an error that names file and line.

Here belongs the grammar: lines are cut from the right into series, value and time; a series' labels are read once,
however many lines it has. Here do not belong windows, profiles or what a metric means.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from allocation.errors import SeriesError

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_SERIES = rf"{_NAME}(?:\{{(?:[^\"{{}}]|{_QUOTED})*\}})?"
_NUMBER = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)$"
_SAMPLE_WITH_EXEMPLAR = rf"^(?P<sample>{_SERIES} [^ ]+ [^ ]+) # \{{.*$"
_LABEL = re.compile(rf" *([a-zA-Z_][a-zA-Z0-9_]*) *= *({_QUOTED}) *(?:,|$)")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_END = "# EOF"
_SECONDS_LIMIT = 1e11


@dataclass(frozen=True)
class Exposition:
    """All samples of a file; sample i is one of series ``series[i]``, and a series' samples stand together."""

    metrics: list[str]
    labels: list[dict[str, str]]
    series: NDArray[np.int64]
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    not_utf8: int = 0
    """Lines with bytes that are no UTF-8."""


def parse(data: bytes, file: str) -> Exposition:
    r"""All samples of an OpenMetrics text; a missing end or time, or anything unreadable, is a ``SeriesError``.

    Bytes that are no UTF-8 are read as ``\xNN``, so that two texts which differ in them stay two.
    """
    data, strange = _as_utf8(data)
    lines, numbers = _sample_lines(data, file)
    parts = pc.split_pattern(_without_exemplars(lines), " ", max_splits=2, reverse=True)
    short = np.flatnonzero(pc.list_value_length(parts).to_numpy() != 3)
    if len(short):
        raise _bad_line(lines, numbers, int(short[0]), file)
    flat = parts.flatten()
    series, value, time = (flat.take(pa.array(np.arange(n, len(flat), 3))) for n in range(3))
    values, times = _floats(value), _floats(time)
    bad = np.flatnonzero(_unreadable(value, values) | _unreadable(time, times) | ~(np.abs(times) < _SECONDS_LIMIT))
    if len(bad):
        raise _bad_line(lines, numbers, int(bad[0]), file)
    encoded = pc.dictionary_encode(series)
    of_series = encoded.indices.to_numpy().astype(np.int64)
    names, labels = _read_series(encoded.dictionary, of_series, numbers, file)
    order = np.argsort(of_series, kind="stable")
    return Exposition(names, labels, of_series[order], np.rint(times * 1000).astype(np.int64)[order], values[order], strange)


def _as_utf8(data: bytes) -> tuple[bytes, int]:
    """The file as UTF-8, and how many of its lines were not."""
    try:
        data.decode()
    except UnicodeDecodeError:
        lines = [line.decode(errors="backslashreplace").encode() for line in data.split(b"\n")]
        return b"\n".join(lines), sum(one != other for one, other in zip(lines, data.split(b"\n"), strict=True))
    return data, 0


def _sample_lines(data: bytes, file: str) -> tuple[pa.Array, NDArray[np.int64]]:
    """The lines that are samples and their line numbers, once the file is known to be whole."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    lines = pc.ascii_rtrim(pa.Array.from_buffers(pa.large_string(), len(ends), buffers), "\r\n")
    filled = np.flatnonzero(pc.not_equal(lines, "").to_numpy(zero_copy_only=False))
    end = np.flatnonzero(pc.equal(lines, _END).to_numpy(zero_copy_only=False))
    if not len(end):
        text = f"the file ends without the line `{_END}`, so a part of it may be missing; export it again"
        raise SeriesError(text, file=file, line=len(ends))
    if filled[-1] != end[0]:
        following = filled[filled > end[0]][0]
        raise SeriesError(f"there is text after the line `{_END}`", file=file, line=int(following) + 1)
    comment = pc.starts_with(lines, "#").to_numpy(zero_copy_only=False)
    chosen = filled[~comment[filled]]
    return lines.take(pa.array(chosen)), chosen + 1


def _without_exemplars(lines: pa.Array) -> pa.Array:
    """The lines without what follows the sample's time; only lines with a `#` are looked at."""
    marked = pc.match_substring(lines, " # {")
    if not pc.any(marked).as_py():
        return lines
    sample = pc.struct_field(pc.extract_regex(lines.filter(marked), _SAMPLE_WITH_EXEMPLAR), "sample")
    return pc.replace_with_mask(lines, marked, pc.coalesce(sample, lines.filter(marked)))


def _floats(texts: pa.Array) -> NDArray[np.float64]:
    """The numbers; what is none is NaN (see ``_unreadable``)."""
    plain = pc.replace_substring_regex(texts, r"^\+", "")
    try:
        numbers = plain.cast(pa.float64())
    except pa.ArrowInvalid:
        good = pc.match_substring_regex(texts, _NUMBER)
        numbers = pc.if_else(good, plain, "nan").cast(pa.float64())
    return np.asarray(numbers.to_numpy(), np.float64)


def _unreadable(texts: pa.Array, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where a text is no number, which is looked up only where the number is NaN."""
    doubtful = np.isnan(numbers)
    if doubtful.any():
        good = pc.match_substring_regex(texts.take(pa.array(np.flatnonzero(doubtful))), _NUMBER)
        doubtful[doubtful] = ~good.to_numpy(zero_copy_only=False)
    return doubtful


def _read_series(
    unique: pa.Array, of_series: NDArray[np.int64], numbers: NDArray[np.int64], file: str
) -> tuple[list[str], list[dict[str, str]]]:
    """Metric and labels of each distinct series."""
    names, labels = [], []
    for number, text in enumerate(unique.to_pylist()):
        try:
            name, found = read_series(text)
        except ValueError as error:
            line = int(numbers[np.argmax(of_series == number)])
            raise SeriesError(str(error), file=file, line=line) from None
        names.append(name)
        labels.append(found)
    return names, labels


def read_series(text: str) -> tuple[str, dict[str, str]]:
    r"""Metric and labels of a series; a label with an empty value is absent.

    >>> read_series('m{a="x y",b="q\\"}{,",c=""}')
    ('m', {'a': 'x y', 'b': 'q"}{,'})
    >>> read_series('m{a="x", b = "y", }')
    ('m', {'a': 'x', 'b': 'y'})
    """
    name, brace, rest = text.partition("{")
    if not re.fullmatch(_NAME, name) or (brace and not rest.endswith("}")):
        raise ValueError(f"unreadable series {_clipped(text)}")
    labels: dict[str, str] = {}
    place, inner = 0, rest[:-1].rstrip()
    while place < len(inner):
        match = _LABEL.match(inner, place)
        if match is None or match[1] in labels:
            raise ValueError(f'unreadable labels {_clipped(text)}; write them as name="value", each name once')
        labels[match[1]] = re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found[0]], match[2][1:-1])
        place = match.end()
    return name, {label: value for label, value in labels.items() if value}


def _bad_line(lines: pa.Array, numbers: NDArray[np.int64], index: int, file: str) -> SeriesError:
    """What is wrong with a line that could not be cut into series, value and time."""
    line, where = lines[index].as_py(), int(numbers[index])
    whole = re.match(rf"({_SERIES})(?:\s+(.*))?$", line)
    rest = (whole[2] or "").split() if whole else []
    if whole is None:
        problem = f"unreadable series {_clipped(line)}"
    elif len(rest) < 2 or rest[1] == "#":
        problem = f"the sample {_clipped(line)} has no timestamp; export the series with their times"
    elif not re.match(_NUMBER, rest[0]):
        problem = f"unreadable value {rest[0]!r}"
    else:
        problem = f"unreadable timestamp {rest[1]!r}; times are written in seconds, after one blank"
    return SeriesError(problem, file=file, line=where)


def _clipped(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
