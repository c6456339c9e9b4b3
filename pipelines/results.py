"""The result tables of one partition, and what is left to say of them.

Here does not belong how they are computed (``stages``) or written (``publishing``).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from allocation.marts import daily_mart
from allocation.money import exact_sum
from allocation.schemas import CHARGEBACK
from allocation.sums import DaySums
from pipelines.partition import Partition
from pipelines.spool import Spool

RESULT_TABLES = ("chargeback", "team_model", "reconciliation", "findings", "daily_mart")
_STATE = ("cost_metric", "currency", "state", "rule")


@dataclass(frozen=True)
class Booked:
    """What a run booked as adjustments of a partition.

    ``legs``: the new rows of ``adjustments``, none where nothing changed; ``day``: the booking date; ``cause``: what changed.
    ``stays``: the partition's own tables were left as they are.
    """

    legs: pa.Table
    day: date
    cause: str
    stays: bool


@dataclass(frozen=True)
class Results:
    """The result tables of one partition.

    ``rows``: those of ``chargeback``, without their run's id; ``sums``: what they add up to; ``closed``: the billing periods
    that are closed; ``booked``: the difference to closed rows, where these stay.
    """

    partition: Partition
    run_id: str
    rows: Spool
    sums: DaySums
    team_model: pa.Table
    reconciliation: pa.Table
    findings: pa.Table
    deliveries: tuple[str, ...] = ()
    closed: tuple[date, ...] = ()
    booked: Booked | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of ``chargeback``, whole, batch by batch."""
        place = CHARGEBACK.names.index("run_id")
        for batch in self.rows.batches():
            yield batch.set_column(place, CHARGEBACK.arrow().field(place), pa.repeat(self.run_id, len(batch)))

    @cached_property
    def chargeback(self) -> pa.Table:
        """The table at once. A large day's is better read from the store."""
        return pa.Table.from_batches(self.batches(), CHARGEBACK.arrow())

    @cached_property
    def daily_mart(self) -> pa.Table:
        """The day's mart."""
        return daily_mart(self.sums.holders, self.partition.day, self.closed, self.run_id)

    @property
    def reconciled(self) -> pa.Table:
        """Money by cost metric, currency, state and rule."""
        return self.reconciliation.group_by([*_STATE]).aggregate([("cost_in", "sum"), ("cost_out", "sum")])

    @property
    def has_errors(self) -> bool:
        """Whether a finding of severity `error` stands."""
        return _has_errors(self.findings)


@dataclass(frozen=True)
class Outcome:
    """What is left to say of a partition once it is written: none of its rows.

    ``reconciled``: money by cost metric, currency, state and rule; ``cost``: exact; ``unallocated_rows``: those that no
    measurement could place; ``booked``: what was booked instead of written, where its month is closed.
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
    booked: Booked | None

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
            results.reconciled,
            results.findings,
            results.booked,
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
