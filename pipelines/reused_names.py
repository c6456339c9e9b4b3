"""A machine's name that two machines bore within an hour: the bill of that hour cannot be divided between them."""

from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from allocation.findings import Code, Finding, Severity
from allocation.money import sum_nanos
from allocation.schemas import BILL_CLUSTER
from pipelines.settings import day_start

_NUMBERED = r"/instances/\d+$"
_HOUR = ["node_key", "charge_period_start", "currency", "cost_metric"]
_FOUND = ["node_key", "currency", "cost_metric"]


def reused_names(lines: pa.Table, day: date) -> list[Finding]:
    """A finding for each machine, currency and metric; its money is what the lines of these hours cost in sum.

    Args:
        lines: the day's lines with their ``cluster`` and ``rule``; only those that are split on a machine and whose resource
            ends in a machine's own number count.
        day: the UTC day.
    """
    split = pc.and_(pc.not_equal(lines["cluster"], BILL_CLUSTER), pc.is_null(lines["rule"]))
    numbered = pc.fill_null(pc.match_substring_regex(lines["resource_id"].cast(pa.string()), _NUMBERED), False)
    of_machines = lines.filter(pc.and_(split, numbered)).select([*_HOUR, "resource_id", "cost_nanos"])
    told = of_machines.group_by(_HOUR).aggregate([("resource_id", "count_distinct")])
    several = told.filter(pc.greater(told["resource_id_count_distinct"], 1))
    if not len(several):
        return []
    period = (day_start(day), day_start(day) + timedelta(days=1))
    found = []
    rows = of_machines.to_pandas().merge(several.to_pandas(), on=_HOUR)
    for (node, currency, metric), mine in rows.groupby(_FOUND):
        machines = sorted(set(mine.resource_id.str.extract(r"(\d+)$")[0]))
        hours = sorted(set(mine.charge_period_start))
        evidence = (
            f"the machines {', '.join(machines)} bore this name in the same hour ({len(hours)} in all, the first at "
            f"{hours[0]:%H:%M} UTC; cost {metric}); what the hour cost stands for all of them together"
        )
        cost = sum_nanos(mine.cost_nanos.to_numpy())
        found.append(Finding(Code.VM_NAME_REUSED, Severity.WARNING, str(node), evidence, period, len(mine), cost, str(currency)))
    return found
