"""Commands start at once, compile nothing where ``warm`` was, and say so where they must."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from allocation import compiled

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
HEAVY = ("numpy", "pandas", "pyarrow", "numba", "pydantic_settings", "yaml", "dagster", "boto3")
DIVERSE = ("42-mig-repartition", "90-host-by-requests", "103-google-rows-and-credits", "107-azure-amortized-run")
"""Instances, requests, and the exports of two clouds (the others' bills are FOCUS)."""


def python(code: str, **env: str) -> str:
    """What a new process of Python prints."""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, **env}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["run", "--help"], ["init", "--help"]], ids=" ".join)
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    code = f"import sys; from pipelines import cli; cli.main({argv!r}); print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    assert python(code).splitlines()[-1] == "[]"


def test_schema_imports_neither_settings_nor_compiled_code() -> None:
    heavy = {"pydantic_settings", "numba", "pandas"}
    code = f"import sys; from pipelines import cli; cli.main(['schema']); print(sorted({heavy!r} & set(sys.modules)))"
    assert python(code).splitlines()[-1] == "[]"


def test_after_warm_a_run_compiles_nothing_and_warm_says_so() -> None:
    """No case makes a compiled function meet arguments of other types than the made-up day does, all in one process."""
    code = f"""
import tempfile
from pathlib import Path
from pipelines import cli, warm
from tests.walk.test_cases import run
warm.warm(lambda line: None)
with warm.told(lambda line: None) as seen:
    for case in {DIVERSE!r}:
        run(case, Path(tempfile.mkdtemp()))
print(seen.count)
cli.main(["warm"])
"""
    assert python(code).splitlines() == ["0", f"warm already: nothing to compile; kept in {compiled.cache_place()}"]


def test_one_line_says_that_a_command_compiles(tmp_path: Path) -> None:
    code = """
from pipelines import warm
from allocation.wide import multiply
with warm.told(print):
    multiply(1, 2), multiply(3, 4), multiply(True, 2)
with warm.told(print):
    multiply(5, 6)
"""
    lines = python(code, NUMBA_CACHE_DIR=str(tmp_path / "kept")).splitlines()
    assert lines == [
        f"compiling, once for this version and kind of machine, which takes a few minutes; kept in {tmp_path / 'kept'}"
    ]
    assert list((tmp_path / "kept").rglob("*.nbc"))
    assert python(code, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == ""


def test_where_no_folder_can_be_written_code_is_compiled_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = "from pipelines import warm; from allocation.wide import multiply\nwith warm.told(print): print(multiply(2, 3))"
    told, product = python(code, NUMBA_CACHE_DIR=str(tmp_path / "file" / "kept")).splitlines()
    assert "not kept" in told
    assert "NUMBA_CACHE_DIR" in told
    assert product == "(0, 6)"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "warm", "--cache-dir", str(tmp_path / "file" / "kept")],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert run.returncode == 2
    assert "--cache-dir" in run.stderr
    assert "Traceback" not in run.stderr
