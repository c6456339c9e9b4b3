"""The shape of every table, once: columns, Arrow types, units, nullability, keys, meaning.

Types, checks, the printed schema and the Parquet files all follow from here. Money is ``int64`` nano-units in memory and
``decimal128(38, 9)`` at rest; times are ``timestamp[us, UTC]``; intervals are half-open; memory is bytes.
"""

from dataclasses import dataclass

import pyarrow as pa

from allocation.errors import SchemaError

SCHEMA_VERSION = "2"
BILL_CLUSTER = "_bill"
"""The reserved name of the partition for lines of no cluster."""
MONEY = pa.decimal128(38, 9)
RESIDUE = pa.decimal128(38, 30)
BYTE_MS = pa.decimal128(38, 0)
HOURS = pa.decimal128(38, 9)
"""Quantities that must add up exactly, whatever the order."""
TIME = pa.timestamp("us", tz="UTC")
TEXT = pa.string()


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, whether it may be null, its unit and what it means."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """One table: ``rows`` says what a row is, ``key`` which columns make it unique."""

    name: str
    rows: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def arrow(self) -> pa.Schema:
        """The Arrow schema, with ``schema_version`` in its metadata and the meaning of each column in its field's."""
        fields = [pa.field(c.name, c.type, c.nullable, {"doc": c.doc, "unit": c.unit}) for c in self.columns]
        return pa.schema(fields, {"table": self.name, "schema_version": SCHEMA_VERSION})

    def empty(self) -> pa.Table:
        """No rows, all columns."""
        return self.arrow().empty_table()

    @property
    def names(self) -> list[str]:
        """The column names in order."""
        return [c.name for c in self.columns]


def conform(table: pa.Table, shape: Table, *, source: str) -> pa.Table:
    """The table in the shape's column order and types, or a ``SchemaError`` that names the column and the source."""
    missing = [n for n in shape.names if n not in table.column_names]
    extra = [n for n in table.column_names if n not in shape.names]
    if missing or extra:
        raise SchemaError(f"{source}: table {shape.name!r}: missing columns {missing}, unknown columns {extra}")
    columns = []
    for column in shape.columns:
        values = table.column(column.name)
        if values.type != column.type:
            try:
                values = values.cast(column.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaError(f"{source}: table {shape.name!r}, column {column.name!r}: {error}") from error
        if values.null_count and not column.nullable:
            raise SchemaError(
                f"{source}: table {shape.name!r}, column {column.name!r} has {values.null_count} nulls and may have none"
            )
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=shape.arrow())


def _c(name: str, kind: pa.DataType, doc: str, unit: str = "") -> Column:
    return Column(name, kind, doc, nullable=False, unit=unit)


def _n(name: str, kind: pa.DataType, doc: str, unit: str = "") -> Column:
    return Column(name, kind, doc, nullable=True, unit=unit)


