"""Rows of Google's detailed billing export into lines: each row is one, and each of its credits is one beside it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters.gcp_columns import AMOUNT, COST, CREDITS, HASHED
from billing_adapters.gcp_commitments import FEE, OFFSET, Commitments, Money, commitments_of_credits
from billing_adapters.gcp_costs import credit_costs, row_costs
from billing_adapters.gcp_facts import facts
from billing_adapters.lines import Origin, money, one_of, one_text, quantities
from billing_adapters.parsed import parsed_lines
from billing_adapters.record_columns import plain_decimals
from billing_adapters.row_batches import RowBatch
from billing_adapters.row_ids import RowHashes, content_hashes, joined_hashes

_CREDIT_COLUMNS = ("amount", "type", "id", "full_name")
_OF_USAGE = ("usage_quantity", "usage_unit", "pricing_category")
"""What is said of usage, and not of a credit of it."""


@dataclass(frozen=True)
class _Rows:
    """A batch with what is known of its rows, and its credits as rows of their own, each with its place among the former."""

    batch: RowBatch
    rows: Money
    credits: Money
    credit_batch: RowBatch
    parents: pa.Array


def gcp_lines(read: Callable[[], Iterable[RowBatch]], origin: Origin) -> Iterator[pa.Table]:
    """All lines of a delivery, batch by batch (see ``parsed``).

    Args:
        read: gives the rows of the delivery, and once more where fees of commitments are to be spread.
        origin: what all its lines share.
    """
    commitments = Commitments(lambda: ((r.rows, r.credits) for r in (_rows(batch, origin) for batch in read())))
    for batch in read():
        rows = _rows(batch, origin)
        hashes = content_hashes(batch, HASHED)
        yield parsed_lines(
            {**rows.rows.known, "line_item_id": hashes.texts()}, hashes, row_costs(rows.rows, batch, origin.options, commitments)
        )
        if len(rows.parents):
            yield _credit_lines(rows, hashes, origin, commitments)


def _rows(batch: RowBatch, origin: Origin) -> _Rows:
    known = {**origin.columns(batch), **facts(batch, origin.options)}
    known["usage_quantity"] = quantities(batch.amounts(AMOUNT)[AMOUNT])
    fee = pc.cast(known.pop(FEE), TEXT)
    billed = money(batch, batch.amounts(COST)[COST], COST)
    parents, given = _credits(batch)
    types = given.text("type")
    offset = np.zeros(batch.rows, np.bool_)
    offset[parents.filter(one_of(types, [OFFSET])).to_numpy()] = True
    fee = pc.if_else(pa.array(offset), pa.scalar(None, TEXT), fee)
    known["pricing_category"] = _covered(known["pricing_category"], parents.filter(pc.is_valid(commitments_of_credits(types))))
    of_row = {name: values.take(parents) for name, values in known.items()}
    nothing = {name: pa.nulls(given.rows, known[name].type) for name in _OF_USAGE}
    of_credit = {**of_row, **nothing, "charge_category": one_text("Credit", given.rows), "line_type": types.dictionary_encode()}
    amounts = money(given, given.amounts("amount")["amount"], "credits.amount")
    return _Rows(batch, Money(billed, fee, known), Money(amounts, commitments_of_credits(types), of_credit), given, parents)


def _covered(pricing: pa.Array, rows: pa.Array) -> pa.Array:
    """How usage was priced, where a commitment's credits cover some of it."""
    if not len(rows):
        return pricing
    covered = np.zeros(len(pricing), np.bool_)
    covered[rows.to_numpy()] = True
    texts = pc.cast(pricing, TEXT)
    mine = pc.and_(pa.array(covered), one_of(texts, ["on-demand"]))
    return pc.if_else(mine, pa.scalar("committed"), texts).dictionary_encode()


def _credits(batch: RowBatch) -> tuple[pa.Array, RowBatch]:
    """The place of each credit's row, and the credits as rows, which are told by the row that they are of."""
    lists = batch.columns.get(CREDITS)
    if lists is None:
        lists = pa.nulls(batch.rows, pa.list_(pa.struct([("amount", pa.float64()), ("type", TEXT)])))
    parents, flat = pc.list_parent_indices(lists), pc.list_flatten(lists)
    names = [field.name for field in flat.type]
    columns = {name: plain_decimals(pc.struct_field(flat, name)) for name in _CREDIT_COLUMNS if name in names}
    return parents, RowBatch(batch.file, batch.first_row, len(parents), columns, parents.to_numpy())


def _credit_lines(rows: _Rows, of_rows: RowHashes, origin: Origin, commitments: Commitments) -> pa.Table:
    own = content_hashes(rows.credit_batch, _CREDIT_COLUMNS)
    hashes = joined_hashes(RowHashes(of_rows.words[rows.parents.to_numpy()]), own)
    types = rows.credit_batch.text("type")
    costs = credit_costs(rows.credits, types, origin.options, commitments)
    return parsed_lines({**rows.credits.known, "line_item_id": hashes.texts()}, hashes, costs)
