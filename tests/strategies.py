"""Random small shards and bill lines.

Sizes come from a small pool, so that equal values, full cards and sums that do not fit are common; times come from steps at, just
below and just above ``max_hold`` and ``max_gap``.
"""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from allocation.policy import Policy
from tests.oracle import DAY_MS, PPB, Holder, Machine, Period, Series
from tests.oracle_inferred import Ask
from tests.shards import MODEL, Shard

HOLD, GAP = 60_000, 300_000
NOON = 20_727 * DAY_MS + DAY_MS // 2
STEPS = (7_000, 30_000, 30_000, 30_000, HOLD - 1, HOLD, HOLD + 1, 200_000, GAP - 1, GAP, GAP + 1, 2 * GAP)
GIB = 2**30
SIZES = (1000, 8 * GIB + 7, 80 * GIB)
NOBODY: Holder = ("", "", "")
PODS: tuple[Holder, ...] = (("a", "x", "1"), ("a", "x", "2"), ("a", "y", "3"), ("b", "x", "4"))


@st.composite
def policies(draw: st.DrawFn, reserve: int = 0, coverage: tuple[float, ...] = (0.0, 0.5, 1.0)) -> Policy:
    """Every policy, hold and gap of this module's."""
    return Policy(
        HOLD,
        GAP,
        draw(st.sampled_from(("proportional", "even", "separate"))),
        draw(st.sampled_from(("holder", "separate", "proportional", "even"))),
        draw(st.sampled_from(("separate", "spread"))),
        draw(st.sampled_from((PPB, PPB, PPB * 4 // 5, PPB // 3))),
        draw(st.sampled_from(coverage)),
        {MODEL: reserve} if reserve else {},
    )


@st.composite
def clocks(draw: st.DrawFn, start: int = NOON) -> list[int]:
    """The scrape times of one exporter."""
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7))
    times = [start + draw(st.sampled_from((-GAP, -HOLD, 0, 1, 250_000)))]
    for step in steps:
        times.append(times[-1] + step)
    return times


def some_of(times: list[int]) -> st.SearchStrategy[list[int]]:
    """A stretch of the scrapes, perhaps with holes."""
    marks = st.lists(st.sampled_from((True, True, True, False)), min_size=len(times), max_size=len(times))
    return marks.map(lambda on: [t for t, here in zip(times, on, strict=True) if here] or times[:1])


@dataclass(frozen=True)
class Place:
    """A device: where it is, its capacity, and the values that its series show."""

    node: str
    gpu: str
    instance: str
    size: int
    pool: tuple[int, ...]


def points(draw: st.DrawFn, times: list[int], pool: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Samples at some of the times."""
    return tuple((t, draw(st.sampled_from(pool))) for t in draw(some_of(times)))


def device_series(draw: st.DrawFn, place: Place, times: list[int], metric: str, level: str) -> list[Series]:
    """What the device says of itself: any of used, free, reserved, total. Some of it is never used nor reserved."""
    found = []
    includes = draw(st.sampled_from((False, False, True))) and level == "container"
    pools = dict.fromkeys(("used", "free", "reserved", "total"), place.pool)
    pools["free"] = place.pool[1:]
    pools["reserved"] = (draw(st.sampled_from((place.size // 40, 0, 3))),)
    pools["total"] = (place.size, place.size, place.size + 1)
    for role, pool in pools.items():
        if draw(st.sampled_from((True, True, False))):
            name, inside = (metric, includes) if role == "used" else (role, False)
            values = points(draw, times, pool)
            found.append(Series(role, place.gpu, values, place.instance, NOBODY, "", level, name, inside, place.node))
    return found


def container_pods(draw: st.DrawFn, place: Place, times: list[int]) -> list[Series]:
    """Pods whose source tells them apart, of one or two containers."""
    found = []
    for holder in draw(st.lists(st.sampled_from(PODS), unique=True, max_size=4)):
        for container in ("main", "side")[: draw(st.sampled_from((1, 1, 2)))]:
            values = points(draw, times, place.pool)
            found.append(
                Series("pod_memory", place.gpu, values, place.instance, holder, container, "container", "pods", node=place.node)
            )
    return found


def device_level_pods(draw: st.DrawFn, place: Place, times: list[int]) -> list[Series]:
    """Pods' rows in the device's own metric: the device's value repeated, or each its own."""
    found = []
    value_at = {t: draw(st.sampled_from(place.pool)) for t in times}
    for holder in draw(st.lists(st.sampled_from(PODS), unique=True, max_size=4)):
        repeats = draw(st.sampled_from((True, True, False)))
        values = tuple((t, value_at[t] if repeats else draw(st.sampled_from(place.pool))) for t in draw(some_of(times)))
        found.append(Series("pod_memory", place.gpu, values, place.instance, holder, "c", "device", "fb", node=place.node))
    return found


def declarations(draw: st.DrawFn, pods: list[Series], times: list[int]) -> list[Series]:
    """What some or all pods of the device declared."""
    first = {s.holder: s for s in pods}
    if not draw(st.booleans()):
        return []
    who = [s for s in first.values() if draw(st.sampled_from((True, True, True, False)))]
    return [
        Series(
            "declared", s.gpu, points(draw, times, (1, 5, 3 * GIB)), s.instance, s.holder, "c", "container", "limit", node=s.node
        )
        for s in who
    ]


def sized(draw: st.DrawFn, series: list[Series], size: int) -> list[Series]:
    """The same device, but its size is told at every time at which anything is."""
    times = sorted({t for s in series for t, _ in s.points})
    if not times:
        return series
    told = tuple((t, draw(st.sampled_from((size, size, size + 1)))) for t in times)
    total = Series("total", series[0].gpu, told, series[0].instance, level="device", metric="total", node=series[0].node)
    return [*(s for s in series if s.role != "total"), total]


def device_of(draw: st.DrawFn, node: str, gpu: str, instance: str, size: int) -> list[Series]:
    """All series of one device, from one or two exporters."""
    v = draw(st.integers(1, size))
    near = draw(st.sampled_from((v * 51 // 50, v * 51 // 50 + 1, v * 49 // 50, v)))
    place = Place(node, gpu, instance, size, (0, v, v, near, size // 2, size - size // 40, size + size // 9))
    times = draw(clocks())
    kind = draw(st.sampled_from(("container", "device", "both")))
    pods = container_pods(draw, place, times) if kind != "device" else []
    if kind != "container":
        pods += device_level_pods(draw, place, [t + draw(st.sampled_from((0, 7_000))) * (kind == "both") for t in times])
    level = "container" if kind == "container" else "device"
    own = device_series(draw, place, times, "used" if level == "container" else "fb", level)
    return [*pods, *own, *declarations(draw, pods, times)]


@st.composite
def gpus(
    draw: st.DrawFn, node: str, gpu: str, *, mig: bool, told: bool, configured: bool, sizes: tuple[int, ...] = SIZES
) -> list[Series]:
    """All series of one GPU, whole or partitioned. ``told``: nobody has to guess a device's size."""
    size = draw(st.sampled_from(sizes))
    if not mig:
        whole = device_of(draw, node, gpu, "", size)
        return sized(draw, whole, size) if told and not configured else whole
    found: list[Series] = []
    for instance in draw(st.lists(st.sampled_from(("1", "2", "5")), min_size=1, unique=True)):
        part = size * draw(st.integers(1, 4)) // 7
        device = device_of(draw, node, gpu, instance, part)
        found += sized(draw, device, part) if told else device
    card = tuple((t, size) for t in sorted({t for s in found for t, _ in s.points} or {NOON}))
    return [*found, Series("total", gpu, card, level="device", metric="total", node=node)]


@st.composite
def periods(draw: st.DrawFn, node: str) -> Period:
    """A period around the scrapes, with the time that the machine should have run in it."""
    start = NOON + draw(st.sampled_from((0, 0, 45_000, 600_001)))
    length = draw(st.sampled_from((600_000, 3_600_000, 123_457)))
    return Period(start, start + length, draw(st.sampled_from((length, length, length // 4, 90_000))), node)


@st.composite
def lives_of(draw: st.DrawFn) -> dict[Holder, tuple[int, int]]:
    """Known starts and ends of some pods."""
    who = draw(st.lists(st.sampled_from(PODS), unique=True, max_size=2))
    found = {}
    for holder in who:
        start = NOON + draw(st.sampled_from((-DAY_MS, 15_000, 100_000)))
        found[holder] = (start, start + draw(st.sampled_from((200_000, 2 * DAY_MS))))
    return found


@st.composite
def shards(
    draw: st.DrawFn,
    *,
    mig: bool = False,
    told: bool = True,
    coverage: tuple[float, ...] = (0.0, 0.5, 1.0),
    sizes: tuple[int, ...] = SIZES,
) -> Shard:
    """One or two nodes of one to three GPUs each; with ``mig`` some of them are partitioned."""
    names = ("n1", "n2")[: draw(st.sampled_from((1, 1, 2)))]
    reserve = draw(st.sampled_from((0, 0, 17)))
    series: list[Series] = []
    machines = []
    for node in names:
        memory = draw(st.sampled_from((None, *sizes[-2:])))
        machines.append(Machine(node, draw(st.sampled_from((None, 1, 2, 4))), memory, reserve))
        for number in range(draw(st.integers(1, 3))):
            cut = mig and draw(st.sampled_from((True, True, False)))
            series += draw(gpus(node, f"GPU-{number}", mig=cut, told=told, configured=memory is not None, sizes=sizes))
    spans = {(p.node, p.start, p.end): p for p in (draw(periods(n)) for n in (*names, *names))}
    return Shard(tuple(series), tuple(machines), tuple(spans.values()), draw(policies(reserve, coverage)), draw(lives_of()))


@st.composite
def with_asks(draw: st.DrawFn, of: st.SearchStrategy[Shard]) -> Shard:
    """The same shards, where the inventory tells what some pods asked for and declared, and some rows have lost their pods."""
    shard = draw(of)
    nodes = [m.node for m in shard.machines]
    asks, lives = [], dict(shard.lives)
    for holder in draw(st.lists(st.sampled_from(PODS), unique=True, max_size=3)):
        start = NOON + draw(st.sampled_from((-DAY_MS, 0, 15_000, 100_000)))
        life = lives.setdefault(holder, (start, start + draw(st.sampled_from((400_000, 2 * DAY_MS)))))
        declared = draw(st.sampled_from((None, 4 * GIB, 12 * GIB)))
        asks.append(Ask(holder, draw(st.sampled_from(nodes)), draw(st.sampled_from((1, 1, 2))), *life, declared))
    lost = draw(st.sampled_from(((), (), PODS, PODS[:2])))
    series = tuple(s for s in shard.series if s.holder not in lost) or shard.series
    return replace(shard, series=series, lives=lives, asks=tuple(asks))


def large_shards() -> st.SearchStrategy[Shard]:
    """Clusters of all shapes whose cards are as large as real ones, so that a byte-ms is less than a nano of any line."""
    return with_asks(st.booleans().flatmap(lambda mig: shards(mig=mig, told=False, sizes=SIZES[1:])))


COSTS = st.one_of(st.integers(-(10**12), 10**12), st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from((0, 1, -1, 2**63 - 1)))
"""Costs of lines, in nanos."""
