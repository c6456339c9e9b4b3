"""The slices behind a row's byte-time: what the device showed in each, by which samples, and what was booked; and the checks.

Here belongs the walk's part below the device. Money stands in it only as text.
"""

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from allocation.money import nanos_to_decimal
from allocation.times import from_ms
from allocation.trace import Book, Slices, configured_bytes, device_of, holder_of, known_ms_of, slices_of

KINDS = ("used", "overhead", "idle")
_BYTES = ("used_bytes", "reserved_bytes", "claimed_bytes", "held_bytes", "unexplained_bytes", "memory_bytes", "declared_bytes",
          "others_memory_bytes", "holders", "weight", "weights_total")  # fmt: skip
_OF_SAMPLE = ("role", "level", "metric", "container", "value_bytes", "imputed", "samples")


def money_text(amount: object) -> str:
    """A decimal amount with its nine decimals.

    >>> money_text(nanos_to_decimal(-1))
    '-0.000000001'
    """
    return f"{amount:.9f}"


def nanos_text(nanos: int) -> str:
    """Nano-units as an amount with nine decimals."""
    return money_text(nanos_to_decimal(nanos))


def time_text(moment: datetime | int) -> str:
    """A time, or ms since the epoch, as RFC 3339 in UTC."""
    moment = from_ms(moment) if isinstance(moment, int | np.integer) else moment
    return moment.isoformat().replace("+00:00", "Z")


class Checks:
    """Sums and their wholes, as they are met on the way."""

    def __init__(self, currency: str) -> None:
        self._currency = currency
        self.told: list[dict[str, Any]] = []

    def money(self, what: str, parts: int, whole: int) -> None:
        """Sums in nanos."""
        self._add(what, nanos_text(parts), nanos_text(whole), self._currency)

    def byte_ms(self, what: str, parts: int, whole: int) -> None:
        """Sums in byte-ms."""
        self._add(what, str(parts), str(whole), "byte ms")

    def ms(self, what: str, parts: int, whole: int) -> None:
        """Sums in ms."""
        self._add(what, str(parts), str(whole), "ms")

    def count(self, what: str, parts: int, whole: int, unit: str) -> None:
        """Sums of what servers count."""
        self._add(what, str(parts), str(whole), unit)

    def _add(self, what: str, parts: str, whole: str, unit: str) -> None:
        self.told.append({"what": what, "sum": parts, "whole": whole, "unit": unit, "ok": parts == whole})


def intervals(
    book: Book, frame: tuple[str, int, int], rows: pd.DataFrame, device: pd.DataFrame, own: "pd.Series[Any]", checks: Checks
) -> dict[str, Any]:
    """The row's slices, how the node's idle was pooled, what rounding left, and the device's capacity and known time.

    Args:
        book: the machines' series.
        frame: machine, start and end (ms).
        rows: the frame's rows of usage.
        device: those of the row's device.
        own: the row itself.
        checks: to which the sums are added.
    """
    total = sum(sum(device[f"{kind}_byte_ms"]) for kind in KINDS)
    told: dict[str, Any] = {"device": {"capacity_bytes": None, "capacity_from": None, "known_seconds": None}}
    told |= {"slices": [], "rounding_byte_ms": dict.fromkeys(KINDS, "0"), "pool": None}
    if not total or own.bucket in ("stranded", "host"):
        return told
    period = (frame[1], frame[2])
    number = device_of(book, frame[0], own.gpu_uuid, own.gpu_instance or "", own.mig_profile or "")
    known = known_ms_of(book, number, period)
    capacity = total // known
    checks.byte_ms("used + overhead + idle of the device = capacity x known time", total, capacity * known)
    holder = holder_of(book, number, own.namespace, own.pod, own.pod_uid or "") if own.bucket == "workload" else -1
    found = slices_of(book, number, period, capacity, holder)
    pooled = _pool(book, rows, device, own, checks)
    told["rounding_byte_ms"] = _check_slices(found.slices, device, own, pooled is not None, checks)
    _check_times(found.slices, own, holder, checks)
    source = _capacity_from(found, book, number, capacity)
    told["device"] = {"capacity_bytes": capacity, "capacity_from": source, "known_seconds": known / 1000}
    return told | {"slices": _documents(found, own), "pool": pooled}


def _capacity_from(found: Slices, book: Book, device: int, capacity: int) -> str:
    """Which rung of R6 gives the capacity, by its value."""
    configured, nameplate = configured_bytes(book, device)
    if (found.samples.role == "total").any():
        return "the largest value of its total series"
    if found.samples.role.isin(["free"]).any() and capacity not in (configured, nameplate):
        return "the largest sum of its used, free and reserved series"
    known = {configured: "the configuration", nameplate: "the instance type"}
    return known.get(capacity, "the most ever seen in use")


