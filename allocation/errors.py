"""The exceptions that end a run. A fault that the run survives is a finding instead (see ``findings``).

Each error says what is wrong, where, and what to do; the command line prints the message and nothing else.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class ChargebackError(Exception):
    """Anything that ends a run with one clear line (exit code 1 unless a subclass says otherwise)."""

    exit_code = 1

    def __reduce__(self) -> "tuple[Callable[..., ChargebackError], tuple[object, ...]]":
        """An error of a worker is the same error in the process that started it."""
        return _again, (type(self), self.args, self.__dict__)


class SettingsError(ChargebackError):
    """The configuration or the call is wrong (exit code 2)."""

    exit_code = 2


class AdapterError(ChargebackError):
    """A bill cannot be read for certain; the message names file, row and remedy."""

    def __init__(self, problem: str, *, file: str | None = None, row: int | None = None, remedy: str | None = None) -> None:
        self.problem, self.file, self.row, self.remedy = problem, file, row, remedy
        where = f"{file}, row {row}: " if file and row is not None else f"{file}: " if file else ""
        super().__init__(_sentences(f"{where}{problem}", remedy))


class MissingExtraError(ChargebackError):
    """A package of an extra is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"the package {package!r} is not installed: pip install 'gpu-chargeback[{extra}]'")


class SourceUnavailableError(ChargebackError):
    """A server or a bucket did not answer, or answered in part; trying again may help."""

    def __init__(self, url: str, problem: str, *, setting: str, remedy: str | None = None) -> None:
        self.url, self.problem, self.setting, self.remedy = url, problem, setting, remedy
        super().__init__(_sentences(f"{url}: {problem} (setting: {setting})", remedy))


class SeriesError(ChargebackError):
    """A file of series cannot be read for certain; the message names file and line."""

    def __init__(self, problem: str, *, file: str, line: int | None = None) -> None:
        self.problem, self.file, self.line = problem, file, line
        super().__init__(f"{file}{f', line {line}' if line is not None else ''}: {problem}")


class SchemaError(ChargebackError):
    """A table was refused at a door: a column is missing, extra, or of another type."""


class ConservationError(ChargebackError):
    """Parts do not add up to the whole. This is a fault of this program, never of the input."""


def _again(kind: type[ChargebackError], args: tuple[object, ...], held: dict[str, object]) -> ChargebackError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(held)
    return error


def _sentences(problem: str, remedy: str | None) -> str:
    if not remedy:
        return problem
    return f"{problem} {remedy}" if problem.endswith("?") else f"{problem.rstrip('.')}. {remedy}"


def nearest(word: str, known: "Iterable[str]") -> str:
    """A hint that names the nearest of the known words, or lists them all.

    >>> nearest("max_hould", ["max_hold", "max_gap"])
    "did you mean 'max_hold'?"
    >>> nearest("zzz", ["b", "a"])
    "known: 'a', 'b'"
    """
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(map(repr, names))
