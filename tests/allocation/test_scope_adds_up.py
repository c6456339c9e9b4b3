"""The bill's own total is reached from ``reconciliation``, whatever the lines are and whoever pays for them."""

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation.chargeback import reconcile
from allocation.money import decimal_to_nanos, nanos_to_decimal
from allocation.policy import UnattributedPolicy
from allocation.schemas import BILL_CLUSTER, CHARGEBACK, RECONCILIATION
from allocation.scope import DayLines, day_lines
from allocation.sums import sums_of
from allocation.times import DAY_MS, milliseconds
from pipelines.settings import NodeEntry
from tests.allocation.test_scope import FROM_MS, MIDNIGHT, A, B, line, nodes, table

DAYS = 5
POD = NodeEntry(name="pod", provider_id="aws:///z/hyperpod-abc-i-1", instance_type="ml.p5.48xlarge", gpus=8)
BORN, GONE = MIDNIGHT + timedelta(hours=5), MIDNIGHT + timedelta(hours=30)
BRIEF = NodeEntry(name="brief", provider_id="aws:///z/i-c", gpus=1, alive_from=BORN, alive_until=GONE)
CLUSTERS = {"prod": nodes(A, POD), "dev": nodes(B, BRIEF)}
Row = dict[str, object]
KINDS: list[tuple[str | None, Row]] = [
    ("i-a", {}), ("i-b", {"capacity_reservation": "cr-1"}), ("i-c", {"capacity_reservation": "CR-1"}), ("i-x", {}),
    ("i-x", {"capacity_reservation": "cr-1"}), ("i-a", {"scope_rule": "unit_not_time"}), ("i-b", {"charge_category": "Credit"}),
    (None, {"charge_category": "Tax", "scope_rule": "no_resource"}), (None, {"charge_category": "Credit"}),
    (None, {"charge_category": "Adjustment", "line_type": "SavingsPlanNegation"}), (None, {"charge_category": "Usage"}),
    ("cr-1", {"pool": "reservation:cr-1", "charge_category": "Purchase"}),
    ("cr-1", {"pool": "reservation:cr-1", "charge_category": "Purchase", "pool_size": 3}),
    ("cr-1", {"pool": "reservation:cr-1", "scope_rule": "reserved_unused"}),
    (None, {"pool": "hyperpod:abc", "instance_type": "ml.p5.48xlarge"}), (None, {"pool": "hyperpod:none"}),
]  # fmt: skip
MINUTES = st.sampled_from([15, 30, 60, 90, 24 * 60, 25 * 60, 25 * 60 + 15, 48 * 60, 57 * 60])
COSTS = st.one_of(st.integers(-9, 9), st.integers(-(2**63) + 1, 2**63 - 1))


@st.composite
def bills(draw: st.DrawFn) -> pa.Table:
    rows = []
    for number in range(draw(st.integers(1, 12))):
        key, values = draw(st.sampled_from(KINDS))
        start = draw(st.integers(0, 48 * 4)) * 15
        period = (start / 60, (start + draw(MINUTES)) / 60)
        money: Row = {
            "cost_nanos": draw(COSTS), "cost_residue": Decimal(draw(st.integers(-5, 5))).scaleb(-10),
            "currency": draw(st.sampled_from(["USD", "EUR"])), "cost_metric": draw(st.sampled_from(["billed", "effective"])),
            "sub_account": draw(st.sampled_from([None, "s1", "s2"])),
        }  # fmt: skip
        rows.append(line(number, key, period) | money | values)
    return table(*rows)


def scope_of(lines: pa.Table, day: int, unattributed: UnattributedPolicy) -> DayLines:
    """The day as a run scopes it: from the lines that touch it."""
    begin, end = FROM_MS + day * DAY_MS, FROM_MS + (day + 1) * DAY_MS
    touches = (milliseconds(lines["charge_period_start"]) < end) & (milliseconds(lines["charge_period_end"]) > begin)
    return day_lines(lines.filter(pa.array(touches)), CLUSTERS, begin, end, unattributed=unattributed)


@settings(max_examples=60)
@given(bills(), st.sampled_from(["spread", "out_of_scope"]))
def test_the_bill_is_reached_per_currency_and_cost_metric(lines: pa.Table, unattributed: UnattributedPolicy) -> None:
    delivered: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in lines.to_pylist():
        delivered[row["currency"], row["cost_metric"]] += nanos_to_decimal(row["cost_nanos"]) + row["cost_residue"]
    reached: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for day in range(DAYS):
        scope = scope_of(lines, day, unattributed)
        split = scope.lines.filter(pc.is_null(scope.lines["rule"]))
        assert sum(scope.parts.nanos.tolist()) == sum(split["day_nanos"].to_pylist())
        seen = set()
        for cluster in (*CLUSTERS, BILL_CLUSTER):
            mine = scope.lines.filter(pc.equal(scope.lines["cluster"], cluster))
            told = reconcile(mine, sums_of(CHARGEBACK.empty()).lines, FROM_MS + day * DAY_MS, "run")
            keys = list(zip(*(told[name].to_pylist() for name in RECONCILIATION.key), strict=True))
            assert len(keys) == len(set(keys))
            for row in told.to_pylist():
                reached[row["currency"], row["cost_metric"]] += row["cost_in"] + row["rounding"]
                seen.add((row["line_item_id"], decimal_to_nanos(row["line_cost"])))
        whole = dict(zip(lines["line_item_id"].to_pylist(), lines["cost_nanos"].to_pylist(), strict=True))
        assert all(whole[number] == cost for number, cost in seen)
    assert reached == delivered


@settings(max_examples=40)
@given(bills())
def test_days_alone_are_the_days_together(lines: pa.Table) -> None:
    names = ["line_item_id", "node_key", "start_ms", "end_ms", "nanos", "cluster"]

    def told(scope: DayLines) -> list[tuple[object, ...]]:
        ids = scope.lines["line_item_id"].to_numpy(zero_copy_only=False)[scope.parts.line.to_numpy(np.int64)]
        return sorted(scope.parts.assign(line_item_id=ids)[names].itertuples(index=False, name=None))

    alone = [part for day in range(DAYS) for part in told(scope_of(lines, day, "spread"))]
    together = day_lines(lines, CLUSTERS, FROM_MS, FROM_MS + DAYS * DAY_MS, unattributed="spread")
    assert sorted(alone) == told(together)
