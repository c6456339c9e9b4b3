"""What is deployed on Kubernetes: manifests and pods of runs hold to Kubernetes' own schemas, settings to those of Dagster.

The chart itself is not rendered. ``chart`` says what it makes of our values; a name that it does not know would be refused by
the schemas of ``dagster-k8s`` and of Dagster's instance.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import kubernetes_validate
import pytest
import yaml

from pipelines.cli import main
from pipelines.settings import load_settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
FOLDER = DEPLOY / "kubernetes"
VERSIONS = ("1.31", "1.34", "1.37")
"""Of Kubernetes: the oldest that is supported, one between, and the newest that the validator knows."""
NAMESPACE = "chargeback"
HOME = "/opt/dagster/dagster_home"
PARTITIONS = ("2026-10-01|prod", "2026-10-02|prod")
VALUES = yaml.safe_load((FOLDER / "dagster-values.yaml").read_text(encoding="utf-8"))
MANIFESTS = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "dagster-values.yaml")


def manifest(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def pod_of(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = manifest(name)["spec"]
    found: dict[str, Any] = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]
    return found


def ensure_valid(document: object) -> None:
    for version in VERSIONS:
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_hold_to_the_schemas(name: str) -> None:
    ensure_valid(manifest(name))


def test_a_misspelt_or_mistyped_field_is_refused() -> None:
    """Of the checks themselves: they would tell."""
    for field, value in (("timezone", "Etc/UTC"), ("failedJobsHistoryLimit", "7")):
        wrong = manifest("nightly.yaml")
        wrong["spec"][field] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            ensure_valid(wrong)


def configuration(folder: Path) -> Path:
    (folder / "chargeback.yaml").write_text(manifest("configuration.yaml")["data"]["chargeback.yaml"], encoding="utf-8")
    return folder / "chargeback.yaml"


def test_the_configuration_is_accepted_and_keeps_nothing_in_the_pod(tmp_path: Path) -> None:
    settings = load_settings(configuration(tmp_path))
    assert settings.output.startswith("s3://")
    assert all(b.path.startswith("s3://") for b in settings.billing)
    assert settings.start is not None


def asked(name: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """What a job's shell line calls the program with."""
    program = folder / "gpu-chargeback"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    (container,) = pod_of(name)["containers"]
    held = {e["name"]: e["value"] for e in container["env"]} | environment | {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run([*container["command"], *container["args"]], env=held, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("index", "first", "until"),
    [("0", "2026-10-01", "2026-10-02"), ("8", "2026-10-09", "2026-10-10"), ("30", "2026-10-31", "2026-11-01")],
)
def test_pod_n_of_the_backfill_computes_day_n(index: str, first: str, until: str, tmp_path: Path) -> None:
    words = asked("backfill.yaml", tmp_path, {"JOB_COMPLETION_INDEX": index})
    assert words == ["run", "/etc/gpu-chargeback/chargeback.yaml", "--from", first, "--until", until]


def test_the_nightly_job_computes_the_last_three_days(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = asked("nightly.yaml", tmp_path, {})
    today = datetime.now(UTC).date()
    assert words == ["run", "/etc/gpu-chargeback/chargeback.yaml", "--from", str(today - timedelta(days=3)), "--until", str(today)]
    missing = tmp_path / "none.yaml"
    assert main([words[0], str(missing), *words[2:]]) == 2
    assert "cannot be read" in capsys.readouterr().err


class KubernetesApi(BaseHTTPRequestHandler):
    """Takes Jobs as Kubernetes' API does and keeps them."""

    jobs: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path.split("?")[0] == f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
        self.jobs.append(json.loads(body))
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


def snake(value: object) -> object:
    """The chart's names as Dagster's."""
    if not isinstance(value, dict):
        return value
    return {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): inner for name, inner in value.items()}


def deployment() -> dict[str, Any]:
    (only,) = VALUES["dagster-user-deployments"]["deployments"]
    assert isinstance(only, dict)
    return only


def chart(kubeconfig: Path) -> dict[str, Any]:
    """``dagster.yaml`` as the chart writes it from our values, but for the database and for where Kubernetes is."""
    given = dict(VALUES["runLauncher"]["config"]["k8sRunLauncher"])
    given["runK8sConfig"] = snake(given["runK8sConfig"])
    given["envSecrets"] = [secret["name"] for secret in given["envSecrets"]]
    assert given.pop("loadInclusterConfig")
    made = {
        "load_incluster_config": False,
        "kubeconfig_file": str(kubeconfig),
        "job_namespace": NAMESPACE,
        "service_account_name": VALUES["serviceAccount"]["name"],
        "dagster_home": HOME,
        "instance_config_map": "dagster-instance",
        "postgres_password_secret": "dagster-postgresql-secret",
    }
    daemon = VALUES["dagsterDaemon"]
    assert not deployment()["includeConfigInLaunchedRuns"]["enabled"]
    assert not daemon["runCoordinator"]["enabled"]
    assert not daemon["runRetries"]["enabled"]
    return {
        "run_launcher": {"module": "dagster_k8s", "class": VALUES["runLauncher"]["type"], "config": made | dict(snake(given))},
        "run_monitoring": snake(daemon["runMonitoring"]),
        "telemetry": VALUES["telemetry"],
        **VALUES["additionalInstanceConfig"],
    }


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    """A Dagster instance with the chart's settings, and the Jobs that came to Kubernetes when two partitions were launched."""
    from dagster import DagsterInstance, MultiPartitionKey
    from dagster._core.code_pointer import ModuleCodePointer
    from dagster._core.launcher import LaunchRunContext
    from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin

    from dagster_project.build import JOB, build_definitions

    home = tmp_path_factory.mktemp("dagster")
    server = ThreadingHTTPServer(("127.0.0.1", 0), KubernetesApi)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = home / "kubeconfig.json"
    context = {"cluster": "test", "user": "test"}
    clusters = [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}]
    known = {"clusters": clusters, "users": [{"name": "test", "user": {}}], "contexts": [{"name": "test", "context": context}]}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "test", **known}))
    (home / "dagster.yaml").write_text(json.dumps(chart(kubeconfig)))
    job = build_definitions(configuration(home)).resolve_job_def(JOB)
    image = f"{deployment()['image']['repository']}:{deployment()['image']['tag']}"
    code = ModuleCodePointer(deployment()["dagsterApiGrpcArgs"][1], "defs", working_directory=None)
    origin = JobPythonOrigin(JOB, RepositoryPythonOrigin("/usr/bin/python", code, image, ["dagster"]))
    with DagsterInstance.from_config(str(home)) as instance:
        for text in PARTITIONS:
            day, cluster = text.split("|")
            tags = job.partitions_def.get_tags_for_partition_key(MultiPartitionKey({"date": day, "cluster": cluster}))
            run = instance.create_run_for_job(job, tags=tags, job_code_origin=origin)
            instance.run_launcher.launch_run(LaunchRunContext(run, workspace=None))
        yield instance, KubernetesApi.jobs
    server.shutdown()
    server.server_close()


