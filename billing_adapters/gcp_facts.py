"""What the rows of Google's bill say by their repeated values alone: computed once for each combination of these.

Which of them are a machine's running time (R14), in Google's own words. Each SKU row of a machine is a line of that machine; how
long it ran, no quantity says, as they count GPUs, cores or bytes (R16).
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from allocation.schemas import TEXT
from billing_adapters.base import BillOptions
from billing_adapters.gcp_columns import (
    ACCOUNTING,
    END,
    GLOBAL_NAME,
    IDENTITY,
    MONTH,
    PLACING,
    RESOURCE_NAME,
    RULING,
    START,
    SYSTEM_LABELS,
)
from billing_adapters.gcp_commitments import FEE
from billing_adapters.lines import currencies, first_rule, one_of, one_text, periods, renamed, sure
from billing_adapters.record_columns import values_of_key
from billing_adapters.row_batches import RowBatch
from billing_adapters.units import ends_in_time

COMPUTE_ENGINE = "6F81-5844-456A"
_HAS, _IS_VM, _UNUSED, _OF_PART = "has_resource", "is_vm", "is_unused", "of_part"
_MACHINE, _RESERVED = "compute.googleapis.com/machine_spec", "compute.googleapis.com/is_unused_reservation"
_VM = r"^//compute\.googleapis\.com/projects/[^/]+/zones/[^/]+/instances/[^/]+$"
_DOLLAR_FEE, _RESOURCE_FEE = r"(?i)^commitment - dollar based", r"(?i)^commitment v\d+:"
_CATEGORIES = {"regular": "Usage", "tax": "Tax", "adjustment": "Adjustment", "rounding_error": "Adjustment"}
_SPOT = r"(?i)\b(spot|preemptible)\b"
_COMMITTED_SKU = r"(?i)\bcalendar mode\b"
_PARTS = {"gpu": r"(?i)\bgpus?\b", "core": r"(?i)\bcores?\b|\bcpus?\b", "memory": r"(?i)\bram\b"}


def facts(batch: RowBatch, options: BillOptions) -> dict[str, pa.Array]:
    """Columns of ``line_items`` by name, and what costs need beside (``FEE``)."""
    labels = _labels(batch)
    identity = _identities(batch)
    known = {**batch.columns, **labels, _HAS: _yes(pc.is_valid(identity["resource_id"])), _IS_VM: identity.pop(_IS_VM)}
    rows = RowBatch(batch.file, batch.first_row, batch.rows, known, batch.places)
    return {
        **rows.by_distinct(ACCOUNTING, lambda few: _accounts(few, options)),
        **rows.by_distinct((START, END, MONTH), _periods),
        **rows.by_distinct(PLACING, _regions),
        **rows.by_distinct((*RULING, _HAS, _IS_VM, _UNUSED), _rules),
        **identity,
        "instance_type": _encoded(labels[_MACHINE]),
        "provider": one_text("gcp", batch.rows),
    }


def grouping(batch: RowBatch, options: BillOptions) -> dict[str, pa.Array]:
    """The columns of ``facts`` that fees and credits of commitments are grouped by, without the rest."""
    return {
        **batch.by_distinct(ACCOUNTING, lambda few: _accounts(few, options)),
        **batch.by_distinct((START, END, MONTH), _periods),
        **batch.by_distinct(PLACING, _regions),
    }


def fees(batch: RowBatch) -> pa.Array:
    """The commitment that each row is the fee of, by its SKU; null for other rows."""
    found: pa.Array = batch.by_distinct(("sku.description",), lambda few: {FEE: _fees(few.text("sku.description"))})[FEE]
    return found


def _fees(sku: pa.Array) -> pa.Array:
    rules = [(_DOLLAR_FEE, "dollar"), (_RESOURCE_FEE, "resource")]
    return first_rule(len(sku), [(sure(pc.match_substring_regex(sku, pattern)), name) for pattern, name in rules])


def _labels(batch: RowBatch) -> dict[str, pa.Array]:
    """The machine's type, and whether the row is of a reservation that nobody used."""
    lists = batch.columns.get(SYSTEM_LABELS)
    if lists is None:
        nothing = pa.nulls(batch.rows, TEXT)
        return {_MACHINE: nothing, _UNUSED: nothing}
    machine, unused = values_of_key(lists, (_MACHINE, _RESERVED))
    return {_MACHINE: machine, _UNUSED: unused}


