"""What a run noticed and survived: one row a finding, gathered from every stage.

A finding never changes an amount by itself; it names the amount that hangs on it (``cost_at_risk``).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa

from allocation import money
from allocation.schemas import FINDINGS

_FIGURE = re.compile(r"[0-9][0-9.:T+-]*")
_BETWEEN = "; "


class Severity(StrEnum):
    """``error`` blocks exports, reports and closing; the tables are still written."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Code(StrEnum):
    """The codes of findings. A code, once published, keeps its meaning."""

    DUPLICATE_SAMPLES = "duplicate_samples"
    INVALID_SAMPLES = "invalid_samples"
    REPEATED_DEVICE_VALUES = "repeated_device_values"
    POD_MEMORY_NOT_MAPPED = "pod_memory_not_mapped"
    OVER_CAPACITY = "over_capacity"
    GPU_WITHOUT_METRICS = "gpu_without_metrics"
    NODE_WITHOUT_METRICS = "node_without_metrics"
    NODE_WITHOUT_BILL = "node_without_bill"
    LOW_COVERAGE = "low_coverage"
    UNOWNED = "unowned"
    MIXED_CURRENCIES = "mixed_currencies"
    SUB_NANO_COST = "sub_nano_cost"
    MORE_GPUS_THAN_NAMEPLATE = "more_gpus_than_nameplate"
    CAPACITY_UNKNOWN = "capacity_unknown"
    GPU_INSTANCE_OUTSIDE_CLUSTERS = "gpu_instance_outside_clusters"
    NEGATION_OUT_OF_SCOPE = "negation_out_of_scope"
    VM_NAME_REUSED = "vm_name_reused"
    CAPACITY_BLOCK = "capacity_block"
    COARSE_LINE = "coarse_line"
    NODE_NOT_AS_CONFIGURED = "node_not_as_configured"
    NO_LINES = "no_lines"
    NO_SERIES = "no_series"
    PROFILE_CHOSEN = "profile_chosen"
    DEVICE_WITHOUT_PODS = "device_without_pods"
    LABELS_LOST = "labels_lost"
    TWO_EXPORTERS = "two_exporters"
    HA_DUPLICATES = "ha_duplicates"
    SKEWED_CLOCKS = "skewed_clocks"
    POD_ON_MORE_DEVICES = "pod_on_more_devices"
    MEMORY_WITHOUT_REQUEST = "memory_without_request"
    RESERVATION_UNRESOLVED = "reservation_unresolved"
    POD_ON_PARTITIONED_GPU = "pod_on_partitioned_gpu"
    CAPACITY_DISAGREES = "capacity_disagrees"
    RESERVE_JUMPS = "reserve_jumps"
    PREALLOCATED_MEMORY = "preallocated_memory"
    CONTRADICTING_INVENTORY = "contradicting_inventory"
    MODEL_COUNTERS_MISSING = "model_counters_missing"
    SAMPLES_OUTSIDE_LIFE = "samples_outside_life"
    UNUSED_SETTING = "unused_setting"
    HOST_NOT_DIVIDED = "host_not_divided"
    UNUSED_RESERVATION = "unused_reservation"
    BILLED_TWICE = "billed_twice"
    NO_LIST_PRICE = "no_list_price"
    LIST_PRICES_NOT_OF_THE_DAY = "list_prices_not_of_the_day"


@dataclass(frozen=True)
class Finding:
    """One thing that was noticed.

    ``period`` is half-open UTC; ``count`` is how often it happened; ``cost_at_risk_nanos`` is the money that hangs on it.
    ``excess``: by charge period (start and end in ms), how many byte-ms more than the truth a naive sum over pods would count.
    ``money_of``: the subjects whose money hangs on it, where it is not the subject's own.
    """

    code: Code
    severity: Severity
    subject: str
    evidence: str
    period: tuple[datetime, datetime] | None = None
    count: int = 1
    cost_at_risk_nanos: int | None = None
    currency: str | None = None
    excess: tuple[tuple[int, int, int], ...] = ()
    money_of: tuple[str, ...] = ()


def as_json(finding: Finding) -> dict[str, object]:
    """A finding in words and numbers that JSON knows, for a marker in the store."""
    period = finding.period and [moment.isoformat() for moment in finding.period]
    return asdict(finding) | {"code": finding.code.value, "severity": finding.severity.value, "period": period}


def from_json(told: Mapping[str, Any]) -> Finding:
    """The finding that ``as_json`` told of."""
    period = told["period"] and tuple(datetime.fromisoformat(moment) for moment in told["period"])
    excess = tuple((start, end, size) for start, end, size in told["excess"])
    parts = {"code": Code(told["code"]), "severity": Severity(told["severity"]), "period": period, "excess": excess}
    parts["money_of"] = tuple(told.get("money_of", ()))
    return Finding(**{**told, **parts})


def to_table(findings: Iterable[Finding], run_id: str = "") -> pa.Table:
    """Findings as the table ``findings``, in a stable order, equal findings once."""
    rows = sorted(set_of(findings), key=lambda f: (f.code, f.subject, str(f.period), f.evidence))
    start = [f.period[0] if f.period else None for f in rows]
    end = [f.period[1] if f.period else None for f in rows]
    columns: dict[str, list[object]] = {
        "code": [f.code.value for f in rows],
        "severity": [f.severity.value for f in rows],
        "subject": [f.subject for f in rows],
        "period_start": list(start),
        "period_end": list(end),
        "evidence": [f.evidence for f in rows],
        "count": [f.count for f in rows],
        "cost_at_risk": [None if f.cost_at_risk_nanos is None else money.nanos_to_decimal(f.cost_at_risk_nanos) for f in rows],
        "currency": [f.currency for f in rows],
        "run_id": [run_id for _ in rows],
    }
    return pa.table({c.name: pa.array(columns[c.name], c.type) for c in FINDINGS.columns}, schema=FINDINGS.arrow())


def of_shards(findings: Iterable[Finding]) -> list[Finding]:
    """What shards noticed, each pod's finding once: those that differ in their figures alone are joined.

    A pod's name may stand on nodes of several shards. Counts are added, periods united, texts put one after the other.
    """
    seen: dict[tuple[object, ...], Finding] = {}
    for f in findings:
        key = f.code, f.severity, f.subject, _FIGURE.sub("#", f.evidence)
        seen[key] = _joined(seen[key], f) if key in seen else f
    return list(seen.values())


def _joined(one: Finding, other: Finding) -> Finding:
    texts = dict.fromkeys((*one.evidence.split(_BETWEEN), *other.evidence.split(_BETWEEN)))
    periods = [f.period for f in (one, other) if f.period]
    period = (min(p[0] for p in periods), max(p[1] for p in periods)) if periods else None
    costs = [f.cost_at_risk_nanos for f in (one, other) if f.cost_at_risk_nanos is not None]
    count, cost = one.count + other.count, sum(costs) if costs else None
    return replace(one, evidence=_BETWEEN.join(texts), period=period, count=count, cost_at_risk_nanos=cost)


def set_of(findings: Iterable[Finding]) -> list[Finding]:
    """Each distinct finding once, in order of appearance."""
    seen: dict[tuple[object, ...], Finding] = {}
    for f in findings:
        seen.setdefault((f.code, f.subject, f.period, f.evidence, f.currency), f)
    return list(seen.values())