LINE_ITEMS = Table(
    "line_items",
    "one line of a delivered bill under one cost metric",
    (
        _c("source_id", TEXT, "the configured billing entry"),
        _c("delivery_id", TEXT, "the delivery's content fingerprint"),
        _c("source_file", TEXT, "file of the delivery, relative to its root"),
        _c("source_row", pa.int64(), "row in that file, the first after the header is 1"),
        _c(
            "line_item_id",
            TEXT,
            "stable id: the format's own with an ordinal, or a hash of the row's content with an ordinal among equal rows",
        ),
        _c("provider", TEXT, "aws, gcp, azure, or the provider's name in lower case"),
        _c("billing_account", TEXT, "payer"),
        _n("sub_account", TEXT, "usage account, project or subscription"),
        _n("region", TEXT, "region"),
        _c("billing_period", pa.date32(), "first day of the invoice month"),
        _n(
            "invoice_id",
            TEXT,
            "invoice that the line stands on; null until the provider has issued it, or where the format has none",
        ),
        _c("charge_period_start", TIME, "start of the line's own period, inclusive"),
        _c("charge_period_end", TIME, "its end, exclusive"),
        _c("charge_category", TEXT, "Usage, Purchase, Tax, Credit or Adjustment"),
        _n("pricing_category", TEXT, "on-demand, spot or committed"),
        _c("is_correction", pa.bool_(), "a correction of a period that was closed before"),
        _n("line_type", TEXT, "the format's own type of line, as delivered"),
        _n("service_category", TEXT, "FOCUS service category"),
        _n("service", TEXT, "service or product"),
        _n("usage_type", TEXT, "usage type or SKU"),
        _n("resource_id", TEXT, "as delivered"),
        _n(
            "node_key",
            TEXT,
            "the key that joins the line to a node (see node_keys), null where the line names no resource",
        ),
        _n("instance_type", TEXT, "machine type"),
        _n("machine_part", TEXT, "gpu, core or memory, where the line pays for that part of its machine alone"),
        _n("capacity_reservation", TEXT, "id of the capacity reservation or block that the line is of or ran in, in lower case"),
        _n(
            "pool",
            TEXT,
            "what the machines that pay for this line together have in common, where it names no single one: "
            "`reservation:ID` (they ran in it) or `hyperpod:CLUSTER` (they are its nodes of this instance type)",
        ),
        _n("pool_size", pa.int64(), "how many machines the pool has when it is full, where that is told"),
        _n("usage_quantity", pa.float64(), "consumed quantity, for display only"),
        _n("usage_unit", TEXT, "its unit as delivered"),
        _n("machine_ms", pa.int64(), "how long the machine ran by this line, where its quantity says so", "ms"),
        _n("scope_rule", TEXT, "why this line is not split even if its resource is a node; null where it may be"),
        _c("currency", TEXT, "ISO 4217"),
        _c("cost_metric", TEXT, "billed, effective, contracted or list"),
        _c("cost_nanos", pa.int64(), "the line's cost, rounded half to even once", "nano-units"),
        _c("cost_residue", RESIDUE, "what that rounding cut: delivered minus cost", "currency"),
    ),
    ("source_id", "line_item_id"),
)

SAMPLES = Table(
    "samples",
    "one series of one role on one device, with its samples in time order",
    (
        _c("role", TEXT, "pod_memory, declared, used, free, reserved or total"),
        _c("level", TEXT, "container: a pod's value is its own; device: a pod's row repeats the device's value"),
        _c("metric", TEXT, "metric family that R1 looks at; series of one family report a device together"),
        _c("includes_reserved", pa.bool_(), "the used value contains what the driver reserves"),
        _c("node", TEXT, "node name"),
        _c("gpu_uuid", TEXT, "device"),
        _c("gpu_instance", TEXT, "MIG instance id, empty for a whole GPU"),
        _c("mig_profile", TEXT, "MIG profile, empty where unknown"),
        _c("gpu_model", TEXT, "model name, empty where unknown"),
        _c("namespace", TEXT, "holder's namespace, empty for a device row"),
        _c("pod", TEXT, "holder's pod, empty for a device row"),
        _c("pod_uid", TEXT, "holder's uid, empty where unknown"),
        _c("container", TEXT, "container, empty where unknown"),
        _c("timestamps_ms", pa.list_(pa.int64()), "sample times since the epoch", "ms"),
        _c("values", pa.list_(pa.float64()), "sample values", "bytes"),
    ),
)

INVENTORY = Table(
    "inventory",
    "one stretch of a kube-state-metrics series, as it was fetched; kept beside the samples",
    (
        _c("metric", TEXT, "series name"),
        _c("labels", pa.map_(TEXT, TEXT), "labels"),
        _c("first_ms", pa.int64(), "first sight", "ms"),
        _c("last_ms", pa.int64(), "last sight", "ms"),
        _c("value", pa.float64(), "last value"),
    ),
)

COUNTERS = Table(
    "counters",
    "one series of a model server's counter, as it was fetched; kept beside the samples",
    (
        _c("server", TEXT, "vllm, sglang, tgi, triton or custom"),
        _c("kind", TEXT, "what is counted: prompt, generation, requests or compute_time"),
        _c("namespace", TEXT, "the server's namespace"),
        _c("pod", TEXT, "the server's pod"),
        _c("pod_uid", TEXT, "its uid, empty where unknown"),
        _c("model", TEXT, "model, or the adapter where the counter tells adapters apart; empty where it names none"),
        _c("instance", TEXT, "the labels by which series of one pod and model add up"),
        _c("replica", TEXT, "the labels by which they are copies of one another"),
        _c("timestamps_ms", pa.list_(pa.int64()), "sample times since the epoch, ascending", "ms"),
        _c("values", pa.list_(pa.int64()), "sample values", "tokens, requests or us"),
    ),
)

