"""The method by brute force in exact fractions: slow, readable, and written from the design's text alone.

Here belongs the answer that the compiled sweep is held against. It shares no code with it: time is cut at every instant at which
anything changes, each piece is judged by the rules as they are written, and nothing is ever rounded. ``judge`` gives for every
period the rows that must come out. Rules that are named (R1 ...) are those of the rulings on the method.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from allocation.policy import Policy

DAY_MS = 86_400_000
PPB = 1_000_000_000
NEVER = 2**62
RANK = ("exclusive", "measured", "estimated_requests", "estimated_even", "inferred")
Holder = tuple[str, str, str]
Memory = dict[Holder, Fraction]


@dataclass(frozen=True)
class Series:
    """One series; ``points`` are (ms, bytes). A device's own row has no holder."""

    role: str
    gpu: str
    points: tuple[tuple[int, int], ...]
    instance: str = ""
    holder: Holder = ("", "", "")
    container: str = ""
    level: str = "container"
    metric: str = ""
    includes_reserved: bool = False
    node: str = "n1"


@dataclass(frozen=True)
class Machine:
    """A node and what is configured or on the nameplate of it."""

    node: str = "n1"
    gpus: int | None = None
    memory: int | None = None
    reserved: int = 0


@dataclass(frozen=True)
class Period:
    """A period of a line on a machine; ``expected`` is how long the machine ran in it."""

    start: int
    end: int
    expected: int
    node: str = "n1"


@dataclass(frozen=True)
class Key:
    """What tells the rows of a period apart."""

    gpu: str = ""
    instance: str = ""
    bucket: str = "workload"
    reason: str = ""
    holder: Holder = ("", "", "")


@dataclass
class Row:
    """Byte-ms, times and worth of one row, and which part of the line's cost each of its three columns gets."""

    used: Fraction = Fraction(0)
    overhead: Fraction = Fraction(0)
    idle: Fraction = Fraction(0)
    unmeasured: Fraction = Fraction(0)
    observed: int = 0
    imputed: int = 0
    coverage: Fraction = Fraction(0)
    basis: str = "none"
    shares: tuple[Fraction, Fraction, Fraction] = (Fraction(0), Fraction(0), Fraction(0))


Rows = dict[Key, Row]


@dataclass(frozen=True)
class Held:
    """A sample's value on ``[start, end)``; from ``observed_until`` on it is imputed. ``at`` is the sample's own time."""

    start: int
    end: int
    observed_until: int
    at: int
    value: Fraction


@dataclass(frozen=True)
class Track:
    """A series and how it holds."""

    series: Series
    held: tuple[Held, ...]

    def at(self, moment: int) -> Held | None:
        """What it holds at a moment."""
        return next((h for h in self.held if h.start <= moment < h.end), None)


def hold(series: Series, all_series: Iterable[Series], life: tuple[int, int], policy: Policy) -> tuple[Held, ...]:
    """Hold and gap: R1, R29. ``life`` is the pod's known start and end.

    A device's own row yields to its pods' rows in a hole longer than ``max_hold``, as if it had ended there.
    """
    largest: dict[int, int] = {}
    for moment, value in series.points:
        largest[moment] = max(value, largest.get(moment, 0))
    device = (series.node, series.gpu, series.instance, series.metric)
    reports = {t for s in all_series if s.metric and (s.node, s.gpu, s.instance, s.metric) == device for t, _ in s.points}
    without_me = sorted(reports - set(largest))
    times = sorted(largest)
    yields = series.level == "device" and series.role == "used"
    held = []
    for at, after in zip(times, [*times[1:], NEVER], strict=True):
        other = next((t for t in without_me if t > at), NEVER)
        if after - at > policy.max_gap_ms or (yields and other < after and after - at > policy.max_hold_ms):
            end = min(after, other, at + policy.max_hold_ms)
        else:
            end = after
        start, end = max(at, life[0]), min(end, life[1])
        if start < end:
            held.append(Held(start, end, max(start, min(end, at + policy.max_hold_ms)), at, Fraction(largest[at])))
    return tuple(held)


@dataclass(frozen=True)
class Now:
    """What is held on one device at one moment."""

    own: Mapping[Holder, Mapping[str, Held]]
    """Container-level memory: holder -> container -> value."""
    named: Mapping[Holder, Held]
    """Device-level rows: the largest of each pod."""
    declared: Memory
    of_device: Mapping[str, Fraction]
    includes_reserved: bool
    observed: frozenset[Holder]
    device_observed: bool
    inferred: bool = False
    """Its holders are on no series; their requests leave one possibility."""

    @property
    def known(self) -> bool:
        """R9: any value of the device or of a pod on it; what a pod declared is no measurement."""
        return bool(self.own or self.named or self.of_device.keys() - {"rows"})


def repeated_rows(all_series: Sequence[Series]) -> list[Series]:
    """R2: the device-level rows of a device's pods are one series of the device, of equal times the larger value."""
    rows: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for s in all_series:
        if s.role == "pod_memory" and s.level == "device":
            rows.setdefault((s.node, s.gpu, s.instance, s.metric), []).extend(s.points)
    return [
        Series("rows", gpu, tuple(p), instance, metric=metric, node=node) for (node, gpu, instance, metric), p in rows.items()
    ]


