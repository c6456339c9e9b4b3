"""Two versions of a partition against each other: what changed for whom, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from allocation.errors import ChargebackError
from allocation.ledger import legs
from allocation.summed import summed
from pipelines.closing.causes import cause_of
from pipelines.versions import Version

OWNER = ("cost_metric", "currency", "team", "model", "bucket")


@dataclass(frozen=True)
class Difference:
    """``rows``: OWNER, ``before``, ``now`` and ``change`` (money), the largest change first; ``cause``: what changed."""

    older: Version
    newer: Version
    cause: str
    rows: pa.Table


def compare(older: Version, newer: Version) -> Difference:
    """What the newer version charges otherwise than the older one, by owner."""
    found = legs([older.mart], newer.mart)
    charged = pc.equal(found["leg"], "charged")
    nothing = pa.repeat(pa.scalar(0).cast(found["cost"].type), len(found))
    columns = {name: found[name] for name in OWNER}
    columns["before"] = pc.if_else(charged, pc.negate(found["cost"]), nothing)
    columns["now"] = pc.if_else(charged, nothing, found["cost"])
    columns["change"] = found["cost"]
    sums = summed(pa.table(columns), OWNER, ["before", "now", "change"])
    size = pc.abs(sums["change"])
    order = pc.sort_indices(sums.append_column("size", size), [("size", "descending"), *((n, "ascending") for n in OWNER)])
    cause = cause_of(older.told.get("inputs", {}), newer.told.get("inputs", {}))
    return Difference(older, newer, cause, sums.take(order))


def two_of(versions: Sequence[Version], older: int | None, newer: int | None) -> tuple[Version, Version]:
    """The versions of these numbers, counted from 1; by default the last two.

    Raises:
        ChargebackError: there are no two versions, or none of that number.
    """
    if len(versions) < 2:
        raise ChargebackError(f"there is {'one version' if versions else 'no version'} of this partition; nothing to compare")
    second = len(versions) if newer is None else newer
    first = second - 1 if older is None else older
    for number in (first, second):
        if not 1 <= number <= len(versions):
            raise ChargebackError(f"there is no version {number}; `gpu-chargeback history` lists 1 to {len(versions)}")
    return versions[first - 1], versions[second - 1]
