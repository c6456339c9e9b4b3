"""What assets are given: the settings, and through them the store. The environment is read in ``pipelines.settings``."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from pipelines.settings import Settings, config_path_from_env, load_settings
from pipelines.steps import Watch, unwatched
from pipelines.walk import Walk, open_walk


class ChargebackConfig(dg.ConfigurableResource[None]):
    """The configuration file that everything follows from."""

    path: str = Field(default="", description="The configuration file; where empty, the one that CHARGEBACK_CONFIG names.")

    def settings(self) -> Settings:
        """The settings as they stand now."""
        return load_settings(Path(self.path) if self.path else config_path_from_env())

    def walk(self, *, refetch: bool = False, accept_less_metrics: bool = False, watch: Watch = unwatched) -> Walk:
        """A run over the settings' store."""
        return open_walk(self.settings(), refetch=refetch, accept_less_metrics=accept_less_metrics, watch=watch)
