"""Lines of a pool of machines: a capacity block's or reservation's fee, a HyperPod cluster's hours.

Each clock hour goes to the pool's machines by their time alive in it. A reservation's machines are those whose usage lines of
that hour ran in it; what nobody used of it stays outside. Rules R14, R15, R38.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.line_parts import cut_lines, divide_cuts, overlap_ms
from allocation.machines import has_gpu
from allocation.schemas import BILL_CLUSTER
from allocation.times import HOUR_MS

Int64 = npt.NDArray[np.int64]
RESERVATION, HYPERPOD = "reservation:", "hyperpod:"
UNUSED = "reserved_unused"
OUTSIDE = "not_a_node"


def is_pooled(lines: pa.Table, homes: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which lines are a pool's: they name one and no machine of a cluster, and nothing else puts them outside."""
    open_to = homes.scope_rule.isna() | (homes.scope_rule == "no_resource")
    pool = lines["pool"].to_pandas()
    known = pool.astype("str").str.lower().str.startswith((RESERVATION, HYPERPOD))
    found: npt.NDArray[np.bool_] = (pool.notna() & known & ~homes.found & open_to).to_numpy(np.bool_)
    return found


def pooled_parts(lines: pa.Table, rows: Int64, machines: pd.DataFrame, from_ms: int, until_ms: int) -> pd.DataFrame:
    """The day's parts of the pools' lines (columns ``line_parts.PARTS``).

    Args:
        lines: table ``line_items``.
        rows: those of its rows that are a pool's.
        machines: see ``machines.machines_of``.
        from_ms: start of the window, ms.
        until_ms: its end, ms.
    """
    cuts = cut_lines(lines, rows, from_ms, until_ms, 0)
    told = lines.select(["pool", "pool_size", "instance_type"]).take(pa.array(cuts.line.to_numpy(np.int64))).to_pandas()
    cuts = cuts.assign(cut=np.arange(len(cuts)), pool=told.pool.astype("str").str.lower())
    cuts = cuts.assign(pool_size=told.pool_size.astype("float64"), instance_type=told.instance_type.astype("object"))
    reserved = cuts.pool.str.startswith(RESERVATION).to_numpy(np.bool_)
    first, second = cuts[reserved], cuts[~reserved]
    used = _used(first, _running(lines, from_ms, until_ms), machines)
    parts = [divide_cuts(*_numbered(first, pd.concat([used, _unused(first, used)])), UNUSED)]
    parts.append(divide_cuts(*_numbered(second, _members(second, machines)), OUTSIDE))
    return pd.concat(parts, ignore_index=True)


def _numbered(cuts: pd.DataFrame, shares: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same with the cuts numbered from 0."""
    return cuts, shares.assign(cut=np.searchsorted(cuts["cut"].to_numpy(), shares["cut"].to_numpy(np.int64)))


def _running(lines: pa.Table, from_ms: int, until_ms: int) -> pd.DataFrame:
    """What usage lines say ran in reservations, by clock hour: ``pool``, ``hour``, ``node_key``, ``from_ms``, ``until_ms``."""
    names = ["capacity_reservation", "charge_category", "node_key", "scope_rule", "pool"]
    told = lines.select(names).to_pandas()
    ran = told.capacity_reservation.notna() & told.node_key.notna() & (told.charge_category == "Usage") & told.pool.isna()
    ran &= told.scope_rule.isna() | (told.scope_rule == "excluded")
    cuts = cut_lines(lines, np.flatnonzero(ran.to_numpy(np.bool_)), from_ms, until_ms, 0)
    told = told.iloc[cuts.line].reset_index(drop=True)
    pool = RESERVATION + told.capacity_reservation.astype("str").str.lower()
    running = cuts.assign(pool=pool, node_key=told.node_key, hour=cuts.start_ms // HOUR_MS)
    return running.rename(columns={"start_ms": "ran_from_ms", "end_ms": "ran_until_ms"}).drop(columns=["line", "nanos"])


def _used(cuts: pd.DataFrame, running: pd.DataFrame, machines: pd.DataFrame) -> pd.DataFrame:
    """Shares of the machines that ran in a reservation: by their life, else by what their usage lines say."""
    pairs = cuts.assign(hour=cuts.start_ms // HOUR_MS).merge(running, on=["pool", "hour"])
    billed = overlap_ms(pairs.start_ms, pairs.end_ms, pairs.ran_from_ms, pairs.ran_until_ms)
    pairs = pairs.assign(billed=billed)[billed > 0]
    keys = ["cut", "node_key", "start_ms", "end_ms", "instance_type"]
    found = pairs.groupby(keys, as_index=False, dropna=False).agg(billed=("billed", "sum"))
    found = found.merge(machines, on="node_key", how="left")
    length = found.end_ms - found.start_ms
    alive = overlap_ms(found.start_ms, found.end_ms, found.alive_from_ms, found.alive_until_ms)
    return _shares(found, alive.where(alive > 0, np.minimum(found.billed, length)))


def _unused(cuts: pd.DataFrame, used: pd.DataFrame) -> pd.DataFrame:
    """Nobody's shares: the machine-time that a full pool has beyond what was used of it."""
    taken = used.groupby("cut").weight.sum().reindex(cuts["cut"]).fillna(0).to_numpy(np.int64)
    size = cuts.pool_size.fillna(0).to_numpy(np.int64) * (cuts.end_ms - cuts.start_ms).to_numpy(np.int64)
    nobody = pd.DataFrame({"cut": cuts["cut"].to_numpy(np.int64), "weight": size - taken})
    return nobody[nobody.weight > 0].assign(node_key=None, cluster=BILL_CLUSTER, rule=UNUSED).astype({"node_key": "object"})


def _members(cuts: pd.DataFrame, machines: pd.DataFrame) -> pd.DataFrame:
    """Shares of the nodes of HyperPod clusters, of the line's instance type where both are known."""
    pools = cuts.pool.unique()
    keys = machines.node_key.astype("str")
    of_pool = [machines[keys.str.startswith(f"hyperpod-{pool.removeprefix(HYPERPOD)}-")].assign(pool=pool) for pool in pools]
    nodes = pd.concat([machines.head(0).assign(pool=""), *of_pool])
    pairs = cuts.merge(nodes, on="pool")
    wanted, known = (_plain_type(pairs[name]) for name in ("instance_type", "known_type"))
    pairs = pairs[pairs.instance_type.isna() | pairs.known_type.isna() | (wanted == known)]
    return _shares(pairs, overlap_ms(pairs.start_ms, pairs.end_ms, pairs.alive_from_ms, pairs.alive_until_ms))


def _plain_type(kind: "pd.Series[str]") -> "pd.Series[str]":
    return kind.astype("str").str.lower().str.removeprefix("ml.")


def _shares(found: pd.DataFrame, weight: "pd.Series[float]") -> pd.DataFrame:
    """Shares by weight; a machine of no cluster, or one without GPU, keeps its share outside."""
    claimed = found.cluster.notna()
    rule = pd.Series(None, found.index, "object").mask(claimed & ~has_gpu(found), "node_without_gpu").mask(~claimed, OUTSIDE)
    cluster = found.cluster.where(claimed, BILL_CLUSTER)
    told = pd.DataFrame({"cut": found["cut"], "node_key": found.node_key.astype("object"), "cluster": cluster, "rule": rule})
    return told.assign(weight=weight.astype("int64"))
