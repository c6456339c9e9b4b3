"""One shard of one cluster's day, from stored series to charged rows: what runs in a worker, wherever that is.

Everything here can be sent to another process. Here does not belong how a day is cut into shards (``shard_tasks``) or where they
run (``engines``).
"""

from dataclasses import dataclass, replace

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.chargeback import Stamp, charge
from allocation.findings import Finding
from allocation.model_split import ModelSplit, Served
from allocation.owners import Owners
from allocation.policy import Policy
from allocation.pricing import DayMoney, price
from allocation.schemas import SAMPLES
from allocation.sums import DaySums, sums_of
from allocation.usage import Measured, measure
from pipelines.inventory import pods_frame
from pipelines.storage import TableStore


@dataclass(frozen=True)
class Method:
    """What all shards of a cluster's day have in common."""

    store: TableStore
    policy: Policy
    owners: Owners
    cluster: str
    money: DayMoney

    @property
    def split(self) -> ModelSplit | None:
        """How rows are split over models, None where none is."""
        return self.owners.model_split


@dataclass(frozen=True)
class Task:
    """The inputs of one shard, nothing of any other.

    ``files``: places of stored series below the store; ``only``: the nodes that are read from them, None: all. ``nodes``,
    ``periods``: see ``allocation.usage.measure``; ``pods``: rows of the table. ``parts``, ``lines``: see
    ``allocation.chargeback.charge``. ``counters``: those of the shard's pods, None where there are none.
    """

    files: tuple[str, ...]
    only: tuple[str, ...] | None
    nodes: pd.DataFrame
    pods: pa.Table
    periods: pd.DataFrame
    parts: pd.DataFrame
    lines: pa.Table
    counters: pa.Table | None


@dataclass(frozen=True)
class Charged:
    """What one shard gave: rows of ``chargeback`` without their run's id, their sums, and priced findings."""

    rows: pa.Table
    sums: DaySums
    findings: tuple[Finding, ...]


def measure_shard(method: Method, task: Task) -> Measured:
    """The weights of the shard's periods."""
    files = [method.store.read_file(place) for place in task.files]
    samples = files[0] if len(files) == 1 else pa.concat_tables([SAMPLES.empty(), *files])
    if task.only is not None:
        samples = samples.filter(pc.is_in(samples["node"], pa.array(task.only, pa.string())))
    return measure(samples, task.nodes, pods_frame(task.pods), task.periods, method.policy)


def charge_shard(method: Method, task: Task, measured: Measured) -> Charged:
    """Money over weights, then owners."""
    served = None
    if method.split is not None and task.counters is not None:
        served = Served(task.counters, method.split, method.policy.max_gap_ms)
    stamp = Stamp(method.policy.policy_id, "")
    gpus = task.nodes.groupby("node_key").gpus.max().fillna(0)
    rows, noticed = charge(
        task.lines,
        task.parts,
        measured.usage,
        task.pods,
        method.owners,
        stamp,
        cluster=method.cluster,
        served=served,
        periods=task.periods.assign(gpus=task.periods.node_key.map(gpus).fillna(0).astype("int64")),
    )
    told = [_priced(finding, rows.table, method.money) for finding in measured.findings]
    return Charged(rows.table, sums_of(rows.table, rows.beside), (*told, *noticed))


def _priced(finding: Finding, rows: pa.Table, money: DayMoney) -> Finding:
    """What needs whole rows is priced here; all else from the day's sums."""
    if not finding.excess:
        return finding
    return replace(price([finding], rows, money)[0], excess=())


def run_shard(method: Method, task: Task) -> Charged:
    """The whole method over one shard."""
    return charge_shard(method, task, measure_shard(method, task))
