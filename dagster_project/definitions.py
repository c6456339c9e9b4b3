"""What Dagster loads: `dagster dev -m dagster_project.definitions`, with CHARGEBACK_CONFIG naming the configuration file."""

import dagster as dg

from dagster_project.build import build_definitions
from pipelines.settings import config_path_from_env


@dg.definitions
def defs() -> dg.Definitions:
    """Definitions over the configuration that CHARGEBACK_CONFIG names; loading ends with a clear line where it is unset."""
    return build_definitions(config_path_from_env())