def look(tracks: Sequence[Track], moment: int) -> Now:
    """Gathers what the tracks of one device hold at a moment."""
    own: dict[Holder, dict[str, Held]] = {}
    named: dict[Holder, Held] = {}
    declared: Memory = {}
    of_device: dict[str, Fraction] = {}
    observed: set[Holder] = set()
    includes_reserved = device_observed = inferred = False
    for track in tracks:
        s, h = track.series, track.at(moment)
        if h is None:
            continue
        fresh = moment < h.observed_until
        if s.role == "declared":
            declared[s.holder] = declared.get(s.holder, Fraction(0)) + h.value
            continue
        device_observed |= fresh and s.role != "rows"
        if s.role != "pod_memory":
            of_device[s.role] = h.value
            includes_reserved |= s.role == "used" and s.includes_reserved
            continue
        inferred |= s.level == "inferred"
        if fresh:
            observed.add(s.holder)
        if s.level == "container":
            own.setdefault(s.holder, {})[s.container] = h
        elif s.holder not in named or h.value > named[s.holder].value:
            named[s.holder] = h
    return Now(own, named, declared, of_device, includes_reserved, frozenset(observed), device_observed, inferred)


def shown(now: Now) -> Fraction | None:
    """What the device says is used: its own row, else the newest of the rows that repeat it (R2)."""
    return now.of_device.get("used", now.of_device.get("rows"))


def reserved_of(now: Now, capacity: Fraction | None, machine: Machine) -> Fraction:
    """R: from the series; else K - (used + free); else configured; else 0 (R7, R8). Never outside [0, K]."""
    found, used, free = now.of_device.get("reserved"), shown(now), now.of_device.get("free")
    if found is None and capacity is not None and not now.includes_reserved and used is not None and free is not None:
        found = max(Fraction(0), capacity - used - free)
    if found is None:
        found = Fraction(machine.reserved)
    return found if capacity is None else min(found, capacity)


def used_of(now: Now, reserved: Fraction) -> Fraction | None:
    """U, without the reserve (R7); None where no series says it."""
    used = shown(now)
    return None if used is None else max(Fraction(0), used - (reserved if now.includes_reserved else 0))


def collapse(now: Now, used: Fraction | None) -> Memory:
    """R3: each pod's memory from its containers. Equal values count once unless all of them fit into the device's."""
    sums = {h: sum((c.value for c in cs.values()), Fraction(0)) for h, cs in now.own.items()}
    memory = dict(sums)
    for h, cs in now.own.items():
        values = {c.value for c in cs.values()}
        if len(cs) > 1 and len(values) == 1 and values != {0} and not (used is not None and sum(sums.values()) <= used):
            memory[h] = next(iter(values))
    return memory


def memories(now: Now, used: Fraction | None) -> tuple[Memory, str]:
    """m of each holder, and what the measurement is worth at this moment: R2, R3, R25, R28, R42."""
    memory, basis = _memories(now, used)
    return memory, "inferred" if now.inferred else basis


def _memories(now: Now, used: Fraction | None) -> tuple[Memory, str]:
    own_row = used if "used" in now.of_device else None
    if now.own:
        memory = {h: Fraction(0) for h in now.named} | collapse(now, own_row)
    else:
        memory = {h: row.value for h, row in now.named.items()}
    if not memory:
        return {}, "none"
    repeated: Fraction | None = None
    values = set(memory.values())
    if not now.own and (own_row is None or (own_row and values == {0})):
        repeated = used
    elif own_row is not None and len(memory) > 1 and len(values) == 1 and values != {0}:
        repeated = own_row if abs(next(iter(values)) - own_row) * 50 <= own_row else None
    if len(memory) == 1:
        return {h: m if repeated is None else repeated for h, m in memory.items()}, "exclusive"
    if repeated is None:
        return memory, "measured"
    if all(h in now.declared for h in memory):
        return spread(repeated, {h: now.declared[h] for h in memory}), "estimated_requests"
    return spread(repeated, dict.fromkeys(memory, Fraction(1))), "estimated_even"


def spread(amount: Fraction, weights: Memory) -> Memory:
    """An amount by weight; evenly where all weights are 0."""
    total = sum(weights.values(), Fraction(0))
    if total == 0:
        return {h: amount / len(weights) for h in weights}
    return {h: amount * w / total for h, w in weights.items()}


@dataclass
class Instant:
    """The rates at a moment, in bytes: each holder's three, and those of the two buckets."""

    used: Memory
    overhead: Memory
    idle: Memory
    basis: str
    bucket_overhead: Fraction = Fraction(0)
    bucket_idle: Fraction = Fraction(0)
    pooled: Fraction = Fraction(0)


def instant(now: Now, capacity: Fraction, machine: Machine, policy: Policy) -> Instant:
    """The rule at an instant on one device: design section 3, R10, R22."""
    reserved = reserved_of(now, capacity, machine)
    used = used_of(now, reserved)
    memory, basis = memories(now, used)
    total = sum(memory.values(), Fraction(0))
    if total > capacity - reserved:
        memory = spread(capacity - reserved, memory)
        total = capacity - reserved
    unexplained = min(max(Fraction(0), (total if used is None else used) - total), capacity - reserved - total)
    overhead = reserved + unexplained
    idle = capacity - total - overhead
    even = dict.fromkeys(memory, Fraction(1))
    result = Instant(memory, {}, {}, basis)
    if total == 0:
        overhead, idle = Fraction(0), idle + overhead
    elif policy.overhead == "separate":
        result.bucket_overhead = overhead
    else:
        result.overhead = spread(overhead, memory if policy.overhead == "proportional" else even)
    if policy.idle == "proportional":
        result.pooled = idle
    elif policy.idle == "separate" or not memory:
        result.bucket_idle = idle
    else:
        result.idle = spread(idle, memory if policy.idle == "holder" else even)
    return result
