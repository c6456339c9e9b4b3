"""Rows of AWS bills, in any of their spellings, into lines: one reader for the legacy report and for CUR 2.0."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT, TIME
from billing_adapters.aws_columns import AMOUNT, HASHED, INVOICE, LINE_ID, RESOURCE, WANTED, ensure_readable, one_word
from billing_adapters.aws_costs import line_costs
from billing_adapters.aws_facts import STATES_MACHINE, facts
from billing_adapters.aws_resources import BLOCK, KIND, OWN_ID, RESERVATION_ID, resources
from billing_adapters.aws_scope import line_types
from billing_adapters.base import BillOptions, CapacityBlock, Delivery
from billing_adapters.files import FileStore
from billing_adapters.lines import Origin, machine_milliseconds, one_of, periods, quantities
from billing_adapters.parsed import parsed_lines
from billing_adapters.readers import has_column, read_batches
from billing_adapters.row_batches import RowBatch
from billing_adapters.row_ids import content_hashes

_TIMES = ("line_item_usage_start_date", "line_item_usage_end_date", "bill_billing_period_start_date")


_LONGEST_AHEAD = timedelta(days=366)


def aws_lines(store: FileStore, options: BillOptions, delivery: Delivery) -> Iterator[pa.Table]:
    """All lines of a delivery, batch by batch (see ``parsed``)."""
    origin = Origin(options, delivery.delivery_id)
    for name in delivery.files:
        for batch in read_batches(store, name, WANTED, ensure_readable, one_word):
            yield _lines(batch, origin)


def tells_invoices(store: FileStore, delivery: Delivery) -> bool:
    """Whether a file of the delivery has the column of invoices; one is enough."""
    return has_column(store, delivery.files, [INVOICE], one_word)


def _lines(batch: RowBatch, origin: Origin) -> pa.Table:
    """One batch as lines."""
    options = origin.options
    hashes = content_hashes(batch, HASHED)
    resource = resources(batch, options.capacity_blocks)
    known = facts(batch, resource, options)
    period = batch.by_distinct(_TIMES, lambda few: periods(few, *_TIMES))
    ids = batch.text(LINE_ID)
    ran_in = resource[RESERVATION_ID]
    if options.capacity_blocks:
        ran_in = _marked(batch, period, ran_in, options.capacity_blocks)
        period = _over_the_blocks(batch, resource, known, period, options.capacity_blocks)
    columns = {
        **origin.columns(batch),
        **known,
        **period,
        "line_item_id": pc.coalesce(ids, hashes.texts()) if ids.null_count else ids,
        "invoice_id": batch.encoded(INVOICE),
        "resource_id": batch.encoded(RESOURCE),
        "capacity_reservation": ran_in,
        "usage_quantity": quantities(batch.amounts(AMOUNT)[AMOUNT]),
    }
    columns["machine_ms"] = machine_milliseconds(columns["usage_quantity"], known[STATES_MACHINE], columns)
    return parsed_lines(columns, hashes, {metric: line_costs(batch, known, metric) for metric in options.costs})


def _over_the_blocks(
    batch: RowBatch,
    resource: dict[str, pa.Array],
    known: dict[str, pa.Array],
    period: dict[str, pa.Array],
    blocks: Sequence[CapacityBlock],
) -> dict[str, pa.Array]:
    """What was paid at once for a capacity block is of its whole time, not of the day of the purchase."""
    paid = pc.and_(one_of(_plain(resource[KIND]), [BLOCK]), pc.is_valid(_plain(known["pool"])))
    starts, ends = period["charge_period_start"], period["charge_period_end"]
    for block in blocks:
        mine = pc.and_(paid, one_of(_plain(resource[OWN_ID]), [block.reservation]))
        _ensure_near(batch, mine, period["charge_period_start"], block)
        starts = pc.if_else(mine, pa.scalar(block.start, TIME), starts)
        ends = pc.if_else(mine, pa.scalar(block.end, TIME), ends)
    return {**period, "charge_period_start": starts, "charge_period_end": ends}


def _ensure_near(batch: RowBatch, mine: pa.Array, starts: pa.Array, block: CapacityBlock) -> None:
    """A block's fee is paid before it ends, at most a year ahead: else its configured time is a slip, and money would be lost."""
    mine = pc.and_(mine, one_of(line_types(batch), ["Fee"]))
    over = pc.greater_equal(starts, pa.scalar(block.end, TIME))
    early = pc.less(starts, pa.scalar(block.start - _LONGEST_AHEAD, TIME))
    wrong = pc.and_(mine, pc.or_(over, early))
    if pc.any(wrong).as_py():
        index = pc.index(wrong, True).as_py()
        problem = (
            f"{block.reservation} is paid on {starts[index].as_py():%Y-%m-%d}, but billing.capacity_blocks says that it "
            f"runs from {block.start:%Y-%m-%dT%H:%MZ} to {block.end:%Y-%m-%dT%H:%MZ}"
        )
        raise batch.error(index, problem, "Correct the block's `from` and `until`.")


def _marked(batch: RowBatch, period: dict[str, pa.Array], ran_in: pa.Array, blocks: Sequence[CapacityBlock]) -> pa.Array:
    """The lines of machines that the configuration counts to a block, in its time, where the bill says nothing."""
    marked = _plain(ran_in)
    machine = pc.replace_substring_regex(pc.utf8_lower(batch.text(RESOURCE)), r"^.*/", "")
    starts, ends = period["charge_period_start"], period["charge_period_end"]
    for block in blocks:
        during = pc.and_(pc.less(starts, pa.scalar(block.end, TIME)), pc.greater(ends, pa.scalar(block.start, TIME)))
        mine = pc.and_(pc.and_(one_of(machine, block.machines), during), pc.is_null(marked))
        marked = pc.if_else(mine, pa.scalar(block.reservation, TEXT), marked)
    return marked


def _plain(texts: pa.Array) -> pa.Array:
    return pc.cast(texts, pa.string()) if pa.types.is_dictionary(texts.type) else texts
