"""Compiled code is used again only while everything that it was compiled from is the same."""

import ast
from pathlib import Path

import pytest

from allocation import compiled

PACKAGE = compiled.HERE
KERNELS = sorted(path for path in PACKAGE.glob("*.py") if "allocation.compiled" in path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """What Python itself finds a file to import from the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "allocation":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("allocation."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("allocation.")}
    return found


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_every_import_counts(path: Path) -> None:
    """No spelling of an import escapes: a rule changed there must be compiled again here."""
    sources = compiled.sources_of(path)
    assert path in sources
    for source in sources:
        assert {PACKAGE / f"{name}.py" for name in imports(source)} <= set(sources)


def test_the_sweep_is_compiled_again_for_its_own_rules_only() -> None:
    """An owner rule changes nothing that is compiled; a meter does."""
    names = {path.stem for path in compiled.sources_of(PACKAGE / "sweep.py")}
    assert {"sweep", "board", "meters", "agenda", "instant", "shares"} <= names
    assert not names & {"owners", "findings", "noticed", "schemas", "usage"}


def test_a_changed_source_has_another_folder(tmp_path: Path) -> None:
    """Two files of one name and different text never share compiled code."""
    one, other = tmp_path / "one" / "rule.py", tmp_path / "other" / "rule.py"
    for path, text in ((one, "A = 1\n"), (other, "A = 2\n")):
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
    assert compiled.cache_folder(one) != compiled.cache_folder(other)
