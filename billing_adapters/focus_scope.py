"""Which FOCUS rows are a machine's running time: the rules of R14 and R16 in FOCUS' own words."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from allocation.split_rows import PROVIDER_SPLIT
from billing_adapters.lines import first_rule, machine_milliseconds, one_of
from billing_adapters.row_batches import RowBatch
from billing_adapters.units import ends_in_time, names_part_of_machine, plain_hours

_STATUSES = ("CommitmentDiscountStatus", "CapacityReservationStatus")
_ALLOCATED = ("AllocatedMethodId", "AllocatedResourceId")
SCOPE_COLUMNS = ("ChargeCategory", "ServiceCategory", "ServiceName", "SkuMeter", "ConsumedUnit", "PricingUnit", *_STATUSES)
"""The columns by which ``scope_rules`` decides."""


def scope_rules(batch: RowBatch, category: pa.Array, provider: pa.Array, unit: pa.Array) -> dict[str, pa.Array]:
    """Why a row is not split even if its resource is a node (``scope_rule``; null where it may be), and ``states_machine``.

    A commitment or reservation that nobody used is named by its status. Credits, adjustments, taxes and purchases on a
    resource may always be split; usage only where it is compute and counted in time.

    A quantity states a machine's time where it is hours of usage: only AWS and Azure count hours of machines; elsewhere,
    and for rows of accelerators, cores or memory, hours are of parts.
    """
    usage = pc.equal(category, "Usage")
    service_category = batch.text("ServiceCategory")
    compute = pc.or_(pc.is_null(service_category), one_of(service_category, ["Compute"]))
    timed = pc.or_(ends_in_time(batch.text("ConsumedUnit")), ends_in_time(batch.text("PricingUnit")))
    rule = first_rule(
        batch.rows,
        [
            (pc.or_(*[one_of(batch.text(name), ["Unused"]) for name in _STATUSES]), "reserved_unused"),
            (pc.and_(usage, pc.invert(compute)), "service_not_compute"),
            (pc.and_(usage, pc.invert(timed)), "unit_not_time"),
        ],
    )
    part = pc.or_(names_part_of_machine(batch.text("ServiceName")), names_part_of_machine(batch.text("SkuMeter")))
    hours = pc.and_(plain_hours(unit), pc.invert(part))
    return {"scope_rule": rule, "states_machine": pc.and_(pc.and_(usage, hours), one_of(provider, ["aws", "azure"]))}


def split_rules(batch: RowBatch, rule: pa.Array, resources: pa.Array) -> pa.Array:
    """The rules with those that need a row's own resource: first that it has none, last that a provider split it."""
    allocated = [pc.is_valid(batch.text(name)) for name in _ALLOCATED if name.lower() in batch.columns]
    if not allocated and not resources.null_count:
        return rule
    rule = pc.if_else(pc.is_null(resources), "no_resource", pc.cast(rule, pa.string()))
    for mask in allocated:
        rule = pc.if_else(pc.and_(mask, pc.is_null(rule)), PROVIDER_SPLIT, rule)
    return rule


def machine_time(states_machine: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Array:
    """How long the machine ran by each row that may be split, in ms, where its quantity says so.

    A correction's quantity is a difference, or a repetition: it says nothing of a machine's time.
    """
    own = pc.invert(columns["is_correction"])
    states = pc.and_(pc.and_(states_machine, own), pc.is_null(columns["scope_rule"]))
    return machine_milliseconds(columns["usage_quantity"], states, columns)
