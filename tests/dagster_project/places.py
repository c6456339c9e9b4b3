"""A configuration of its own for each test: worked inputs copied aside, and Dagster's run of a partition of them."""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from dagster_project.build import JOB, build_definitions
from dagster_project.partitions import key_of
from pipelines.partition import Partition
from pipelines.settings import load_settings

ROOT = Path(__file__).parents[2]
TWO_CLUSTERS = ROOT / "tests" / "cases" / "44-two-clusters"
QUICKSTART = ROOT / "examples" / "quickstart"
DAY = date(2026, 10, 1)


@dataclass(frozen=True)
class Place:
    """A folder with a configuration, its inputs and its output."""

    config: Path

    @property
    def folder(self) -> Path:
        return self.config.parent

    @property
    def output(self) -> Path:
        return Path(load_settings(self.config).output)

    def run(
        self,
        instance: dg.DagsterInstance,
        cluster: str,
        *,
        day: date = DAY,
        only: str | None = None,
        config: Mapping[str, object] | None = None,
    ) -> dg.ExecuteInProcessResult:
        job = build_definitions(self.config).resolve_job_def(JOB)
        return job.execute_in_process(
            instance=instance,
            partition_key=key_of(Partition(day, cluster)),
            asset_selection=[dg.AssetKey(name) for name in RESULTS] if only == "results" else None,
            run_config=config,
            raise_on_error=False,
        )

    def rows(self, table: str, cluster: str, day: date = DAY) -> pa.Table:
        return pq.read_table(self.output / table / f"date={day}" / f"cluster={cluster}" / "part-0.parquet", partitioning=None)

    def bytes_of_parquet(self) -> dict[str, str]:
        files = sorted(self.output.rglob("*.parquet"))
        return {str(f.relative_to(self.output)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


RESULTS = ("chargeback", "team_model", "reconciliation", "findings", "daily_mart")


def copied(source: Path, folder: Path) -> Place:
    """A copy of the inputs whose configuration names its first day."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    config = folder / "chargeback.yaml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text if "start:" in text else f"{text}\nstart: {DAY}\n", encoding="utf-8")
    return Place(config)


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """The line with which a step of the run failed."""
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    data = failed.step_failure_data.user_failure_data
    assert data is not None
    return str(data.description)
