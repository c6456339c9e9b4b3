"""Day x cluster: the one grain of every asset, made from the configuration. Nothing else decides what a partition is."""

import warnings
from datetime import date

import dagster as dg

from allocation.errors import SettingsError
from allocation.schemas import BILL_CLUSTER
from pipelines.partition import Partition
from pipelines.settings import Settings

DATE = "date"
CLUSTER = "cluster"


def partitions_of(settings: Settings) -> dg.MultiPartitionsDefinition:
    """UTC days from ``start`` on, each with every cluster and with ``_bill``, the lines of no cluster.

    Raises:
        SettingsError: no ``start``, or a cluster name that cannot be part of a partition key.
    """
    if settings.start is None:
        raise SettingsError(
            "start is missing; Dagster's first partition is the day that it names, for example `start: 2026-10-01`"
        )
    days = dg.DailyPartitionsDefinition(start_date=settings.start.isoformat(), timezone="UTC")
    try:
        clusters = dg.StaticPartitionsDefinition(clusters_of(settings))
        return dg.MultiPartitionsDefinition({DATE: days, CLUSTER: clusters})
    except dg.DagsterInvalidDefinitionError as error:
        raise SettingsError(f"clusters: a name cannot be a partition of Dagster; choose another: {error}") from error


def clusters_of(settings: Settings) -> list[str]:
    """The clusters in the order of the configuration, and ``_bill``."""
    return [*(c.name for c in settings.clusters), BILL_CLUSTER]


def partition_of(key: str) -> Partition:
    """The store's partition for a partition key of Dagster."""
    if not isinstance(key, dg.MultiPartitionKey):
        raise SettingsError(f"the partition {key!r} is not one of date x cluster")
    parts = key.keys_by_dimension
    return Partition(date.fromisoformat(parts[DATE]), parts[CLUSTER])


def key_of(partition: Partition) -> dg.MultiPartitionKey:
    """Dagster's partition key for a partition of the store."""
    return dg.MultiPartitionKey({DATE: partition.day.isoformat(), CLUSTER: partition.cluster})


def every_cluster() -> dg.MultiPartitionMapping:
    """The same day of all clusters: whose a line is, is decided over all of them at once."""
    same_date = dg.DimensionPartitionMapping(DATE, dg.IdentityPartitionMapping())
    all_clusters = dg.DimensionPartitionMapping(CLUSTER, dg.AllPartitionMapping())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.MultiPartitionMapping({DATE: same_date, CLUSTER: all_clusters})
