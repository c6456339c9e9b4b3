"""Loading the definitions as Dagster's own commands do, and what a configuration that cannot be used gets."""

import subprocess
import sys
from pathlib import Path

import pytest

from allocation.errors import SettingsError
from dagster_project.build import build_definitions
from dagster_project.definitions import defs
from tests.dagster_project.places import ROOT, TWO_CLUSTERS, copied


def validate(home: Path, config: Path | None) -> subprocess.CompletedProcess[str]:
    home.mkdir()
    environment = {"DAGSTER_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home)}
    if config is not None:
        environment["CHARGEBACK_CONFIG"] = str(config)
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-m", "dagster_project.definitions"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_dagster_validates_the_definitions(tmp_path: Path) -> None:
    place = copied(TWO_CLUSTERS, tmp_path / "two")
    done = validate(tmp_path / "home", place.config)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation successful" in done.stdout + done.stderr


def test_without_a_configuration_loading_says_what_to_set(tmp_path: Path) -> None:
    done = validate(tmp_path / "home", None)
    assert done.returncode != 0
    assert "set CHARGEBACK_CONFIG to the path of the configuration file" in done.stdout + done.stderr


def test_the_module_loads_what_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied(TWO_CLUSTERS, tmp_path / "two")
    monkeypatch.setenv("CHARGEBACK_CONFIG", str(place.config))
    made = defs()
    assert [s.name for s in made.get_repository_def().schedule_defs] == ["nightly"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("start: 2026-10-01", "", "start is missing"),
        ("- name: prod", '- name: "a|b"', "clusters: a name cannot be a partition of Dagster"),
    ],
)
def test_what_cannot_be_partitioned_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    place = copied(TWO_CLUSTERS, tmp_path / "two")
    place.config.write_text(place.config.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        build_definitions(place.config)
