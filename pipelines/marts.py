"""The table ``monthly_mart`` of a month: out of the days that are computed, and which of its days are missing.

Here does not belong how rows add up (``allocation.marts``) or which rows a month has (``months``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.marts import monthly_mart, ratios
from allocation.schemas import BILL_CLUSTER, DAILY_MART, MONTHLY_MART
from allocation.summed import summed
from pipelines.months import Month, month_rows
from pipelines.partition import Partition
from pipelines.settings import Settings
from pipelines.storage import TableStore

_TOTALS = ("cost", "gpu_hours", "held_gpu_hours", "tokens")


@dataclass(frozen=True)
class ClusterMonth:
    """A cluster's days of a month: those that are computed, and those that are over and are not."""

    cluster: str
    days: Sequence[date]
    missing: Sequence[date]


@dataclass(frozen=True)
class MonthToDate:
    """A month as it stands: ``totals`` has a row a cost metric and currency."""

    month: Month
    final: bool
    clusters: Sequence[ClusterMonth]
    totals: pa.Table

    @property
    def through(self) -> date | None:
        """The last day up to which every cluster is whole; None where not even the first is there."""
        last = self.month.next.first - timedelta(days=1)
        ends = [min(one.missing) - timedelta(days=1) if one.missing else max(one.days, default=last) for one in self.clusters]
        found = min(ends, default=self.month.before.first)
        return found if found >= self.month.first else None


def write_month(settings: Settings, store: TableStore, month: Month, today: date, *, final: bool = False) -> MonthToDate:
    """Writes the month's partition of each cluster and tells what is in it; ``final``: whether the month is closed."""
    rows = month_rows(store, month)
    names = [*(cluster.name for cluster in settings.clusters), BILL_CLUSTER]
    clusters = [_days_of(settings, store, month, name, today) for name in [*names, *_others(rows, names)]]
    if not len(rows) and not any(one.days for one in clusters):
        raise ChargebackError(
            f"no day of {month} is in {store.place(DAILY_MART.name)}; compute it by `gpu-chargeback run CONFIG --from "
            f"{month.first} --until {min(month.next.first, today)}`"
        )
    written = []
    for one in clusters:
        mine = rows.filter(pc.equal(rows["cluster"], one.cluster))
        mart = monthly_mart(mine, one.days, final)
        told = {"rows": len(mart), "days": [str(day) for day in one.days], "final": final}
        store.write(MONTHLY_MART.name, Partition(month.first, one.cluster), mart, told)
        written.append(mart)
    sums = summed(pa.concat_tables(written), ["cost_metric", "currency"], _TOTALS, in_order=True)
    totals = pa.table({name: sums[name] for name in sums.column_names} | ratios(sums))
    return MonthToDate(month, final, clusters, totals)


def _others(rows: pa.Table, names: Sequence[str]) -> list[str]:
    """Clusters that have money in the month and are no longer configured."""
    return sorted(set(rows["cluster"].unique().to_pylist()) - set(names))


def _days_of(settings: Settings, store: TableStore, month: Month, cluster: str, today: date) -> ClusterMonth:
    there = {p.day for p in store.partitions(DAILY_MART.name) if p.cluster == cluster}
    over = [day for day in month.days if day < today and (settings.start is None or day >= settings.start)]
    return ClusterMonth(cluster, sorted(there & set(month.days)), [day for day in over if day not in there])
