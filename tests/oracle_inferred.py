"""Pods whose labels the exporter lost, by brute force: who must hold a device that no series shows anybody on.

Here belongs the answer that ``allocation.inferred`` is held against, judged again between any two changes on the machine. What a
holder of 0 bytes that was found this way gets stands in ``oracle``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tests.oracle import Held, Holder, Machine, Series, Track

OWN = ("used", "free", "total", "reserved")


@dataclass(frozen=True)
class Ask:
    """A pod of the inventory on a node: how many whole GPUs it asked for, what memory it declared, and when it lived, ms."""

    holder: Holder
    node: str
    count: int
    start: int
    end: int
    declared: int | None = None


def lost_tracks(tracks: Sequence[Track], machine: Machine, asks: Sequence[Ask]) -> list[Track]:
    """Tracks of 0 bytes for each pod that must hold a device; ``tracks`` and ``asks`` are those of one machine."""
    if machine.gpus is None or not asks:
        return []
    marks = {t for k in tracks for h in k.held for t in (h.start, h.end, h.observed_until)}
    marks |= {t for a in asks for t in (a.start, a.end)}
    held: dict[tuple[Holder, str], list[Held]] = {}
    for start, end in pairwise(sorted(marks)):
        shown = [(k.series, h) for k in tracks if (h := k.at(start))]
        for ask, gpu in _must_hold([s for s, _ in shown], machine, asks, start):
            fresh = any(s.gpu == gpu and s.role in OWN and start < h.observed_until for s, h in shown)
            piece = Held(start, end, end if fresh else start, start, Fraction(0))
            held.setdefault((ask.holder, gpu), []).append(piece)
    return [Track(_series(holder, gpu, machine.node), tuple(pieces)) for (holder, gpu), pieces in held.items()]


def declared_tracks(tracks: Sequence[Track], asks: Sequence[Ask]) -> list[Track]:
    """What the inventory says a pod declared, for as long as it holds a device of which no series of its own says so (R43)."""
    told = {(k.series.gpu, k.series.instance, k.series.holder) for k in tracks if k.series.role == "declared"}
    found = []
    for ask in asks:
        for k in tracks:
            s = k.series
            if ask.declared is None or s.role != "pod_memory" or s.holder != ask.holder or (s.gpu, s.instance, s.holder) in told:
                continue
            value = Fraction(ask.declared)
            held = tuple(Held(h.start, h.end, h.observed_until, h.at, value) for h in k.held)
            found.append(Track(Series("declared", s.gpu, (), s.instance, s.holder, node=s.node), held))
            told.add((s.gpu, s.instance, s.holder))
    return found


def _series(holder: Holder, gpu: str, node: str) -> Series:
    return Series("pod_memory", gpu, (), "", holder, "", "inferred", "inferred", node=node)


def _must_hold(shown: Sequence[Series], machine: Machine, asks: Sequence[Ask], moment: int) -> list[tuple[Ask, str]]:
    """Which pods must hold which whole cards at a moment; ``shown`` are the series that show something then."""
    shown = [s for s in shown if s.role in (*OWN, "pod_memory")]
    cut = {s.gpu for s in shown if s.instance}
    known = {s.gpu for s in shown if not s.instance} - cut
    free = sorted(known - {s.gpu for s in shown if s.role == "pod_memory" and not s.instance})
    named = {s.holder[:2] for s in shown if s.role == "pod_memory"}
    lost = [a for a in asks if a.start <= moment < a.end and a.holder[:2] not in named]
    assert machine.gpus is not None
    if not lost or len({s.gpu for s in shown}) < machine.gpus:
        return []
    alone = len(lost) == 1 and lost[0].count == len(free)
    on_one = len(known) == 1 and len(free) == 1 and all(a.count == 1 for a in lost)
    return [(a, gpu) for a in lost for gpu in free] if alone or on_one else []
