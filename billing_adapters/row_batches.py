"""Rows of a delivered file, batch by batch, as columns of text: what both formats of file (CSV, Parquet) become.

A batch knows its file and its first row, so that every refusal names both. Nothing here knows a provider's columns.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from allocation.compiled import kernel
from allocation.errors import AdapterError
from allocation.money import RESIDUE_SCALE
from allocation.text_buffers import text_buffers
from billing_adapters.times import UnreadableTimeError, to_times

NULL_WORDS = ("", "NULL", "Null", "null", "(null)", "(NULL)", "None", "N/A", "n/a")
"""Texts that stand for null in exports (R41)."""

_LONGEST_NULL_WORD = max(map(len, NULL_WORDS))

HeaderCheck = Callable[[str, Collection[str]], None]
"""Called once a file with its name and its columns; raises where the file cannot be read."""


Spelling = Callable[[str], str]
"""A column's name into a word that is equal for all its spellings."""


@dataclass(frozen=True)
class RowBatch:
    """Some rows of one file. ``columns`` are by lower-case name; ``first_row`` counts from 1 after the header.

    ``places`` are told where the rows are chosen ones: each one's distance from ``first_row``.
    """

    file: str
    first_row: int
    rows: int
    columns: Mapping[str, pa.Array]
    places: npt.NDArray[np.int64] | None = None

    def text(self, name: str) -> pa.Array:
        """A column as trimmed text; null where the file has no such column, or a word for null."""
        column = self.columns.get(name.lower())
        if column is None or pa.types.is_nested(column.type):
            return pa.nulls(self.rows, pa.string())
        if pa.types.is_dictionary(column.type):
            return _text(column.dictionary).take(column.indices)
        return _text(column)

    def encoded(self, name: str) -> pa.Array:
        """A column's texts as ``text`` gives them, encoded by a dictionary without nulls; all null where it is absent."""
        column = self.columns.get(name.lower())
        if column is None or not (pa.types.is_dictionary(column.type) or column.type == pa.string()):
            return self.text(name).dictionary_encode()
        raw = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        distinct = raw.dictionary
        texts = _text(distinct)
        if texts is distinct:
            return raw
        again = texts.dictionary_encode()
        return pa.DictionaryArray.from_arrays(again.indices.take(raw.indices), again.dictionary)

    def amounts(self, *names: str) -> dict[str, pa.Array]:
        """Columns of amounts: doubles where the file has all that it has of them so, else texts; an absent one is null."""
        there = [self.columns[n.lower()] for n in names if n.lower() in self.columns]
        if there and all(pa.types.is_floating(column.type) for column in there):
            nothing = pa.nulls(self.rows, pa.float64())
            return {n: pc.cast(self.columns.get(n.lower(), nothing), pa.float64()) for n in names}
        return {n: self.text(n) for n in names}

    def nested(self, name: str, key: str) -> pa.Array:
        """One key of a column that holds JSON text, a map or a struct."""
        column = self.columns.get(name.lower())
        if column is None:
            return pa.nulls(self.rows, pa.string())
        if pa.types.is_map(column.type):
            return pc.cast(pc.map_lookup(column, key, "first"), pa.string())
        if pa.types.is_struct(column.type):
            known = column.type.get_field_index(key) >= 0
            return pc.cast(pc.struct_field(column, key), pa.string()) if known else pa.nulls(self.rows, pa.string())
        found = pc.extract_regex(self.text(name), rf'"{re.escape(key)}"\s*:\s*"(?P<value>[^"]+)"')
        return pc.struct_field(found, "value")

    def times(self, name: str) -> pa.Array:
        """A column as times in UTC; a null or impossible one is an ``AdapterError``."""
        column = self.columns[name.lower()]
        try:
            return to_times(column if pa.types.is_temporal(column.type) else self.text(name))
        except UnreadableTimeError as error:
            raise self.error(error.index, f"{name}: {error.problem}", "Correct the export.") from error

    def required(self, name: str) -> pa.Array:
        """A column as text that may have no null."""
        texts = self.text(name)
        if texts.null_count:
            raise self.error(pc.index(pc.is_null(texts), True).as_py(), f"{name} is empty", "Correct the export.")
        return texts

    def error(self, index: int, problem: str, remedy: str | None = None) -> AdapterError:
        """What ends the run because of the row at this place."""
        place = index if self.places is None else int(self.places[index])
        return AdapterError(problem, file=self.file, row=self.first_row + place, remedy=remedy)

    def chosen(self, places: pa.Array, names: Iterable[str]) -> "RowBatch":
        """The rows at these places of this batch, which keep their numbers, with these columns where they are there."""
        columns = {n: self.columns[n].take(places) for n in dict.fromkeys(names) if n in self.columns}
        own = places.to_numpy().astype(np.int64)
        return RowBatch(self.file, self.first_row, len(places), columns, own if self.places is None else self.places[own])

    def with_encoded(self, names: Iterable[str]) -> "RowBatch":
        """The same rows with these columns encoded by dictionary, for columns that are asked for more than once."""
        columns = {n: self.encoded(n) for n in names if n in self.columns}
        return RowBatch(self.file, self.first_row, self.rows, {**self.columns, **columns}, self.places)

    def by_distinct(self, names: Iterable[str], compute: Callable[["RowBatch"], Mapping[str, pa.Array]]) -> dict[str, pa.Array]:
        """What ``compute`` makes of each row by these columns alone, computed once for each combination of their values.

        A bill repeats few combinations of service, usage type, unit ... over millions of rows. Texts come back encoded by
        dictionary.
        """
        chosen = {name: self.columns[name] for name in dict.fromkeys(n.lower() for n in names) if name in self.columns}
        number, first = _combinations(chosen.values(), self.rows)
        few = RowBatch(self.file, self.first_row, len(first), {n: c.take(pa.array(first)) for n, c in chosen.items()}, first)
        return {name: _spread(values, number) for name, values in compute(few).items()}


