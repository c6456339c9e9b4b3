"""A machine's type, and what it carries, by its bill, where neither configuration nor cluster tells its type (or its GPUs).

Here does not belong what the configuration, kube-state-metrics or the catalogue say first (`nodes`).
"""

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

from pipelines.inventory.catalogue import InstanceType


def with_billed_types(nodes: pd.DataFrame, lines: pa.Table, types: Mapping[str, InstanceType]) -> pd.DataFrame:
    """The nodes, those of unknown type with the type on their lines, its count and memory.

    Only where all lines of a machine name one type; count and memory only where nothing else tells either of them.

    Args:
        nodes: table ``nodes``, as the method reads it.
        lines: the day's lines, with ``node_key`` and ``instance_type``.
        types: the catalogue.
    """
    pairs = lines.select(["node_key", "instance_type"]).to_pandas().dropna().drop_duplicates()
    pairs = pairs[~pairs.node_key.duplicated(keep=False)].set_index("node_key").instance_type
    billed = nodes.node_key.map(pairs)
    kind = billed.where(billed.isin(list(types)))
    unknown = nodes.instance_type.isna() & nodes.gpus.isna() & nodes.gpu_memory_bytes.isna() & kind.notna()
    gpus, memory = ({name: float(told[n]) for name, told in types.items()} for n in range(2))
    return nodes.assign(
        instance_type=nodes.instance_type.astype("object").where(nodes.instance_type.notna(), billed),
        gpus=nodes.gpus.where(~unknown, kind.map(gpus)),
        gpu_memory_bytes=nodes.gpu_memory_bytes.where(~unknown, kind.map(memory)),
    )
