"""One stored row walked back: its line, the division over GPUs, devices and rows, the slices and their samples, and the checks.

Here belongs the document's shape (``docs/explain.md``). Every figure in it is whole: money in nanos, memory over time in byte-ms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from allocation.apportion import apportion
from allocation.errors import ChargebackError
from allocation.frame_rows import LAST_ORDINAL
from allocation.money import decimal_to_nanos
from allocation.quantities import GIB_MS
from allocation.trace import Book
from pipelines import inputs
from pipelines.explain_owners import Today, owned
from pipelines.explain_slices import KINDS, Checks, intervals, money_text, nanos_text, time_text

WIDE = ("gpu_weight", "device_weight", "used_byte_ms", "overhead_byte_ms", "idle_byte_ms", "unmeasured_weight")
MONEY = ("used_cost", "overhead_cost", "idle_cost", "cost")
HOST_REASON = "gpu_share"
_NAMES = ("gpu_uuid", "gpu_instance", "bucket", "reason", "namespace", "pod", "pod_uid")


@dataclass(frozen=True)
class Part:
    """The part of a line that a row belongs to.

    ``line``: its row of ``reconciliation``. ``frame``: machine, start and end (ms). ``nanos``: the part's cost. ``usage``: the
    frame's rows. ``stored``: the part's rows of ``chargeback``. ``day_nanos``: all rows of the line on this day. ``book``: the
    series.
    """

    line: Mapping[str, Any]
    frame: tuple[str, int, int]
    expected_ms: int
    nanos: int
    usage: pa.Table
    stored: Sequence[Mapping[str, Any]]
    day_nanos: int
    book: Book

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The frame's rows of usage with ``nanos`` (used, overhead, idle) and whole byte-ms as Python numbers."""
        _, _, nanos = apportion(np.array([self.nanos]), np.array([0]), np.array([len(self.usage)]), self.usage)
        rows = self.usage.to_pandas().astype("object")
        rows = rows.where(rows.notna(), None)
        for name in WIDE:
            rows[name] = [int(v) for v in rows[name]]
        for at, kind in enumerate(KINDS):
            rows[f"{kind}_nanos"] = nanos[:, at].astype(object)
        return rows.assign(nanos=nanos.sum(axis=1).astype(object))

    @cached_property
    def place_of_stored(self) -> list[int]:
        """The row of usage that each stored row comes from; rows without a pod are told apart by their order."""
        places: dict[tuple[object, ...], list[int]] = {}
        for n, row in enumerate(self.rows[list(_NAMES)].itertuples(index=False, name=None)):
            places.setdefault(row, []).append(n)
        found, seen = [], dict[tuple[object, ...], int]()
        for row in self.stored:
            key = tuple(row[name] for name in _NAMES)
            at = seen.get(key, 0)
            seen[key] = at + (row["pod"] is None)
            found.append(places[key][at] if at < len(places.get(key, ())) else -1)
        return found


def row_document(row: Mapping[str, Any], part: Part, today: Today, changed: Sequence[str]) -> dict[str, Any]:
    """One row's walk, checked.

    Args:
        row: the stored row of ``chargeback``, with ``cluster``.
        part: what it is a part of.
        today: what the settings give now for its holder.
        changed: inputs that changed since the row was computed.

    Raises:
        ChargebackError: the row does not come out again, or its parts do not add up.
    """
    where = _place(row, part, changed)
    rows = part.rows
    own = rows.iloc[where]
    same_gpu = rows.gpu_ordinal == own.gpu_ordinal
    device = rows[same_gpu & (rows.device_ordinal == own.device_ordinal)]
    checks = Checks(row["currency"])
    document: dict[str, Any] = {
        "row": {k: _plain(v) for k, v in row.items() if k != "place"},
        "line": _line(part, checks),
        "node": _node(part, own, checks),
        "gpu": _gpu(rows[same_gpu], own, checks),
        "device": _device(device, own, checks),
        "holder": _holder(part, where, checks),
    }
    slices = intervals(part.book, part.frame, rows, device, own, checks)
    document["device"] |= slices.pop("device")
    document |= slices
    document["policy"] = asdict(part.book.policy) | {"reserved_bytes": dict(part.book.policy.reserved_bytes)}
    told = owned(row, today, own, _of_place(part, where), checks)
    if told.wrong and not changed:
        raise _not_again(row, changed, told.wrong)
    document |= {"model_split": told.model_split, "owner": told.owner}
    document |= {"changed_inputs": list(changed), "adds_up": checks.told}
    for check in checks.told:
        if not check["ok"]:
            raise _not_again(row, changed, f"{check['what']}: {check['sum']} is not {check['whole']} {check['unit']}")
    return document


