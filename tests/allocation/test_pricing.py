"""Which money a finding names, on rows written by hand."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from allocation.findings import Code, Finding, Severity, as_json, from_json
from allocation.pricing import price
from allocation.schemas import CHARGEBACK
from allocation.times import to_ms

HOUR = timedelta(hours=1)
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
GIB_MS = 2**30 * 1000


def row(node: str, gpu: str | None, **changed: object) -> dict[str, object]:
    """A row of `chargeback` with 1 for memory, 2 for overhead and 4 for idle."""
    known = {
        "billing_period": date(2026, 10, 1), "charge_period_start": NOON, "charge_period_end": NOON + HOUR, "provider": "aws",
        "billing_account": "1", "line_item_id": "l", "charge_category": "Usage", "cost_metric": "billed", "currency": "USD",
        "node": node, "node_id": node, "gpu_uuid": gpu, "bucket": "workload", "used_cost": Decimal(1),
        "overhead_cost": Decimal(2), "idle_cost": Decimal(4), "cost": Decimal(7), "used_gib_seconds": 3600.0,
        "overhead_gib_seconds": 0.0,
        "idle_gib_seconds": 0.0, "observed_seconds": 0.0, "imputed_seconds": 0.0, "coverage": 1.0, "basis": "measured",
        "policy_id": "p", "run_id": "r",
    }  # fmt: skip
    return {c.name: None for c in CHARGEBACK.columns} | known | changed


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=CHARGEBACK.arrow())


def priced(code: Code, subject: str, rows: pa.Table, **more: object) -> Finding:
    return price([Finding(code, Severity.WARNING, subject, "evidence", **more)], rows)[0]  # type: ignore[arg-type]


POD = {"namespace": "ns", "pod": "a"}
ROWS = table(
    row("n", "GPU-1", **POD),
    row("n", "GPU-1", bucket="idle"),
    row("n", "GPU-2", gpu_instance="3", **POD),
    row("n", "GPU-2", bucket="unallocated", reason="unknown_time"),
    row("m", "GPU-3", bucket="unallocated", reason="unknown_time"),
)


def test_each_code_names_its_own_money() -> None:
    wanted = {
        (Code.OVER_CAPACITY, "n/GPU-1"): 2,
        (Code.RESERVE_JUMPS, "n/GPU-1"): 4,
        (Code.DEVICE_WITHOUT_PODS, "n/GPU-1"): 7,
        (Code.CAPACITY_UNKNOWN, "n/GPU-1"): 14,
        (Code.TWO_EXPORTERS, "n/GPU-2"): 14,
        (Code.TWO_EXPORTERS, "n/GPU-2/3"): 7,
        (Code.DUPLICATE_SAMPLES, "GPU-1"): 14,
        (Code.LOW_COVERAGE, "n/GPU-2"): 7,
        (Code.MORE_GPUS_THAN_NAMEPLATE, "n"): 28,
        (Code.MEMORY_WITHOUT_REQUEST, "ns/a"): 14,
    }
    got = {key: priced(*key, ROWS).cost_at_risk_nanos for key in wanted}
    assert got == {key: units * 10**9 for key, units in wanted.items()}


def test_of_two_cost_metrics_one_is_told_and_named_and_of_two_currencies_none() -> None:
    effective = row("n", "GPU-1", cost_metric="effective", cost=Decimal(5), **POD)
    found = priced(Code.CAPACITY_UNKNOWN, "n/GPU-1", table(effective, row("n", "GPU-1", **POD)))
    assert (found.cost_at_risk_nanos, found.evidence) == (7 * 10**9, "evidence (billed cost)")
    euros = row("n", "GPU-1", currency="EUR", **POD)
    assert priced(Code.CAPACITY_UNKNOWN, "n/GPU-1", table(euros, row("n", "GPU-1", **POD))).cost_at_risk_nanos is None


def test_money_of_others_is_added_where_the_finding_names_them() -> None:
    """GPU-2 costs 14 with its instance, GPU-1 14; the pod itself is not asked for."""
    found = priced(Code.POD_ON_PARTITIONED_GPU, "ns/a", ROWS, money_of=("n/GPU-2", "n/GPU-1", "n/GPU-9"))
    assert found.cost_at_risk_nanos == 28 * 10**9
    assert priced(Code.POD_ON_PARTITIONED_GPU, "ns/a", ROWS, money_of=("n/GPU-9",)).cost_at_risk_nanos is None
    assert from_json(json.loads(json.dumps(as_json(found)))) == found


def test_no_money_where_none_can_be_named() -> None:
    assert priced(Code.OVER_CAPACITY, "n/GPU-9", ROWS).cost_at_risk_nanos is None
    assert priced(Code.NO_SERIES, "n", ROWS).cost_at_risk_nanos is None
    two = table(row("n", "GPU-1"), row("n", "GPU-1", currency="EUR"))
    assert priced(Code.CAPACITY_UNKNOWN, "n/GPU-1", two).cost_at_risk_nanos is None
    assert priced(Code.CAPACITY_UNKNOWN, "n/GPU-1", ROWS, cost_at_risk_nanos=5).cost_at_risk_nanos == 5


def test_repeated_values_tell_what_a_naive_sum_would_charge() -> None:
    """Three pods of a GiB each stand for one GiB: 2 GiB hours too much. The second hour costs twice the first."""
    start, end, last = to_ms(NOON), to_ms(NOON + HOUR), to_ms(NOON + 2 * HOUR)
    later = {"charge_period_start": NOON + HOUR, "charge_period_end": NOON + 2 * HOUR, "used_cost": Decimal(2)}
    rows = table(row("n", "GPU-1"), row("n", "GPU-1", **later), row("n", "GPU-2"))
    excess = ((start, end, 2 * 3600 * GIB_MS), (end, last, 2 * 3600 * GIB_MS))
    found = priced(Code.REPEATED_DEVICE_VALUES, "n/GPU-1", rows, excess=excess)
    assert found.cost_at_risk_nanos == 3 * 10**9
    assert found.evidence.endswith("A naive sum over pods would have charged 9.00 USD where 3.00 is right")
