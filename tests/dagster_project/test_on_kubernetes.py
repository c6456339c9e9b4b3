"""Runs on Kubernetes: our values for Dagster's chart hold to Dagster's own schemas, and each partition becomes a pod.

The launcher is the real one, and what it sends comes to a server that takes Jobs as Kubernetes does. The chart itself is not
rendered: ``chart`` says what it makes of our values, and a name that does not exist is refused by Dagster.
"""

import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from dagster import DagsterInstance, MultiPartitionsDefinition
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin

from dagster_project.build import JOB, build_definitions
from dagster_project.partitions import key_of
from pipelines.partition import Partition
from tests.manifests import DAGSTER_HOME, VALUES, Document, configuration, document, ensure_valid, pod_of

NAMESPACE = "chargeback"
MEMORY = "/dev/shm"  # noqa: S108
PARTITIONS = [Partition(date(2026, 10, 1), "prod"), Partition(date(2026, 10, 2), "_bill")]
Launched = tuple[DagsterInstance, list[Document]]


class KubernetesApi(BaseHTTPRequestHandler):
    """Takes Jobs and keeps them."""

    jobs: ClassVar[list[Document]] = []

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


@contextmanager
def kubernetes_api() -> Iterator[str]:
    """The address at which ``KubernetesApi`` answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), KubernetesApi)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kubeconfig(folder: Path, url: str) -> str:
    known = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "here", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(known), encoding="utf-8")
    return str(folder / "kubeconfig")


def deployment() -> Document:
    """What the values say of the code server."""
    (only,) = document(VALUES)["dagster-user-deployments"]["deployments"]
    assert isinstance(only, dict)
    return only


def image() -> str:
    return ":".join(deployment()["image"][part] for part in ("repository", "tag"))


def snake(given: Document) -> Document:
    """The chart's names as Dagster's."""
    return {re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name): value for name, value in given.items()}


def chart(kubeconfig_file: str) -> Document:
    """``dagster.yaml`` as the chart writes it from our values, but for the database and for where Kubernetes is."""
    values = document(VALUES)
    launcher = snake(values["runLauncher"]["config"]["k8sRunLauncher"])
    launcher["run_k8s_config"] = snake(launcher["run_k8s_config"])
    launcher["env_secrets"] = [secret["name"] for secret in launcher["env_secrets"]]
    assert launcher["load_incluster_config"]
    launcher |= {
        "load_incluster_config": False,
        "kubeconfig_file": kubeconfig_file,
        "job_namespace": NAMESPACE,
        "service_account_name": values["serviceAccount"]["name"],
        "dagster_home": DAGSTER_HOME,
        "instance_config_map": "dagster-instance",
        "postgres_password_secret": "dagster-postgresql-secret",
    }
    daemon, limits = values["dagsterDaemon"], values["concurrency"]
    assert all(part["enabled"] for part in (limits, *daemon.values()))
    assert not deployment()["includeConfigInLaunchedRuns"]["enabled"]
    return {
        "run_coordinator": {"module": "dagster._core.run_coordinator", "class": daemon["runCoordinator"]["type"]},
        "run_launcher": {"module": "dagster_k8s", "class": values["runLauncher"]["type"], "config": launcher},
        "run_monitoring": snake(daemon["runMonitoring"]),
        "run_retries": snake(daemon["runRetries"]),
        "concurrency": {part: snake(limits[part]) for part in ("runs", "pools")},
        "telemetry": values["telemetry"],
    }


@pytest.fixture(scope="module")
def launched() -> Iterator[Launched]:
    """A Dagster instance with the chart's settings, and the Jobs that came to Kubernetes when two partitions were launched."""
    quick = MEMORY if os.access(MEMORY, os.W_OK) else None  # SQLite waits for the disk hundreds of times
    with tempfile.TemporaryDirectory(dir=quick) as name, kubernetes_api() as url:
        home = Path(name)
        (home / "dagster.yaml").write_text(json.dumps(chart(kubeconfig(home, url))), encoding="utf-8")
        job = build_definitions(configuration(home)).resolve_job_def(JOB)
        assert isinstance(job.partitions_def, MultiPartitionsDefinition)
        code = ModuleCodePointer(deployment()["dagsterApiGrpcArgs"][1], "defs", working_directory=None)
        origin = JobPythonOrigin(JOB, RepositoryPythonOrigin("/usr/bin/python", code, image(), ["dagster"]))
        with DagsterInstance.from_config(str(home)) as instance:
            for partition in PARTITIONS:
                tags = job.partitions_def.get_tags_for_partition_key(key_of(partition))
                run = instance.create_run_for_job(job, tags=tags, job_code_origin=origin)
                instance.run_launcher.launch_run(LaunchRunContext(run, workspace=None))
            yield instance, KubernetesApi.jobs


