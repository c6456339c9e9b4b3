"""The machines of all clusters: whose each is, how long it lived, whether it carries GPUs; and the home of lines that name one.

Here do not belong lines that several machines pay for (``pooled``, ``spread``). Rules R14, R19, R38.
"""

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.errors import ChargebackError
from allocation.schemas import BILL_CLUSTER

Int64 = npt.NDArray[np.int64]
GPU_FAMILIES = re.compile(
    r"^(ml\.)?(p[2-9]\w*|g[3-9]\w*|gr6\w*|inf\d\w*|trn\d\w*|dl1)[-.]|^(a2|a3|a4|a4x|g2|g4)-|^Standard_N[CDV]"
)
"""Instance families that carry accelerators, for types that no catalogue knows. Source: the clouds' own lists."""
_COLUMNS = ("node_key", "node", "node_id", "instance_type", "gpus", "configured", "gpu_resources", "has_series", "cluster")


def machines_of(nodes: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a machine.

    Args:
        nodes: table ``nodes`` of each cluster.

    Returns:
        ``node_key``, ``cluster``, what the table ``nodes`` says of it, ``known_type`` (its instance type), and its life in ms
        (``alive_from_ms``, ``alive_until_ms``): what the inventory saw, else what the configuration says.

    Raises:
        ChargebackError: two clusters claim one machine.
    """
    claims = pd.concat([table.assign(cluster=name) for name, table in nodes.items()], ignore_index=True)
    shared = claims.drop_duplicates(["node_key", "cluster"]).groupby("node_key").cluster.agg(sorted)
    shared = shared[shared.map(len) > 1]
    if len(shared):
        key, names = shared.index[0], shared.iloc[0]
        raise ChargebackError(
            f"the machine {key!r} is a node of the clusters {' and '.join(names)}; its cost would be charged twice. "
            "Take it out of one of them (nodes: or the series' match labels)"
        )
    begins = claims.seen_from_ms.fillna(claims.from_ms).astype("int64")
    ends = claims.seen_until_ms.fillna(claims.until_ms).astype("int64")
    lives = claims.assign(alive_from_ms=begins, alive_until_ms=ends).groupby("node_key", sort=False)
    lives = lives.agg(alive_from_ms=("alive_from_ms", "min"), alive_until_ms=("alive_until_ms", "max"))
    known = claims[list(_COLUMNS)].rename(columns={"instance_type": "known_type"}).drop_duplicates("node_key")
    return known.merge(lives, on="node_key", how="left")


def homes_of(lines: pa.Table, machines: pd.DataFrame, overruled: Mapping[str, str]) -> pd.DataFrame:
    """One row a line: ``cluster``, ``node``, ``node_id`` and ``rule`` (null: split), ``found`` where it names a machine."""
    wanted = pd.DataFrame({name: lines[name].to_pandas() for name in ("node_key", "scope_rule", "instance_type")})
    homes = wanted.merge(machines, on="node_key", how="left")
    found = homes.cluster.notna()
    rule = homes.scope_rule.astype("object").where(homes.scope_rule.notna(), None)
    rule = rule.mask(rule.isna() & homes.node_key.isna(), "no_resource")
    rule = rule.mask(rule.isna() & ~found & homes.node_key.isin(list(overruled)), "node_contradicted")
    rule = rule.mask(rule.isna() & ~found, "not_a_node").mask(rule.isna() & found & ~has_gpu(homes), "node_without_gpu")
    return homes.assign(cluster=homes.cluster.where(found, BILL_CLUSTER), rule=rule, found=found)


def has_gpu(homes: pd.DataFrame) -> "pd.Series[bool]":
    """A node is a GPU node unless Kubernetes or its instance type says otherwise; a configured one always is.

    ``homes``: columns of ``machines_of``, and the line's own ``instance_type`` where the machine's is not known.
    """
    kind = homes.known_type.astype("object").where(homes.known_type.notna(), homes.instance_type)
    told = homes.gpu_resources.notna()
    by_type = kind.isna() | kind.astype("str").str.match(GPU_FAMILIES.pattern)
    by_capacity = homes.gpu_resources.fillna(0).astype("int64") > 0
    shown = homes.configured.fillna(False).astype("bool") | homes.has_series.fillna(False).astype("bool")
    return shown | by_capacity | homes.gpus.notna() | (by_type & ~told)