def _column(own: "pd.Series[Any]", kind: str) -> str | None:
    """Which column of the slices the row's own byte-ms of one kind comes from."""
    if own.bucket == "workload":
        return f"{kind}_byte_ms"
    return f"bucket_{kind}_byte_ms" if own.bucket == kind else None


def _check_slices(
    slices: pd.DataFrame, device: pd.DataFrame, own: "pd.Series[Any]", pooled: bool, checks: Checks
) -> dict[str, str]:
    """Adds the slices up to the row and to the device; returns what is left of the row where the sweep divided otherwise.

    A slice's shares are whole byte-ms. Where the sweep divides over a longer stretch than a slice, the two may differ by a unit
    a slice; more is a failed check.
    """
    left = dict.fromkeys(KINDS, "0")
    for kind in KINDS:
        parts = sum(slices[f"device_{kind}_byte_ms"])
        checks.byte_ms(f"{kind} of the device over all slices = its rows", parts, sum(device[f"{kind}_byte_ms"]))
        column = _column(own, kind)
        if column is None or (kind == "idle" and pooled):
            continue
        parts, whole = sum(slices[column]), own[f"{kind}_byte_ms"]
        rest = whole - parts
        if 0 < abs(rest) <= max(len(slices), whole >> 40):
            left[kind], parts = str(rest), whole
        checks.byte_ms(f"{kind} of the row over all slices = the row", parts, whole)
    return left


def _check_times(slices: pd.DataFrame, own: "pd.Series[Any]", holder: int, checks: Checks) -> None:
    """Observed and imputed time, where the row has any of its own."""
    if own.bucket in ("idle", "overhead") or holder >= 0:
        for name in ("observed", "imputed"):
            checks.ms(f"{name} time over all slices = the row", int(slices[f"{name}_ms"].sum()), own[f"{name}_ms"])


def _pool(book: Book, rows: pd.DataFrame, device: pd.DataFrame, own: "pd.Series[Any]", checks: Checks) -> dict[str, Any] | None:
    """Idle policy `proportional`: the device's idle over the node's holders by their used byte-ms (R11)."""
    held = rows[rows.bucket == "workload"]
    used = held.groupby(["namespace", "pod", "pod_uid"], dropna=False, sort=True).used_byte_ms.agg(sum)
    node_used, idle = sum(used), sum(device.idle_byte_ms)
    if book.policy.idle != "proportional" or own.bucket != "workload" or not node_used:
        return None
    got = device[device.bucket == "workload"].set_index(["namespace", "pod", "pod_uid"]).idle_byte_ms
    shares = [int(got.get(key, 0)) for key in used.index]
    far = [k for k, u in zip(shares, used, strict=True) if abs(k * node_used - idle * u) > len(used) * node_used]
    checks.byte_ms("idle of the node's holders on the device = the device's idle", sum(shares), idle)
    checks.byte_ms("holders whose idle is not in proportion to what they used on the node", len(far), 0)
    holders = [
        {**{n: None if pd.isna(k) else k for n, k in zip(used.index.names, key, strict=True)},
         "used_byte_ms": str(u), "idle_byte_ms": str(share)}
        for key, u, share in zip(used.index, used, shares, strict=True)
    ]  # fmt: skip
    return {"device_idle_byte_ms": str(idle), "node_used_byte_ms": str(node_used), "holders": holders}


def _documents(found: Slices, own: "pd.Series[Any]") -> list[dict[str, Any]]:
    """Each slice with its samples."""
    slices, samples = found.slices, found.samples
    behind: dict[int, list[dict[str, Any]]] = {}
    moments = {"sample_at": samples.sample_ms.map(time_text), "last_sample_at": samples.last_ms.map(time_text)}
    for record in samples.assign(**moments)[["slice", *_OF_SAMPLE, *moments]].to_dict("records"):
        behind.setdefault(record.pop("slice"), []).append(record)
    columns = [_column(own, kind) for kind in KINDS]
    return [_slice(record, behind.get(n, []), columns) for n, record in enumerate(slices.to_dict("records"))]


def _slice(told: dict[str, Any], samples: list[dict[str, Any]], columns: list[str | None]) -> dict[str, Any]:
    return {
        "start": time_text(told["start_ms"]),
        "end": time_text(told["end_ms"]),
        "known": told["known"] == 1,
        **{name: None if told[name] == -1 else told[name] for name in _BYTES},
        "basis": told["basis"] or None,
        "repeated": told["repeated"] == 1,
        "not_mapped": told["not_mapped"] == 1,
        "observed_seconds": told["observed_ms"] / 1000,
        "imputed_seconds": told["imputed_ms"] / 1000,
        **{f"{kind}_byte_ms": str(told[column]) if column else "0" for kind, column in zip(KINDS, columns, strict=True)},
        **{f"device_{kind}_byte_ms": str(told[f"device_{kind}_byte_ms"]) for kind in KINDS},
        "samples": samples,
    }