def _text(values: pa.Array) -> pa.Array:
    """Values as trimmed texts, words for null as null."""
    wide = pa.types.is_decimal(values.type) and values.type.scale > RESIDUE_SCALE
    texts = values if values.type == pa.string() else decimal_texts(values) if wide else pc.cast(values, pa.string())
    if not texts.null_count and are_plain(*text_buffers(texts), _LONGEST_NULL_WORD):
        return texts
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(is_null_word(texts), None, texts)


def decimal_texts(amounts: pa.Array) -> pa.Array:
    """Decimals as texts without idle zeros, small ones with an exponent."""
    texts = pc.replace_substring_regex(pc.cast(amounts, pa.string()), r"(\.\d*?)0+(E.*)?$", r"\1\2")
    texts = pc.replace_substring_regex(texts, r"\.(E|$)", r"\1")
    return pc.if_else(pc.match_substring_regex(texts, r"^-?0(E|$)"), "0", texts)


@kernel
def are_plain(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], longest: int) -> bool:
    """Whether each text is longer than that and has plain letters, digits or signs at both ends."""
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        if end - begin <= longest or not 32 < data[begin] < 127 or not 32 < data[end - 1] < 127:
            return False
    return True


def _combinations(columns: Iterable[pa.Array], rows: int) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The number of each row's combination of values, and the first row that has each."""
    numbers: npt.NDArray[np.signedinteger] = np.zeros(rows, np.int32)
    size = 1
    for column in columns:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        more = len(encoded.dictionary) + 1
        if size * more >= 2**31:
            numbers, size = _renumbered(numbers)
        if size * more >= 2**31:
            numbers = numbers.astype(np.int64)
        indices = pc.fill_null(encoded.indices, more - 1) if encoded.indices.null_count else encoded.indices
        numbers *= more
        numbers += indices.to_numpy()
        size *= more
    numbers, size = _renumbered(numbers)
    first = np.empty(size, np.int64)
    first[numbers[::-1]] = np.arange(rows)[::-1]
    return pa.array(numbers), first


def _renumbered(numbers: npt.NDArray[np.signedinteger]) -> tuple[npt.NDArray[np.signedinteger], int]:
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().copy(), len(encoded.dictionary)


def _spread(values: pa.Array, number: pa.Array) -> pa.Array:
    """The value of each row's combination."""
    if values.type != pa.string():
        return values.take(number)
    encoded = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.take(number), encoded.dictionary)


def is_null_word(texts: pa.Array) -> pa.Array:
    """Where a text stands for null."""
    return pc.is_in(texts, value_set=pa.array(NULL_WORDS))


def chosen_columns(file: str, header: Sequence[str], wanted: Sequence[str], spelling: Spelling = str.lower) -> dict[str, int]:
    """Place of each wanted column that the header has, by lower-case name; one that stands there twice is refused.

    So are two of its spellings: which of them is meant, no file says.
    """
    names = [spelling(h.strip()) for h in header]
    chosen = {}
    for name in wanted:
        places = [i for i, n in enumerate(names) if n == spelling(name)]
        if len(places) > 1:
            there = " and ".join(repr(h) for h in dict.fromkeys(header[i] for i in places))
            what = f"the column {there} stands" if " and " not in there else f"the columns {there} mean the same and stand"
            raise AdapterError(f"{what} in the header {len(places)} times", file=file, remedy="Take one of them out.")
        if places:
            chosen[name.lower()] = places[0]
    return chosen
