"""Which FOCUS rows are a machine's running time: the rules of R14 and R16 in FOCUS' own words."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.lines import first_rule, machine_milliseconds, one_of
from billing_adapters.row_batches import RowBatch
from billing_adapters.units import ends_in_time, names_part_of_machine, plain_hours


def scope_rules(batch: RowBatch, charge_category: pa.Array) -> pa.Array:
    """Why a row is not split even if its resource is a node; null where it may be.

    A commitment or reservation that nobody used is named by its status. Credits, adjustments, taxes and purchases on a
    resource may always be split; usage only where it is compute and counted in time.
    """
    usage = pc.equal(charge_category, "Usage")
    category = batch.text("ServiceCategory")
    compute = pc.or_(pc.is_null(category), one_of(category, ["Compute"]))
    timed = pc.or_(ends_in_time(batch.text("ConsumedUnit")), ends_in_time(batch.text("PricingUnit")))
    unused = [one_of(batch.text(name), ["Unused"]) for name in ("CommitmentDiscountStatus", "CapacityReservationStatus")]
    allocated = [pc.is_valid(batch.text(name)) for name in ("AllocatedMethodId", "AllocatedResourceId")]
    return first_rule(
        batch.rows,
        [
            (pc.is_null(batch.text("ResourceId")), "no_resource"),
            (pc.or_(*allocated), "provider_split"),
            (pc.or_(*unused), "reserved_unused"),
            (pc.and_(usage, pc.invert(compute)), "service_not_compute"),
            (pc.and_(usage, pc.invert(timed)), "unit_not_time"),
        ],
    )


def machine_time(batch: RowBatch, columns: Mapping[str, pa.Array]) -> pa.Array:
    """How long the machine ran by each row, in ms, where its quantity says so.

    Only AWS and Azure count hours of machines; elsewhere, and for rows of accelerators, cores or memory, hours are of
    parts.
    """
    may_be_split = pc.and_(pc.equal(columns["charge_category"], "Usage"), pc.is_null(columns["scope_rule"]))
    knows = one_of(columns["provider"], ["aws", "azure"])
    part = pc.or_(names_part_of_machine(batch.text("ServiceName")), names_part_of_machine(batch.text("SkuMeter")))
    hours = pc.and_(plain_hours(columns["usage_unit"]), pc.invert(part))
    states_machine = pc.and_(pc.and_(may_be_split, knows), hours)
    return machine_milliseconds(columns["usage_quantity"], states_machine, columns)