def test_each_partition_is_a_job_of_one_pod_that_holds_to_the_schemas(launched: Launched) -> None:
    instance, jobs = launched
    started = []
    for job in jobs:
        ensure_valid(job)
        spec = job["spec"]
        assert spec.get("completions", 1) == spec.get("parallelism", 1) == 1
        (container,) = spec["template"]["spec"]["containers"]
        assert container["args"][:3] == ["dagster", "api", "execute_run"]
        run = instance.get_run_by_id(job["metadata"]["labels"]["dagster/run-id"])
        assert run is not None
        started.append(Partition(date.fromisoformat(run.tags["dagster/partition/date"]), run.tags["dagster/partition/cluster"]))
    assert started == PARTITIONS


def test_a_run_has_the_pod_of_the_nightly_job(launched: Launched) -> None:
    """The same image, memory, rights, files and secrets, whichever way a day is computed."""
    nightly = pod_of("nightly.yaml")
    (alone,) = nightly["containers"]
    for job in launched[1]:
        pod = job["spec"]["template"]["spec"]
        (run,) = pod["containers"]
        for same in ("image", "resources", "securityContext", "volumeMounts"):
            assert run[same] == alone[same], same
        for same in ("serviceAccountName", "restartPolicy", "securityContext", "volumes"):
            assert pod[same] == nightly[same], same
        assert alone["env"][0] in run["env"]
        assert {"secretRef": {"name": alone["envFrom"][0]["secretRef"]["name"]}} in run["envFrom"]
        assert job["spec"]["template"]["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_the_queue_limits_pods_days_and_fetching(launched: Launched) -> None:
    instance = launched[0]
    limits, queue = instance.get_concurrency_config(), instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert queue.max_concurrent_runs == 4
    assert [(limit["key"], limit["limit"]) for limit in queue.tag_concurrency_limits or ()] == [("dagster/partition/date", 1)]
    assert queue.should_block_op_concurrency_limited_runs
    assert limits.pool_config.default_pool_limit == 2
    assert instance.run_monitoring_enabled
    assert (instance.run_retries_max_retries, instance.run_retries_retry_on_asset_or_op_failure) == (2, False)


def test_the_code_server_is_a_pod_with_the_same_configuration_and_no_rights() -> None:
    values, user, nightly = document(VALUES), deployment(), pod_of("nightly.yaml")
    container = {"name": "code", "image": image(), "env": user["env"]}
    container |= {field: user[field] for field in ("resources", "securityContext", "volumeMounts")}
    container["envFrom"] = [{"secretRef": secret} for secret in user["envSecrets"]]
    spec = {"containers": [container], "volumes": user["volumes"], "securityContext": user["podSecurityContext"]}
    ensure_valid({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "code", "labels": user["labels"]}, "spec": spec})
    assert spec["volumes"] == nightly["volumes"]
    assert container["env"] == nightly["containers"][0]["env"]
    rights = values["dagster-user-deployments"]
    assert not rights["rbacEnabled"]
    assert rights["serviceAccount"] == {"create": False, "name": nightly["serviceAccountName"]}
    assert values["serviceAccount"]["name"] != nightly["serviceAccountName"]
