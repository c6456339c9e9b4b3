"""Shards on Spark: a cluster of two workers gives the rows of one machine, bit for bit, whatever becomes of a worker."""

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from allocation.errors import ChargebackError, SeriesError, SettingsError
from pipelines.engine_settings import EngineEntry
from pipelines.engines import ensure_usable, open_engine
from pipelines.engines.work_folder import Desk, WorkFolder
from pipelines.places import Place
from pipelines.results import RESULT_TABLES
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.storage import TableStore
from pipelines.walk import open_walk
from tests.servers import s3_server
from tests.spark import CLUSTER, Killed, cluster, in_process, needs_spark
from tests.walk import test_faults
from tests.walk.test_faults import DAY, gpu, line

NODES = 7


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """Spark, started once: engines use the session that is open."""
    with cluster():
        yield


def fleet(folder: Path) -> test_faults.Place:
    """A day of seven machines, a shard each; two pods share each card, one of them for a part of the day."""
    series, bill, nodes = [], [], []
    for n in range(NODES):
        series += gpu(f"n{n}", f"GPU-{n}", f"p{n}", (0, 3 + n)) + gpu(f"n{n}", f"GPU-{n}", "shared", (n, 2 + n))
        bill.append(line(f"i-{n}", (0, 24), f"{100 / 7 + n:.9f}"))
        nodes.append({"name": f"n{n}", "provider_id": f"aws:///z/i-{n}", "gpus": 1, "gpu_memory": "4GiB"})
    return test_faults.Place(folder, series, bill, nodes=nodes, entry={"nodes_per_shard": 1})


def tables(folder: Path, engine: EngineEntry, marker: Path | None = None) -> dict[str, bytes]:
    """The files of all result tables of a run."""
    fleet(folder)
    settings = load_settings(folder / "chargeback.yaml").model_copy(update={"engine": engine})
    with open_walk(settings) as walk:
        if marker:
            walk.__dict__["engine"] = Killed(walk.engine, marker)
        run_day(walk, DAY)
    assert not list((folder / "out").glob(".work/.*"))
    return {str(f.relative_to(folder)): f.read_bytes() for t in RESULT_TABLES for f in (folder / "out" / t).rglob("*.parquet")}


@needs_spark
@pytest.mark.usefixtures("spark")
def test_two_workers_give_the_files_of_one_machine_though_one_is_killed(tmp_path: Path) -> None:
    wanted = tables(tmp_path / "local", EngineEntry(workers=1))
    assert len(wanted) == 2 * len(RESULT_TABLES)
    killed = tmp_path / "killed"
    assert tables(tmp_path / "spark", CLUSTER, killed) == wanted
    assert killed.read_text(encoding="ascii").isdigit()


@needs_spark
@pytest.mark.usefixtures("spark")
def test_results_come_in_order_from_other_processes_and_few_tasks_are_taken_ahead(tmp_path: Path) -> None:
    asked: list[int] = []

    def coming() -> Iterator[str]:
        for number in range(12):
            asked.append(number)
            yield f"task {number}"

    engine = open_engine(CLUSTER, Place(str(tmp_path), None, None))
    results, most = [], CLUSTER.shards_in_flight or 0
    for result in engine.map(in_process, coming()):
        results.append(result)
        assert len(asked) - len(results) < most
        assert len(list(tmp_path.rglob("*.task"))) < most
    assert [name for name, _ in results] == [f"task {n}" for n in range(12)]
    assert os.getpid() not in {process for _, process in results}


@needs_spark
@pytest.mark.usefixtures("spark")
def test_an_error_in_a_task_is_one_clear_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cases: list[tuple[str, type[ChargebackError], str]] = [
        ("bad series", SeriesError, r"^metrics\.om, line 3: is no series$"),
        ("fault", ChargebackError, r"^Spark gave a shard up: ZeroDivisionError: a fault of ours\. Nothing was written"),
        ("crash", ChargebackError, r"^Spark gave a shard up: .*Python worker exited unexpectedly.* Nothing was written"),
    ]
    for name, kind, told in cases:
        engine = open_engine(CLUSTER, Place(str(tmp_path), None, None))
        results = engine.map(in_process, iter(["good", name, "never asked for"]))
        assert next(results)[0] == "good"
        with pytest.raises(kind, match=told) as raised:
            list(results)
        assert "\n" not in str(raised.value)
        assert type(raised.value) is kind
        engine.close()
        assert not list(tmp_path.glob(".work/.*"))
    assert capfd.readouterr().err == ""


@needs_spark
def test_a_run_without_java_ends_before_anything_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ChargebackError, match=r"bin/java is not there\. Install Java 17"):
        ensure_usable(EngineEntry(kind="spark"))


@needs_spark
def test_without_java_the_error_says_so(tmp_path: Path) -> None:
    text = (
        "from pipelines.engine_settings import EngineEntry; from pipelines.engines.spark_session import Session\n"
        "try: Session(EngineEntry(kind='spark'))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", text], env=os.environ | {"JAVA_HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(
        r"ChargebackError Spark does not start with engine.master 'local\[\*\]': .*/bin/java: No such file or directory\. "
        r"Install Java 17 or later, or name its folder in JAVA_HOME\n",
        found.stdout,
    )
    assert found.stderr == ""


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as url:
        boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket="example-bucket")
        yield Place("s3://example-bucket/tables", url, "us-east-1")


def test_tasks_and_results_travel_through_an_object_store(s3: Place) -> None:
    folder = WorkFolder(s3, str.upper)
    folder.put(7, "a task")
    assert folder.desk.run(7) == folder.desk.run(7) == b""
    assert folder.take(7) == "A TASK"
    assert [path.rpartition("/")[2] for path in s3.below(".work")] == ["work"]
    folder.close()
    assert s3.below(".work") == []


def test_a_folder_that_a_machine_does_not_have_is_named(tmp_path: Path) -> None:
    error = pickle.loads(Desk((str(tmp_path / "other"), None, None), ".work/.aside-1.0-shared").run(0))  # noqa: S301
    assert isinstance(error, SettingsError)
    assert str(error).startswith(f"output {tmp_path / 'other'} is not the same folder on ")


def test_a_store_that_travels_is_the_same_wherever_a_process_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    travelling = pickle.dumps(TableStore("out"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pickle.loads(travelling).location == str(tmp_path / "out")  # noqa: S301


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"kind": "local", "master": "spark://m:7077"}, "engine local has no master; write `kind: spark` for a cluster"),
        ({"kind": "spark", "workers": 2}, "engine spark has no workers; say in `master` or `conf` how many cores"),
    ],
)
def test_settings_of_another_engine_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        EngineEntry.model_validate(values)
