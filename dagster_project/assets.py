"""The walk as assets, each named like its table. A body opens the day, calls one function of the walk and says what came out.

The result tables are one step, because they are published together or not at all.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from allocation.schemas import TABLES
from dagster_project import checks
from dagster_project.day import Day, charge, fetched_day, measure, own_lines
from dagster_project.failures import RETRY, clear_errors
from dagster_project.metadata import describe, first_rows
from dagster_project.partitions import every_cluster, partition_of
from dagster_project.resources import ChargebackConfig
from pipelines.progress import Lines
from pipelines.results import RESULT_TABLES, publish

FETCHED_TABLES = ("samples", "nodes", "pods")
FETCH_POOL = "gpu_chargeback_fetch"
"""A limit of 1 on this pool lets runs of one day fetch one after another, and so find what the first has fetched."""


class FetchConfig(dg.Config):
    """Choices of a run that fetches."""

    refetch: bool = Field(default=False, description="Ask the servers again, although the store has the series.")
    accept_less_metrics: bool = Field(default=False, description="Replace kept series although much less is told now.")


def assets_of(partitions: dg.MultiPartitionsDefinition) -> list[dg.AssetsDefinition]:
    """All assets over these partitions."""
    return [_fetched(partitions), _line_items(partitions), _usage(partitions), _results(partitions)]


def _spec(name: str, group: str, *deps: str | dg.AssetDep) -> dg.AssetSpec:
    return dg.AssetSpec(name, deps=deps, group_name=group, description=f"Per row: {TABLES[name].rows}.", kinds={"parquet"})


def _fetched(partitions: dg.MultiPartitionsDefinition) -> dg.AssetsDefinition:
    specs = [_spec(name, "series") for name in FETCHED_TABLES]

    @dg.multi_asset(name="fetch", specs=specs, partitions_def=partitions, retry_policy=RETRY, pool=FETCH_POOL)
    def fetch(
        context: dg.AssetExecutionContext, config: FetchConfig, chargeback: ChargebackConfig
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Series and inventory of the day into the store, unless they are there already."""
        with clear_errors():
            walk = chargeback.walk(
                refetch=config.refetch, accept_less_metrics=config.accept_less_metrics, watch=Lines(context.log.info).step
            )
            day = fetched_day(walk, partition_of(context.partition_key), as_kept=False)
            for name in FETCHED_TABLES:
                yield _of_store(day, name)

    return fetch


def _of_store(day: Day, name: str) -> dg.MaterializeResult[None]:
    """What the store holds of a fetched table; ``_bill`` has no series."""
    own = day.fetched.get(day.partition.cluster)
    first, rows = first_rows(day.walk.store, name, day.partition) if own else (TABLES[name].empty(), 0)
    told = describe(name, first, rows=rows)
    if own:
        told |= {"reused": dg.MetadataValue.bool(own.reused), "nodes_with_series": dg.MetadataValue.int(len(own.nodes))}
    version = dg.DataVersion(own.samples_fingerprint) if own and name == "samples" else None
    return dg.MaterializeResult(asset_key=name, metadata=told, data_version=version)


def _line_items(partitions: dg.MultiPartitionsDefinition) -> dg.AssetsDefinition:
    spec = _spec("line_items", "bill", dg.AssetDep("nodes", partition_mapping=every_cluster()))

    @dg.multi_asset(name="line_items", specs=[spec], partitions_def=partitions, retry_policy=RETRY)
    def line_items(context: dg.AssetExecutionContext, chargeback: ChargebackConfig) -> dg.MaterializeResult[None]:
        """The day's lines of the cluster. They are kept once per delivery, by its fingerprint, not once per day."""
        with clear_errors():
            day = fetched_day(chargeback.walk(), partition_of(context.partition_key))
            return dg.MaterializeResult(asset_key="line_items", metadata=describe("line_items", own_lines(day)))

    return line_items


def _usage(partitions: dg.MultiPartitionsDefinition) -> dg.AssetsDefinition:
    specs = [_spec("usage", "allocation", "line_items", *FETCHED_TABLES)]

    @dg.multi_asset(name="usage", specs=specs, partitions_def=partitions, retry_policy=RETRY)
    def usage(context: dg.AssetExecutionContext, chargeback: ChargebackConfig) -> dg.MaterializeResult[None]:
        """Memory over time, by which lines are split; a file a shard."""
        with clear_errors(), chargeback.walk(watch=Lines(context.log.info).step) as walk:
            day = fetched_day(walk, partition_of(context.partition_key))
            measured_id = measure(day)
            first, rows = first_rows(walk.store, "usage", day.partition)
        told = describe("usage", first, rows=rows)
        return dg.MaterializeResult(asset_key="usage", metadata=told, data_version=dg.DataVersion(measured_id))

    return usage


def _results(partitions: dg.MultiPartitionsDefinition) -> dg.AssetsDefinition:
    specs = [
        _spec("chargeback", "allocation", "line_items", "pods", "usage"),
        _spec("team_model", "outputs", "chargeback"),
        _spec("reconciliation", "outputs", "line_items", "chargeback"),
        _spec("findings", "outputs", "line_items", "samples", "usage", "chargeback"),
        _spec("daily_mart", "outputs", "chargeback"),
    ]

    @dg.multi_asset(
        name="charge",
        specs=specs,
        check_specs=checks.SPECS,
        partitions_def=partitions,
        retry_policy=RETRY,
    )
    def charge_partition(context: dg.AssetExecutionContext, chargeback: ChargebackConfig) -> Iterator[dg.MaterializeResult[None]]:
        """Money over usage, owners, sums and the proof; then all tables at once."""
        with clear_errors(), chargeback.walk(watch=Lines(context.log.info).step) as walk:
            results = charge(fetched_day(walk, partition_of(context.partition_key)))
            publish(walk, results)
            first, rows = first_rows(walk.store, "chargeback", results.partition)
        results.rows.close()
        shown = {"chargeback": checks.coverage, "reconciliation": checks.conservation, "findings": checks.no_errors}
        version = dg.DataVersion(results.run_id)
        for name in RESULT_TABLES:
            large = name == "chargeback"
            told = (
                describe(name, first, rows=rows, sums=results.sums.holders) if large else describe(name, getattr(results, name))
            )
            told |= {"run_id": dg.MetadataValue.text(results.run_id)}
            proof = [shown[name](results)] if name in shown else []
            yield dg.MaterializeResult(asset_key=name, metadata=told, check_results=proof, data_version=version)

    return charge_partition
