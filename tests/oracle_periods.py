"""The brute-force method over whole periods: capacity, known time, cards and their instances, the node's division.

Here belongs what goes beyond one instant of one device. ``judge`` is the entrance: the rows of every period, with the exact part
of a line's cost that each column of each row gets.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from allocation.policy import Policy
from tests.oracle import (
    DAY_MS,
    PPB,
    RANK,
    Holder,
    Instant,
    Key,
    Machine,
    Now,
    Period,
    Row,
    Rows,
    Series,
    Track,
    hold,
    instant,
    look,
    memories,
    repeated_rows,
    reserved_of,
    shown,
    used_of,
)
from tests.oracle_inferred import Ask, declared_tracks, lost_tracks

NOTHING = Fraction(0)


@dataclass
class Device:
    """A whole GPU or a MIG instance over one period."""

    tracks: Sequence[Track]
    pieces: list[tuple[int, int, Now]]
    capacity: Fraction = Fraction(0)
    rows: Rows = field(default_factory=dict)
    pooled: Fraction = Fraction(0)

    @property
    def known(self) -> int:
        """Known ms."""
        return sum(b - a for a, b, _ in self.pieces)

    @property
    def life(self) -> int:
        """From the first to the last known instant."""
        return self.pieces[-1][1] - self.pieces[0][0] if self.pieces else 0


def cut(tracks: Sequence[Track], start: int, end: int) -> list[tuple[int, int, Now]]:
    """The known pieces of a period, each without any change inside."""
    marks = {start, end} | {t for k in tracks for h in k.held for t in (h.start, h.end, h.observed_until) if start < t < end}
    times = sorted(marks)
    pieces = [(a, b, look(tracks, a)) for a, b in pairwise(times)]
    return [p for p in pieces if p[2].known]


Lives = Mapping[Holder, tuple[int, int]]
ALWAYS = (0, 2**62)


def judge(
    series: Sequence[Series],
    machines: Sequence[Machine],
    lives: Lives,
    periods: Sequence[Period],
    policy: Policy,
    asks: Sequence[Ask] = (),
) -> dict[Period, Rows]:
    """The rows of every period. ``lives`` are the known starts and ends of pods, ``asks`` what pods asked for."""
    everything = [*series, *repeated_rows(series)]
    tracks = [Track(s, hold(s, series, lives.get(s.holder, ALWAYS), policy)) for s in everything]
    of = {m.node: m for m in machines}
    there = {n: [t for t in tracks if t.series.node == n] for n in of}
    there = {n: [*mine, *lost_tracks(mine, of[n], [a for a in asks if a.node == n])] for n, mine in there.items()}
    there = {n: [*mine, *declared_tracks(mine, asks)] for n, mine in there.items()}
    return {p: _period(there[p.node], of[p.node], p, policy) for p in periods}


def _candidates(now: Now, machine: Machine) -> dict[str, Fraction]:
    """What one moment says of the capacity, by source (R6)."""
    found = {}
    device = now.of_device
    if "total" in device:
        found["total"] = device["total"]
    reserved = reserved_of(now, None, machine)
    used, raw = used_of(now, reserved), shown(now)
    if raw is not None and "free" in device:
        found["two"] = raw + device["free"]
        if now.includes_reserved:
            found["three"] = found["two"]
        elif "reserved" in device:
            found["three"] = found["two"] + device["reserved"]
    memory, _ = memories(now, used)
    total = sum(memory.values(), NOTHING)
    found["guess"] = max(total, used or NOTHING) + reserved
    return found


def capacity_of(pieces: Sequence[tuple[int, int, Now]], machine: Machine, *, whole: bool) -> Fraction | None:
    """K: the largest that holds at any instant, by the first source that says anything (R6); None where nothing does."""
    seen: dict[str, Fraction] = {}
    for _, _, now in pieces:
        for source, size in _candidates(now, machine).items():
            if size > 0 or source == "guess":
                seen[source] = max(size, seen.get(source, Fraction(1)))
    if whole and machine.memory is not None:
        seen["configured"] = Fraction(machine.memory)
    return next((seen[s] for s in ("total", "three", "configured", "two", "guess") if s in seen), None)


def _add(device: Device, a: int, b: int, now: Now, rates: Instant) -> None:
    """Adds one piece of time to the device's rows."""
    length = b - a
    for holder, memory in rates.used.items():
        row = device.rows.setdefault(Key(holder=holder), Row(basis=rates.basis))
        row.used += memory * length
        row.overhead += rates.overhead.get(holder, NOTHING) * length
        row.idle += rates.idle.get(holder, NOTHING) * length
        row.basis = max(row.basis, rates.basis, key=RANK.index)
        row.observed += length if holder in now.observed else 0
        row.imputed += 0 if holder in now.observed else length
    device.rows.setdefault(Key(bucket="overhead"), Row()).overhead += rates.bucket_overhead * length
    device.rows.setdefault(Key(bucket="idle"), Row()).idle += rates.bucket_idle * length
    device.pooled += rates.pooled * length


