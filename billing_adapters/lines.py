"""From batches of a delivery to the table ``line_items``: what every format of bill does alike.

Money, currency, times and origin of each row; the order of scope rules; ordinals, and the findings of the whole
delivery. What a provider's columns mean is the adapters' knowledge.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import AdapterError
from allocation.findings import Code, Finding, Severity
from allocation.money import CostError, exact_sum, to_nanos
from allocation.node_keys import node_keys
from allocation.schemas import LINE_ITEMS, RESIDUE, TEXT, conform
from billing_adapters.base import BillOptions, ParsedBill
from billing_adapters.currencies import ISO_4217
from billing_adapters.row_batches import RowBatch
from billing_adapters.row_ids import with_ordinals

CONTENT = "content"
"""A column that batches carry beside ``line_items``': the hash of the row's content."""

_ISO = pa.array(sorted(ISO_4217))
_NOTHING = pa.scalar("0").cast(RESIDUE)


@dataclass(frozen=True)
class Origin:
    """What all lines of a delivery share."""

    options: BillOptions
    delivery_id: str

    def columns(self, batch: RowBatch) -> dict[str, pa.Array]:
        """Where each row comes from and which money it tells."""
        return {
            "source_id": pa.repeat(pa.scalar(self.options.source_id, TEXT), batch.rows),
            "delivery_id": pa.repeat(pa.scalar(self.delivery_id, TEXT), batch.rows),
            "source_file": pa.repeat(pa.scalar(batch.file, TEXT), batch.rows),
            "source_row": pa.array(np.arange(batch.rows, dtype=np.int64) + batch.first_row),
            "cost_metric": pa.repeat(pa.scalar(self.options.cost, TEXT), batch.rows),
        }


def money(batch: RowBatch, texts: pa.Array, column: str) -> dict[str, pa.Array]:
    """Nanos and residues of the texts that stand in ``column``; an empty or unreadable one ends the run (R13, R40)."""
    try:
        nanos, residues = to_nanos(texts)
    except CostError as error:
        raise batch.error(error.index, f"{column}: {error.problem}", "Correct the export or choose another cost.") from error
    return {"cost_nanos": nanos, "cost_residue": residues}


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


def lines_of(columns: dict[str, pa.Array]) -> pa.Table:
    """One batch of lines, still with its ``content``; the node's key follows from the resource."""
    columns["node_key"] = node_keys(columns["resource_id"])
    rows = len(columns["resource_id"])
    absent = {c.name: pa.nulls(rows, c.type) for c in LINE_ITEMS.columns if c.nullable and c.name not in columns}
    columns = {**columns, **absent}
    return pa.table({name: columns[name] for name in [*LINE_ITEMS.names, CONTENT]})


def gathered(batches: Sequence[pa.Table], options: BillOptions, findings: Iterable[Finding] = ()) -> ParsedBill:
    """The lines of all batches in order with their final ids, and what is noticed of the whole."""
    if not batches:
        return ParsedBill(LINE_ITEMS.empty(), tuple(findings))
    whole = pa.concat_tables(batches)
    ids = with_ordinals(whole.column("line_item_id"), whole.column(CONTENT))
    whole = whole.drop_columns([CONTENT])
    whole = whole.set_column(whole.column_names.index("line_item_id"), "line_item_id", ids)
    try:
        lines = conform(whole, LINE_ITEMS, source=options.source_id)
    except pa.ArrowInvalid as error:
        raise AdapterError(f"the lines of {options.source_id!r} cannot be held in one table: {error}") from error
    return ParsedBill(lines, (*findings, *_cut(lines), *_mixed(lines)))


def _cut(lines: pa.Table) -> list[Finding]:
    """What rounding to whole nanos cut, per file (R13)."""
    cut = lines.select(["source_file", "currency", "cost_residue"]).filter(pc.not_equal(lines["cost_residue"], _NOTHING))
    findings = []
    for pair in cut.group_by(["source_file", "currency"]).aggregate([]).sort_by("source_file").to_pylist():
        mine = pc.and_(pc.equal(cut["source_file"], pair["source_file"]), pc.equal(cut["currency"], pair["currency"]))
        residues = cut.filter(mine)["cost_residue"]
        total = f"{exact_sum(residues):f}".rstrip("0").rstrip(".")
        evidence = f"{len(residues)} costs have more than nine decimals; rounding each to whole nano-units cut {total} in sum"
        findings.append(
            Finding(
                Code.SUB_NANO_COST,
                Severity.INFO,
                pair["source_file"],
                evidence,
                count=len(residues),
                currency=pair["currency"],
            )
        )
    return findings


def _mixed(lines: pa.Table) -> list[Finding]:
    codes = sorted(pc.unique(lines["currency"]).to_pylist())
    if len(codes) < 2:
        return []
    evidence = "the bill has lines in several currencies; they are never added up"
    return [Finding(Code.MIXED_CURRENCIES, Severity.WARNING, ", ".join(codes), evidence, count=len(codes))]
