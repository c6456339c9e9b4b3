"""Lines that several machines pay for: a capacity block, a HyperPod cluster, discounts and taxes that are spread."""

from datetime import timedelta
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from allocation.scope import DayLines, day_lines, expected_ms
from pipelines.settings import NodeEntry
from tests.allocation.test_scope import FROM_MS, HOUR_MS, MIDNIGHT, UNTIL_MS, A, B, line, nodes, table

DAY_MS = UNTIL_MS - FROM_MS
DOLLAR = 10**9
CLUSTERS = {"prod": nodes(A), "dev": nodes(B)}
C = NodeEntry(name="gpu-c", provider_id="aws:///z/i-c", gpus=1)


def spread(lines: pa.Table, clusters: dict[str, pd.DataFrame] = CLUSTERS, day: int = 0) -> DayLines:
    return day_lines(lines, clusters, FROM_MS + day * DAY_MS, UNTIL_MS + day * DAY_MS, unattributed="spread")


def fee(hours: tuple[float, float], cost_nanos: int, **values: object) -> dict[str, object]:
    """Line 1, the fee of the block cr-1."""
    return line(1, "cr-1", hours, cost_nanos=cost_nanos, pool="reservation:cr-1", charge_category="Purchase", **values)


def in_reservation(number: int, key: str, hours: tuple[float, float], **values: object) -> dict[str, object]:
    return line(number, key, hours, capacity_reservation="CR-1", cost_nanos=0, **values)


def rows(found: DayLines, number: str) -> list[tuple[str, str | None, int]]:
    """Cluster, rule and money of each row of a line."""
    told = found.lines.to_pylist()
    return [(r["cluster"], r["rule"], r["day_nanos"]) for r in told if r["line_item_id"] == number]


def parts(found: DayLines, number: str) -> list[tuple[str, int, int]]:
    """Machine, hour of the day and nanos of each part of a line that is split."""
    ids = found.lines["line_item_id"].to_pylist()
    told = found.parts
    return [
        (key, (start - FROM_MS) // HOUR_MS, nanos)
        for row, key, start, nanos in zip(told.line, told.node_key, told.start_ms, told.nanos, strict=True)
        if ids[row] == number
    ]


def tax(number: int, hours: tuple[float, float] = (0, 1), **values: object) -> dict[str, object]:
    return line(number, None, hours, **({"charge_category": "Tax", "scope_rule": "no_resource"} | values))


def test_a_tax_goes_to_its_accounts_gpu_lines_by_their_cost() -> None:
    lines = table(
        line(1, "i-a", cost_nanos=10 * DOLLAR), line(2, "i-b", cost_nanos=30 * DOLLAR), tax(3, cost_nanos=DOLLAR),
        line(4, "i-c", cost_nanos=100 * DOLLAR, billing_account="2"),
    )  # fmt: skip
    found = spread(lines, {**CLUSTERS, "third": nodes(C)})
    assert parts(found, "3") == [("i-a", 0, 250_000_000), ("i-b", 0, 750_000_000)]
    assert rows(found, "3") == [("dev", None, 750_000_000), ("prod", None, 250_000_000)]


def test_nothing_is_spread_unless_it_is_asked_for() -> None:
    lines = table(line(1, "i-a"), tax(2))
    assert rows(day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS), "2") == [("_bill", "no_resource", DOLLAR)]


@pytest.mark.parametrize(
    "values",
    [
        {"currency": "EUR"},
        {"cost_metric": "effective"},
        {"billing_account": "9"},
        {"sub_account": "s9"},
        {"charge_category": "Purchase"},
        {"charge_category": "Adjustment", "line_type": "SavingsPlanNegation"},
        {"scope_rule": "excluded"},
        {"charge_period_start": MIDNIGHT + timedelta(hours=1), "charge_period_end": MIDNIGHT + timedelta(hours=2)},
    ],
)
def test_what_is_of_other_money_or_no_discount_stays_outside(values: dict[str, object]) -> None:
    found = spread(table(line(1, "i-a", sub_account="s1"), tax(2) | values))
    rule = values.get("scope_rule", "no_resource")
    assert rows(found, "2") == [("_bill", rule, DOLLAR)]


def test_a_line_of_a_sub_account_goes_to_that_one_and_others_to_the_payers() -> None:
    lines = table(
        line(1, "i-a", sub_account="s1"), line(2, "i-b", sub_account="s2"), tax(3, sub_account="s2"), tax(4, cost_nanos=3)
    )
    found = spread(lines)
    assert parts(found, "3") == [("i-b", 0, DOLLAR)]
    assert parts(found, "4") == [("i-a", 0, 2), ("i-b", 0, 1)]


