"""What stands in each column of FOCUS, from rows of ``chargeback``, their lines and their parts of them.

A column that neither tells stays null (``docs/focus-export.md``). Here does not belong which columns a version has.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import column_nanos
from allocation.schemas import TIME
from pipelines.focus_export.json_text import method_details, tags

METHOD_ID = "gpu-chargeback/memory-seconds/1"
COSTS = {"billed": "BilledCost", "effective": "EffectiveCost", "contracted": "ContractedCost", "list": "ListCost"}
_PROVIDERS = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Microsoft"}
_PRICING = {"on-demand": "Standard", "spot": "Dynamic", "committed": "Committed"}
_NOBODY = "unallocated"
_AS_THEY_ARE = {
    "x_Basis": "basis", "x_Bucket": "bucket", "x_CostCenter": "cost_center", "x_CostMetric": "cost_metric",
    "x_Coverage": "coverage",
    "x_GpuInstance": "gpu_instance", "x_GpuModel": "gpu_model", "x_GpuUuid": "gpu_uuid", "x_IdleCost": "idle_cost",
    "x_IdleGibSeconds": "idle_gib_seconds", "x_ImputedSeconds": "imputed_seconds", "x_InstanceType": "instance_type",
    "x_LineItemId": "line_item_id", "x_MigProfile": "mig_profile", "x_Model": "model", "x_Namespace": "namespace",
    "x_Node": "node",
    "x_ObservedSeconds": "observed_seconds", "x_OverheadCost": "overhead_cost", "x_OverheadGibSeconds": "overhead_gib_seconds",
    "x_Pod": "pod", "x_PodUid": "pod_uid", "x_PolicyId": "policy_id", "x_Reason": "reason", "x_RequestedGpus": "requested_gpus",
    "x_RunId": "run_id", "x_Team": "team", "x_UsedCost": "used_cost", "x_UsedGibSeconds": "used_gib_seconds",
    "x_WorkloadKind": "workload_kind", "x_WorkloadName": "workload_name", "BillingAccountId": "billing_account",
    "BillingCurrency": "currency", "ChargeCategory": "charge_category", "ChargePeriodStart": "charge_period_start",
    "ChargePeriodEnd": "charge_period_end", "RegionId": "region", "SubAccountId": "sub_account",
    "BillingAccountName": "billing_account", "RegionName": "region", "SubAccountName": "sub_account",
}  # fmt: skip
"""Columns of ours by their name in FOCUS; of accounts and regions only the ids are kept, so their names repeat these."""
_OF_LINE = {
    "ConsumedUnit": "usage_unit", "InvoiceId": "invoice_id", "ResourceId": "resource_id",
    "x_CapacityReservation": "capacity_reservation",
    "x_OriginChargePeriodStart": "charge_period_start", "x_OriginChargePeriodEnd": "charge_period_end",
    "x_OriginCost": "line_cost", "x_UsageType": "usage_type",
}  # fmt: skip

Values = dict[str, pa.Array]


def focus_columns(rows: pa.RecordBatch, lines: pa.RecordBatch, parts: pa.Array, cluster: str) -> Values:
    """Every column that can be filled, by its name in FOCUS.

    Args:
        rows: of ``chargeback``, under one cost metric.
        lines: the line of each row (``origins``).
        parts: which part of its line each row is.
        cluster: whose rows they are.
    """
    values = {name: rows[own] for name, own in _AS_THEY_ARE.items()} | {name: lines[own] for name, own in _OF_LINE.items()}
    values |= {"x_AllocatedRatio": parts, "x_Cluster": pa.repeat(cluster, len(rows))}
    for fill in (_costs, _periods, _names):
        values |= fill(rows)
    values |= _services(rows, lines) | _allocated(rows, parts)
    values["ChargeClass"] = pc.if_else(pc.fill_null(lines["is_correction"], False), "Correction", None)
    values["ConsumedQuantity"] = _quantity(rows, lines, parts)
    what = pc.coalesce(lines["usage_type"], values["ServiceName"])
    whose = pc.coalesce(values["AllocatedResourceId"], pa.scalar(_NOBODY))
    values["ChargeDescription"] = pc.binary_join_element_wise("Share of ", whose, " in ", what, "")
    return values


def _costs(rows: pa.RecordBatch) -> Values:
    """The cost under its own metric; the other columns, which may not be null, repeat it and are named as untold."""
    metric = rows["cost_metric"][0].as_py()
    untold = ",".join(column for name, column in COSTS.items() if name != metric)
    return dict.fromkeys(COSTS.values(), rows["cost"]) | {"x_UntoldCosts": pa.repeat(untold, len(rows))}


def _periods(rows: pa.RecordBatch) -> Values:
    month = rows["billing_period"].to_numpy(zero_copy_only=False).astype("datetime64[M]")
    ends = {"BillingPeriodStart": month, "BillingPeriodEnd": month + np.timedelta64(1, "M")}
    return {name: pa.array(times.astype("datetime64[us]")).cast(TIME) for name, times in ends.items()}


def _names(rows: pa.RecordBatch) -> Values:
    provider = _renamed(rows["provider"], _PROVIDERS, keep=True)
    names = ("HostProviderName", "InvoiceIssuerName", "ProviderName", "PublisherName", "ServiceProviderName")
    usage = pc.equal(rows["charge_category"], "Usage")
    return dict.fromkeys(names, provider) | {
        "ChargeFrequency": pc.if_else(usage, "Usage-Based", "One-Time"),
        "PricingCategory": _renamed(rows["pricing_category"], _PRICING),
    }


def _services(rows: pa.RecordBatch, lines: pa.RecordBatch) -> Values:
    """A line that is split is a machine's, so it is Compute where its bill does not say."""
    category = pc.coalesce(lines["service_category"], pa.scalar("Compute"))
    other = pc.binary_join_element_wise("Other (", category, ")", "")
    named = pc.is_valid(lines["resource_id"])
    return {
        "ServiceCategory": category,
        "ServiceSubcategory": pc.if_else(pc.equal(category, "Compute"), "Virtual Machines", other),
        "ServiceName": pc.coalesce(lines["service"], rows["provider"]),
        "ResourceName": pc.if_else(named, rows["node"], None),
        "ResourceType": pc.if_else(named, "Node", None),
    }