def measure_device(device: Device, machine: Machine, expected: int, policy: Policy, *, whole: bool) -> None:
    """Integrates one device over its known time. What is configured of a card says nothing of an instance."""
    machine = machine if whole else Machine(machine.node)
    device.capacity = capacity_of(device.pieces, machine, whole=whole) or NOTHING
    for a, b, now in device.pieces:
        _add(device, a, b, now, instant(now, device.capacity, machine, policy))
    observed, imputed = _times(device.pieces)
    for key, row in device.rows.items():
        row.coverage = _coverage(device.known, expected)
        if key.bucket != "workload":
            row.observed, row.imputed = observed, imputed
        elif not whole and row.basis == "exclusive":
            row.basis = "mig"


def _times(pieces: Sequence[tuple[int, int, Now]]) -> tuple[int, int]:
    """Observed and imputed ms of a device's known time (R27)."""
    observed = sum(b - a for a, b, now in pieces if now.device_observed)
    return observed, sum(b - a for a, b, _ in pieces) - observed


def _coverage(known: int, expected: int) -> Fraction:
    return min(Fraction(1), Fraction(known, expected)) if expected else NOTHING


def _pool(devices: Sequence[Device]) -> None:
    """R11: each device's idle over all holders of the node by their used byte-time."""
    used: dict[Holder, Fraction] = defaultdict(lambda: NOTHING)
    for device in devices:
        for key, row in device.rows.items():
            if key.bucket == "workload":
                used[key.holder] += row.used
    total = sum(used.values(), NOTHING)
    for device in devices:
        if not device.pooled:
            continue
        coverage = max(row.coverage for row in device.rows.values())
        for holder, weight in used.items():
            if weight:
                row = device.rows.setdefault(Key(holder=holder), Row(coverage=coverage))
                row.idle += device.pooled * weight / total
        if not total:
            device.rows[Key(bucket="idle")].idle += device.pooled


