"""Which machine a line of Azure names, and what its additional information says: once for each resource and information.

A scale set's lines name the set; the machine is told beside it, as ``<set>_<instance>`` or by its computer's name. The key is
the path that a node's provider id has. Both kinds of export need this, Azure's own and FOCUS.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.node_keys import node_keys
from allocation.schemas import TEXT
from billing_adapters.azure_columns import INFO, RESOURCE
from billing_adapters.lines import sure
from billing_adapters.row_batches import RowBatch

NODE_KEY, MACHINE_TYPE, USAGE_KIND, RAN_IN = "node_key", "service_type", "usage_kind", "ran_in"
VM_NAMES = ("VMName", "VmName", "x_VMName")

_SET = r"^(?P<group>/subscriptions/.*/microsoft\.compute/)virtualmachinescalesets/(?P<set>[^/]+)$"
_INSTANCE = r"^(?P<set>.*)_(?P<rest>[0-9]+|[0-9a-f]{8})$"
"""Split at the last ``_``: a set's name may have some."""
_FLEXIBLE_LENGTH = 8
"""Of the end of a machine's name in a flexible set; the numbers of a uniform set are far shorter."""
_COMPUTER = r"^(?P<set>.+)(?P<rest>[0-9a-z]{6})$"
_ZERO_ID = r"^[0-]+$"
_BASE = 36


def resources(batch: RowBatch) -> dict[str, pa.Array]:
    """By row: the machine's key, its type, the kind of usage (``ComputeHR``) and the capacity reservation it ran in."""
    return batch.by_distinct((RESOURCE, INFO), _of_each)


def _of_each(few: RowBatch) -> dict[str, pa.Array]:
    name = pc.coalesce(*[few.nested(INFO, key) for key in VM_NAMES])
    return {
        NODE_KEY: machine_keys(few.encoded(RESOURCE), name),
        MACHINE_TYPE: few.nested(INFO, "ServiceType"),
        USAGE_KIND: few.nested(INFO, "UsageType"),
        RAN_IN: own_ids(pc.utf8_lower(few.nested(INFO, "VMCapacityReservationId"))),
    }


def own_ids(ids: pa.Array) -> pa.Array:
    """The same ids without those that are all zeros, which some exports write for none."""
    return pc.if_else(sure(pc.match_substring_regex(ids, _ZERO_ID)), pa.scalar(None, TEXT), ids)


def machine_keys(resources: pa.Array, names: pa.Array) -> pa.Array:
    """The join key of each resource; a scale set with the name of one of its machines becomes that machine.

    >>> vmss = "subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachineScaleSets/a_b"
    >>> names = pa.array(["a_b_12", "a_b00000c", "a_b_0a1b2c3d", None])
    >>> for key in machine_keys(pa.array([vmss] * 4), names).to_pylist():
    ...     print(key.partition("microsoft.compute")[2])
    /virtualmachinescalesets/a_b/virtualmachines/12
    /virtualmachinescalesets/a_b/virtualmachines/12
    /virtualmachines/a_b_0a1b2c3d
    /virtualmachinescalesets/a_b
    """
    encoded = resources if pa.types.is_dictionary(resources.type) else resources.dictionary_encode()
    few = node_keys(pc.utf8_rtrim(encoded.dictionary, "/"))
    parts = pc.extract_regex(few, _SET)
    keys = few.take(encoded.indices)
    if parts.null_count == len(parts):
        return keys
    own, group = (pc.struct_field(parts, name).take(encoded.indices) for name in ("set", "group"))
    names = pc.utf8_lower(names)
    rest = _behind(names, own, _INSTANCE)
    flexible = sure(pc.equal(pc.utf8_length(rest), _FLEXIBLE_LENGTH))
    found = pc.binary_join_element_wise(keys, "virtualmachines", rest, "/")
    if pc.any(flexible).as_py():
        by_name = pc.binary_join_element_wise(group, "virtualmachines/", names, "")
        found = pc.if_else(flexible, by_name, found)
    computers = pc.and_(pc.and_(pc.is_valid(own), pc.is_valid(names)), pc.is_null(rest))
    if pc.any(computers).as_py():
        number = _computers(names, own)
        found = pc.if_else(computers, pc.binary_join_element_wise(keys, "virtualmachines", number, "/"), found)
    return pc.coalesce(found, keys)


def _behind(names: pa.Array, sets: pa.Array, pattern: str) -> pa.Array:
    """What stands behind the set's name; null where the name is not of that set."""
    parts = pc.extract_regex(names, pattern)
    mine = sure(pc.equal(pc.struct_field(parts, "set"), sets))
    return pc.if_else(mine, pc.struct_field(parts, "rest"), pa.scalar(None, TEXT))


def _computers(names: pa.Array, sets: pa.Array) -> pa.Array:
    """The instance by a computer's name: the set's name and the number to the base 36 in six places."""
    digits = _behind(names, sets, _COMPUTER)
    known = digits.drop_null()
    if not len(known):
        return digits
    octets = np.frombuffer("".join(known.to_pylist()).encode(), np.uint8).reshape(len(known), 6).astype(np.int64)
    values = np.where(octets >= ord("a"), octets - ord("a") + 10, octets - ord("0"))
    numbers = pc.cast(pa.array(values @ (_BASE ** np.arange(5, -1, -1))), TEXT)
    return pc.replace_with_mask(digits, pc.is_valid(digits), numbers)
