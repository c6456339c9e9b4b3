"""The method's arithmetic on one walk of ``explain``, from its JSON alone: nothing of the program is used.

Each division of money is done again by Hamilton's method in exact fractions, each slice by the rules of the method's page.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

KINDS = ("used", "overhead", "idle")
Walk = dict[str, Any]


def nanos(text: str) -> int:
    return int(Decimal(text).scaleb(9))


def ms(told: dict[str, Any]) -> int:
    start, end = (datetime.fromisoformat(told[name]).timestamp() for name in ("start", "end"))
    return round(end * 1000) - round(start * 1000)


def hamilton(whole: int, weights: Sequence[int]) -> list[int]:
    """Largest remainder; ties to the earlier; a negative whole is the mirror image."""
    total = sum(weights)
    exact = [Fraction(abs(whole) * w, total) for w in weights]
    parts = [int(e) for e in exact]
    order = sorted(range(len(parts)), key=lambda k: (parts[k] - exact[k], k))
    for k in order[: abs(whole) - sum(parts)]:
        parts[k] += 1
    return [-p if whole < 0 else p for p in parts]


def check_division(whole: int, level: Sequence[dict[str, Any]]) -> int:
    """The shown parts are the largest-remainder parts; returns the one of this row."""
    shown = [nanos(part["cost"]) for part in level]
    assert shown == hamilton(whole, [int(part["weight"]) for part in level])
    (own,) = [n for n, part in zip(shown, level, strict=True) if part["this"]]
    return own


def of_host(walk: Walk) -> bool:
    """Whether the row is a part of what gpu_share leaves."""
    (own,) = [gpu for gpu in walk["node"]["gpus"] if gpu["this"]]
    return bool(own["reason"] == "gpu_share")


def check_money(walk: Walk) -> None:
    """Part -> GPU -> device -> the row's used, overhead and idle, each worked out again."""
    of_gpu = check_division(nanos(walk["line"]["part"]["cost"]), walk["node"]["gpus"])
    of_device = check_division(of_gpu, walk["gpu"]["devices"])
    rows = walk["device"]["rows"]
    flat = []
    for row in rows:
        weights = [int(row[f"{kind}_byte_ms"]) for kind in KINDS]
        if int(row["unmeasured_weight"]):
            weights[1 if of_host(walk) else 2] = int(row["unmeasured_weight"])
        flat += weights
    parts = hamilton(of_device, flat)
    shown = [nanos(row[f"{kind}_cost"]) for row in rows for kind in KINDS]
    assert shown == parts
    (own,) = [row for row in rows if row["this"]]
    for kind in KINDS:
        assert own[f"{kind}_cost"] == walk["holder"][f"{kind}_cost"]
        assert nanos(own[f"{kind}_cost"]) == sum(nanos(m[f"{kind}_cost"]) for m in walk["holder"]["models"])
    row = walk["row"]
    assert nanos(row["cost"]) == sum(nanos(row[f"{kind}_cost"]) for kind in KINDS)
    if len(walk["holder"]["models"]) == 1:
        assert [row[f"{kind}_cost"] for kind in KINDS] == [own[f"{kind}_cost"] for kind in KINDS]
        for kind in KINDS:
            shown_gib = row[f"{kind}_gib_seconds"]
            assert abs(shown_gib - int(own[f"{kind}_byte_ms"]) / (2**30 * 1000)) <= 1e-9 * max(shown_gib, 1)


def check_slices(walk: Walk) -> None:
    """The slices fill the period without a hole and add up to the row and to the device; each follows from what it shows."""
    slices = walk["slices"]
    if not slices:
        assert walk["row"]["bucket"] in ("stranded", "host", "unallocated") or of_host(walk)
        return
    assert (slices[0]["start"], slices[-1]["end"]) == (walk["line"]["part"]["start"], walk["line"]["part"]["end"])
    assert all(a["end"] == b["start"] for a, b in pairwise(slices))
    for kind in KINDS:
        of_device = sum(int(s[f"device_{kind}_byte_ms"]) for s in slices)
        assert of_device == sum(int(row[f"{kind}_byte_ms"]) for row in walk["device"]["rows"])
        left = int(walk["rounding_byte_ms"][kind])
        assert abs(left) <= len(slices)
        if walk["row"]["bucket"] in ("workload", kind) and not (kind == "idle" and walk["pool"]):
            assert sum(int(s[f"{kind}_byte_ms"]) for s in slices) + left == int(walk["holder"][f"{kind}_byte_ms"])
    known = sum(ms(s) for s in slices if s["known"])
    assert known == round(walk["device"]["known_seconds"] * 1000)
    if walk["row"]["bucket"] == "workload" and walk["holder"]["observed_seconds"]:
        for name in ("observed", "imputed"):
            assert sum(ms(s) for s in slices if s[f"{name}_seconds"]) == round(walk["holder"][f"{name}_seconds"] * 1000)
    for s in slices:
        check_slice(s, walk["device"]["capacity_bytes"])


