"""How shards are run: one after the other, in a pool of processes, or on a cluster. An engine knows nothing of what it runs."""

from pipelines.engine_settings import EngineEntry
from pipelines.engines.base import Engine
from pipelines.engines.local import LocalEngine


def open_engine(entry: EngineEntry) -> Engine:
    """The engine that the settings ask for."""
    return LocalEngine(entry.workers_here, entry.in_flight_here)
