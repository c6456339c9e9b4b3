"""The money that hangs on findings: what stands in ``chargeback`` for the device, pod or node that a finding names.

Here belongs which column of which rows a code puts at risk. Here does not belong what is noticed, or any amount that is
charged: a finding never changes one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation import money
from allocation.findings import Code, Finding
from allocation.summed import summed
from allocation.times import milliseconds

_METRICS = ("billed", "effective", "contracted", "list")
GIB_MS = float(2**30 * 1000)
_BY_REASON = {
    Code.GPU_WITHOUT_METRICS: "gpu_without_metrics",
    Code.NODE_WITHOUT_METRICS: "node_without_metrics",
    Code.LOW_COVERAGE: "unknown_time",
    Code.HOST_NOT_DIVIDED: "gpu_share",
}
"""What a bucket holds for this reason."""
_USED = {Code.OVER_CAPACITY, Code.REPEATED_DEVICE_VALUES, Code.POD_MEMORY_NOT_MAPPED}
"""The memory's own price: how it is shared among the holders is in doubt."""
_OVERHEAD = {Code.RESERVE_JUMPS}
"""The price of what the driver keeps."""
_UNHELD = {Code.DEVICE_WITHOUT_PODS}
"""What no pod of the device bears."""
_WHOLE = {
    Code.CAPACITY_UNKNOWN, Code.CAPACITY_DISAGREES, Code.TWO_EXPORTERS, Code.HA_DUPLICATES, Code.DUPLICATE_SAMPLES,
    Code.INVALID_SAMPLES, Code.SKEWED_CLOCKS, Code.PREALLOCATED_MEMORY, Code.POD_ON_PARTITIONED_GPU,
    Code.MORE_GPUS_THAN_NAMEPLATE, Code.POD_ON_MORE_DEVICES, Code.MEMORY_WITHOUT_REQUEST, Code.RESERVATION_UNRESOLVED,
    Code.LABELS_LOST, Code.SAMPLES_OUTSIDE_LIFE,
    Code.MODEL_COUNTERS_MISSING, Code.CONTRADICTING_INVENTORY, Code.NODE_NOT_AS_CONFIGURED,
    Code.NO_LIST_PRICE,
}  # fmt: skip
"""All that the subject costs."""


@dataclass(frozen=True)
class DayMoney:
    """The cost metrics and the currencies of a day."""

    metrics: tuple[str, ...]
    currencies: tuple[str, ...]

    @classmethod
    def of(cls, rows: pa.Table) -> "DayMoney":
        """Those that stand in rows with ``cost_metric`` and ``currency``."""
        return cls(*(tuple(sorted(rows[name].unique().to_pylist())) for name in ("cost_metric", "currency")))


def price(findings: Sequence[Finding], rows: pa.Table, day: DayMoney | None = None) -> list[Finding]:
    """The findings with the money that hangs on each.

    A finding that has an amount already keeps it. Where the day has several currencies there is no one amount and none is given.
    Of several cost metrics it is the first of ``_METRICS``, and the evidence says so. ``repeated_device_values`` also tells what
    a naive sum over pods would have charged; its periods (``excess``) are looked up in ``rows``, which must then be whole rows.

    Args:
        findings: what was noticed.
        rows: rows of ``chargeback``, or ``holders`` as of ``DaySums``.
        day: the money of the whole day, where the rows are a part of it.
    """
    day = day or DayMoney.of(rows)
    if len(day.currencies) != 1:
        return list(findings)
    asked = [f for f in findings if f.cost_at_risk_nanos is None and _column_of(f.code)]
    if not asked:
        return list(findings)
    metric = min(day.metrics, key=_METRICS.index)
    mine = rows.filter(pc.equal(rows["cost_metric"], metric)) if len(day.metrics) > 1 else rows
    amounts = _Amounts(mine, asked)
    priced = [_priced(f, amounts, day.currencies[0]) for f in findings]
    if len(day.metrics) == 1:
        return priced
    return [p if p == f else replace(p, evidence=f"{p.evidence} ({metric} cost)") for p, f in zip(priced, findings, strict=True)]


