"""Which lines of AWS bills are a machine's running time, and which several machines pay for together (R14, R16).

Asked once for each combination of values, see ``aws_facts``. The words for types of line are FOCUS'.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters.aws_columns import PARENT
from billing_adapters.aws_resources import BLOCK, CLUSTER, IN_RESERVATION, KIND, MACHINE, OWN_ID
from billing_adapters.base import CapacityBlock
from billing_adapters.lines import first_rule, one_of, renamed, sure
from billing_adapters.row_batches import RowBatch
from billing_adapters.units import plain_hours

USAGE_LINES = ("Usage", "SavingsPlanCoveredUsage", "DiscountedUsage")
COMMITTED_LINES = USAGE_LINES[1:]
_USAGE_TYPES = r"(?:^|-)(?:BoxUsage|SpotUsage|DedicatedUsage)"
INSTANCE_TYPE = _USAGE_TYPES + r":(?P<type>[a-z0-9.-]+)$"
"""The machine type at the end of a usage type of AWS, which its FOCUS exports have too."""
_UNUSED_TYPES = r"(^|-)(UnusedBox|UnusedDed|Reservation|DedicatedRes)(:|$)"
_HYPERPOD = r"Cluster:(?P<type>ml\.[a-z0-9.-]+)$"
_SPLIT_OPERATIONS = ("EKSPod-EC2", "ECSTask-EC2")
_CATEGORIES = {
    **{name.lower(): "Usage" for name in USAGE_LINES},
    "tax": "Tax",
    "credit": "Credit",
    "fee": "Purchase",
    "rifee": "Purchase",
    "savingsplanupfrontfee": "Purchase",
    "savingsplanrecurringfee": "Purchase",
}


def line_types(batch: RowBatch) -> pa.Array:
    """The type of each line as delivered."""
    return batch.text("line_item_line_item_type")


def is_usage(batch: RowBatch) -> pa.Array:
    """Lines of usage, however they were paid for."""
    return one_of(line_types(batch), USAGE_LINES)


def charge_categories(batch: RowBatch) -> pa.Array:
    """FOCUS' word for a type of line; refunds, discounts, negations and what is not known adjust other lines."""
    return pc.coalesce(renamed(line_types(batch), _CATEGORIES), "Adjustment")


def pricing_categories(batch: RowBatch) -> pa.Array:
    """How a usage line was priced; null for other lines."""
    line_type = line_types(batch)
    spot = sure(pc.match_substring_regex(batch.text("line_item_usage_type"), r"(^|-)SpotUsage(:|$)"))
    usage = one_of(line_type, ["Usage"])
    rules = [(one_of(line_type, COMMITTED_LINES), "committed"), (pc.and_(usage, spot), "spot"), (usage, "on-demand")]
    return first_rule(batch.rows, rules)


def is_split_copy(batch: RowBatch) -> pa.Array:
    """Rows that repeat a part of an instance's row for a pod or task (split cost allocation data)."""
    parent = pc.is_valid(batch.text(PARENT))
    return pc.or_(parent, one_of(batch.text("line_item_operation"), _SPLIT_OPERATIONS))


def scope_rules(batch: RowBatch) -> pa.Array:
    """Why a row is not split even if its resource is a node; null where it may be."""
    usage = is_usage(batch)
    unused_type = sure(pc.match_substring_regex(batch.text("line_item_usage_type"), _UNUSED_TYPES))
    unused_status = one_of(batch.text("capacity_reservation_capacity_reservation_status"), ["Unused"])
    unused = pc.and_(usage, pc.or_(unused_type, unused_status))
    paid_at_once = pc.and_(pc.invert(usage), one_of(batch.text(KIND), [IN_RESERVATION]))
    machine = pc.or_(_is_instance(batch), _is_hyperpod(batch))
    return first_rule(
        batch.rows,
        [
            (pc.is_null(batch.text("line_item_resource_id")), "no_resource"),
            (is_split_copy(batch), "split_copy"),
            (pc.or_(unused, unused_type), "reserved_unused"),
            (paid_at_once, "capacity_block"),
            (pc.and_(usage, pc.invert(machine)), "usage_not_instance"),
        ],
    )


def states_machine(batch: RowBatch) -> pa.Array:
    """Lines whose amount is how long the one machine that they name ran."""
    one_machine = pc.or_(_is_instance(batch), pc.and_(_is_hyperpod(batch), one_of(batch.text(KIND), [MACHINE])))
    hours = pc.and_(plain_hours(batch.text("pricing_unit")), is_usage(batch))
    return pc.and_(pc.and_(one_machine, hours), pc.is_null(scope_rules(batch)))


def pools(batch: RowBatch) -> pa.Array:
    """What the machines that pay for a line have in common, where it names no single one; null else."""
    own, kind = batch.text(OWN_ID), batch.text(KIND)
    block = pc.and_(one_of(kind, [BLOCK]), pc.invert(is_usage(batch)))
    cluster = pc.and_(one_of(kind, [CLUSTER]), _is_hyperpod(batch))
    prefix = first_rule(batch.rows, [(block, "reservation:"), (cluster, "hyperpod:")])
    return pc.binary_join_element_wise(prefix, own, "")


def pool_sizes(batch: RowBatch, blocks: Sequence[CapacityBlock]) -> pa.Array:
    """How many machines a capacity block has; null for other lines."""
    names = pa.array([f"reservation:{block.reservation}" for block in blocks], TEXT)
    sizes = pa.array([block.instances for block in blocks], pa.int64())
    return sizes.take(pc.index_in(pools(batch), value_set=names, skip_nulls=True))


def instance_types(batch: RowBatch, told: pa.Array) -> pa.Array:
    """The machine type: of HyperPod and where nothing tells it, by the usage type."""
    usage_type = batch.text("line_item_usage_type")
    pod, box = (pc.struct_field(pc.extract_regex(usage_type, regex), "type") for regex in (_HYPERPOD, INSTANCE_TYPE))
    return pc.coalesce(pc.if_else(_is_hyperpod(batch), pod, pa.scalar(None, TEXT)), told, box)


def _is_instance(batch: RowBatch) -> pa.Array:
    runs = sure(pc.match_substring_regex(batch.text("line_item_usage_type"), _USAGE_TYPES + "(:|$)"))
    return pc.and_(runs, one_of(batch.text("line_item_product_code"), ["AmazonEC2"]))


def _is_hyperpod(batch: RowBatch) -> pa.Array:
    cluster = sure(pc.match_substring_regex(batch.text("line_item_usage_type"), _HYPERPOD))
    return pc.and_(cluster, one_of(batch.text("line_item_product_code"), ["AmazonSageMaker"]))
