"""Why a partition's figures are others than before, by the marks of what they rest on (``inputs``)."""

from collections.abc import Mapping

import pyarrow as pa

from pipelines.table_digest import table_digest

BILL = "bill"
_LINE = [
    "resource_id", "service", "charge_period_start", "charge_period_end", "cost_metric", "currency", "line_cost",
    "cost_in", "rule",
]  # fmt: skip
"""What a line says; its id may change with the delivery."""
CAUSES = {
    BILL: "bill_restated",
    "samples": "late_metrics",
    "counters": "late_metrics",
    "owners": "owner_rule_changed",
    "policy": "policy_changed",
    "billing": "bill_settings_changed",
    "nodes": "inventory_changed",
    "pods": "inventory_changed",
    "prices": "list_prices_changed",
    "code": "method_changed",
}
"""The cause that each mark stands for."""
REOPENED = "reopened"
OTHER = "other"


def bill_mark(reconciliation: pa.Table) -> str:
    """A mark of the day's lines as they touch the partition."""
    order = [(name, "ascending") for name in _LINE]
    lines = reconciliation.select(_LINE).sort_by(order)
    return table_digest(lines.cast(pa.schema([(name, pa.string()) for name in _LINE])))[:16]


def cause_of(then: Mapping[str, object], now: Mapping[str, object]) -> str:
    """What changed, several causes joined by ``+``."""
    found = {cause for mark, cause in CAUSES.items() if mark in then and then[mark] != now.get(mark)}
    return "+".join(sorted(found)) or OTHER
