"""The Spark session in which shards are run: one that is open already in this process, or one of our own.

Here does not belong what is run in it (``spark``).
"""

import re
import shutil
import sys
import tempfile
import warnings
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any

from allocation.errors import ChargebackError, MissingExtraError
from pipelines.engine_settings import EngineEntry
from pipelines.settings import java_home_from_env

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_LOG_LEVEL, _PYTHON = "spark.log.level", "spark.pyspark.python"
_ALWAYS = {
    "spark.app.name": "gpu-chargeback",
    _LOG_LEVEL: "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that hands out numbers does too little for its better compiler to pay: this halves what it costs to start."""
_ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _LIGHT,
    "spark.executor.extraJavaOptions": _LIGHT,
}


def ensure_installed() -> None:
    """Raises what a start would raise where PySpark or Java is not installed; starts nothing."""
    if find_spec("pyspark") is None:
        raise MissingExtraError("pyspark", "spark")
    home = java_home_from_env()
    java = home and home / "bin" / "java"
    if not (java.exists() if java else shutil.which("java")):
        where = f"{java} is not there" if java else "no `java` on PATH"
        raise ChargebackError(f"engine spark: {where}. Install Java 17 or later, or name its folder in JAVA_HOME")


class Session:
    """``spark``: the session. ``close`` ends it where it is our own.

    Raises:
        MissingExtraError: there is no PySpark.
        ChargebackError: Spark does not start.
    """

    def __init__(self, entry: EngineEntry) -> None:
        try:
            from pyspark.sql import SparkSession  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingExtraError("pyspark", "spark") from error
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        found = SparkSession.getActiveSession()
        self._own: SparkContext | None = None if found else _started(entry)
        self.spark = found or SparkSession.builder.getOrCreate()

    @property
    def cores(self) -> int:
        """How many tasks the cluster can run at once, as far as it is known now."""
        return int(self.spark.sparkContext.defaultParallelism)

    def close(self) -> None:
        """Ends the session, unless it is another's."""
        if self._own is not None:
            with suppress(*failures()):
                self.spark.stop()
            self._own = None


def failures() -> tuple[type[Exception], ...]:
    """What PySpark raises where Spark fails or is gone."""
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    return PySparkException, Py4JError, ConnectionError, EOFError


def _started(entry: EngineEntry) -> "SparkContext":
    """A context of our own. Unless a log level is wanted, what Spark's JVM has to say goes to a file that nobody sees."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    here = entry.master.startswith("local")
    wanted = {**_ALWAYS, **(_ON_THIS_MACHINE if here else {}), **entry.conf, "spark.master": entry.master}
    conf = SparkConf().setAll(list(wanted.items()))
    refused: tuple[type[Exception], ...] = (*failures(), ValueError, OSError)
    log = None if _LOG_LEVEL in entry.conf else tempfile.TemporaryFile()  # noqa: SIM115
    try:
        context = SparkContext(conf=conf, gateway=_gateway(conf, log))
    except refused as error:
        told = _first_line(log) if type(error).__name__ == "PySparkRuntimeError" else ""
        remedy = (
            ". Install Java 17 or later, or name its folder in JAVA_HOME"
            if re.search(r"\bjava\b|JAVA_HOME|class file", told)
            else ""
        )
        problem = f"Spark does not start with engine.master {entry.master!r}: {told or in_a_line(error)}{remedy}"
        raise ChargebackError(problem) from error
    python = entry.conf.get(_PYTHON) or (sys.executable if here else None)
    if python:
        context.pythonExec = python
    return context


def _gateway(conf: "SparkConf", log: IO[bytes] | None) -> Any:  # noqa: ANN401
    """A JVM whose messages go to the log; None where this process has one already."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    launch: Any = launch_gateway
    return None if SparkContext._gateway else launch(conf, {"stderr": log})  # noqa: SLF001


def _first_line(log: IO[bytes] | None) -> str:
    """What a JVM that did not start complained of first."""
    if log is None:
        return "see above"
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    return next((line.rstrip(".")[:300] for line in lines if line and not line.startswith(("WARNING", "Using ", "at "))), "")


def in_a_line(error: BaseException) -> str:
    """What Spark's error says at its core: the last line of Python's trace, or the first words of Spark's reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        text = next((line for line in reversed(lines) if not line.startswith(("at ", "SQLSTATE", "JVM", "..."))), lines[-1])
    else:
        text = next((line for line in lines if "most recent failure:" in line), None) or next(
            (line for line in lines if line.startswith(": ")), lines[0] if lines else type(error).__name__
        )
    reason = text.rpartition("most recent failure:")[2]
    return reason.strip(": ").rstrip(".")[:300]