def _not_again(row: Mapping[str, Any], changed: Sequence[str], what: str) -> ChargebackError:
    subject = "/".join(str(row[n]) for n in ("namespace", "pod") if row[n]) or f"bucket {row['bucket']}"
    told = inputs.since(changed) or "no known input changed; "
    return ChargebackError(
        f"{subject} of line {row['line_item_id']} (run {row['run_id']}) cannot be computed again: {what}; {told}"
        "explain with the configuration of that run, or run the day again"
    )


def _place(row: Mapping[str, Any], part: Part, changed: Sequence[str]) -> int:
    """The row of usage behind a stored row, once all stored rows of its part come out again to the nano."""
    rows, places = part.rows, part.place_of_stored
    sums = np.zeros((len(rows), 3), object)
    for stored, place in zip(part.stored, places, strict=True):
        if place < 0:
            raise _not_again(row, changed, "the method gives no such holder now")
        sums[place] += [decimal_to_nanos(stored[f"{kind}_cost"]) for kind in KINDS]
    wrong = np.flatnonzero((sums != rows[[f"{kind}_nanos" for kind in KINDS]].to_numpy()).any(axis=1))
    if len(wrong):
        was, now = int(sums[wrong[0]].sum()), int(rows.nanos.iloc[wrong[0]])
        names = [rows[n].iloc[wrong[0]] for n in ("gpu_uuid", "bucket", "namespace", "pod")]
        raise _not_again(row, changed, f"{'/'.join(n for n in names if n)} had {nanos_text(was)} and has {nanos_text(now)} now")
    where = next(p for stored, p in zip(part.stored, places, strict=True) if stored["place"] == row["place"])
    of_holder = _of_place(part, where)
    for kind in KINDS:
        was = sum(stored[f"{kind}_gib_seconds"] for stored in of_holder)
        now = rows[f"{kind}_byte_ms"].iloc[where] / GIB_MS
        if not math.isclose(was, now, rel_tol=1e-9, abs_tol=1e-9):
            raise _not_again(row, changed, f"it had {was:g} {kind} GiB-seconds and has {now:g} now")
    return where


def _of_place(part: Part, where: int) -> list[Mapping[str, Any]]:
    """The stored rows that come from one row of usage, in order."""
    return [stored for stored, place in zip(part.stored, part.place_of_stored, strict=True) if place == where]


def _plain(value: object) -> object:
    """A table's value as JSON has it: money and whole numbers beyond 2^53 as text, times in RFC 3339."""
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return money_text(value)


def _line(part: Part, checks: Checks) -> dict[str, Any]:
    line = part.line
    checks.money("rows of the line = the line's part of this day", part.day_nanos, decimal_to_nanos(line["cost_in"]))
    names = ("line_item_id", "provider", "billing_account", "billing_period", "source_file", "source_row", "resource_id",
             "service", "charge_period_start", "charge_period_end", "cost_metric", "currency",
             "line_cost", "cost_in", "state", "node")  # fmt: skip
    told = {name: _plain(line[name]) for name in names}
    told["rounding"] = f"{line['rounding']:f}"
    return told | {"part": {"start": time_text(part.frame[1]), "end": time_text(part.frame[2]), "cost": nanos_text(part.nanos)}}


def _divided(rows: pd.DataFrame, ordinal: str, weight: str, names: Sequence[str], own: int) -> list[dict[str, Any]]:
    """One level of the division: the part of each ordinal, by its weight."""
    first = rows.drop_duplicates(ordinal)
    nanos = rows.groupby(ordinal, sort=False).nanos.sum()
    return [
        {**{n: getattr(r, n) for n in names}, "weight": str(getattr(r, weight)),
         "cost": nanos_text(int(nanos[getattr(r, ordinal)])), "this": getattr(r, ordinal) == own}
        for r in first.itertuples(index=False)
    ]  # fmt: skip