def check_slice(s: dict[str, Any], capacity: int) -> None:
    if not s["known"]:
        assert not any(int(s[f"device_{kind}_byte_ms"]) for kind in KINDS)
        assert s["samples"] == []
        return
    held, reserved, unexplained = s["held_bytes"], s["reserved_bytes"], s["unexplained_bytes"]
    overhead = reserved + unexplained if held else 0
    wanted = (held * ms(s), overhead * ms(s), (capacity - held - overhead) * ms(s))
    assert tuple(int(s[f"device_{kind}_byte_ms"]) for kind in KINDS) == wanted
    if s["used_bytes"] is not None:
        assert unexplained == min(max(s["used_bytes"] - held, 0), capacity - reserved - held)
    if s["memory_bytes"] is not None and held:
        off = int(s["used_byte_ms"]) - Fraction(held * ms(s) * s["weight"], s["weights_total"])
        assert abs(off) <= 1
        if s["holders"] == 1:
            assert s["weight"] == s["weights_total"]
        elif not s["repeated"] and not s["not_mapped"]:
            assert s["weight"] == s["memory_bytes"]
            assert s["claimed_bytes"] == s["memory_bytes"] + s["others_memory_bytes"]
    for sample in s["samples"]:
        assert datetime.fromisoformat(sample["sample_at"]) <= datetime.fromisoformat(sample["last_sample_at"])
        assert datetime.fromisoformat(sample["last_sample_at"]) < datetime.fromisoformat(s["end"])
        assert sample["samples"] >= 1


def check_pool(walk: Walk) -> None:
    """Idle policy `proportional`: by used byte-ms on the node, the rest to the first (R11)."""
    pool = walk["pool"]
    if not pool:
        return
    used = [int(h["used_byte_ms"]) for h in pool["holders"]]
    assert sum(used) == int(pool["node_used_byte_ms"])
    shares = [int(h["idle_byte_ms"]) for h in pool["holders"]]
    idle = int(pool["device_idle_byte_ms"])
    assert sum(shares) == idle
    assert all(abs(share - Fraction(idle * u, sum(used))) <= len(used) for share, u in zip(shares, used, strict=True))


def check_models(walk: Walk) -> None:
    """Growth from first and last values, weights from growth, money from weights; where the table has them, they are its rows."""
    split = walk["model_split"]
    if not split:
        return
    weights = dict.fromkeys((model["counted_as"] for model in split["models"]), 0)
    for counter in split["counters"]:
        for rose in counter["stretches"]:
            assert int(rose["grown"]) == int(rose["until_value"]) - int(rose["from_value"])
            assert rose["began"] != "reset" or rose["from_value"] == "0"
            assert (rose["began"] == "before") == (rose["from_at"] < split["start"])
            assert rose["from_at"] <= rose["until_at"] < split["end"]
        grown = sum(int(rose["grown"]) for rose in counter["stretches"])
        assert grown == int(counter["grown"])
        assert counter["resets"] == sum(rose["began"] == "reset" for rose in counter["stretches"])
        if grown:
            weights[counter["model"]] += grown * counter["weight_ppm"]
    assert [int(model["weight"]) for model in split["models"]] == list(weights.values())
    assert int(split["weights_total"]) == sum(weights.values())
    for kind in KINDS:
        parts = hamilton(nanos(walk["holder"][f"{kind}_cost"]), list(weights.values()))
        assert [nanos(model[f"{kind}_cost"]) for model in split["models"]] == parts
    if split["as_stored"]:
        (own,) = [model for model in split["models"] if model["this"]]
        assert [walk["row"][f"{kind}_cost"] for kind in KINDS] == [own[f"{kind}_cost"] for kind in KINDS]
        assert (walk["row"]["model"], walk["row"]["cost"]) == (own["model"], own["cost"])
        for kind in KINDS:
            whole = Fraction(int(walk["holder"][f"{kind}_byte_ms"]), 2**30 * 1000)
            part = float(whole * Fraction(int(own["weight"]), int(split["weights_total"])))
            assert abs(walk["row"][f"{kind}_gib_seconds"] - part) <= 1e-9 * max(part, 1)


def check_walk(walk: Walk) -> None:
    """All of one walk."""
    check_money(walk)
    check_slices(walk)
    check_pool(walk)
    check_models(walk)
    assert all(check["ok"] and check["sum"] == check["whole"] for check in walk["adds_up"])
