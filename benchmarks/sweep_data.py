"""Made-up shards for the benchmarks of the sweep: the same seed gives the same bytes.

A shard is 15 nodes of 8 GPUs over one day, about a million samples of pods: scrapes every 15 to 60 s, now and then a gap or two
samples of one time, pods that come and go, one to seven at a time on a GPU. ``change`` of the samples change the level. Here
belongs the data; what is measured with it stands in ``benchmarks.sweep``.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.schemas import NODES, PODS, SAMPLES
from allocation.series import LABELS, clean
from pipelines.inventory import EARLIEST, LATEST, nodes_frame, pods_frame

Int64 = npt.NDArray[np.int64]
NODE_COUNT, GPUS_PER_NODE = 15, 8
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MARGIN_MS = 900_000
START_MS = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp()) * 1000
MIB = 1 << 20
CARDS_MIB = (40_960, 81_920, 81_920, 97_871, 143_771)
SHARERS, SHARERS_ODDS = (1, 2, 3, 4, 7), (0.2, 0.2, 0.25, 0.25, 0.1)


@dataclass(frozen=True)
class Work:
    """All that the method gets for one shard, and the nanos of each period's bill line."""

    samples: pa.Table
    nodes: pd.DataFrame
    pods: pd.DataFrame
    periods: pd.DataFrame
    costs: Int64


@dataclass(frozen=True)
class Drawn:
    """Series as drawn: one row of labels a series, and its samples."""

    labels: pd.DataFrame
    lengths: Int64
    times: Int64
    values: npt.NDArray[np.float64]


def ordinary(seed: int, change: float = 0.04, nodes: int = NODE_COUNT) -> Work:
    """A shard as it is found: containers' own memory, and what each device says is used and reserved."""
    random = np.random.default_rng([seed, int(change * 1000)])
    cards = np.repeat(random.choice(CARDS_MIB, nodes), GPUS_PER_NODE).astype(np.int64)
    pods = _pods(random, cards, change)
    return _work(random, [pods, *_devices(random, cards, ("used", "reserved"))], cards)


