"""The result tables of one partition, and how they replace those of before.

Here does not belong how they are computed (``stages``).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from allocation.money import exact_sum
from allocation.schemas import CHARGEBACK
from allocation.sums import DaySums
from pipelines.inputs import inputs_of
from pipelines.spool import Spool
from pipelines.steps import WRITTEN, Step
from pipelines.storage import Partition
from pipelines.walk import Walk

RESULT_TABLES = ("chargeback", "team_model", "reconciliation", "findings", "daily_mart")
_STATE = ("cost_metric", "currency", "state", "rule")


@dataclass(frozen=True)
class Results:
    """The result tables of one partition.

    ``rows``: those of ``chargeback``, without their run's id; ``sums``: what they add up to.
    """

    partition: Partition
    run_id: str
    rows: Spool
    sums: DaySums
    team_model: pa.Table
    reconciliation: pa.Table
    findings: pa.Table
    daily_mart: pa.Table
    deliveries: tuple[str, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of ``chargeback``, whole, batch by batch."""
        place = CHARGEBACK.names.index("run_id")
        for batch in self.rows.batches():
            yield batch.set_column(place, CHARGEBACK.arrow().field(place), pa.repeat(self.run_id, len(batch)))

    @cached_property
    def chargeback(self) -> pa.Table:
        """The table at once. A large day's is better read from the store."""
        return pa.Table.from_batches(self.batches(), CHARGEBACK.arrow())

    @property
    def has_errors(self) -> bool:
        """Whether a finding of severity `error` stands."""
        return _has_errors(self.findings)


@dataclass(frozen=True)
class Outcome:
    """What is left to say of a partition once it is written: none of its rows.

    ``reconciled``: money by cost metric, currency, state and rule; ``cost``: exact; ``unallocated_rows``: those that no
    measurement could place.
    """

    partition: Partition
    run_id: str
    rows: int
    unallocated_rows: int
    cost: str
    lines: int
    team_model: pa.Table
    reconciled: pa.Table
    findings: pa.Table

    @classmethod
    def of(cls, results: Results) -> "Outcome":
        """That of these results."""
        holders, lines = results.sums.holders, results.reconciliation
        lost = holders.filter(pc.equal(holders["bucket"], "unallocated"))
        return cls(
            results.partition,
            results.run_id,
            results.sums.rows,
            int(pc.sum(lost["rows"]).as_py() or 0),
            str(exact_sum(holders["cost"])),
            len(lines),
            results.team_model,
            lines.group_by([*_STATE]).aggregate([("cost_in", "sum"), ("cost_out", "sum")]),
            results.findings,
        )


@dataclass
class RunSummary:
    """What a run wrote, for people and machines."""

    partitions: list[Outcome] = field(default_factory=list)

    def add(self, written: Iterable[Results]) -> None:
        """Partitions that stand in the store; their rows are let go."""
        for results in written:
            self.partitions.append(Outcome.of(results))
            results.rows.close()

    @property
    def has_errors(self) -> bool:
        """Whether any partition has a finding of severity `error`."""
        return any(_has_errors(outcome.findings) for outcome in self.partitions)


def _has_errors(findings: pa.Table) -> bool:
    return bool(pc.any(pc.equal(findings["severity"], "error")).as_py())


def publish(walk: Walk, results: Results) -> None:
    """Replaces the partition in all result tables."""
    inputs = inputs_of(walk.settings, walk.store, results.partition, walk.owners.owners_id, walk.prices_id)
    told = {"run_id": results.run_id, "deliveries": list(results.deliveries), "inputs": inputs}
    schema, detail = CHARGEBACK.arrow(), {**told, "rows": results.rows.rows}
    walk.store.write_batches("chargeback", results.partition, _watched(walk, results), schema, detail)
    for name in RESULT_TABLES[1:]:
        table = getattr(results, name)
        walk.store.write(name, results.partition, table, {**told, "rows": len(table)})


def _watched(walk: Walk, results: Results) -> Iterator[pa.RecordBatch]:
    for batch in results.batches():
        yield batch
        walk.watch(Step(WRITTEN, str(results.partition), len(batch), results.rows.rows))