def _node(part: Part, own: "pd.Series[Any]", checks: Checks) -> dict[str, Any]:
    """The machine, and the part's division over its GPUs."""
    rows = part.rows
    checks.money("GPUs (and host) = the part", int(rows.nanos.sum()), part.nanos)
    gpus = _divided(rows, "gpu_ordinal", "gpu_weight", ("gpu_uuid", "gpu_model"), own.gpu_ordinal)
    buckets = rows.drop_duplicates("gpu_ordinal")
    for gpu, bucket, reason, place in zip(gpus, buckets.bucket, buckets.reason, buckets.gpu_ordinal, strict=True):
        gpu["reason"] = reason if bucket == "unallocated" and reason != "unknown_time" else None
        gpu["reason"] = HOST_REASON if place == LAST_ORDINAL else gpu["reason"]
    return {
        "node": own.node, "node_id": own.node_id, "expected_seconds": part.expected_ms / 1000, "gpus": gpus,
    }  # fmt: skip


def _gpu(rows: pd.DataFrame, own: "pd.Series[Any]", checks: Checks) -> dict[str, Any]:
    """The GPU's division over its devices: itself, or its instances and what no instance has."""
    devices = _divided(
        rows, "device_ordinal", "device_weight", ("gpu_instance", "mig_profile"), own.device_ordinal
    )  # fmt: skip
    first = rows.drop_duplicates("device_ordinal")
    for device, reason in zip(devices, first.reason, strict=True):
        device["reason"] = reason if device["gpu_instance"] is None and len(devices) > 1 else None
    whole = int(rows.nanos.sum())
    checks.money("rows of the GPU's devices = the GPU", sum(decimal_nanos(d["cost"]) for d in devices), whole)
    return {"gpu_uuid": own.gpu_uuid, "gpu_model": own.gpu_model, "cost": nanos_text(whole), "devices": devices}


def decimal_nanos(text: str) -> int:
    """Nano-units of an amount with nine decimals."""
    return int(text.replace(".", ""))


def _device(device: pd.DataFrame, own: "pd.Series[Any]", checks: Checks) -> dict[str, Any]:
    """The device's used, overhead and idle, and whose they are."""
    listed = [
        {
            **{n: getattr(r, n) for n in ("bucket", "reason", "namespace", "pod", "pod_uid")},
            **{f"{k}_byte_ms": str(getattr(r, f"{k}_byte_ms")) for k in KINDS},
            "unmeasured_weight": str(r.unmeasured_weight),
            **{f"{k}_cost": nanos_text(int(getattr(r, f"{k}_nanos"))) for k in KINDS},
            "cost": nanos_text(int(r.nanos)),
            "basis": r.basis,
            "this": index == own.name,
        }
        for index, r in zip(device.index, device.itertuples(index=False), strict=True)
    ]
    whole = int(device.nanos.sum())
    checks.money(
        "used, overhead and idle of the device's rows = the device", sum(decimal_nanos(r["cost"]) for r in listed), whole
    )
    sums = {f"{k}_byte_ms": str(sum(device[f"{k}_byte_ms"])) for k in KINDS}
    return {
        "gpu_uuid": own.gpu_uuid, "gpu_instance": own.gpu_instance, "mig_profile": own.mig_profile, "cost": nanos_text(whole),
        "coverage": own.coverage, **sums, "rows": listed,
    }  # fmt: skip


def _holder(part: Part, where: int, checks: Checks) -> dict[str, Any]:
    """What the row's holder or bucket got of the device; where a server's models share it, their rows."""
    own = part.rows.iloc[where]
    stored = _of_place(part, where)
    got = sum(decimal_to_nanos(row["cost"]) for row in stored)
    checks.money("stored rows of the holder = its part of the device", got, int(own.nanos))
    models = [{"model": row["model"], **{c: money_text(row[c]) for c in MONEY}} for row in stored]
    return {
        **{f"{k}_byte_ms": str(own[f"{k}_byte_ms"]) for k in KINDS},
        "unmeasured_weight": str(own.unmeasured_weight),
        **{f"{k}_cost": nanos_text(int(own[f"{k}_nanos"])) for k in KINDS},
        "cost": nanos_text(int(own.nanos)),
        "observed_seconds": own.observed_ms / 1000,
        "imputed_seconds": own.imputed_ms / 1000,
        "basis": own.basis,
        "models": models,
    }
