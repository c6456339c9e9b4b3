"""Rows of Google's detailed billing export into lines: each row is one, and each of its credits is one beside it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters.gcp_columns import AMOUNT, COST, CREDITS, GLOBAL_NAME, HASHED, MONEY, RESOURCE_NAME
from billing_adapters.gcp_commitments import FEE, OFFSET, Commitments, Money, commitments_of_credits
from billing_adapters.gcp_costs import credit_costs, row_costs
from billing_adapters.gcp_facts import facts, fees, grouping
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


def gcp_lines(
    read: Callable[[], Iterable[RowBatch]], origin: Origin, read_money: Callable[[], Iterable[RowBatch]] | None = None
) -> Iterator[pa.Table]:
    """All lines of a delivery, batch by batch (see ``parsed``).

    Args:
        read: gives the rows of the delivery.
        origin: what all its lines share.
        read_money: gives them once more, with the columns ``gcp_columns.MONEY`` or more, where fees of commitments are to be
            spread; by default ``read``.
    """
    commitments = Commitments(lambda: (_committed(batch, origin) for batch in (read_money or read)()))
    for read_batch in read():
        batch = read_batch.with_encoded((RESOURCE_NAME, GLOBAL_NAME))
        rows = _rows(batch, origin)
        hashes = content_hashes(batch, HASHED)
        yield parsed_lines(
            {**rows.rows.known, "line_item_id": hashes.texts()}, hashes, row_costs(rows.rows, batch, origin.options, commitments)
        )
        if len(rows.parents):
            yield _credit_lines(rows, hashes, origin, commitments)


def _committed(batch: RowBatch, origin: Origin) -> tuple[Money, Money]:
    """The fees of commitments, and the credits of what these covered: all else is left out."""
    parents, given = _credits(batch)
    types = given.text("type")
    covering = commitments_of_credits(types)
    fee = _unoffset(fees(batch), _offset(batch, parents, types))
    of_fees, of_credits = (pc.indices_nonzero(pc.is_valid(kinds)) for kinds in (fee, covering))
    fee_rows, credit_rows = batch.chosen(of_fees, MONEY), batch.chosen(parents.take(of_credits), MONEY)
    chosen = given.chosen(of_credits, ("amount",))
    paid = money(fee_rows, fee_rows.amounts(COST)[COST], COST)
    taken = money(chosen, chosen.amounts("amount")["amount"], "credits.amount")
    groups = [grouping(rows, origin.options) if rows.rows else {} for rows in (fee_rows, credit_rows)]
    return Money(paid, fee.take(of_fees), groups[0]), Money(taken, covering.take(of_credits), groups[1])


def _offset(batch: RowBatch, parents: pa.Array, types: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows have a credit that says how much of a fee was used."""
    offset = np.zeros(batch.rows, np.bool_)
    offset[parents.filter(one_of(types, [OFFSET])).to_numpy()] = True
    return offset


def _unoffset(fee: pa.Array, offset: npt.NDArray[np.bool_]) -> pa.Array:
    """The commitment that each row is the fee of, as plain texts, but of rows that an own credit offsets."""
    mask = pc.and_(pc.is_valid(fee.indices), pa.array(~offset))
    return pc.replace_with_mask(pa.nulls(len(fee), TEXT), mask, pc.cast(fee.filter(mask), TEXT))


def _rows(batch: RowBatch, origin: Origin) -> _Rows:
    known = {**origin.columns(batch), **facts(batch, origin.options)}
    known["usage_quantity"] = quantities(batch.amounts(AMOUNT)[AMOUNT])
    fee = known.pop(FEE)
    billed = money(batch, batch.amounts(COST)[COST], COST)
    parents, given = _credits(batch)
    types = given.text("type")
    fee = _unoffset(fee, _offset(batch, parents, types))
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
    words = [*pricing.dictionary.to_pylist(), "committed"]
    if "on-demand" not in words:
        return pricing
    codes = pc.fill_null(pricing.indices, len(words)).to_numpy().astype(np.int32)
    places = rows.to_numpy()
    codes[places[codes[places] == words.index("on-demand")]] = words.index("committed")
    absent = pricing.indices.is_null().to_numpy(zero_copy_only=False) if pricing.null_count else None
    distinct = words if words.index("committed") == len(words) - 1 else words[:-1]
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent), pa.array(distinct, TEXT))


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