class _Amounts:
    """Sums of the day's money over what findings name, in nanos, as far as their codes ask for them."""

    def __init__(self, chargeback: pa.Table, asked: Sequence[Finding]) -> None:
        self._rows = chargeback
        self._wanted = pa.array(sorted({name for f in asked for name in _names(f)}), pa.string())
        node, gpu, instance = (chargeback[name] for name in ("node", "gpu_uuid", "gpu_instance"))
        self._device = pc.coalesce(_joined(node, gpu, instance), _joined(node, gpu))
        pod = _joined(chargeback["namespace"], chargeback["pod"])
        names = (pod, _joined(node, gpu), self._device, gpu, _joined(gpu, instance), node)
        values = {column: _column(chargeback, column) for column in {_column_of(f.code) for f in asked}}
        keys = [["subject", "reason"]] * any(f.code in _BY_REASON for f in asked) + [["subject"]]
        self._sums = [self._sum_over(name, values, keys) for name in names]

    def _sum_over(
        self, subject: pa.ChunkedArray, values: dict[str, pa.ChunkedArray], keys: Sequence[list[str]]
    ) -> dict[tuple[str, str, str], int]:
        """Subject, reason (empty: any) and column -> nanos, for the subjects that findings name."""
        table = pa.table({"subject": subject, "reason": self._rows["reason"], **values})
        table = table.filter(pc.is_in(table["subject"], self._wanted))
        found: dict[tuple[str, str, str], int] = {}
        for mine in keys if len(table) else ():
            for row in summed(table, mine, [*values]).to_pylist():
                for name in values:
                    found[row["subject"], row.get("reason") or "", name] = money.decimal_to_nanos(row[name])
        return found

    def of(self, subject: str, column: str, reason: str) -> int | None:
        """The sum of a column over the subject's rows (of that reason), or None where it has none."""
        return next((sums[key] for sums in self._sums if (key := (subject, reason, column)) in sums), None)

    def naive(self, finding: Finding) -> tuple[int, int]:
        """What the device's memory costs in the finding's periods, and what a naive sum over pods would make of it."""
        mine = self._rows.filter(pc.fill_null(pc.equal(self._device, finding.subject), False))
        rows = pd.DataFrame(
            {
                "start_ms": milliseconds(mine["charge_period_start"]),
                "end_ms": milliseconds(mine["charge_period_end"]),
                "used_nanos": money.column_nanos(mine["used_cost"]),
                "used_gib_seconds": mine["used_gib_seconds"].to_numpy(),
            }
        )
        excess = pd.DataFrame(finding.excess, columns=["start_ms", "end_ms", "excess_byte_ms"])
        used = rows.groupby(["start_ms", "end_ms"], as_index=False).sum().merge(excess, on=["start_ms", "end_ms"])
        used = used[used.used_gib_seconds > 0]
        more = used.used_nanos * used.excess_byte_ms.astype(float) / (used.used_gib_seconds * GIB_MS)
        true = int(used.used_nanos.sum())
        return true, true + round(float(more.sum()))


def _names(finding: Finding) -> Sequence[str]:
    """The subjects whose money hangs on a finding."""
    return finding.money_of or (finding.subject,)


def _column(chargeback: pa.Table, name: str) -> pa.ChunkedArray:
    """A column of money; ``unheld``: what no pod of a device bears."""
    if name != "unheld":
        return chargeback[name]
    return pc.if_else(pc.is_in(chargeback["bucket"], pa.array(["idle", "overhead"])), chargeback["cost"], money.NO_MONEY)


def _joined(*parts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Parts of a subject with slashes between them; null where one is missing."""
    return pc.binary_join_element_wise(*parts, "/")


def _priced(finding: Finding, amounts: _Amounts, currency: str) -> Finding:
    if finding.cost_at_risk_nanos is not None:
        return finding
    column, reason = _column_of(finding.code), _BY_REASON.get(finding.code, "")
    told = [amounts.of(name, column, reason) for name in _names(finding)] if column else []
    nanos = sum(amount for amount in told if amount is not None)
    if all(amount is None for amount in told):
        return finding
    evidence = finding.evidence
    if finding.excess:
        true, naive = amounts.naive(finding)
        evidence += f". A naive sum over pods would have charged {_text(naive)} {currency} where {_text(true)} is right"
    return replace(finding, cost_at_risk_nanos=nanos, currency=currency, evidence=evidence)


def _column_of(code: Code) -> str:
    if code in _USED:
        return "used_cost"
    if code in _OVERHEAD:
        return "overhead_cost"
    if code in _UNHELD:
        return "unheld"
    return "cost" if code in _WHOLE or code in _BY_REASON else ""


def _text(nanos: int) -> str:
    """An amount for people, all its decimals but no idle zeros beyond two."""
    whole, _, decimals = f"{money.nanos_to_decimal(nanos):f}".partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"