def crowded(pods: int, minutes: int = 60, seed: int = 1) -> Work:
    """One GPU that many pods hold for an hour; every sample changes its pod's level."""
    random = np.random.default_rng([seed, pods])
    cards = np.full(1, 81_920, np.int64)
    count = np.full(pods, minutes * 2, np.int64)
    owner = np.repeat(np.arange(pods), count)
    step = np.tile(np.arange(minutes * 2) * 30_000, pods)
    times = START_MS + step + np.repeat(random.integers(0, 30_000, pods), count)
    values = (random.integers(1, 78_000 // pods, len(owner)) * MIB).astype(np.float64)
    labels = _labels(np.zeros(pods, np.int64), "pod_memory", np.arange(pods))
    drawn = Drawn(labels, np.bincount(owner), times, values)
    return _work(random, [drawn, *_devices(random, cards, ("used", "reserved"))], cards, minutes * 60_000)


def repeated(seed: int, nodes: int = NODE_COUNT) -> Work:
    """A shard whose exporter repeats the device's value for every pod on it, with free memory beside it."""
    random = np.random.default_rng([seed, 77])
    cards = np.full(nodes * GPUS_PER_NODE, 81_920, np.int64)
    used, free = _devices(random, cards, ("used", "free"))
    labels = used.labels.assign(gpu=np.arange(len(cards)))
    sharers = random.choice(SHARERS, len(cards), p=SHARERS_ODDS)
    index = np.repeat(np.arange(len(cards)), sharers)
    first = np.concatenate(([0], np.cumsum(used.lengths)))[:-1]
    lengths = used.lengths[index]
    place = np.repeat(first[index] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    pods = _labels(labels.gpu.to_numpy()[index], "pod_memory", np.arange(len(index))).assign(level="device", metric="fb_used")
    return _work(random, [Drawn(pods, lengths, used.times[place], used.values[place]), free], cards)


def _labels(gpu: Int64, role: str, pod: Int64 | None = None) -> pd.DataFrame:
    """The names of series: which GPU, which role, which pod."""
    node = gpu // GPUS_PER_NODE
    names = pd.DataFrame(dict.fromkeys(LABELS, ""), index=np.arange(len(gpu))).assign(
        role=role,
        level="container",
        metric=f"{role}_bytes",
        includes_reserved=False,
        node=[f"node-{n:02d}" for n in node],
        gpu_uuid=[f"GPU-{g:04d}-4b1d" for g in gpu],
        gpu_model="MODEL-X",
    )
    if pod is None:
        return names
    uids = [f"{p:08d}-8c1e" for p in pod]
    return names.assign(
        namespace=[f"team-{p % 37:02d}" for p in pod], pod=[f"pod-{u}" for u in uids], pod_uid=uids, container="main"
    )


def _pods(random: np.random.Generator, cards: Int64, change: float) -> Drawn:
    """Pods one after the other in each slot of each GPU."""
    slots = np.concatenate([np.full(random.choice(SHARERS, p=SHARERS_ODDS), g) for g in range(len(cards))])
    room = 93 * cards[slots] // 100 // np.bincount(slots)[slots]
    gpu, begin, end, quota = [], [], [], []
    free_at = START_MS - MARGIN_MS + np.where(random.random(len(slots)) < 0.35, random.integers(0, 3 * HOUR_MS, len(slots)), 0)
    while (open_ := np.flatnonzero(free_at < START_MS + DAY_MS)).size:
        forever = random.random(len(open_)) < 0.5
        life = np.where(forever, 2 * DAY_MS, random.exponential(5 * HOUR_MS, len(open_)).astype(np.int64) + 20_000)
        gpu.append(slots[open_])
        begin.append(free_at[open_])
        end.append(np.minimum(free_at[open_] + life, START_MS + DAY_MS + MARGIN_MS))
        quota.append(room[open_])
        free_at[open_] += life + random.integers(10_000, 1_200_000, len(open_))
    owner, times = _scrapes(random, np.concatenate(begin), np.concatenate(end))
    changed = random.random(len(owner)) < change
    changed[np.flatnonzero(np.diff(owner, prepend=-1))] = True
    level = np.where(random.random(int(changed.sum())) < 0.02, 0.0, 0.1 + 0.9 * random.random(int(changed.sum())))
    values = np.floor(level[np.cumsum(changed) - 1] * np.concatenate(quota)[owner]) * MIB
    lengths = np.bincount(owner, minlength=sum(map(len, gpu)))
    return Drawn(_labels(np.concatenate(gpu), "pod_memory", np.arange(len(lengths))), lengths, times, values)


def _scrapes(random: np.random.Generator, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Owner and time of each scrape: mostly 15 to 45 s apart, a few up to 60 s, rarely a gap or the same time again."""
    room = (end - begin) // 24_000 + 40
    first = np.cumsum(room) - room
    step = random.integers(15_000, 45_001, room.sum())
    luck = random.random(len(step))
    step = np.where(luck < 0.03, random.integers(45_000, 60_001, len(step)), step)
    step = np.where(luck < 0.001, random.integers(120_000, 1_200_001, len(step)), step)
    step[luck > 0.9995] = 0
    step[first] = 0
    owner = np.repeat(np.arange(len(room)), room)
    passed = np.cumsum(step)
    times = passed - passed[first][owner] + begin[owner]
    kept = times < end[owner]
    return owner[kept], times[kept]


def _devices(random: np.random.Generator, cards: Int64, roles: tuple[str, ...]) -> list[Drawn]:
    """What each device says of itself once a minute."""
    count = (DAY_MS + 2 * MARGIN_MS) // 60_000
    gpu = np.repeat(np.arange(len(cards)), count)
    times = START_MS - MARGIN_MS + np.tile(np.arange(count) * 60_000, len(cards)) + random.integers(0, 60_000, len(cards))[gpu]
    changed = random.random(len(gpu)) < 0.02
    changed[::count] = True
    reserve = random.integers(450, 1_400, int(changed.sum()))[np.cumsum(changed) - 1]
    used = reserve + cards[gpu] // 2
    told = {"used": used, "reserved": reserve, "free": cards[gpu] - used - 600}
    kept = random.random(len(gpu)) > 0.002
    lengths = np.bincount(gpu[kept], minlength=len(cards))
    return [Drawn(_labels(np.arange(len(cards)), r), lengths, times[kept], told[r][kept] * float(MIB)) for r in roles]


def _work(random: np.random.Generator, drawn: list[Drawn], cards: Int64, period_ms: int = HOUR_MS) -> Work:
    """Cleaned samples, and one bill line a node and hour."""
    labels = pa.Table.from_pandas(pd.concat([d.labels for d in drawn], ignore_index=True), preserve_index=False).select(LABELS)
    labels = labels.cast(pa.schema([SAMPLES.arrow().field(n) for n in LABELS]))
    flat = [np.concatenate([getattr(d, name) for d in drawn]) for name in ("lengths", "times", "values")]
    samples, _ = clean(labels, flat[0].astype(np.int64), flat[1].astype(np.int64), flat[2])
    count = -(-len(cards) // GPUS_PER_NODE)
    hours = DAY_MS // HOUR_MS if period_ms == HOUR_MS and len(cards) > 1 else 1
    start = START_MS + np.tile(np.arange(hours) * period_ms, count)
    periods = pd.DataFrame(
        {
            "node_key": np.repeat([f"i-{n:04d}" for n in range(count)], hours),
            "start_ms": start,
            "end_ms": start + period_ms,
            "expected_ms": np.full(len(start), period_ms),
        }
    )
    costs = random.integers(3 * 10**9, 98 * 10**9, len(periods))
    pods = pods_frame(PODS.arrow().empty_table())
    return Work(samples, nodes_frame(_nodes(cards[::GPUS_PER_NODE], min(len(cards), GPUS_PER_NODE))), pods, periods, costs)


def _nodes(card_mib: Int64, gpus: int) -> pa.Table:
    """Table ``nodes``: every machine all the time, its memory from the nameplate."""
    rows = [
        {
            "node": f"node-{n:02d}", "node_id": f"i-{n:04d}", "node_key": f"i-{n:04d}", "alive_from": EARLIEST,
            "alive_until": LATEST, "gpus": gpus, "gpu_memory_bytes": int(size) * MIB, "gpu_memory_configured": False,
            "configured": False,
        }
        for n, size in enumerate(card_mib)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=NODES.arrow())
