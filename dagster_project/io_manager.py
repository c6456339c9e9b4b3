"""The one I/O manager: tables of the same store that the command line writes, as Parquet, never pickled.

An asset's name is its table's name. Assets downstream of ours may ask for a ``pyarrow.Table``, a ``pandas.DataFrame``, or a
``Kept`` with what was said of the table when it was written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import dagster as dg
import pandas as pd
import pyarrow as pa

from allocation.errors import ChargebackError, SchemaError
from allocation.schemas import BILL_CLUSTER, TABLES, conform
from dagster_project.failures import clear_errors
from dagster_project.partitions import partition_of
from dagster_project.resources import ChargebackConfig
from pipelines.partition import Partition
from pipelines.storage import TableStore


@dataclass(frozen=True)
class Kept:
    """A table and what its marker in the store says of it."""

    table: pa.Table
    detail: Mapping[str, object] = field(default_factory=dict)


class TableIOManager(dg.ConfigurableIOManager):
    """Tables by date and cluster in the configured output."""

    chargeback: dg.ResourceDependency[ChargebackConfig]

    def handle_output(self, context: dg.OutputContext, obj: pa.Table | pd.DataFrame | Kept) -> None:
        """Replaces the output's partition whole."""
        with clear_errors():
            name = context.asset_key.path[-1]
            kept = obj if isinstance(obj, Kept) else Kept(_as_table(obj, name))
            table = conform(kept.table, TABLES[name], source="asset") if name in TABLES else kept.table
            self.chargeback.walk().store.write(
                name, partition_of(context.partition_key), table, {"rows": len(table), **kept.detail}
            )

    def load_input(self, context: dg.InputContext) -> pa.Table | pd.DataFrame | Kept:
        """The upstream partition as the type that the asset asks for; several partitions come as one table."""
        with clear_errors():
            name, store = context.asset_key.path[-1], self.chargeback.walk().store
            kept = [_read(store, name, partition_of(key)) for key in context.asset_partition_keys]
        if context.dagster_type.typing_type is Kept and len(kept) == 1:
            return kept[0]
        table = pa.concat_tables([k.table for k in kept])
        return table.to_pandas() if context.dagster_type.typing_type is pd.DataFrame else table


def _as_table(obj: pa.Table | pd.DataFrame, name: str) -> pa.Table:
    if isinstance(obj, pd.DataFrame):
        return pa.Table.from_pandas(obj, preserve_index=False)
    if not isinstance(obj, pa.Table):
        raise SchemaError(f"asset {name!r}: returned {type(obj).__name__}; return a pyarrow.Table or a pandas.DataFrame")
    return obj


def _read(store: TableStore, name: str, partition: Partition) -> Kept:
    """A whole partition; what was never written for ``_bill`` is an empty table, since no series belong to it."""
    commit = store.commit(name, partition)
    if commit is None and partition.cluster == BILL_CLUSTER and name in TABLES:
        return Kept(TABLES[name].empty())
    table = store.read(name, partition)
    if commit is not None and table is None and name in TABLES:
        table = TABLES[name].empty()
    if commit is None or table is None:
        raise ChargebackError(f"{store.place(name)}: the partition {partition} is not there; materialise {name} for it first")
    return Kept(table, commit.detail)