NODES = Table(
    "nodes",
    "one stay of a machine under a node name",
    (
        _c("node", TEXT, "node name"),
        _c("node_id", TEXT, "provider id as the cluster states it"),
        _c("node_key", TEXT, "the key that joins a bill line"),
        _c("alive_from", TIME, "from when the name means this machine, inclusive"),
        _c("alive_until", TIME, "until when, exclusive"),
        _n("seen_from", TIME, "first sign of life in the inventory, null where only configured"),
        _n("seen_until", TIME, "last sign of life plus max_hold, null where only configured"),
        _n("instance_type", TEXT, "machine type"),
        _n("gpus", pa.int64(), "count of GPUs: configured, else of the instance type, else by the node's labels"),
        _n("gpu_memory_bytes", pa.int64(), "memory of one GPU: configured, else of the instance type, else by labels", "bytes"),
        _c("gpu_memory_configured", pa.bool_(), "the memory comes from the node's configuration"),
        _c("configured", pa.bool_(), "the node stands in the configuration"),
        _n(
            "gpu_resources",
            pa.int64(),
            "GPU resources that Kubernetes reports as capacity, null where it reports nothing",
        ),
        _n("gpu_product", TEXT, "GPU model by the node's labels"),
        _n("gpu_replicas", pa.int64(), "as how many the device plugin offers one GPU, by the node's labels"),
        _n("allocatable_cpu_milli", pa.int64(), "CPU that pods can have, only with `host: by_requests`", "millicores"),
        _n("allocatable_memory_bytes", pa.int64(), "memory that pods can have, only with `host: by_requests`", "bytes"),
        _n("sharing_strategy", TEXT, "time-slicing or mps, by the node's labels"),
        _n("mig_strategy", TEXT, "none, single or mixed, by the node's labels"),
    ),
    ("node", "alive_from"),
)

PODS = Table(
    "pods",
    "one pod under one version of its labels, annotations and declared memory, as the inventory knows it in the window",
    (
        _c("namespace", TEXT, "namespace"),
        _c("pod", TEXT, "pod name"),
        _c("pod_uid", TEXT, "uid, empty where unknown"),
        _c("labels_from", TIME, "first sight of this version; the first holds from ever"),
        _n("node", TEXT, "node name"),
        _c("seen_from", TIME, "the pod's first sight"),
        _c("seen_until", TIME, "its last sight"),
        _n("started_at", TIME, "known start"),
        _n("ended_at", TIME, "known end"),
        _n("workload_kind", TEXT, "kind of the topmost known owner"),
        _n("workload_name", TEXT, "name of the topmost known owner"),
        _c("gpu_requests", pa.map_(TEXT, pa.float64()), "requests of accelerator resources over all containers, as spelt there"),
        _n("requested_gpus", pa.float64(), "GPUs, MIG instances and replicas requested; memory and cores do not count"),
        _n("requested_cpu_milli", pa.int64(), "CPU requested, only with `host: by_requests`", "millicores"),
        _n("requested_memory_bytes", pa.int64(), "memory requested, only with `host: by_requests`", "bytes"),
        _n("declared_memory_bytes", pa.int64(), "GPU memory per device that the pod declares", "bytes"),
        _n("declared_fraction", pa.float64(), "part of a GPU that the pod declares"),
        _n("gpu_group", TEXT, "the scheduler's name for the pods that share a device"),
        _c("resource_claims", pa.list_(TEXT), "resource claims (DRA) in name order"),
        _c("labels", pa.map_(TEXT, TEXT), "labels as kube-state-metrics spells them, without label_"),
        _c("annotations", pa.map_(TEXT, TEXT), "annotations, without annotation_"),
        _c("namespace_labels", pa.map_(TEXT, TEXT), "the namespace's labels, last seen, without label_"),
    ),
    ("namespace", "pod", "pod_uid", "labels_from"),
)

