"""Rows as RFC 4180 CSV that no spreadsheet runs: values as texts, column by column, without a loop over rows.

A text that begins like a formula gets an apostrophe in front; numbers and times never do. Null is nothing between two commas,
an empty text is two quotes. Here does not belong which columns a file has, or where it is written.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.text_buffers import text_buffers

END = "\r\n"
_FORMULA = r"^[=+\-@\t\r]"
_NEEDS_QUOTES = r'^$|[",\r\n]'


def header(names: Sequence[str]) -> bytes:
    """The first line."""
    return (",".join(_quoted(pa.array(names, pa.string())).to_pylist()) + END).encode()


def csv_rows(batch: pa.RecordBatch) -> bytes:
    """All rows of a batch as lines."""
    if not len(batch):
        return b""
    texts = [csv_texts(column) for column in batch.columns]
    lines = pc.binary_join_element_wise(*texts, ",", null_handling="replace", null_replacement="")
    offsets, data = text_buffers(pc.binary_join_element_wise(lines, END, ""))
    return data[offsets[0] : offsets[-1]].tobytes()


def csv_texts(column: pa.Array) -> pa.Array:
    """What stands in the file for each value, made once a distinct value."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return _texts(encoded.dictionary).take(encoded.indices)


def _texts(values: pa.Array) -> pa.Array:
    """Texts defused and quoted, numbers plain, times in ISO 8601."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _quoted(defused(values.cast(pa.string())))
    if pa.types.is_decimal128(values.type):
        return plain_decimals(values)
    if pa.types.is_timestamp(values.type):
        return iso_times(values)
    return values.cast(pa.string())


def defused(texts: pa.Array) -> pa.Array:
    """Texts that a spreadsheet shows instead of running them.

    >>> defused(pa.array(["=1+1", "-x", "a=1", None])).to_pylist()
    ["'=1+1", "'-x", 'a=1', None]
    """
    return pc.if_else(pc.match_substring_regex(texts, _FORMULA), pc.binary_join_element_wise("'", texts, ""), texts)


def _quoted(texts: pa.Array) -> pa.Array:
    doubled = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(texts, _NEEDS_QUOTES), doubled, texts)


def plain_decimals(values: pa.Array) -> pa.Array:
    """128-bit decimals of one place or more without an exponent, with all their places.

    >>> plain_decimals(pa.array(["-0.000000001", "12"]).cast(pa.decimal128(38, 9))).to_pylist()
    ['-0.000000001', '12.000000000']
    """
    scale = values.type.scale
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), values.buffers(), offset=values.offset).cast(pa.string())
    digits = pc.utf8_lpad(pc.replace_substring(whole, "-", ""), scale + 1, "0")
    parts = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    sign = pc.if_else(pc.starts_with(whole, "-"), "-", "")
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, parts[0], ""), parts[1], ".")


def iso_times(times: pa.Array) -> pa.Array:
    """Times in UTC as ISO 8601, without a fraction where there is none.

    >>> from datetime import UTC, datetime
    >>> iso_times(pa.array([datetime(2026, 10, 1, 3, tzinfo=UTC)], pa.timestamp("us", "UTC"))).to_pylist()
    ['2026-10-01T03:00:00Z']
    """
    texts = pc.strftime(times, format="%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise(pc.replace_substring_regex(texts, r"\.?0*$|(\.\d*[1-9])0*$", r"\1"), "Z", "")
