"""The asset checks. The rules themselves hold in ``pipelines.stages``, which refuses to publish; a check shows what came of them.

Each check is declared here and its result is returned by the asset, so nothing is loaded again.
"""

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import NO_MONEY, exact_sum
from dagster_project.metadata import by_money
from pipelines.results import Results

UNALLOCATED_WARNS_ABOVE = 0.05
"""The share of a day's cost that may be unallocated before the check warns."""

CONSERVATION = dg.AssetCheckSpec(
    "conservation", asset="reconciliation", description="Every line's parts add up to it, and all parts stand in chargeback."
)
COVERAGE = dg.AssetCheckSpec("coverage", asset="chargeback", description="How much of the cost no measurement could place.")
NO_ERRORS = dg.AssetCheckSpec(
    "no_errors", asset="findings", description="No finding that would block exports, reports and closing."
)
SPECS = (CONSERVATION, COVERAGE, NO_ERRORS)


def conservation(results: Results) -> dg.AssetCheckResult:
    """Every difference is 0, and what left reconciliation is what arrived in chargeback."""
    table = results.reconciliation
    wrong = pc.sum(pc.not_equal(table["difference"], NO_MONEY)).as_py() or 0
    left, arrived = exact_sum(table["cost_out"]), exact_sum(results.sums.holders["cost"])
    return dg.AssetCheckResult(
        passed=wrong == 0 and left == arrived,
        check_name=CONSERVATION.name,
        asset_key=CONSERVATION.asset_key,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"lines": len(table), "lines_that_differ": wrong, "cost_out": f"{left:f}", "chargeback_cost": f"{arrived:f}"},
    )


def coverage(results: Results, warns_above: float = UNALLOCATED_WARNS_ABOVE) -> dg.AssetCheckResult:
    """The unallocated share of the cost, sizes without signs, of the cost metric and currency where it is largest."""
    shares = unallocated_shares(results.sums.holders)
    return dg.AssetCheckResult(
        passed=all(share <= warns_above for share in shares.values()),
        check_name=COVERAGE.name,
        asset_key=COVERAGE.asset_key,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"warns_above": warns_above, **{f"unallocated_share_{name}": share for name, share in shares.items()}},
    )


def unallocated_shares(holders: pa.Table) -> dict[str, float]:
    """The share of bucket ``unallocated`` by cost metric and currency; ``holders`` as of ``DaySums``."""
    shares = {}
    for money, rows in by_money(holders):
        size = rows["size"]
        whole, lost = exact_sum(size), exact_sum(size.filter(pc.equal(rows["bucket"], "unallocated")))
        shares[money] = float(lost / whole) if whole else 0.0
    return shares


def no_errors(results: Results) -> dg.AssetCheckResult:
    """No finding of severity error stands."""
    count = pc.sum(pc.equal(results.findings["severity"], "error")).as_py() or 0
    return dg.AssetCheckResult(
        passed=not results.has_errors,
        check_name=NO_ERRORS.name,
        asset_key=NO_ERRORS.asset_key,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"errors": count, "findings": len(results.findings)},
    )
