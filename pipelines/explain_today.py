"""What the settings of today give for the holders of stored rows: owners, and the division over models.

Here belongs asking the method again with what the store keeps. What differs from the stored rows is told in ``explain_owners``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.model_split import Served, model_shares, own_time
from allocation.owners import FIELDS, assign
from allocation.times import to_ms
from pipelines.explain_kept import Kept, kept_table
from pipelines.explain_models import HolderSplit, splits_of
from pipelines.explain_owners import Today
from pipelines.metric_sources.model_servers import servers_of
from pipelines.partition import Partition
from pipelines.samples import counters_asked
from pipelines.walk import Walk

_HOLDER = ["bucket", "namespace", "pod", "pod_uid", "node"]


def owners_today(walk: Walk, kept: Kept, rows: Sequence[Mapping[str, Any]], changed: Sequence[str]) -> list[Today]:
    """What the settings give now for the holder of each row; ``changed`` are the inputs that differ from the run's."""
    held = pd.DataFrame([{name: r[name] or "" for name in _HOLDER} for r in rows]).assign(
        start_ms=[to_ms(r["charge_period_start"]) for r in rows],
        end_ms=[to_ms(r["charge_period_end"]) for r in rows],
        cluster=kept.partition.cluster,
    )
    number = held.groupby(list(held.columns), sort=False).ngroup().to_numpy()
    held, pods = held.drop_duplicates(ignore_index=True), kept_table(walk, kept, "pods")
    known = assign(held, pods, walk.owners)
    counted = "owners" not in changed or _same_counters(walk, kept)
    splits = _splits(walk, kept, held, pods) if counted else {}
    given = {name: list(zip(known[name].tolist(), known[f"{name}_by"].tolist(), strict=True)) for name in FIELDS}
    of_holder = [
        Today({name: (given[name][n][0], given[name][n][1] or None) for name in FIELDS}, splits.get(n), counted)
        for n in range(len(held))
    ]
    return [of_holder[int(n)] for n in number]


def _same_counters(walk: Walk, kept: Kept) -> bool:
    """Whether the kept counters are those that a run with these settings would ask for."""
    entry, marker = walk.settings.owners.model_split, walk.store.commit("samples", kept.partition)
    return entry is None or (marker is not None and marker.detail.get("counters_asked") == counters_asked(entry))


def _splits(walk: Walk, kept: Kept, held: pd.DataFrame, pods: pa.Table) -> dict[int, HolderSplit]:
    """The division over models of each holder that is divided."""
    counted, entry = _served(walk, kept.partition), walk.settings.owners.model_split
    if counted is None or entry is None:
        return {}
    names = pa.array(sorted(set(held.pod)), pa.string())
    served = Served(counted.counters.filter(pc.is_in(counted.counters["pod"], names)), counted.split, counted.max_gap_ms)
    shares = model_shares(held, pods, served)
    mine = held.iloc[np.unique(shares.holder)]
    metrics = {server.name: server.kinds for server in servers_of(entry)}
    return splits_of(shares, own_time(mine.reset_index(drop=True), pods).set_index(mine.index), served, metrics)


def _served(walk: Walk, partition: Partition) -> Served | None:
    """What the partition's model servers counted, None where no row is to be split over models."""
    split = walk.owners.model_split
    counters = None if split is None else walk.store.read_beside("samples", partition, "counters")
    return None if split is None or counters is None else Served(counters, split, walk.policy.max_gap_ms)
