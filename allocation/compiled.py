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

import numpy as np
import numpy.typing as npt
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


def cache_folder(path: Path) -> Path | None:
    """The folder for what is compiled from a file, None where none can be written."""
    place = cache_place()
    return place and place / f"kernel-{_digest(path)}"


@cache
def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    for source in sources_of(path):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array that compiled code reads, its rows adjacent; copied only where they are not.

    Whether an array of a data frame can be written, and how it lies, depends on the data, and numba compiles a function once for
    each combination that it meets.
    """
    same = np.ascontiguousarray(array).view()
    same.flags.writeable = False
    return same


def keep_in(folder: Path) -> None:
    """Keeps compiled code in that folder; to be called before a module that has any is imported."""
    config.CACHE_DIR = str(folder)


def cache_place() -> Path | None:
    """The folder under which compiled code is kept, None where none can be written.

    Where ``NUMBA_CACHE_DIR`` or ``keep_in`` names one it is that, else the one beside this file, else one in the user's cache.
    """
    if config.CACHE_DIR:
        return _writable(config.CACHE_DIR)
    return _writable(str(HERE / "__pycache__")) or _writable("~/.cache/gpu-chargeback")


@cache
def _writable(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None


def _compiled(function: Callable[..., Any], **options: Any) -> Any:  # noqa: ANN401
    given, folder = config.CACHE_DIR, cache_folder(Path(function.__code__.co_filename))
    if folder is None:
        return compile_as(error_model="numpy", **options)(function)
    config.CACHE_DIR = str(folder)
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
