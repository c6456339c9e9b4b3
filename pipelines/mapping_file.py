"""A CSV file from finance into the rows of an ``OwnerMapping``.

A column ``team``, ``model`` or ``cost_center`` is a name where that field's list has the source ``mapping``, else a key: what the
field's own rules and list found. All other columns are keys, but ``from`` and ``until``. Here does not belong which row fits a
pod (``allocation.owner_mapping``).
"""

import csv
import hashlib
import io
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from allocation.errors import SettingsError, nearest
from allocation.owner_mapping import ALWAYS, OwnerMapping
from allocation.owner_values import KEYED_SOURCES, PLAIN_SOURCES
from allocation.owners import FIELDS
from allocation.times import to_ms
from pipelines.values import is_match_key, parse_instant

_VALIDITY = ("from", "until")


class MappingError(SettingsError):
    """The mapping file cannot be used; the message names file and row. The row after the header is 1."""

    def __init__(self, path: Path, problem: str, row: int | None = None) -> None:
        self.path, self.row = path, row
        super().__init__(f"owners.mapping: {path}{f', row {row}' if row is not None else ''}: {problem}")


def read_mapping(path: Path, mapped: Sequence[str], found: Collection[str]) -> OwnerMapping:
    """The rows of the file.

    Args:
        path: the file.
        mapped: the fields that the mapping names.
        found: the fields that rules or lists name.

    Raises:
        MappingError: the file cannot be read for certain.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MappingError(path, f"cannot be read ({error.strerror}); name an existing file") from error
    return _parsed(content, path, tuple(mapped), tuple(sorted(found)))


@lru_cache(maxsize=4)
def _parsed(content: bytes, path: Path, mapped: tuple[str, ...], found: tuple[str, ...]) -> OwnerMapping:
    header, rows, numbers = _records(content, path)
    _check_header(path, header, mapped, found)
    cells = {name: np.array([row[at] for row in rows], dtype=object) for at, name in enumerate(header)}
    names = {name: cells[name] for name in mapped}
    nameless = np.logical_and.reduce([texts == "" for texts in names.values()])
    if nameless.any():
        raise MappingError(path, f"names no {' and no '.join(mapped)}", numbers[int(np.argmax(nameless))])
    from_ms, until_ms = (_moments(path, cells, name, numbers) for name in _VALIDITY)
    empty = from_ms >= until_ms
    if empty.any():
        raise MappingError(path, "`from` is not before `until`", numbers[int(np.argmax(empty))])
    keys = {name: texts for name, texts in cells.items() if name not in (*mapped, *_VALIDITY)}
    digest = hashlib.sha256(repr((mapped, header, rows)).encode("utf-8", "surrogatepass")).hexdigest()
    return OwnerMapping(keys, names, np.array(numbers, np.int64), from_ms, until_ms, digest)


def _records(content: bytes, path: Path) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[int]]:
    """Header, the rows that are not blank, and their numbers; cells without blanks around them."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start)
        raise MappingError(path, "is not UTF-8; save it as CSV UTF-8", row or None) from None
    try:
        records = [tuple(cell.strip() for cell in row) for row in csv.reader(io.StringIO(text, newline=""), strict=True)]
    except csv.Error as error:
        raise MappingError(path, f"is no CSV: {error}") from None
    if not records or not any(records[0]):
        raise MappingError(path, "is empty; its first line must name the columns")
    header = records[0]
    kept = [(number, row) for number, row in enumerate(records[1:], 1) if any(row)]
    if not kept:
        raise MappingError(path, "has no rows")
    for number, cells in kept:
        if len(cells) != len(header):
            raise MappingError(path, f"has {len(cells)} cells and the header {len(header)}", number)
    return header, [cells for _, cells in kept], [number for number, _ in kept]


def _check_header(path: Path, header: Sequence[str], mapped: Sequence[str], found: Collection[str]) -> None:
    known = (*FIELDS, *_VALIDITY, *PLAIN_SOURCES, *(f"{kind}:KEY" for kind in KEYED_SOURCES))
    for name in header:
        if name not in (*FIELDS, *_VALIDITY) and not is_match_key(name):
            hint = "separate columns by commas" if ";" in name or "\t" in name else nearest(name, known)
            raise MappingError(path, f"unknown column {name!r}; {hint}")
        if header.count(name) > 1:
            raise MappingError(path, f"the column {name!r} stands twice")
        if name in FIELDS and name not in (*mapped, *found):
            raise MappingError(path, f"the column {name!r} is a key, and no rule and no list owners.{name} finds what to compare")
    for name in mapped:
        if name not in header:
            raise MappingError(path, f"owners.{name} lists the source mapping, and the file has no column {name!r}")


def _moments(path: Path, cells: dict[str, np.ndarray], name: str, numbers: Sequence[int]) -> np.ndarray:
    """A column of dates as ms, each distinct text read once."""
    open_end = ALWAYS[_VALIDITY.index(name)]
    if name not in cells:
        return np.full(len(numbers), open_end, np.int64)
    texts = cells[name]
    known: dict[str, int] = {"": int(open_end)}
    for text in dict.fromkeys(texts):
        if text:
            try:
                known[text] = to_ms(parse_instant(text))
            except (ValueError, OverflowError):
                row = numbers[int(np.argmax(texts == text))]
                raise MappingError(
                    path, f"`{name}`: {text!r} is no date; write 2026-10-01 or 2026-10-01T12:00:00Z", row
                ) from None
    return np.array([known[text] for text in texts], np.int64)