def _encoded(texts: pa.Array) -> pa.Array:
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def _yes(mask: pa.Array) -> pa.Array:
    return pc.if_else(mask, pa.scalar("yes"), pa.scalar(None, TEXT))


def _accounts(batch: RowBatch, options: BillOptions) -> Mapping[str, pa.Array]:
    return {
        "currency": currencies(batch, "currency", options.currency),
        "billing_account": batch.required("billing_account_id"),
        "sub_account": batch.text("project.id"),
    }


def _periods(batch: RowBatch) -> Mapping[str, pa.Array]:
    """The row's own hours in UTC, and the month of its invoice, which is of Pacific time and of the row's own choice."""
    months = batch.required(MONTH)
    readable = pc.match_substring_regex(months, r"^20\d{2}(0[1-9]|1[0-2])$")
    if not pc.all(readable).as_py():
        index = pc.index(readable, False).as_py()
        raise batch.error(index, f"{MONTH}: {months[index].as_py()!r} is no month such as 202610", "Correct the export.")
    first = pc.replace_substring_regex(months, r"^(\d{4})(\d{2})$", r"\1-\2-01")
    dated = RowBatch(batch.file, batch.first_row, batch.rows, {**batch.columns, MONTH: first}, batch.places)
    return periods(dated, START, END, MONTH)


def _regions(batch: RowBatch) -> Mapping[str, pa.Array]:
    return {"region": pc.coalesce(batch.text("location.region"), batch.text("location.location"))}


def is_machine_usage(batch: RowBatch) -> pa.Array:
    """Where a row is of a machine's GPUs, cores or memory by its SKU, whatever its resource."""
    sku = batch.text("sku.description")
    fee = sure(pc.match_substring_regex(sku, r"(?i)^commitment\b"))
    regular = pc.and_(one_of(batch.text("cost_type"), ["regular"]), one_of(batch.text("service.id"), [COMPUTE_ENGINE]))
    return pc.and_(pc.and_(regular, pc.is_valid(_parts(sku))), pc.invert(fee))


def _identities(batch: RowBatch) -> dict[str, pa.Array]:
    """See ``_identity``. Rows without a global name are told apart by whether their SKU is a part of a machine."""
    unnamed = pc.is_null(batch.encoded(GLOBAL_NAME).indices)
    places = pc.indices_nonzero(unnamed)
    if not len(places):
        return batch.by_distinct(IDENTITY, _identity)
    skus = batch.chosen(places, ("sku.description",))
    parts = skus.by_distinct(skus.columns, lambda few: {_OF_PART: _parts(few.text("sku.description"))})[_OF_PART]
    told = pc.replace_with_mask(pa.nulls(batch.rows, TEXT), unnamed, pc.cast(parts, TEXT))
    rows = RowBatch(batch.file, batch.first_row, batch.rows, {**batch.columns, _OF_PART: told}, batch.places)
    return rows.by_distinct((*IDENTITY, _OF_PART), _identity)


def _identity(batch: RowBatch) -> Mapping[str, pa.Array]:
    """The resource as delivered, the key of the machine that it is, and whether it is one.

    A machine is named by project, zone and name, as its provider id in Kubernetes; the number in its global name is not there.
    Without a global name it is one by its path or by what the SKU counts: its boot disk has its name too.
    """
    name, whole = batch.text(RESOURCE_NAME), batch.text(GLOBAL_NAME)
    compute = one_of(batch.text("service.id"), [COMPUTE_ENGINE])
    told = sure(pc.match_substring_regex(whole, _VM))
    zone = batch.text("location.zone")
    if zone.null_count:
        zone = pc.coalesce(zone, pc.struct_field(pc.extract_regex(whole, r"/zones/(?P<zone>[^/]+)/"), "zone"))
    like_one = pc.or_(pc.is_valid(batch.text(_OF_PART)), sure(pc.match_substring(name, "/instances/")))
    unnamed = pc.and_(pc.and_(pc.is_null(whole), compute), pc.and_(pc.is_valid(zone), like_one))
    has_path = pc.any(pc.match_substring(name, "/")).as_py()
    short = pc.replace_substring_regex(name, r"^.*/", "") if has_path else name
    key = pc.utf8_lower(pc.binary_join_element_wise("gce:", batch.text("project.id"), "/", zone, "/", short, ""))
    is_vm = pc.and_(pc.or_(told, unnamed), pc.is_valid(key))
    resource = pc.coalesce(whole, name)
    return {"resource_id": resource, "node_key": pc.if_else(is_vm, key, pc.utf8_lower(resource)), _IS_VM: _yes(is_vm)}