_HOLDER = (
    _c("bucket", TEXT, "workload, idle, overhead, stranded, host or unallocated"),
    _n(
        "reason",
        TEXT,
        "why a bucket holds the money: gpu_without_metrics, node_without_metrics, unknown_time, mig_partition, gpu_share",
    ),
    _n("namespace", TEXT, "holder's namespace"),
    _n("pod", TEXT, "holder's pod"),
    _n("pod_uid", TEXT, "holder's uid where known"),
)

USAGE = Table(
    "usage",
    "what one holder or bucket had of one device in one period of a node: weights in order of division",
    (
        _c("node_key", TEXT, "machine"),
        _c("node", TEXT, "node name"),
        _c("node_id", TEXT, "provider id"),
        _c("period_start", TIME, "inclusive"),
        _c("period_end", TIME, "exclusive"),
        _n("gpu_uuid", TEXT, "device"),
        _n("gpu_model", TEXT, "model name"),
        _n("gpu_instance", TEXT, "MIG instance"),
        _n("mig_profile", TEXT, "MIG profile"),
        *_HOLDER,
        _n(
            "for_part",
            TEXT,
            "which lines the row divides: gpu (lines of GPUs and lines of no part), host (lines of cores and memory), null: all",
        ),
        _c("gpu_ordinal", pa.int32(), "place of the GPU (or host) in the division of a line"),
        _c("device_ordinal", pa.int32(), "place of the instance in the division of its GPU"),
        _c("gpu_weight", BYTE_MS, "weight of the GPU (or host) in the division of a line"),
        _c("device_weight", BYTE_MS, "weight of the device in the division of its GPU"),
        _c("used_byte_ms", BYTE_MS, "memory held over time", "byte ms"),
        _c("overhead_byte_ms", BYTE_MS, "driver-reserved and unexplained memory over time", "byte ms"),
        _c("idle_byte_ms", BYTE_MS, "free memory over time", "byte ms"),
        _c("unmeasured_weight", BYTE_MS, "weight of money that no measurement stands behind"),
        _c("observed_ms", pa.int64(), "held by samples", "ms"),
        _c("imputed_ms", pa.int64(), "bridged over gaps", "ms"),
        _c("coverage", pa.float64(), "known time over expected time, at most 1"),
        _c("basis", TEXT, "exclusive, measured, mig, estimated_requests, estimated_even, inferred or none"),
    ),
)

CHARGEBACK = Table(
    "chargeback",
    "one line item x device x holder or bucket (x model, where one server's row is split)",
    (
        _c("billing_period", pa.date32(), "first day of the invoice month"),
        _c("charge_period_start", TIME, "start of the charge, inclusive"),
        _c("charge_period_end", TIME, "end of the charge, exclusive"),
        _c("provider", TEXT, "provider"),
        _c("billing_account", TEXT, "payer"),
        _n("sub_account", TEXT, "usage account"),
        _n("region", TEXT, "region"),
        _c("line_item_id", TEXT, "line of the bill"),
        _c("charge_category", TEXT, "Usage, Purchase, Tax, Credit or Adjustment"),
        _n("pricing_category", TEXT, "on-demand, spot or committed"),
        _c("cost_metric", TEXT, "which money: billed, effective, contracted or list"),
        _c("currency", TEXT, "ISO 4217"),
        _c("node", TEXT, "node name"),
        _c("node_id", TEXT, "provider id"),
        _n("instance_type", TEXT, "machine type"),
        _n("gpu_uuid", TEXT, "device"),
        _n("gpu_model", TEXT, "model name"),
        _n("gpu_instance", TEXT, "MIG instance id as text"),
        _n("mig_profile", TEXT, "MIG profile"),
        *_HOLDER,
        _n("workload_kind", TEXT, "kind of the pod's owner"),
        _n("workload_name", TEXT, "name of the pod's owner"),
        _n("team", TEXT, "team, `unowned` where no rule speaks, null for a bucket nobody stands for"),
        _n("model", TEXT, "model"),
        _n("cost_center", TEXT, "cost centre"),
        _n("requested_gpus", pa.float64(), "GPUs that the pod requested"),
        _c("used_cost", MONEY, "for memory held", "currency"),
        _c("overhead_cost", MONEY, "for driver-reserved and unexplained memory; the host's part", "currency"),
        _c("idle_cost", MONEY, "for memory that was free, stranded, or of which nothing is known", "currency"),
        _c("cost", MONEY, "used_cost + overhead_cost + idle_cost", "currency"),
        _c("used_gib_seconds", pa.float64(), "memory held over time", "GiB s"),
        _c("overhead_gib_seconds", pa.float64(), "overhead over time", "GiB s"),
        _c("idle_gib_seconds", pa.float64(), "free or stranded memory over time", "GiB s"),
        _c("observed_seconds", pa.float64(), "time held by samples", "s"),
        _c("imputed_seconds", pa.float64(), "time bridged over gaps", "s"),
        _c("coverage", pa.float64(), "known time over expected time, at most 1"),
        _c("basis", TEXT, "how sure: exclusive, measured, mig, estimated_requests, estimated_even, inferred or none"),
        _c("policy_id", TEXT, "hash of the policy"),
        _c("run_id", TEXT, "hash of all that the figures depend on"),
    ),
)

