"""What the resource of an AWS line is: a capacity reservation or block, a HyperPod cluster, a machine, or anything else.

Computed once for each distinct resource. What follows from it for the line is ``aws_scope``'s.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters.aws_columns import RAN_IN, RESOURCE
from billing_adapters.base import CapacityBlock
from billing_adapters.lines import first_rule, sure
from billing_adapters.row_batches import RowBatch

KIND, OWN_ID, RESERVATION_ID = "resource_kind", "resource_own_id", "capacity_reservation_id"
NONE, BLOCK, IN_RESERVATION, CLUSTER, MACHINE, OTHER = "none", "block", "reservation", "cluster", "machine", "other"

_RESERVATION = r"(?:^|:)capacity-reservation/(cr-[^/]+)$|^(cr-[0-9a-z]+)$"
_MACHINE = r"(?:^|/)i-[0-9a-z]+$"
_CLUSTER = r"^arn:[^:]+:sagemaker:[^:]*:[^:]*:cluster/([^/]+)$"


def resources(batch: RowBatch, blocks: Sequence[CapacityBlock]) -> dict[str, pa.Array]:
    """By row: the kind of its resource, that one's own id, and the capacity reservation that it is of or ran in."""
    return batch.by_distinct((RESOURCE, RAN_IN), lambda few: _of_each(few, [block.reservation for block in blocks]))


def _of_each(batch: RowBatch, blocks: Sequence[str]) -> Mapping[str, pa.Array]:
    resource = pc.utf8_lower(batch.text(RESOURCE))
    reserved = pc.match_substring_regex(resource, _RESERVATION)
    cluster = pc.match_substring_regex(resource, _CLUSTER)
    tail = pc.replace_substring_regex(resource, r"^.*/", "")
    own = pc.if_else(sure(pc.or_(reserved, cluster)), tail, pa.scalar(None, TEXT))
    known = pc.is_in(own, value_set=pa.array(blocks, TEXT))
    kinds = [
        (pc.is_null(resource), NONE),
        (pc.and_(sure(reserved), known), BLOCK),
        (sure(reserved), IN_RESERVATION),
        (sure(cluster), CLUSTER),
        (sure(pc.match_substring_regex(resource, _MACHINE)), MACHINE),
        (pc.is_valid(resource), OTHER),
    ]
    ran_in = pc.replace_substring_regex(pc.utf8_lower(batch.text(RAN_IN)), r"^.*/", "")
    of_resource = pc.if_else(sure(reserved), tail, pa.scalar(None, TEXT))
    return {KIND: first_rule(batch.rows, kinds), OWN_ID: own, RESERVATION_ID: pc.coalesce(of_resource, ran_in)}
