"""What is deployed on Kubernetes without Dagster: manifests hold to Kubernetes' own schemas, jobs ask for the right days.

Also here: what the image has, which the manifests take for granted. Runs of Dagster are in ``dagster_project``.
"""

import re
import subprocess
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.settings import load_settings
from tests.manifests import (
    DAGSTER_HOME,
    DEPLOY,
    FOLDER,
    VALUES,
    Invalid,
    configuration,
    document,
    ensure_valid,
    pod_of,
)

ROOT = DEPLOY.parent
CONFIG = "/etc/gpu-chargeback/chargeback.yaml"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir() if path.name != VALUES))
def test_manifests_hold_to_the_schemas(name: str) -> None:
    manifest = document(name)
    ensure_valid(manifest)
    assert manifest["metadata"]["labels"]["app.kubernetes.io/name"] == "gpu-chargeback"


@pytest.mark.parametrize(("field", "value"), [("timezone", "Etc/UTC"), ("failedJobsHistoryLimit", "7")])
def test_a_misspelt_or_mistyped_field_would_be_told(field: str, value: str) -> None:
    wrong = document("nightly.yaml")
    wrong["spec"][field] = value
    with pytest.raises(Invalid):
        ensure_valid(wrong)


def test_the_configuration_is_accepted_and_keeps_nothing_in_the_pod(tmp_path: Path) -> None:
    settings = load_settings(configuration(tmp_path))
    assert settings.start is not None
    assert all(place.startswith("s3://") for place in (settings.output, *(b.path for b in settings.billing)))


@pytest.mark.parametrize("name", ["nightly.yaml", "backfill.yaml"])
def test_a_job_finds_what_the_other_manifests_make(name: str) -> None:
    pod = pod_of(name)
    (container,) = pod["containers"]
    made = document("configuration.yaml")
    (mount,) = [m for m in container["volumeMounts"] if CONFIG.startswith(m["mountPath"])]
    (volume,) = [v for v in pod["volumes"] if v["name"] == mount["name"]]
    assert volume["configMap"]["name"] == made["metadata"]["name"]
    assert f"{mount['mountPath']}/{next(iter(made['data']))}" == CONFIG
    accounts = {document(path.name)["metadata"]["name"] for path in FOLDER.glob("service-account-*.yaml")}
    assert accounts == {pod["serviceAccountName"]}


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
    assert words == ["run", CONFIG, "--from", first, "--until", until]


def test_the_nightly_job_computes_the_last_three_days(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now(UTC).date()
    words = asked("nightly.yaml", tmp_path, {})
    wanted = [
        ["run", CONFIG, "--from", str(day - timedelta(days=3)), "--until", str(day)] for day in (before, datetime.now(UTC).date())
    ]
    assert words in wanted
    assert main([words[0], str(tmp_path / "none.yaml"), *words[2:]]) == 2
    assert "none.yaml: cannot be read" in capsys.readouterr().err


def test_the_image_has_what_the_manifests_take_for_granted() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    sources = {name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()}
    sent = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"}
    assert sources == sent
    assert [name for name in sources if not (ROOT / name).exists()] == []
    packages = re.search(r"^packages = \[(.+)\]$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert packages is not None
    assert set(re.findall(r'"(\w+)"', packages[1])) <= sources
    user = pod_of("nightly.yaml")["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in text
    assert f"DAGSTER_HOME={DAGSTER_HOME}" in text
    assert text.index("NUMBA_CPU_NAME=generic") < text.index("RUN gpu-chargeback warm")


def test_the_lock_has_all_that_the_image_installs() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes -c requirements-dev.lock -r pyproject.toml" in text
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"--extra (\w+)", text)
    assert {"aws", "azure", "gcp", "kubernetes"} <= set(named) <= extras.keys()
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    asked = {re.split(r"[\[>=]", package)[0] for name in named for package in extras[name]}
    assert asked <= set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))


def test_the_page_names_every_file() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    assert [path.name for path in (*FOLDER.iterdir(), *DEPLOY.iterdir()) if path.name not in page] == []