TEAM_MODEL = Table(
    "team_model",
    "the day's money per team, model and bucket; cost metrics and currencies are never added up",
    (
        _c("billing_period", pa.date32(), "first day of the invoice month"),
        _c("cost_metric", TEXT, "which money"),
        _c("currency", TEXT, "ISO 4217"),
        _n("team", TEXT, "team"),
        _n("model", TEXT, "model"),
        _c("bucket", TEXT, "workload, idle, overhead, stranded, host or unallocated"),
        _c("used_cost", MONEY, "for memory held", "currency"),
        _c("overhead_cost", MONEY, "for overhead", "currency"),
        _c("idle_cost", MONEY, "for idle, stranded and unknown", "currency"),
        _c("cost", MONEY, "their sum", "currency"),
        _c("used_gib_seconds", pa.float64(), "memory held over time", "GiB s"),
        _c("overhead_gib_seconds", pa.float64(), "overhead over time", "GiB s"),
        _c("idle_gib_seconds", pa.float64(), "idle over time", "GiB s"),
        _c("run_id", TEXT, "hash of all that the figures depend on"),
    ),
    ("billing_period", "cost_metric", "currency", "team", "model", "bucket"),
)

RECONCILIATION = Table(
    "reconciliation",
    "one line item of the bill and what became of it this day in one cluster, or in none: a line of several machines has a row "
    "in each of theirs",
    (
        _c("provider", TEXT, "provider"),
        _c("billing_account", TEXT, "payer"),
        _c("billing_period", pa.date32(), "first day of the invoice month"),
        _c("line_item_id", TEXT, "line of the bill"),
        _c("charge_period_start", TIME, "the whole line's start"),
        _c("charge_period_end", TIME, "the whole line's end"),
        _c("cost_metric", TEXT, "which money"),
        _c("currency", TEXT, "ISO 4217"),
        _c("line_cost", MONEY, "the whole line's cost", "currency"),
        _c("cost_in", MONEY, "the part of it that belongs to this day and cluster", "currency"),
        _c("cost_out", MONEY, "what stands in chargeback", "currency"),
        _c("rounding", RESIDUE, "what lies beyond nine decimals, on the line's first day in the first of its rows", "currency"),
        _c("difference", MONEY, "cost_in - cost_out where the line is in scope: always 0", "currency"),
        _c("state", TEXT, "allocated, unallocated (no pod and no measured bucket got any of it) or out_of_scope"),
        _n("rule", TEXT, "what put it out of scope"),
        _n("resource_id", TEXT, "as delivered"),
        _n("service", TEXT, "service or product"),
        _n("node", TEXT, "node name, where the line names a node of this cluster"),
        _c("source_file", TEXT, "file of the delivery"),
        _c("source_row", pa.int64(), "row in that file"),
        _c("run_id", TEXT, "hash of all that the figures depend on"),
    ),
    ("line_item_id", "cost_metric", "rule"),
)

FINDINGS = Table(
    "findings",
    "one thing that the run noticed",
    (
        _c("code", TEXT, "what was noticed"),
        _c("severity", TEXT, "info, warning or error; error blocks exports, reports and closing"),
        _c("subject", TEXT, "whom it is about: node, gpu uuid, namespace/pod, currencies"),
        _n("period_start", TIME, "inclusive"),
        _n("period_end", TIME, "exclusive"),
        _c("evidence", TEXT, "what was seen, with figures"),
        _c("count", pa.int64(), "how often"),
        _n("cost_at_risk", MONEY, "money that hangs on it", "currency"),
        _n("currency", TEXT, "its currency"),
        _c("run_id", TEXT, "hash of all that the figures depend on"),
    ),
)