def test_each_partition_is_a_job_of_one_pod_that_holds_to_the_schemas(launched: tuple[Any, list[dict[str, Any]]]) -> None:
    instance, jobs = launched
    assert len(jobs) == len(PARTITIONS)
    for job in jobs:
        ensure_valid(job)
        spec = job["spec"]
        assert spec.get("completions", 1) == spec.get("parallelism", 1) == 1
        (container,) = spec["template"]["spec"]["containers"]
        assert container["args"][:3] == ["dagster", "api", "execute_run"]
        run = instance.get_run_by_id(job["metadata"]["labels"]["dagster/run-id"])
        assert f"{run.tags['dagster/partition/date']}|{run.tags['dagster/partition/cluster']}" in PARTITIONS


def test_a_run_has_the_configuration_the_rights_and_the_memory_meant_for_runs(
    launched: tuple[Any, list[dict[str, Any]]],
) -> None:
    nightly = pod_of("nightly.yaml")
    for job in launched[1]:
        pod = job["spec"]["template"]["spec"]
        (run,), (alone,) = pod["containers"], nightly["containers"]
        for same in ("image", "resources", "securityContext", "volumeMounts"):
            assert run[same] == alone[same], same
        for same in ("serviceAccountName", "restartPolicy", "securityContext", "volumes"):
            assert pod[same] == nightly[same], same
        assert alone["env"][0] in run["env"]
        assert {"secretRef": {"name": "gpu-chargeback"}} in run["envFrom"]
        assert job["spec"]["template"]["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_the_queue_limits_pods_days_and_fetching(launched: tuple[Any, list[dict[str, Any]]]) -> None:
    instance = launched[0]
    limits = instance.get_concurrency_config()
    queue = limits.run_queue_config
    assert queue.max_concurrent_runs == 4
    (one_a_day,) = queue.tag_concurrency_limits
    assert (one_a_day["key"], one_a_day["limit"]) == ("dagster/partition/date", 1)
    assert queue.should_block_op_concurrency_limited_runs
    assert limits.pool_config.default_pool_limit == 2
    assert instance.run_monitoring_enabled
    assert (instance.run_retries_max_retries, instance.run_retries_retry_on_asset_or_op_failure) == (2, False)


def test_the_image_has_what_the_manifests_take_for_granted() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    sources = [name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for name in sources:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name
    packages = re.search(r"^packages = \[(.+)\]$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert packages is not None
    assert set(re.findall(r'"(\w+)"', packages[1])) <= set(sources)
    user = pod_of("nightly.yaml")["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in text
    assert f"DAGSTER_HOME={HOME}" in text
    assert text.index("NUMBA_CPU_NAME=generic") < text.index("gpu-chargeback warm")


def test_the_image_is_locked_to_versions_that_are_tested() -> None:
    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^([\w.-]+==[^\s;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE))

    assert pins(DEPLOY / "requirements.lock") <= pins(ROOT / "requirements-dev.lock")
    assert {"numba", "dagster", "dagster-k8s", "dagster-postgres"} <= {p.split("==")[0] for p in pins(DEPLOY / "requirements.lock")}


def test_the_page_names_every_file() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    for path in [*FOLDER.iterdir(), DEPLOY / "Dockerfile", DEPLOY / "requirements.lock"]:
        assert path.name in page, path.name
