"""The project's shell: the README's lines, locks, versions, notes of changes, and what may not stand in a file."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from pipelines.settings import load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
KINDS = {"added", "changed", "fixed", "removed", "amounts"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)


def install_lines() -> list[str]:
    return [block for block in blocks("sh") if block.startswith("python3.11 -m venv")]


def project_files() -> list[Path]:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]


def test_readme_has_two_single_lines_that_set_everything_up() -> None:
    quick_start, tests = install_lines()
    assert "\n" not in quick_start + tests
    assert "-r requirements.lock" in quick_start
    assert quick_start.endswith("gpu-chargeback run examples/quickstart/chargeback.yaml --from 2026-10-01 --until 2026-10-02")
    assert "-r requirements-dev.lock" in tests
    assert tests.endswith(".venv/bin/pytest")


def test_ci_runs_the_readme_lines_and_skips_nothing() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert all(line in script for line in install_lines())
    assert "set -eu" in script
    assert "export CHARGEBACK_NO_SKIPS=1" in script


@pytest.mark.parametrize("script", [".ci/run", "scripts/install_test_servers.sh", "scripts/install_focus_validator.sh"])
def test_scripts_are_plain_shell_and_executable(script: str) -> None:
    path = ROOT / script
    subprocess.run(["sh", "-n", path], check=True)
    assert path.stat().st_mode & 0o111


def test_readme_configuration_is_accepted(tmp_path: Path) -> None:
    (example,) = blocks("yaml")
    config = tmp_path / "chargeback.yaml"
    config.write_text(example, encoding="utf-8")
    settings = load_settings(config)
    assert [c.name for c in settings.clusters] == ["prod"]
    assert settings.billing[0].path == "s3://example-finops/exports/cur2"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/quickstart/README.md"])
def test_relative_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_nothing_of_one_machine_stands_in_a_file() -> None:
    forbidden = ["/" + "work/", "/" + "tmp/w/", "/" + "root/", "pypi" + ".org", "python" + "hosted", "file:" + "///opt"]
    faults = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        faults += [f"{path.relative_to(ROOT)}: {word}" for word in forbidden if word in text]
    assert faults == []


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_locks_pin_and_hash_every_package(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / name).read_text(encoding="utf-8").strip())
    assert all(re.match(r"[\w.-]+==\S+( ; .*)? \\\n    --hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


def test_locks_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    core = project["project"]["dependencies"]
    more = [
        *(name for extra in ("aws", "dagster", "duckdb", "iceberg", "postgres") for name in extras[extra]),
        *project["dependency-groups"]["dev"],
    ]
    for name, wanted in (("requirements.lock", core), ("requirements-dev.lock", [*core, *more])):
        locked = set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        asked = {re.split(r"[\[>=<~! ;]", requirement)[0].lower() for requirement in wanted}
        assert asked <= locked, name


def test_version_stands_in_the_changelog() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


def test_notes_of_changes_have_a_known_kind() -> None:
    notes = [path for path in (ROOT / "changelog.d").iterdir() if not path.name.startswith(".")]
    assert notes
    assert [n.name for n in notes if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(sorted(KINDS))})\.md", n.name)] == []
    assert all(note.read_text(encoding="utf-8").strip() for note in notes)


def test_decisions_are_numbered_and_complete() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert re.findall(r"^## (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE) == [
            "Context",
            "Options",
            "Outcome",
            "Consequences",
        ]