def test_a_credit_mirrors_and_sizes_have_no_sign() -> None:
    """|10|, |-10| of a, 20 of b; -4 is halved. A refund that is larger than the usage is a size too."""
    lines = table(
        line(1, "i-a", cost_nanos=10), line(2, "i-a", cost_nanos=-10, charge_category="Credit"), line(3, "i-b", cost_nanos=20),
        tax(4, cost_nanos=-5, charge_category="Credit"),
    )  # fmt: skip
    assert parts(spread(lines), "4") == [("i-a", 0, -3), ("i-b", 0, -2)]


def test_an_hour_without_gpu_lines_or_with_free_ones_stays_outside() -> None:
    """4 nanos over four hours; a runs in hour 1, for nothing in hour 2."""
    lines = table(line(1, "i-a", (1, 2), cost_nanos=7), line(2, "i-a", (2, 3), cost_nanos=0), tax(3, (0, 4), cost_nanos=4))
    found = spread(lines)
    assert parts(found, "3") == [("i-a", 1, 1)]
    assert rows(found, "3") == [("_bill", "no_resource", 3), ("prod", None, 1)]


def test_a_days_line_weighs_with_its_hour() -> None:
    """a costs 24 a day, 1 an hour; b 3 in hour 5: of a tax of 8 in that hour 2 and 6."""
    lines = table(line(1, "i-a", (0, 24), cost_nanos=24), line(2, "i-b", (5, 6), cost_nanos=3), tax(3, (5, 6), cost_nanos=8))
    found = spread(lines)
    assert parts(found, "3") == [("i-a", 5, 2), ("i-b", 5, 6)]


def test_a_monthly_tax_is_each_days_own() -> None:
    """744 hours, 744 nanos: one an hour. Day 0 has two hours of a, day 1 a line from the evening before and one of b."""
    lines = table(
        tax(1, (0, 744), cost_nanos=744), line(2, "i-a", (22, 26), cost_nanos=400), line(3, "i-b", (25, 26), cost_nanos=50)
    )
    first, second = spread(lines), spread(lines, day=1)
    assert parts(first, "1") == [("i-a", 22, 1), ("i-a", 23, 1)]
    assert rows(first, "1") == [("_bill", "no_resource", 22), ("prod", None, 2)]
    assert parts(second, "1") == [("i-a", 24, 1), ("i-a", 25, 1), ("i-b", 25, 0)]
    assert rows(second, "1") == [("_bill", "no_resource", 22), ("dev", None, 0), ("prod", None, 2)]
    both = day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS + DAY_MS, unattributed="spread")
    assert parts(both, "1") == parts(first, "1") + parts(second, "1")
    assert not [f for f in first.findings if f.code.value == "coarse_line"]


def test_spread_money_has_the_machines_own_time_and_no_time_of_its_own() -> None:
    lines = table(line(1, "i-a", machine_ms=900_000), tax(2, machine_ms=1_000))
    found = spread(lines)
    frames = expected_ms(found.parts, found.lines, nodes(A))
    assert frames[["node_key", "expected_ms"]].to_numpy().tolist() == [["i-a", 900_000]]


def test_what_rounding_cut_counts_once() -> None:
    lines = table(line(1, "i-a"), line(2, "i-b"), tax(3, cost_residue=Decimal("4E-10")))
    told = [r["cost_residue"] for r in spread(lines).lines.to_pylist() if r["line_item_id"] == "3"]
    assert told == [Decimal("4E-10"), Decimal(0)]


def test_a_capacity_block_over_its_day_on_two_machines() -> None:
    """943.92 over 24 hours is 39.33 an hour, 19.665 a machine; b stands in another cluster."""
    cost = 943_920_000_000
    lines = table(
        fee((0, 24), cost),
        *[in_reservation(10 + h, "i-a", (h, h + 1)) for h in range(24)],
        *[in_reservation(40 + h, "i-b", (h, h + 1)) for h in range(24)],
    )
    found = day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS)
    assert parts(found, "1") == [(key, h, 19_665_000_000) for h in range(24) for key in ("i-a", "i-b")]
    assert rows(found, "1") == [("dev", None, cost // 2), ("prod", None, cost // 2)]
    assert found.findings == ()


def test_a_block_that_ends_at_half_past_eleven_over_two_days() -> None:
    """48 nanos from half past eleven over 24 hours: 2 an hour, 1 in each half; day 0 has 12.5 hours of them."""
    lines = table(
        fee((11.5, 35.5), 48), in_reservation(2, "i-a", (11.5, 24)), in_reservation(3, "i-a", (24, 35.5))
    )  # fmt: skip
    first = day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS)
    second = day_lines(lines, CLUSTERS, FROM_MS + DAY_MS, UNTIL_MS + DAY_MS)
    assert parts(first, "1") == [("i-a", 11, 1)] + [("i-a", h, 2) for h in range(12, 24)]
    assert parts(second, "1") == [("i-a", h, 2) for h in range(24, 35)] + [("i-a", 35, 1)]


def test_what_nobody_used_of_a_reservation_stays_outside() -> None:
    """Four machines reserved, 8 an hour: a the whole hour 0, in hour 1 nobody. a 2 of 8, the rest unused."""
    lines = table(fee((0, 2), 16, pool_size=4), in_reservation(2, "i-a", (0, 1)))
    found = day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS)
    assert parts(found, "1") == [("i-a", 0, 2)]
    assert rows(found, "1") == [("_bill", "reserved_unused", 14), ("prod", None, 2)]
    (finding,) = found.findings
    assert (finding.code.value, finding.subject, finding.cost_at_risk_nanos) == ("unused_reservation", "reservation:cr-1", 14)