def _allocated(rows: pa.RecordBatch, parts: pa.Array) -> Values:
    """To whom the row is allocated: a pod, else a bucket; nobody where no measurement could place the money."""
    pod = pc.binary_join_element_wise(rows["namespace"], rows["pod"], "/")
    bucket = pc.if_else(pc.equal(rows["bucket"], _NOBODY), None, rows["bucket"])
    resource = pc.coalesce(pod, bucket)
    memory = pc.add(pc.add(rows["used_gib_seconds"], rows["overhead_gib_seconds"]), rows["idle_gib_seconds"])
    workload = pc.binary_join_element_wise(rows["workload_kind"], rows["workload_name"], "/")
    told = {"team": rows["team"], "model": rows["model"], "cost_center": rows["cost_center"], "workload": workload}
    return {
        "AllocatedMethodId": pa.repeat(METHOD_ID, len(rows)),
        "AllocatedMethodDetails": method_details(parts, memory),
        "AllocatedResourceId": resource,
        "AllocatedResourceName": resource,
        "AllocatedTags": pc.if_else(pc.is_valid(resource), tags(told), None),
    }


def _quantity(rows: pa.RecordBatch, lines: pa.RecordBatch, parts: pa.Array) -> pa.Array:
    """The row's part of the whole line's quantity."""
    whole = column_nanos(lines["line_cost"]).astype(np.float64)
    by_cost = column_nanos(rows["cost"]) / np.where(whole == 0, 1, whole)
    part = np.where(whole == 0, parts.cast(pa.float64()).to_numpy(zero_copy_only=False), by_cost)
    return pc.multiply(lines["usage_quantity"], pa.array(part))


def _renamed(texts: pa.Array, names: Mapping[str, str], *, keep: bool = False) -> pa.Array:
    """Texts by another's names; one that has no name stays or is null."""
    found = pc.index_in(texts, value_set=pa.array(list(names)))
    renamed = pa.array(list(names.values())).take(found)
    return pc.coalesce(renamed, texts) if keep else renamed