def _rules(batch: RowBatch) -> Mapping[str, pa.Array]:
    """What is ruled by a row's SKU, unit and type, and by the kind of its resource."""
    sku, cost_type = batch.text("sku.description"), batch.required("cost_type")
    fee = _fees(sku)
    is_vm = pc.is_valid(batch.text(_IS_VM))
    return {
        "line_type": cost_type,
        "charge_category": _categories(batch, cost_type, fee),
        "is_correction": pc.or_(pc.is_valid(batch.text("adjustment_info.id")), one_of(cost_type, ["adjustment"])),
        "pricing_category": _pricing(batch, sku, fee),
        "service": pc.coalesce(batch.text("service.description"), batch.text("service.id")),
        "usage_type": sku,
        "usage_unit": batch.text("usage.unit"),
        "machine_part": pc.if_else(is_vm, _parts(sku), pa.scalar(None, TEXT)),
        "scope_rule": _scope_rules(batch),
        FEE: fee,
    }


def _categories(batch: RowBatch, cost_type: pa.Array, fee: pa.Array) -> pa.Array:
    known = renamed(cost_type, _CATEGORIES)
    if known.null_count:
        index = pc.index(pc.is_null(known), True).as_py()
        problem = f"cost_type: {cost_type[index].as_py()!r} is none of {', '.join(_CATEGORIES)}"
        raise batch.error(index, problem, "Correct the export.")
    return pc.if_else(pc.and_(pc.equal(known, "Usage"), pc.is_valid(fee)), "Purchase", known)


def _pricing(batch: RowBatch, sku: pa.Array, fee: pa.Array) -> pa.Array:
    """How usage was priced: by the SKU for spot and calendar mode, by the consumption model for spend-based commitments."""
    model = batch.text("consumption_model.description")
    committed = pc.or_(
        sure(pc.match_substring_regex(sku, _COMMITTED_SKU)), pc.and_(pc.is_valid(model), pc.invert(one_of(model, ["Default"])))
    )
    usage = pc.and_(one_of(batch.text("cost_type"), ["regular"]), pc.is_null(fee))
    spot = sure(pc.match_substring_regex(sku, _SPOT))
    rules = [(pc.and_(usage, spot), "spot"), (pc.and_(usage, committed), "committed"), (usage, "on-demand")]
    return first_rule(batch.rows, rules)


def _parts(sku: pa.Array) -> pa.Array:
    return first_rule(len(sku), [(sure(pc.match_substring_regex(sku, pattern)), part) for part, pattern in _PARTS.items()])


def _scope_rules(batch: RowBatch) -> pa.Array:
    """Why a row is not split even if its resource is a node; null where it may be.

    A correction of usage, and a credit of it, are ruled as that usage; what counts nothing (a tax) is not asked for its unit.
    """
    units = [batch.text("usage.unit"), batch.text("usage.pricing_unit")]
    timed = pc.or_(*[ends_in_time(unit) for unit in units])
    counted = pc.or_(one_of(batch.text("cost_type"), ["regular"]), pc.is_valid(units[0]))
    return first_rule(
        batch.rows,
        [
            (pc.is_null(batch.text(_HAS)), "no_resource"),
            (one_of(batch.text(_UNUSED), ["true"]), "reserved_unused"),
            (pc.and_(counted, pc.invert(one_of(batch.text("service.id"), [COMPUTE_ENGINE]))), "service_not_compute"),
            (pc.and_(counted, pc.invert(timed)), "unit_not_time"),
        ],
    )