def test_a_reservation_without_a_size_is_all_its_users() -> None:
    lines = table(fee((0, 1), 7), in_reservation(2, "i-a", (0, 1)))
    assert rows(day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS), "1") == [("prod", None, 7)]


def test_time_alive_weighs_in_a_reservation() -> None:
    """a lives for a quarter of the hour, b for all of it: 1 and 4 of 5."""
    brief = A.model_copy(update={"alive_until": MIDNIGHT + timedelta(minutes=15)})
    lines = table(fee((0, 1), 5), in_reservation(2, "i-a", (0, 1)), in_reservation(3, "i-b", (0, 1)))
    found = day_lines(lines, {"prod": nodes(brief, B)}, FROM_MS, UNTIL_MS)
    assert parts(found, "1") == [("i-a", 0, 1), ("i-b", 0, 4)]


def test_a_machine_of_no_cluster_keeps_its_share_of_a_block_outside() -> None:
    lines = table(fee((0, 1), 5), in_reservation(2, "i-a", (0, 1)), in_reservation(3, "i-x", (0, 0.25)))
    found = day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS)
    assert rows(found, "1") == [("_bill", "not_a_node", 1), ("prod", None, 4)]


def test_a_reservation_that_is_billed_as_unused_keeps_its_rule() -> None:
    lines = table(line(1, "cr-1", scope_rule="reserved_unused", pool="reservation:cr-1"), in_reservation(2, "i-a", (0, 1)))
    found = day_lines(lines, CLUSTERS, FROM_MS, UNTIL_MS)
    assert rows(found, "1") == [("_bill", "reserved_unused", DOLLAR)]
    assert [(f.code.value, f.cost_at_risk_nanos) for f in found.findings] == [("unused_reservation", DOLLAR)]


def test_hyperpod_lines_go_to_the_clusters_nodes_of_their_type() -> None:
    pod = [
        NodeEntry(name=f"n{k}", provider_id=f"aws:///z/sagemaker/cluster/hyperpod-abc-i-{k}", instance_type=kind, gpus=8)
        for k, kind in enumerate(["ml.p5.48xlarge", "p5.48xlarge", None, "ml.p4d.24xlarge"])
    ]
    other = NodeEntry(name="o", provider_id="aws:///z/hyperpod-abcd-i-9", instance_type="ml.p5.48xlarge", gpus=8)
    lines = table(
        line(1, None, cost_nanos=10, pool="hyperpod:abc", instance_type="ml.p5.48xlarge", scope_rule="no_resource"),
        line(2, None, cost_nanos=9, pool="hyperpod:zzz", instance_type="ml.p5.48xlarge"),
    )
    found = day_lines(lines, {"prod": nodes(*pod, other)}, FROM_MS, UNTIL_MS)
    assert parts(found, "1") == [("hyperpod-abc-i-0", 0, 4), ("hyperpod-abc-i-1", 0, 3), ("hyperpod-abc-i-2", 0, 3)]
    assert rows(found, "2") == [("_bill", "not_a_node", 9)]
    assert [(f.code.value, f.subject) for f in found.findings] == [("gpu_instance_outside_clusters", "hyperpod:zzz")]


def test_a_tax_follows_the_money_of_a_block() -> None:
    """The machines' own lines cost nothing; the block's fee is what they cost."""
    lines = table(
        fee((0, 1), 40),
        in_reservation(2, "i-a", (0, 1)),
        in_reservation(3, "i-b", (0, 1)),
        tax(4, cost_nanos=8),
    )
    assert parts(spread(lines), "4") == [("i-a", 0, 4), ("i-b", 0, 4)]


def test_sizes_beyond_one_word_are_divided_exactly() -> None:
    """Three lines of the largest cost on a, one on b: 3 to 1."""
    large = 2**63 - 1
    lines = table(*[line(n, "i-a", cost_nanos=large) for n in range(3)], line(3, "i-b", cost_nanos=large), tax(4, cost_nanos=8))
    assert parts(spread(lines), "4") == [("i-a", 0, 6), ("i-b", 0, 2)]
