"""The quick start's day through a real Prometheus and a real S3 server gives the very rows of the files."""

import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import boto3
import dagster as dg
import pytest
import yaml

from pipelines import cli
from pipelines.partition import Partition
from pipelines.results import RESULT_TABLES
from pipelines.settings import load_settings
from pipelines.stages import run_day
from pipelines.storage import TableStore
from pipelines.walk import open_walk
from tests.dagster_project.places import Place
from tests.servers import needs_prometheus, prometheus, s3_server

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
DAY = date(2026, 10, 1)
WINDOW = ["--from", "2026-10-01", "--until", "2026-10-02"]
BUCKET = "example-billing-bucket"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with s3_server() as url:
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket=BUCKET)
        client.upload_file(str(QUICKSTART / "bill.csv"), BUCKET, "focus/bill.csv")
        yield url


def config_of(folder: Path, **changes: object) -> Path:
    """The quick start's configuration with other sources, in a folder of its own."""
    values = yaml.safe_load((QUICKSTART / "chargeback.yaml").read_text(encoding="utf-8"))
    values["output"] = str(folder / "out")
    values["billing"][0]["path"] = str(QUICKSTART / "bill.csv")
    values["clusters"][0]["metrics"][0]["path"] = str(QUICKSTART / "metrics.om")
    values.update(changes)
    path = folder / "chargeback.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def rows_of_files(folder: Path) -> tuple[TableStore, list[str]]:
    folder.mkdir()
    settings = load_settings(config_of(folder))
    walk = open_walk(settings)
    run_day(walk, DAY)
    return walk.store, [settings.clusters[0].name, "_bill"]


def assert_same_rows(one: TableStore, other: TableStore, clusters: list[str]) -> None:
    for cluster in clusters:
        for table in RESULT_TABLES:
            wanted, got = (s.read(table, Partition(DAY, cluster)) for s in (one, other))
            assert wanted is not None
            assert got is not None
            assert got.to_pylist() == wanted.to_pylist(), f"{table} of {cluster} differs"
    assert len(one.read("chargeback", Partition(DAY, clusters[0])) or []) > 0


@needs_prometheus
def test_prometheus_and_s3_give_the_rows_of_the_files(tmp_path: Path, s3: str) -> None:
    files, clusters = rows_of_files(tmp_path / "files")
    (tmp_path / "servers").mkdir()
    with prometheus(tmp_path / "tsdb", QUICKSTART / "metrics.om") as url:
        values = yaml.safe_load((QUICKSTART / "chargeback.yaml").read_text(encoding="utf-8"))
        entry = values["clusters"][0]["metrics"][0]
        entry.pop("path")
        entry |= {"kind": "prometheus", "url": url, "nodes_per_shard": 1, "chunk": "5h"}
        bill = values["billing"][0] | {"path": f"s3://{BUCKET}/focus/bill.csv", "endpoint_url": s3}
        path = config_of(
            tmp_path / "servers",
            clusters=values["clusters"],
            billing=[bill],
            output=f"s3://{BUCKET}/out",
            storage={"endpoint_url": s3, "region": "us-east-1"},
        )
        assert cli.main(["run", str(path), *WINDOW]) == 0
        (tmp_path / "dagster").mkdir()
        storage = {"endpoint_url": s3, "region": "us-east-1"}
        other = config_of(
            tmp_path / "dagster", clusters=values["clusters"], billing=[bill], output=f"s3://{BUCKET}/dagster", storage=storage
        )
        with dg.DagsterInstance.ephemeral() as instance:
            for cluster in clusters:
                assert Place(other).run(instance, cluster).success
    for output in ("out", "dagster"):
        assert_same_rows(files, TableStore(f"s3://{BUCKET}/{output}", endpoint_url=s3, region="us-east-1"), clusters)


@needs_prometheus
def test_stored_samples_serve_a_rerun_without_the_server(tmp_path: Path) -> None:
    values = yaml.safe_load((QUICKSTART / "chargeback.yaml").read_text(encoding="utf-8"))
    with prometheus(tmp_path / "tsdb", QUICKSTART / "metrics.om") as url:
        entry = values["clusters"][0]["metrics"][0]
        entry.pop("path")
        entry |= {"kind": "prometheus", "url": url, "retries": 0}
        path = config_of(tmp_path, clusters=values["clusters"])
        assert cli.main(["run", str(path), *WINDOW]) == 0
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert cli.main(["run", str(path), *WINDOW]) == 0
    assert {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()} == before
    assert cli.main(["run", str(path), *WINDOW, "--refetch"]) == 1


def test_objects_in_s3_are_whole_or_absent(tmp_path: Path, s3: str) -> None:
    files, clusters = rows_of_files(tmp_path / "files")
    store = TableStore(f"s3://{BUCKET}/whole", endpoint_url=s3, region="us-east-1")
    partition = Partition(DAY, clusters[0])
    table = files.read("chargeback", partition)
    store.write("chargeback", partition, table)
    kept = store.read("chargeback", partition)
    assert kept is not None
    assert kept.equals(table)
    client = boto3.client("s3", endpoint_url=s3)
    client.delete_object(Bucket=BUCKET, Key=f"whole/chargeback/{partition.path}/_commit.json")
    assert store.read("chargeback", partition) is None
    assert store.partitions("chargeback") == []


def test_wrong_output_bucket_is_one_clear_line(tmp_path: Path, s3: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = config_of(tmp_path, output="s3://no-such-bucket/out", storage={"endpoint_url": s3, "region": "us-east-1"})
    assert cli.main(["run", str(path), *WINDOW]) == 1
    error = capsys.readouterr().err
    assert "s3://no-such-bucket/out" in error
    assert "storage.endpoint_url" in error
    assert "Traceback" not in error
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
