"""One shard from tables to runs, with the sharing modes that the device's own rows do not tell.

The order: pieces, stand-ins for reservation pods, declared memory, arrays, runs; and where pods lost their labels, once more with
the pieces that stand for them. Each step has its own module.
"""

from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from allocation.declared import with_declared
from allocation.devices import Shard, build, machines_of
from allocation.inferred import find_lost, with_lost
from allocation.intervals import Runs, hold
from allocation.lives import declarations, pod_lives
from allocation.pieces import Pieces, pieces_of
from allocation.policy import Policy
from allocation.standins import resolved


@dataclass(frozen=True)
class Held:
    """A shard's arrays and runs, what they were made of, and the pods that hold a device by inference (see ``inferred``)."""

    shard: Shard
    runs: Runs
    pieces: Pieces
    lives: pd.DataFrame
    lost: pd.DataFrame


def held(samples: pa.Table, nodes: pd.DataFrame, pods: pd.DataFrame, machine_keys: list[str], policy: Policy) -> Held:
    """The runs of the shard's machines; arguments as of ``usage.measure``."""
    machines, lives, told = machines_of(nodes, machine_keys), pod_lives(pods, policy.max_hold_ms), declarations(pods)
    pieces = resolved(pieces_of(samples, nodes, lives, machines), lives)
    shard, runs = _runs(with_declared(pieces, lives, told, machines), machines, policy)
    lost = find_lost(runs, shard, nodes, lives)
    if len(lost):
        pieces = with_lost(pieces, lost, shard)
        shard, runs = _runs(with_declared(pieces, lives, told, machines), machines, policy)
    return Held(shard, runs, pieces, lives, lost)


def _runs(pieces: Pieces, machines: pd.DataFrame, policy: Policy) -> tuple[Shard, Runs]:
    shard = build(pieces, machines, policy)
    runs = hold(shard.offsets, shard.ts, shard.values, shard.reports, shard.alive, policy.max_hold_ms, policy.max_gap_ms)
    return shard, runs
