"""What a run tells of its way while it goes: how many shards are fetched and computed, how many rows are written.

Here does not belong how it is shown (``show``, Dagster's log).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

FETCHED: Literal["fetched"] = "fetched"
COMPUTED: Literal["computed"] = "computed"
WRITTEN: Literal["written"] = "written"


@dataclass(frozen=True)
class Step:
    """One shard fetched or computed, or some rows written.

    ``amount``: samples of a fetched shard, else rows. ``of``: how many steps this stage of the partition is expected to have.
    """

    stage: Literal["fetched", "computed", "written"]
    partition: str
    amount: int
    of: int


Watch = Callable[[Step], None]


def unwatched(step: Step) -> None:
    """Nobody is told."""