def _period(tracks: Sequence[Track], machine: Machine, period: Period, policy: Policy) -> Rows:
    """All rows of one machine in one period, with the parts of a line that they get."""
    known = {g: _on(tracks, g, period) for g in sorted({t.series.gpu for t in tracks})}
    days = (period.start // DAY_MS * DAY_MS, -(-period.end // DAY_MS) * DAY_MS)
    seen = [g for g in known if cut([t for t in tracks if t.series.gpu == g], *days)]
    if not seen:
        return {Key(bucket="unallocated", reason="node_without_metrics"): Row(shares=(NOTHING, NOTHING, Fraction(1)))}
    devices: dict[str, dict[str, Device]] = {}
    for gpu in seen:
        parts = {i: d for i, d in known[gpu].items() if d.pieces}
        if parts:
            devices[gpu] = parts
    cards = {g: _measure_card(parts, machine, period, policy) for g, parts in devices.items()}
    _pool([d for _, parts in cards.values() for d in parts.values()])
    return _divide(tracks, cards, seen, machine, period, policy)


def _on(tracks: Sequence[Track], gpu: str, period: Period) -> dict[str, Device]:
    instances = sorted({t.series.instance for t in tracks if t.series.gpu == gpu})
    found = {}
    for instance in instances:
        mine = [t for t in tracks if (t.series.gpu, t.series.instance) == (gpu, instance)]
        found[instance] = Device(mine, cut(mine, period.start, period.end))
    return found


Card = tuple[Fraction, dict[str, Device]]


def _measure_card(parts: dict[str, Device], machine: Machine, period: Period, policy: Policy) -> Card:
    """The card's own capacity and its devices: the whole GPU, or its instances where it has any in the period (R23)."""
    whole = parts.get("")
    size = capacity_of(whole.pieces if whole else [], machine, whole=True)
    used = {i: d for i, d in parts.items() if i} or parts
    for instance, device in used.items():
        measure_device(device, machine, period.expected, policy, whole=not instance)
    return (sum((d.capacity for d in used.values()), NOTHING) if size is None else size), used


def _divide(
    tracks: Sequence[Track], cards: Mapping[str, Card], seen: Sequence[str], machine: Machine, period: Period, policy: Policy
) -> Rows:
    """The node's cost over GPUs by capacity, missing ones and host included (R6, R17)."""
    missing = max((machine.gpus if machine.gpus is not None else len(seen)) - len(cards), 0)
    sizes = [size for size, _ in cards.values()]
    absent = max(sizes, default=Fraction(machine.memory if machine.memory is not None else 1))
    total = sum(sizes, NOTHING) + missing * absent
    share = Fraction(policy.gpu_share_ppb, PPB)
    rows: Rows = {}
    for gpu, (size, parts) in cards.items():
        whole = [t for t in tracks if t.series.gpu == gpu]
        rows |= _card_rows(gpu, size, parts, whole, period, policy, share * size / total)
    names = [g for g in seen if g not in cards]
    for gpu in [*names[:missing], *[f"?{n}" for n in range(missing - len(names))]]:
        part = share * absent / total
        rows[Key(gpu=gpu, bucket="unallocated", reason="gpu_without_metrics")] = Row(shares=(NOTHING, NOTHING, part))
    if share < 1:
        node = cut(tracks, period.start, period.end)
        observed, imputed = _times(node)
        coverage = _coverage(observed + imputed, period.expected)
        row = Row(observed=observed, imputed=imputed, coverage=coverage, shares=(NOTHING, 1 - share, NOTHING))
        rows[Key(bucket="host", reason="gpu_share")] = row
    return rows


def _card_rows(
    gpu: str, size: Fraction, parts: Mapping[str, Device], tracks: Sequence[Track], period: Period, policy: Policy, part: Fraction
) -> Rows:
    """One card's rows: its devices, what its partition strands (R23), what is not known of it (R9)."""
    pieces = cut(tracks, period.start, period.end)
    known = sum(b - a for a, b, _ in pieces)
    unknown = period.expected - known
    low = Fraction(known, period.expected) < Fraction(policy.min_coverage)
    observed, imputed = _times(pieces)
    coverage = _coverage(known, period.expected)
    rows: Rows = {}
    if low:
        part_unknown = part * unknown / period.expected
        row = Row(observed=observed, imputed=imputed, coverage=coverage, shares=(NOTHING, NOTHING, part_unknown))
        rows[Key(gpu=gpu, bucket="unallocated", reason="unknown_time")] = row
        part -= part_unknown
    weights = {i: d.capacity * (d.life if i else 1) for i, d in parts.items()}
    total = sum(weights.values(), NOTHING)
    stranded = size * (pieces[-1][1] - pieces[0][0]) - total if "" not in parts and policy.stranded == "separate" else NOTHING
    if stranded > 0:
        share = part * stranded / (total + stranded)
        row = Row(idle=stranded, observed=observed, imputed=imputed, coverage=coverage, shares=(NOTHING, NOTHING, share))
        rows[Key(gpu=gpu, bucket="stranded", reason="mig_partition")] = row
        part -= share
    for instance, device in parts.items():
        rows |= _device_rows(gpu, instance, device, part * weights[instance] / total)
    return rows


def _device_rows(gpu: str, instance: str, device: Device, part: Fraction) -> Rows:
    """A device's rows under their full keys; the part of the cost by byte-time."""
    total = device.capacity * device.known
    rows = {}
    for key, row in device.rows.items():
        row.shares = (part * row.used / total, part * row.overhead / total, part * row.idle / total)
        rows[Key(gpu, instance, key.bucket, key.reason, key.holder)] = row
    return rows
