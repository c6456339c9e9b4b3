"""The columns of a line that every format of bill makes alike: money, currency, times, origin, the order of scope rules.

What a provider's columns mean is the adapters' knowledge; how batches of lines become the table is ``parsed``'s.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import CostError, to_nanos
from allocation.schemas import TEXT
from billing_adapters.base import BillOptions
from billing_adapters.currencies import ISO_4217
from billing_adapters.row_batches import RowBatch


class Cost(NamedTuple):
    """What each row costs under one metric: whole nanos, and what rounding to them cut."""

    nanos: pa.Array
    residue: pa.Array


_ISO = pa.array(sorted(ISO_4217))
_HALF_NANO = pa.scalar("0.0000000005").cast(pa.decimal128(37, 30))
_NANO = pa.scalar("0.000000001").cast(pa.decimal128(37, 30))


@dataclass(frozen=True)
class Origin:
    """What all lines of a delivery share."""

    options: BillOptions
    delivery_id: str

    def columns(self, batch: RowBatch) -> dict[str, pa.Array]:
        """Where each row comes from."""
        return {
            "source_id": one_text(self.options.source_id, batch.rows),
            "delivery_id": one_text(self.delivery_id, batch.rows),
            "source_file": one_text(batch.file, batch.rows),
            "source_row": pa.array(np.arange(batch.rows, dtype=np.int64) + batch.first_row),
        }


def one_text(text: str, rows: int) -> pa.Array:
    """The same text on each row, encoded by dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


def money(batch: RowBatch, amounts: pa.Array, column: str) -> Cost:
    """What the amounts (texts or doubles) of ``column`` cost; an empty or unreadable one ends the run (R13, R40)."""
    try:
        nanos, residues = to_nanos(amounts)
    except CostError as error:
        raise batch.error(error.index, f"{column}: {error.problem}", "Correct the export or choose another cost.") from error
    return Cost(nanos, residues)


def rounded(nanos: pa.Array, residue: pa.Array) -> Cost:
    """The same sums with a residue of at most half a nano-unit, half to even."""
    odd = pc.equal(pc.bit_wise_and(nanos, 1), 1)
    negative = pc.negate(_HALF_NANO)
    up = pc.or_(pc.greater(residue, _HALF_NANO), pc.and_(pc.equal(residue, _HALF_NANO), odd))
    down = pc.or_(pc.less(residue, negative), pc.and_(pc.equal(residue, negative), odd))
    step = pc.subtract(pc.cast(up, pa.int64()), pc.cast(down, pa.int64()))
    nothing = pc.subtract(_NANO, _NANO)
    moved = pc.if_else(up, _NANO, pc.if_else(down, pc.negate(_NANO), pc.cast(nothing, _NANO.type)))
    return Cost(pc.add_checked(nanos, step), pc.cast(pc.subtract(residue, moved), pa.decimal128(38, 30)))


def currencies(batch: RowBatch, column: str, expected: str | None) -> pa.Array:
    """The currency of each row: a code of ISO 4217, and the expected one where the configuration names it (R21)."""
    codes = batch.required(column)
    known = pc.is_in(codes, value_set=_ISO)
    if not pc.all(known).as_py():
        index = pc.index(known, False).as_py()
        problem = f"{column}: {codes[index].as_py()!r} is no currency code of ISO 4217"
        raise batch.error(index, problem, "Correct the export.")
    if expected is not None and batch.rows:
        same = pc.equal(codes, expected)
        if not pc.all(same).as_py():
            index = pc.index(same, False).as_py()
            problem = f"the row is in {codes[index].as_py()}, but the billing entry says currency: {expected}"
            raise batch.error(index, problem, "Give that currency a billing entry of its own.")
    return codes


def periods(batch: RowBatch, start: str, end: str, month: str) -> dict[str, pa.Array]:
    """The charge's own period, half-open, and the invoice's month."""
    starts, ends = batch.times(start), batch.times(end)
    wrong = pc.less_equal(ends, starts)
    if pc.any(wrong).as_py():
        index = pc.index(wrong, True).as_py()
        problem = f"the period ends at {ends[index].as_py():%Y-%m-%dT%H:%M:%SZ}, not after its start ({start}, {end})"
        raise batch.error(index, problem, "Correct the export.")
    first_day = pc.cast(pc.floor_temporal(batch.times(month), unit="month"), pa.date32())
    return {"charge_period_start": starts, "charge_period_end": ends, "billing_period": first_day}


def quantities(texts: pa.Array) -> pa.Array:
    """Quantities as doubles, for display and for hours; null where a text is no number."""
    if pa.types.is_floating(texts.type):
        return pc.if_else(sure(pc.is_finite(texts)), pc.cast(texts, pa.float64()), None)
    readable = pc.match_substring_regex(texts, r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$")
    return pc.cast(pc.if_else(readable, texts, None), pa.float64())


def machine_milliseconds(quantity: pa.Array, states_machine: pa.Array, period: Mapping[str, pa.Array]) -> pa.Array:
    """Hours of a machine in ms, where ``states_machine`` holds and they fit into the line's period (R16)."""
    length_us = pc.subtract(pc.cast(period["charge_period_end"], pa.int64()), pc.cast(period["charge_period_start"], pa.int64()))
    spent = pc.round(pc.multiply(quantity, 3_600_000.0))
    fits = pc.and_(pc.greater(quantity, 0.0), pc.less_equal(spent, pc.divide(pc.cast(length_us, pa.float64()), 1000.0)))
    return pc.cast(pc.if_else(sure(pc.and_(fits, states_machine)), spent, None), pa.int64())


def sure(mask: pa.Array) -> pa.Array:
    """A condition of which unknown is no."""
    return pc.fill_null(mask, False)


def one_of(values: pa.Array, words: Iterable[str]) -> pa.Array:
    """Where a text is one of these words, whatever its case; null is none of them."""
    return sure(pc.is_in(pc.utf8_lower(values), value_set=pa.array([w.lower() for w in words], TEXT)))


def renamed(values: pa.Array, names: Mapping[str, str]) -> pa.Array:
    """What the names (in lower case) say for each text, whatever its case; null where they say nothing."""
    places = pc.index_in(pc.utf8_lower(values), value_set=pa.array(list(names), TEXT))
    return pa.array(list(names.values()), TEXT).take(places)


def first_rule(rows: int, rules: Sequence[tuple[pa.Array, str]]) -> pa.Array:
    """The name of the first rule that holds for each row; null where none does."""
    result = pa.nulls(rows, TEXT)
    for mask, name in reversed(rules):
        result = pc.if_else(mask, name, result)
    return result
