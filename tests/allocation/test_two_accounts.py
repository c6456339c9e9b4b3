"""Two sources of one device (R25), and uids that only one of them tells (R20). Worked out by hand, 80 GiB a card."""

from fractions import Fraction

from allocation.policy import Policy
from tests.oracle import Holder, Key, Machine, Period, Rows, Series
from tests.shards import Shard, answered, measured

GIB = 2**30
START = 1_790_812_800_000
LENGTH = 600_000
PERIOD = Period(START, START + LENGTH, LENGTH)
TIMES = tuple(range(START, START + LENGTH, 30_000))
A: Holder = ("ns", "a", "")
NOBODY: Holder = ("", "", "")


def shown(role: str, gib: float, level: str, holder: Holder = NOBODY, *, includes: bool = False) -> Series:
    points = tuple((t, int(gib * GIB)) for t in TIMES)
    return Series(role, "GPU-1", points, "", holder, "c", level, f"{role} by {level}", includes)


def rows_of(*series: Series) -> Rows:
    policy = Policy(60_000, 300_000, "separate", "separate")
    shard = Shard(series, (Machine(gpus=1, memory=80 * GIB),), (PERIOD,), policy)
    return answered(measured(shard).usage, shard.periods)[PERIOD]


def gib_of(rows: Rows) -> dict[Key, Fraction]:
    return {k: (r.used + r.overhead + r.idle) / (GIB * LENGTH) for k, r in rows.items()}


def test_the_size_that_a_scheduler_advertises_does_not_beat_the_devices_own() -> None:
    """DCGM: 44 used, 35 free, 1 reserved. HAMi advertises 160 and tells a's 30: K is 80, overhead 1 + 14, idle 35."""
    device = (shown("used", 44, "device"), shown("free", 35, "device"), shown("reserved", 1, "device"))
    rows = rows_of(*device, shown("pod_memory", 30, "container", A), shown("total", 160, "container"))
    assert gib_of(rows) == {
        Key("GPU-1", holder=A): 30,
        Key("GPU-1", bucket="overhead"): 15,
        Key("GPU-1", bucket="idle"): 35,
    }


def test_a_host_value_with_the_reserve_in_it_does_not_touch_the_devices_own() -> None:
    """DCGM: 52 used, 27 free, 1 reserved; the host's 40 that includes a reserve is not asked."""
    device = (shown("used", 52, "device"), shown("free", 27, "device"), shown("reserved", 1, "device"))
    rows = rows_of(*device, shown("pod_memory", 30, "container", A), shown("used", 40, "container", includes=True))
    assert gib_of(rows)[Key("GPU-1", bucket="idle")] == 27
    assert gib_of(rows)[Key("GPU-1", bucket="overhead")] == 23


def test_a_uid_that_one_source_tells_is_the_other_ones_too() -> None:
    """One pod, not two: 30 GiB by HAMi, who names no uid; DCGM's row names it."""
    known: Holder = ("ns", "a", "u")
    rows = rows_of(shown("pod_memory", 44, "device", known), shown("pod_memory", 30, "container", A))
    assert [k.holder for k in rows if k.bucket == "workload"] == [known]
    assert gib_of(rows)[Key("GPU-1", holder=known)] == 30
