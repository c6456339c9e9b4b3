"""How shards are run: one after the other, in a pool of processes, or on a cluster. An engine knows nothing of what it runs."""

from pipelines.engine_settings import EngineEntry
from pipelines.engines.base import Engine
from pipelines.engines.local import LocalEngine
from pipelines.places import Place


def open_engine(entry: EngineEntry, place: Place) -> Engine:
    """The engine that the settings ask for; what has to travel between machines travels through the place."""
    if entry.kind == "spark":
        from pipelines.engines.spark import SparkEngine  # noqa: PLC0415

        return SparkEngine(entry, place)
    return LocalEngine(entry.workers_here, entry.in_flight_here)


def ensure_usable(entry: EngineEntry) -> None:
    """Raises one clear line where the engine needs what is not installed; starts nothing."""
    if entry.kind == "spark":
        from pipelines.engines.spark_session import ensure_installed  # noqa: PLC0415

        ensure_installed()