_MART_KEYS = (
    _c("billing_period", pa.date32(), "first day of the invoice month"),
    _c("booked_period", pa.date32(), "first day of the month in whose figures the money stands"),
    _c("cost_metric", TEXT, "which money: billed, effective, contracted or list"),
    _c("currency", TEXT, "ISO 4217"),
    _n("team", TEXT, "team, `unowned` where no rule speaks, null for a bucket nobody stands for"),
    _n("model", TEXT, "model"),
    _n("cost_center", TEXT, "cost centre"),
    _n("namespace", TEXT, "holder's namespace"),
    _n("gpu_model", TEXT, "GPU model"),
    _c("bucket", TEXT, "workload, idle, overhead, stranded, host or unallocated"),
    _n("reason", TEXT, "why a bucket holds the money"),
    _c("basis", TEXT, "how sure: exclusive, measured, mig, estimated_requests, estimated_even, inferred or none"),
)
_MART_FIGURES = (
    _c("used_cost", MONEY, "for memory held", "currency"),
    _c("overhead_cost", MONEY, "for overhead; the host's part", "currency"),
    _c("idle_cost", MONEY, "for idle, stranded and unknown", "currency"),
    _c("cost", MONEY, "their sum", "currency"),
    _c("gpu_hours", HOURS, "billed time of the GPUs, divided as their money is", "h"),
    _c("held_gpu_hours", HOURS, "time that pods held devices, each GPU, MIG instance or shared slot whole", "h"),
    _c("requested_gpu_hours", HOURS, "GPUs that these pods requested, over the time that they held any", "h"),
    _c("used_gib_hours", HOURS, "memory held over time, once however many lines bill it", "GiB h"),
    _c("overhead_gib_hours", HOURS, "overhead over time, likewise", "GiB h"),
    _c("idle_gib_hours", HOURS, "free or stranded memory over time, likewise", "GiB h"),
    _n("tokens", pa.int64(), "tokens that model servers counted; null where nothing is counted"),
)

DAILY_MART = Table(
    "daily_mart",
    "the day's money and quantities per team, model, namespace, cost centre, GPU model, bucket and basis; cost metrics and "
    "currencies are never added up",
    (*_MART_KEYS, *_MART_FIGURES, _c("run_id", TEXT, "hash of all that the figures depend on")),
    tuple(c.name for c in _MART_KEYS),
)

ADJUSTMENTS = Table(
    "adjustments",
    "one leg of a correction of a partition that belongs to a closed month, by the day on which it was booked: what was charged "
    "(with its sign turned) or what would be charged now, per owner",
    (
        _c("original_date", pa.date32(), "UTC day of the partition that is corrected; its cluster is this one"),
        _n("closed_run_id", TEXT, "run of the closed rows, null where nothing was there"),
        _c("run_id", TEXT, "run that would charge otherwise"),
        _c("cause", TEXT, "what changed: bill_restated, late_metrics, owner_rule_changed, ...; several are joined by +"),
        _c("leg", TEXT, "charged: closed rows and earlier adjustments, with the sign turned; restated: what is right now"),
        *_MART_KEYS,
        *_MART_FIGURES,
    ),
    ("original_date", "run_id", "leg", *(c.name for c in _MART_KEYS)),
)

TABLES = {
    t.name: t
    for t in (
        LINE_ITEMS, SAMPLES, NODES, PODS, USAGE, CHARGEBACK, TEAM_MODEL, RECONCILIATION, FINDINGS, DAILY_MART, ADJUSTMENTS,
    )
}  # fmt: skip
"""Every table by name."""

RESULTS = (CHARGEBACK, TEAM_MODEL, RECONCILIATION, FINDINGS, DAILY_MART)
"""The tables that every run writes."""

PUBLIC = (*RESULTS, ADJUSTMENTS)
"""The tables that users read: those of every run, and those that are there once a month is closed."""
