"""Which lines of Azure's cost exports are a machine's running time, and of which dataset they can only be (R14, R16).

Asked once for each combination of values, see ``azure_lines``. The words for types of line are FOCUS'.
"""

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.azure_columns import BENEFIT, CATEGORY, CHARGE, METER, PRICING, RESERVATION, RESOURCE, SERVICE, UNIT
from billing_adapters.azure_resources import USAGE_KIND
from billing_adapters.lines import first_rule, one_of, renamed, sure
from billing_adapters.row_batches import RowBatch
from billing_adapters.units import ends_in_time

UNUSED_CHARGES = ("UnusedReservation", "UnusedSavingsPlan")
_CATEGORIES = {
    "usage": "Usage",
    **{name.lower(): "Usage" for name in UNUSED_CHARGES},
    "purchase": "Purchase",
    "tax": "Tax",
}
_MACHINES = ("Virtual Machines", "Virtual Machines Licenses", "Virtual Machine Licenses")
_COMMITTED = ("Reservation", "SavingsPlan")
_HOURS = r"(?i)^\s*\d*\s*(hours?|hrs?)\s*$"
_SPOT = r"(?i)(^|\s)(spot|low priority)(\s|$)"


def charge_types(batch: RowBatch) -> pa.Array:
    """The type of each line as delivered; files without the column hold usage alone."""
    return batch.required(CHARGE) if CHARGE.lower() in batch.columns else pa.repeat(pa.scalar("Usage"), batch.rows)


def charge_categories(batch: RowBatch) -> pa.Array:
    """FOCUS' word for a type of line; refunds, roundings and what is not known adjust other lines."""
    return pc.coalesce(renamed(charge_types(batch), _CATEGORIES), "Adjustment")


def is_usage(batch: RowBatch) -> pa.Array:
    """Lines of what was used, however it was paid for."""
    return one_of(charge_types(batch), ["Usage"])


def is_machine(batch: RowBatch) -> pa.Array:
    """Lines of virtual machines and of the licences that run on them."""
    compute = pc.or_(pc.is_null(batch.text(SERVICE)), one_of(batch.text(SERVICE), ["Microsoft.Compute"]))
    return pc.and_(compute, one_of(batch.text(CATEGORY), _MACHINES))


def pricing_categories(batch: RowBatch) -> pa.Array:
    """How a usage line was priced; null for other lines, and where an older export does not say it.

    Of the meter's name the batch has ``spot_words`` only.
    """
    usage = pc.equal(charge_categories(batch), "Usage")
    model = batch.text(PRICING)
    silent = pc.is_null(model)
    covered = pc.and_(silent, pc.is_valid(batch.text(RESERVATION)))
    spot = pc.and_(silent, pc.is_valid(batch.text(METER)))
    rules = [
        (pc.or_(one_of(model, _COMMITTED), covered), "committed"),
        (pc.or_(one_of(model, ["Spot"]), spot), "spot"),
        (one_of(model, ["OnDemand"]), "on-demand"),
    ]
    return first_rule(batch.rows, [(pc.and_(usage, mask), name) for mask, name in rules])


def spot_words(meters: pa.Array) -> pa.Array:
    """A word where a meter's name is one of spot machines, else null."""
    return pc.if_else(sure(pc.match_substring_regex(meters, _SPOT)), pa.scalar("spot"), pa.scalar(None, pa.string()))


def scope_rules(batch: RowBatch) -> pa.Array:
    """Why a row is not split even if its resource is a node; null where it may be.

    ``ComputeCR`` is a capacity reservation that no machine ran in. A file without units counts machines in hours, as all do.
    """
    usage = is_usage(batch)
    unused = pc.or_(one_of(charge_types(batch), UNUSED_CHARGES), pc.and_(usage, one_of(batch.text(USAGE_KIND), ["ComputeCR"])))
    timed = ends_in_time(batch.text(UNIT)) if UNIT.lower() in batch.columns else is_machine(batch)
    return first_rule(
        batch.rows,
        [
            (unused, "reserved_unused"),
            (pc.is_null(batch.text(RESOURCE)), "no_resource"),
            (pc.and_(usage, pc.invert(is_machine(batch))), "service_not_compute"),
            (pc.and_(usage, pc.invert(timed)), "unit_not_time"),
        ],
    )


def states_machine(batch: RowBatch) -> pa.Array:
    """Lines whose quantity is how long their machine ran: in hours, also where the unit is ``10 Hours`` or ``100 Hours``."""
    hours = pa.repeat(True, batch.rows)
    if UNIT.lower() in batch.columns:
        hours = sure(pc.match_substring_regex(batch.text(UNIT), _HOURS))
    running = pc.and_(is_usage(batch), one_of(batch.text(CATEGORY), _MACHINES[:1]))
    return pc.and_(pc.and_(running, hours), pc.is_null(scope_rules(batch)))


def only_amortized(batch: RowBatch) -> pa.Array:
    """Lines that only a dataset of amortized costs has."""
    return one_of(charge_types(batch), UNUSED_CHARGES)


def only_actual(batch: RowBatch) -> pa.Array:
    """Lines that only a dataset of actual costs has: a commitment that was bought."""
    committed = pc.or_(one_of(batch.text(PRICING), _COMMITTED), pc.is_valid(batch.text(RESERVATION)))
    return pc.and_(one_of(charge_types(batch), ["Purchase"]), pc.or_(committed, pc.is_valid(batch.text(BENEFIT))))
