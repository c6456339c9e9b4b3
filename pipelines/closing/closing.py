"""Closing a month and opening it again; each leaves an entry in the store that says who, when and what."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime

from allocation.errors import ChargebackError
from pipelines.alone import alone
from pipelines.closing.books import CLOSE, FOLDER, REOPEN, Entry, add_entry, last_entry
from pipelines.closing.manifest import hashed, manifest
from pipelines.closing.ready import Obstacle, readiness
from pipelines.marts import write_month
from pipelines.months import Month
from pipelines.partition import COMMIT
from pipelines.plain import plain_rows
from pipelines.settings import Settings
from pipelines.storage import TableStore
from pipelines.tie import ties


@dataclass(frozen=True)
class Closed:
    """What closing came to: the entry's place, or what stands against it."""

    month: Month
    place: str = ""
    content: dict[str, object] | None = None
    obstacles: tuple[Obstacle, ...] = ()


def close(
    settings: Settings,
    store: TableStore,
    month: Month,
    *,
    now: datetime,
    by: str,
    accepted: Collection[str] = (),
    accept_open: bool = False,
) -> Closed:
    """Closes a month, or says what stands against it and leaves all as it is.

    Raises:
        ChargebackError: the month is closed already, or its tables changed while they were hashed.
        TakenError: another process closes or opens it right now.
    """
    with alone(store.root, f"{FOLDER}/{month}", what=f"closing {month}"):
        _ensure_open(last_entry(store, month))
        ready = readiness(settings, store, month, now, accepted=accepted, accept_open=accept_open)
        if ready.obstacles:
            return Closed(month, obstacles=ready.obstacles)
        write_month(settings, store, month, now.date(), final=True)
        content = manifest(store, month, now, by)
        content |= {"tie": plain_rows(ties(ready.recorded)), "bills": [asdict(bill) for bill in ready.bills]}
        content |= {"accepted": sorted(accepted), "accept_open": accept_open}
        _ensure_unchanged(store, content)
        return Closed(month, add_entry(store, month, CLOSE, content), content)


def _ensure_open(last: Entry | None) -> None:
    if last is not None and last.kind == CLOSE:
        told = last.content
        raise ChargebackError(
            f"{last.month} is closed already, by {told['by']} at {told['at']}; what changes it is booked as adjustments. To open "
            f"it again: `gpu-chargeback reopen CONFIG {last.month} --reason TEXT`"
        )


def _ensure_unchanged(store: TableStore, content: dict[str, object]) -> None:
    """That no run has replaced a partition while the others were hashed."""
    files: list[dict[str, object]] = content["files"]  # type: ignore[assignment]
    markers = [file for file in files if str(file["path"]).endswith(COMMIT)]
    if hashed(store, [str(file["path"]) for file in markers]) != markers:
        raise ChargebackError(f"{store.location}: a run replaced tables of the month while it was closed; close it again")


def reopen(store: TableStore, month: Month, *, now: datetime, by: str, reason: str) -> str:
    """Opens a closed month again; the place of the entry.

    Raises:
        ChargebackError: the month is not closed, or no reason is given.
    """
    if not reason.strip():
        raise ChargebackError("a month is opened again for a reason: say it with --reason TEXT")
    with alone(store.root, f"{FOLDER}/{month}", what=f"closing {month}"):
        last = last_entry(store, month)
        if last is None or last.kind != CLOSE:
            raise ChargebackError(f"{month} is not closed, so there is nothing to open")
        content = {"month": str(month), "at": now.isoformat(), "by": by, "reason": reason, "closed_by_entry": last.number}
        return add_entry(store, month, REOPEN, content)
