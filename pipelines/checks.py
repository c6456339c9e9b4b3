"""What ``doctor`` says of one part: a check, its status, and how a fault that ended the part becomes one.

Here belongs no knowledge of bills, series or nodes.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from allocation.errors import AdapterError, ChargebackError, MissingExtraError, SeriesError, SourceUnavailableError

_SHOWN = 5


class Status(StrEnum):
    """From good to bad. ``open``: nothing is wrong, but something that comes later is not there yet."""

    OK = "ok"
    OPEN = "open"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One part that was looked at: what was found, where, and what to do about it (empty where nothing is)."""

    name: str
    status: Status
    what: str
    where: str
    todo: str = ""


def worst(checks: Iterable[Check]) -> Status:
    """The worst status of all; ``ok`` where there is none."""
    order = list(Status)
    return max((check.status for check in checks), key=order.index, default=Status.OK)


def failed(name: str, where: str, error: ChargebackError) -> Check:
    """The check of a part that an error ended."""
    if isinstance(error, SourceUnavailableError):
        remedy = str(error).rpartition(f"(setting: {error.setting})")[2].removeprefix(".").strip()
        todo = f"Look at {error.setting}." + (f" {remedy}" if remedy else "")
        return Check(name, Status.FAIL, error.problem, f"{where}: {error.url}" if error.url not in where else where, todo)
    if isinstance(error, AdapterError):
        row = f", row {error.row}" if error.row is not None else ""
        place = f"{where}: {error.file}{row}" if error.file and error.file not in where else f"{where}{row}"
        return Check(name, Status.FAIL, error.problem, place, error.remedy or "Correct the export or the billing entry.")
    if isinstance(error, SeriesError):
        line = f", line {error.line}" if error.line is not None else ""
        return Check(name, Status.FAIL, error.problem, f"{where}{line}", "Correct the file, or name another.")
    if isinstance(error, MissingExtraError):
        return Check(name, Status.FAIL, str(error), where, "Install it.")
    return Check(name, Status.FAIL, str(error), where, "Correct the configuration.")


def count(number: int, one: str, many: str) -> str:
    """A number with its noun.

    >>> count(2, "delivery", "deliveries")
    '2 deliveries'
    """
    return f"{number} {one if number == 1 else many}"


def some(names: Collection[str]) -> str:
    """A few of the names in order, and how many more there are.

    >>> some({"b", "a"})
    'a, b'
    >>> some("gfedcba")
    'a, b, c, d, e and 2 more'
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(ordered[:_SHOWN]) + more
