"""What the day's lines tell of themselves once it is known where each stands: coarse lines, GPUs outside, unused reservations."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from allocation import hours, money, times
from allocation.findings import Code, Finding, Severity
from allocation.machines import GPU_FAMILIES

Period = tuple[datetime, datetime]


def noticed(lines: pa.Table, overruled: Mapping[str, str], period: Period) -> tuple[Finding, ...]:
    """The findings of a day's lines.

    Args:
        lines: see ``scope.DayLines``.
        overruled: machines that were named for a node beside another one that is believed, with the node's name.
        period: the window.
    """
    return (*_coarse(lines, period), *_outside(lines, period), *_contradicted(lines, overruled, period), *_unused(lines, period))


def _coarse(lines: pa.Table, period: Period) -> Iterator[Finding]:
    length = times.milliseconds(lines["charge_period_end"]) - times.milliseconds(lines["charge_period_start"])
    own = pc.and_(pc.is_null(lines["rule"]), pc.is_valid(lines["node"])).to_numpy()
    coarse = own & (length > hours.LONGEST_WHOLE_MS)
    for row in _sums(lines.filter(pa.array(coarse)), []):
        evidence = "lines of nodes are longer than 25 hours and were cut into equal hours; export by the hour"
        yield _finding(Code.COARSE_LINE, "bill", evidence, period, row)


def _finding(code: Code, subject: str, evidence: str, period: Period, row: Mapping[str, Any]) -> Finding:
    told = f"{evidence} ({row['cost_metric']} cost)"
    return Finding(code, Severity.WARNING, subject, told, period, row["count"], row["nanos"], row["currency"])


def _ruled(lines: pa.Table, rule: str) -> pa.Table:
    return lines.filter(pc.fill_null(pc.equal(lines["rule"], rule), False))


def _sums(lines: pa.Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Cost (``nanos``) and ``count`` of the lines' part of the day by some columns, currency and cost metric."""
    keys = [*keys, "currency", "cost_metric"]
    costs = lines.append_column("cost", money.nanos_column(lines["day_nanos"].to_numpy())).group_by(keys)
    sums = costs.aggregate([("cost", "sum"), ("cost", "count")]).sort_by([(key, "ascending") for key in keys])
    return [row | {"nanos": money.decimal_to_nanos(row["cost_sum"]), "count": row["cost_count"]} for row in sums.to_pylist()]


def _outside(lines: pa.Table, period: Period) -> Iterator[Finding]:
    outside = _ruled(lines, "not_a_node")
    outside = outside.filter(pc.fill_null(pc.match_substring_regex(outside["instance_type"], GPU_FAMILIES.pattern), False))
    outside = outside.append_column("subject", pc.coalesce(outside["resource_id"], outside["pool"]))
    evidence = "a GPU instance on the bill is no node of any configured cluster; add its cluster, or its id to nodes:"
    for row in _sums(outside, ["subject"]):
        yield _finding(Code.GPU_INSTANCE_OUTSIDE_CLUSTERS, str(row["subject"]), evidence, period, row)


def _contradicted(lines: pa.Table, overruled: Mapping[str, str], period: Period) -> Iterator[Finding]:
    """A finding for each machine whose lines stand outside because another machine was believed to be its node."""
    for row in _sums(_ruled(lines, "node_contradicted"), ["node_key"]):
        evidence = (
            f"the bill has lines of {row['node_key']}, which was named for this node while another machine was, and that one is "
            "believed; the lines are out of scope, rule `node_contradicted`"
        )
        yield _finding(Code.CONTRADICTING_INVENTORY, overruled[row["node_key"]], evidence, period, row)


def _unused(lines: pa.Table, period: Period) -> Iterator[Finding]:
    """What was paid for reservations and commitments and not used, one finding each."""
    unused = _ruled(lines, "reserved_unused")
    named = [unused[name] for name in ("capacity_reservation", "pool", "resource_id")]
    unused = unused.append_column("subject", pc.fill_null(pc.coalesce(*named), "bill"))
    for row in _sums(unused, ["subject"]):
        evidence = "reserved and not used: no usage line of the hour ran in it; the money is out of scope, rule `reserved_unused`"
        yield _finding(Code.UNUSED_RESERVATION, str(row["subject"]), evidence, period, row)
