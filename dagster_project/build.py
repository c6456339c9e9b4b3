"""The one builder of Dagster's definitions from a configuration file; tests build their own with it."""

from pathlib import Path

import dagster as dg

from dagster_project.assets import assets_of
from dagster_project.io_manager import TableIOManager
from dagster_project.partitions import partitions_of
from dagster_project.resources import ChargebackConfig
from dagster_project.schedules import nightly
from pipelines.settings import load_settings

JOB = "chargeback_day"


def build_definitions(path: Path) -> dg.Definitions:
    """Assets, checks, job, schedule and resources over the configuration's days and clusters.

    The steps of a partition follow one another, so a run is one process, and compiled code is loaded once.
    """
    partitions = partitions_of(load_settings(path))
    told = "One day of one cluster, or of `_bill`."
    job = dg.define_asset_job(JOB, selection=dg.AssetSelection.all(), description=told)
    config = ChargebackConfig(path=str(path))
    return dg.Definitions(
        assets=assets_of(partitions),
        jobs=[job],
        schedules=[nightly(JOB)],
        resources={"chargeback": config, "io_manager": TableIOManager(chargeback=config)},
        executor=dg.in_process_executor,
    )
