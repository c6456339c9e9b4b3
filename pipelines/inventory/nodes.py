"""The table ``nodes``: one row a stay of a machine under a node name.

Here belong which machine a name meant when (R19), the machine's life (R16) and what it carries (R6, R17): by the configuration,
else by its instance type, else by the node's labels. Here do not belong pods, or what contradicts (`contradictions`).
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.node_keys import node_keys
from allocation.schemas import NODES, conform
from allocation.times import time_column, to_ms
from pipelines.inventory.catalogue import InstanceType, instance_types
from pipelines.inventory.host_requests import allocatable
from pipelines.inventory.node_facts import capacity, facts_at
from pipelines.inventory.sections import Inventory, Sections, sections_of
from pipelines.inventory.stretches import (
    EARLIEST,
    LATEST,
    LATEST_MS,
    Int64,
    numbered,
    text_column,
)
from pipelines.inventory.timeline import changes
from pipelines.settings import NodeEntry

_NONE = -1
"""No configured entry."""
_TYPES = {"from_ms": "int64", "until_ms": "int64", "seen_from_ms": "float64", "seen_until_ms": "float64", "entry": "int64"}


def build_nodes(
    inventory: Inventory,
    configured: Sequence[NodeEntry],
    seen: Iterable[str],
    max_hold_ms: int,
    types: Mapping[str, InstanceType] | None = None,
) -> pa.Table:
    """The table ``nodes``.

    A name means the machine of the latest ``kube_node_info`` at or before a time (before the first: the first). A machine's life
    goes from its first sight (or its node object's creation, where that is known and earlier) to its last plus ``max_hold``.

    Args:
        inventory: the table ``inventory``, or its series.
        configured: ``nodes:`` of the cluster; an entry without provider id completes what the series say.
        seen: node names that have device series; those that nobody describes get a row of their own.
        max_hold_ms: how long the last sign of life holds.
        types: the catalogue of instance types; that of the clouds where not given.
    """
    sections = sections_of(inventory)
    sights = node_sights(sections)
    stays = _stays(sights, {n.name for n in configured if n.provider_id})
    stays["entry"] = stays.node.map({n.name: k for k, n in enumerate(configured)}).fillna(_NONE)
    stays = _with_created(stays, sections)
    stays = pd.concat([stays, _configured_stays(configured, set(stays.node), sights)], ignore_index=True)
    stays = pd.concat([stays, _bare(set(seen) - set(stays.node))], ignore_index=True)
    stays = stays.astype(_TYPES).sort_values(["node", "from_ms", "node_id"], ignore_index=True)
    facts = facts_at(stays, sections).join(allocatable(stays, sections))
    return _table(stays, configured, facts, capacity(sections), types or instance_types(), max_hold_ms)


def node_sights(sections: Sections) -> pd.DataFrame:
    """The stretches of ``kube_node_info``: ``node``, ``provider_id`` (empty where it says none), ``first_ms``, ``last_ms``."""
    info = sections.of("kube_node_info")
    sights = info.times().assign(node=info.label("node"), provider_id=info.label("provider_id"))
    return sights[sights.node != ""].reset_index(drop=True)


def _stays(sights: pd.DataFrame, named_by_file: set[str]) -> pd.DataFrame:
    """Machines of each node name in order of time: when the name meant them, and their first and last sight in it.

    A sight without a provider id says nothing of the machine where the configuration or another sight of that name does.
    """
    named = {*named_by_file, *sights.node[sights.provider_id != ""]}
    telling = sights[(sights.provider_id != "") | ~sights.node.isin(named)].sort_values("first_ms", ignore_index=True)
    telling["machine"] = telling.provider_id.where(telling.provider_id != "", telling.node)
    name, machine = (numbered([text_column(telling[c])]) for c in ("node", "machine"))
    said = changes(name, telling.first_ms.to_numpy(np.int64), telling.last_ms.to_numpy(np.int64), machine)
    until = said.groupby("group").at_ms.shift(-1).fillna(LATEST_MS).astype("int64")
    latest = telling.assign(group=name, content=machine)
    latest["latest_ms"] = latest.groupby(["group", "content"]).last_ms.cummax()
    asked = said.assign(place=np.arange(len(said)), until_ms=until).sort_values("until_ms")
    last = pd.merge_asof(
        asked, latest[["group", "content", "first_ms", "latest_ms"]], left_on="until_ms", right_on="first_ms",
        by=["group", "content"], allow_exact_matches=False,
    ).sort_values("place").latest_ms.to_numpy(np.float64)  # fmt: skip
    spoken = telling.iloc[said.stretch.to_numpy()].reset_index(drop=True)
    return pd.DataFrame(
        {
            "node": spoken.node,
            "node_id": spoken.machine,
            "from_ms": np.where(said.group.duplicated(), said.at_ms, 0),
            "until_ms": until,
            "seen_from_ms": said.at_ms.astype("float64"),
            "seen_until_ms": np.minimum(last, until).astype("float64"),
        }
    )


def _with_created(stays: pd.DataFrame, sections: Sections) -> pd.DataFrame:
    """A machine lives from when its node object was created, where that lies after the earlier machine's last sight."""
    series = sections.of("kube_node_created")
    created = series.times().assign(node=series.label("node"), created_ms=series.value * 1000)[["node", "created_ms"]]
    created = created[(created.created_ms > 0) & (created.created_ms < LATEST_MS)].drop_duplicates().sort_values("created_ms")
    if created.empty or stays.empty:
        return stays
    before = stays.groupby("node").seen_until_ms.shift().fillna(-1.0)
    asked = stays.assign(place=np.arange(len(stays)), before=before).sort_values("seen_from_ms")
    found = pd.merge_asof(asked, created, left_on="seen_from_ms", right_on="created_ms", by="node").sort_values("place")
    earlier = (found.created_ms > found.before).to_numpy()
    return stays.assign(seen_from_ms=np.where(earlier, found.created_ms.to_numpy(), stays.seen_from_ms))


def _configured_stays(configured: Sequence[NodeEntry], known: set[str], sights: pd.DataFrame) -> pd.DataFrame:
    """Stays of the nodes that only the configuration names machines for; their life by the sights of that name."""
    rows = [
        (e.name, e.provider_id or e.name, to_ms(e.alive_from or EARLIEST), to_ms(e.alive_until or LATEST), k)
        for k, e in enumerate(configured)
        if e.name not in known
    ]
    stays = pd.DataFrame(rows, columns=["node", "node_id", "from_ms", "until_ms", "entry"])
    life = sights.groupby("node").agg(seen_from_ms=("first_ms", "min"), seen_until_ms=("last_ms", "max")).astype("float64")
    return stays.join(life, on="node")


def _bare(names: set[str]) -> pd.DataFrame:
    """A stay for ever for names that nobody describes."""
    whole = {"from_ms": 0, "until_ms": LATEST_MS, "seen_from_ms": np.nan, "seen_until_ms": np.nan, "entry": _NONE}
    ordered = sorted(names)
    return pd.DataFrame({"node": ordered, "node_id": ordered}).assign(**whole)


def _table(
    stays: pd.DataFrame, configured: Sequence[NodeEntry], facts: pd.DataFrame, resources: "pd.Series[float]",
    types: Mapping[str, InstanceType], max_hold_ms: int,
) -> pa.Table:  # fmt: skip
    entry = stays.entry.to_numpy(np.int64)
    kind = _said(entry, [e.instance_type for e in configured]).fillna(facts.instance_type)
    memory = _said(entry, [e.gpu_memory for e in configured])
    gpus = _said(entry, [e.gpus for e in configured]).fillna(kind.map({k: t.gpus for k, t in types.items()})).fillna(facts.gpus)
    nameplate = kind.map({k: t.gpu_memory_bytes for k, t in types.items()})
    ids = text_column(stays.node_id)
    columns = {
        "node": text_column(stays.node),
        "node_id": ids,
        "node_key": node_keys(ids),
        "alive_from": time_column(stays.from_ms.to_numpy(np.int64)),
        "alive_until": time_column(stays.until_ms.to_numpy(np.int64)),
        "seen_from": _moments(stays.seen_from_ms),
        "seen_until": _moments(stays.seen_until_ms + max_hold_ms),
        "instance_type": text_column(kind),
        "gpus": _whole(gpus),
        "gpu_memory_bytes": _whole(memory.fillna(nameplate).fillna(facts.gpu_memory_bytes)),
        "gpu_memory_configured": pa.array(memory.notna().to_numpy(np.bool_)),
        "configured": pa.array(entry != _NONE),
        "gpu_resources": _whole(stays.node.map(resources)),
        "gpu_replicas": _whole(facts.gpu_replicas),
        "allocatable_cpu_milli": _whole(facts.cpu),
        "allocatable_memory_bytes": _whole(facts.memory),
    }
    columns |= {n: text_column(facts[n]) for n in ("gpu_product", "sharing_strategy", "mig_strategy")}
    return conform(pa.table(columns), NODES, source="inventory")


def _said(entry: Int64, values: Sequence[object]) -> "pd.Series[object]":
    """What each stay's entry says, null for none."""
    return pd.Series(np.array([*values, None], dtype=object)[entry], dtype="object")


def _whole(values: "pd.Series[object]") -> pa.Array:
    numbers = pd.to_numeric(values).to_numpy(np.float64, na_value=np.nan)
    there = np.isfinite(numbers)
    return pa.array(np.where(there, numbers, 0).astype(np.int64), mask=~there)


def _moments(ms: "pd.Series[float]") -> pa.Array:
    there = ms.notna().to_numpy()
    whole = np.where(there, ms.to_numpy(np.float64), 0).astype(np.int64)
    return pc.if_else(pa.array(there), time_column(whole), None)
