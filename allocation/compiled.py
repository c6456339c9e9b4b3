"""How the kernel's functions are compiled, and where compiled code is kept.

numba keeps compiled code by the file of the function that Python calls and does not see when a function called by it changes in
another file: after an update it would go on with the old rule. So the cache's folder is named by the source of the function's own
file and of all that it imports from this package.
"""

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config as numba_config

HERE = Path(__file__).parent
IMPORTED = re.compile(
    r"^(?:from allocation\.(\w+) import|import allocation\.(\w+)|from allocation import ([\w, ]+|\([^)]+\)))", re.MULTILINE
)
config: Any = numba_config
compile_as: Any = njit


@cache
def imported_by(path: Path) -> frozenset[Path]:
    """The files of this package that a file imports itself."""
    named = " ".join(" ".join(found) for found in IMPORTED.findall(path.read_text(encoding="utf-8")))
    return frozenset(HERE / f"{name}.py" for name in re.findall(r"\w+", named))


def sources_of(path: Path) -> list[Path]:
    """The files whose text can change what a file compiles to: its own and all that it imports from here, directly or not."""
    found, new = set[Path](), {path}
    while new:
        found |= new
        new = {one for known in new for one in imported_by(known)} - found
    return sorted(found)


@cache
def cache_folder(path: Path) -> str:
    """The folder for what is compiled from a file: beside this one where that can be written, else in the user's cache."""
    digest = hashlib.sha256()
    for source in sources_of(path):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    beside = HERE / "__pycache__"
    place = beside if os.access(beside if beside.exists() else HERE, os.W_OK) else Path.home() / ".cache" / "gpu-chargeback"
    return str(Path(config.CACHE_DIR or place) / f"kernel-{digest.hexdigest()[:16]}")


def _compiled(function: Callable[..., Any], **options: Any) -> Any:  # noqa: ANN401
    given = config.CACHE_DIR
    config.CACHE_DIR = cache_folder(Path(function.__code__.co_filename))
    try:
        return compile_as(cache=True, error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = given


def kernel(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Compiles a function of the kernel on its first call; later runs of the same source read it from the cache."""
    return _compiled(function)


def inner(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Compiles a function of the kernel that makes no array: references are not counted in it, which is most of its time."""
    return _compiled(function, _nrt=False)


def woven(function: Callable[..., Any]) -> Any:  # noqa: ANN401
    """``inner`` for a step of a loop: its code is woven into the loop's, as passing many arrays takes longer than the step."""
    return _compiled(function, _nrt=False, forceinline=True)
