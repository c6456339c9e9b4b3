"""Times of bills into UTC: RFC 3339 with any offset, ``T`` or a blank, none meaning UTC (R41).

Parsed by distinct text, because a bill of a million lines has some hundred distinct hours.
"""

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TIME

_FIRST_YEAR, _LAST_YEAR = 2000, 2098
_OFFSET = r":\d{2}(\.\d+)?\s*(Z|[+-]\d{2}(:?\d{2})?)$"


class UnreadableTimeError(ValueError):
    """A time that cannot be read for certain; ``index`` is its place in the array."""

    def __init__(self, index: int, problem: str) -> None:
        self.index, self.problem = index, problem
        super().__init__(problem)


def to_times(values: pa.Array) -> pa.Array:
    """Texts, timestamps or dates as ``timestamp[us, UTC]``; naive ones are UTC.

    >>> to_times(pa.array(["2026-10-25 00:00:00+02:00", "2026-10-01 01:00:00"])).to_pylist()[0].isoformat()
    '2026-10-24T22:00:00+00:00'

    Raises:
        UnreadableTimeError: an empty or impossible time, with its index.
    """
    if values.null_count:
        raise UnreadableTimeError(pc.index(pc.is_null(values), True).as_py(), "the time is empty")
    times = pc.cast(values, TIME, safe=False) if pa.types.is_temporal(values.type) else _parsed(values)
    years = pc.year(times)
    wrong = pc.or_(pc.less(years, _FIRST_YEAR), pc.greater(years, _LAST_YEAR))
    if pc.any(wrong).as_py():
        index = pc.index(wrong, True).as_py()
        raise UnreadableTimeError(index, f"the time {values[index].as_py()} is impossible in a bill")
    return times


def _parsed(texts: pa.Array) -> pa.Array:
    encoded = texts.dictionary_encode()
    try:
        distinct = pc.cast(_normal(encoded.dictionary), TIME)
    except pa.ArrowInvalid:
        text = _first_bad(encoded.dictionary)
        raise UnreadableTimeError(pc.index(texts, text).as_py(), f"the time {text!r} is impossible") from None
    return distinct.take(encoded.indices)


def _normal(texts: pa.Array) -> pa.Array:
    """The one spelling that Arrow reads: with an offset and at most six decimals."""
    texts = pc.replace_substring_regex(pc.utf8_upper(texts), r"^(\d{4}-\d{2}-\d{2})$", r"\1 00:00:00")
    texts = pc.replace_substring_regex(texts, r"\s*(UTC|GMT)$", "Z")
    texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    texts = pc.replace_substring_regex(texts, r"\s+([+-]\d)", r"\1")
    has_offset = pc.match_substring_regex(texts, _OFFSET)
    return pc.if_else(has_offset, texts, pc.binary_join_element_wise(texts, "Z", ""))


def _first_bad(texts: pa.Array) -> str:
    """The first distinct text that cannot be read, found by halving."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(_normal(texts.slice(low, middle - low)), TIME)
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    text: str = texts[low].as_py()
    return text
