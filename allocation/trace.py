"""The method asked slice by slice: what a device holds in each stretch of constant state, by which samples, and what is booked.

Here belongs the way back from a row's byte-time to the samples behind it. The figures come from the functions that the sweep
itself calls, on the sweep's own steps and with the period's K; no rule is stated a second time. Money does not belong here.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation import board, instant, wide
from allocation.board import Board, make_board
from allocation.compiled import kernel
from allocation.devices import LEVELS, ROLES, Shard
from allocation.frame_rows import Topology, known_time, open_device
from allocation.held import held
from allocation.instant import ABSENT
from allocation.intervals import Runs
from allocation.policy import Policy
from allocation.sweep import (
    ACCOUNT_COLUMNS,
    BASIS_AT,
    BUCKET_IDLE,
    BUCKET_OVERHEAD,
    IDLE_AT,
    IMPUTED_AT,
    IMPUTED_MS,
    OBSERVED_AT,
    OBSERVED_MS,
    OVERHEAD_AT,
    SUM_COLUMNS,
    USED_AT,
    Choice,
    State,
    sweep_device,
)
from allocation.usage import BASES, terms_of

Int64 = npt.NDArray[np.int64]
_STATE = (
    "known", "used_bytes", "reserved_bytes", "claimed_bytes", "held_bytes", "unexplained_bytes", "holders", "basis", "repeated",
    "not_mapped", "memory_bytes", "declared_bytes", "others_memory_bytes", "weight", "weights_total", "observed_ms", "imputed_ms",
)  # fmt: skip
(
    _KNOWN, _U, _R, _CLAIMED, _S, _X, _N, _BASIS, _REPEATED, _UNMAPPED, _M, _DECLARED, _OTHERS, _WEIGHT, _WEIGHTS, _OBSERVED,
    _IMPUTED,
) = range(len(_STATE))  # fmt: skip
_BOOKED = ("used_byte_ms", "overhead_byte_ms", "idle_byte_ms")
_PARTS = ("", "bucket_", "device_")
_ACCOUNTS = (USED_AT, OVERHEAD_AT, IDLE_AT)
_BUCKETS = (ABSENT, BUCKET_OVERHEAD, BUCKET_IDLE)
_ROLE_NAMES = {number: name for name, number in ROLES.items()} | {instant.ROWS: "rows"}
_LEVEL_NAMES = {number: name for name, number in LEVELS.items()}


@dataclass(frozen=True)
class Book:
    """Some machines' series as the sweep reads them, opened once and asked device by device."""

    shard: Shard
    runs: Runs
    policy: Policy


@dataclass(frozen=True)
class Slices:
    """One device in one period.

    ``slices``: one row a slice, in order of time, half-open: ``start_ms``, ``end_ms``, the state (bytes, or -1 where the source
    has none; see ``docs/explain.md``), and what is booked there in byte-ms, whole Python numbers: of the asked holder, of the
    device's own bucket (``bucket_``), of all together (``device_``). ``samples``: one row a slice and series that holds a value
    there: ``slice``, ``role``, ``level``, ``metric``, ``container``, ``sample_ms`` (of the one that holds at its start),
    ``last_ms`` (of the last that holds in it), ``samples`` (how many), ``value_bytes``, ``imputed``.
    """

    slices: pd.DataFrame
    samples: pd.DataFrame


def open_book(samples: pa.Table, nodes: pd.DataFrame, pods: pd.DataFrame, node_keys: list[str], policy: Policy) -> Book:
    """The series of these machines; the arguments are those of ``usage.measure``."""
    found = held(samples, nodes, pods, sorted(set(node_keys)), policy)
    return Book(found.shard, found.runs, policy)


def device_of(book: Book, node_key: str, gpu_uuid: str, gpu_instance: str = "", mig_profile: str = "") -> int:
    """The number of a device, or -1 where no series tells of it."""
    devices, machines = book.shard.devices, book.shard.machines
    machine = devices.machine.map(machines.node_key)
    mine = (machine == node_key) & (devices.gpu_uuid == gpu_uuid) & (devices.gpu_instance == gpu_instance)
    mine &= devices.mig_profile == mig_profile
    return int(np.flatnonzero(mine)[0]) if mine.any() else ABSENT


def configured_bytes(book: Book, device: int) -> tuple[int, int]:
    """The configured and the nameplate memory of the device's GPU, bytes or -1."""
    gpu = int(book.shard.devices.gpu.iloc[device])
    return int(book.shard.topology.configured[gpu]), int(book.shard.topology.nameplate[gpu])


def holder_of(book: Book, device: int, namespace: str, pod: str, pod_uid: str) -> int:
    """The place of a pod among the device's holders, or -1."""
    topology, holders = book.shard.topology, book.shard.holders
    own = topology.device_holders[topology.device_holder_offsets[device] : topology.device_holder_offsets[device + 1]]
    mine = holders.iloc[own]
    found = np.flatnonzero((mine.namespace == namespace) & (mine.pod == pod) & (mine.pod_uid == pod_uid))
    return int(found[0]) if len(found) else ABSENT


def known_ms_of(book: Book, device: int, period: tuple[int, int]) -> int:
    """How much of the period is known of the device, ms (R9)."""
    return int(_known_ms(book.runs, book.shard.topology, device, period))


def slices_of(book: Book, device: int, period: tuple[int, int], capacity_bytes: int, holder: int) -> Slices:
    """What the device shows and books in each slice of ``period`` (ms).

    Args:
        book: the machines' series.
        device: number of the device.
        period: start and end of the whole period, ms; ``capacity_bytes`` is its K.
        capacity_bytes: K.
        holder: place of a pod among the device's holders, or -1 for none.
    """
    topology, runs = book.shard.topology, book.runs
    cuts = _cuts(runs, topology, device, period)
    state = np.full((len(cuts) - 1, len(_STATE)), ABSENT, np.int64)
    booked = np.zeros((len(cuts) - 1, len(_PARTS) * len(_BOOKED), 2), np.int64)
    gpu = int(book.shard.devices.gpu.iloc[device])
    reserve = ABSENT if topology.is_instance[device] else int(topology.reserved[gpu])
    _ask(runs, topology, device, cuts, (capacity_bytes, reserve, holder), terms_of(book.policy).choice, state, booked)
    frame = pd.DataFrame(state, columns=list(_STATE)).assign(start_ms=cuts[:-1], end_ms=cuts[1:])
    for number, name in enumerate(part + column for part in _PARTS for column in _BOOKED):
        frame[name] = booked[:, number, 0].astype(object) * (1 << wide.BITS) + booked[:, number, 1].astype(object)
    frame["basis"] = np.array(["", *BASES], object)[frame.basis.to_numpy(np.int64) + 1]
    return Slices(frame, _samples(book, device, holder, cuts))


def _cuts(runs: Runs, topology: Topology, device: int, period: tuple[int, int]) -> Int64:
    """Where any series of the device changes inside the period, with the period's own ends: the sweep's steps."""
    a = runs.offsets[topology.series_offsets[device]]
    b = runs.offsets[topology.series_offsets[device + 1]]
    changes = np.concatenate((runs.start[a:b], runs.end[a:b]))
    inside = changes[(changes > period[0]) & (changes < period[1])]
    return np.unique(np.concatenate((np.array(period, np.int64), inside)))


@kernel
def _room(topology: Topology, device: int) -> Board:
    """A board with room for all of the device's series and holders."""
    series = topology.series_offsets[device + 1] - topology.series_offsets[device]
    holders = topology.device_holder_offsets[device + 1] - topology.device_holder_offsets[device]
    desk: Board = make_board(series, holders, ACCOUNT_COLUMNS, SUM_COLUMNS)
    return desk


@kernel
def _known_ms(runs: Runs, topology: Topology, device: int, period: tuple[int, int]) -> int:
    first, last = topology.series_offsets[device], topology.series_offsets[device + 1]
    observed, imputed, _, _ = known_time(runs, topology, _room(topology, device), first, last, period)
    known: int = observed + imputed
    return known


@kernel
def _ask(
    runs: Runs, topology: Topology, device: int, cuts: Int64, figures: tuple[int, int, int], choice: Choice, state: Int64,
    booked: Int64,
) -> None:  # fmt: skip
    """State and byte-time of every slice; ``figures`` are K, the configured reserve, and the asked holder."""
    k, reserve, holder = figures
    desk = _room(topology, device)
    for i in range(len(cuts) - 1):
        period = (cuts[i], cuts[i + 1])
        n, seats, _ = open_device(runs, topology, desk, device, period)
        now = sweep_device(runs, desk, n, seats, period, k, reserve, choice)
        seat = _seat_of(desk, seats, holder)
        _tell_time(desk, seat, holder == ABSENT, state[i])
        if state[i, _KNOWN]:
            _tell(desk, now, k, state[i])
            _tell_holder(desk, seats, seat, state[i])
            _book(desk, seat, booked[i])


@kernel
def _seat_of(desk: Board, seats: int, holder: int) -> int:
    """Where the asked holder sits, or ABSENT."""
    for h in range(seats):
        if desk.holders[h, board.LOCAL] == holder:
            return h
    return ABSENT


@kernel
def _tell_time(desk: Board, seat: int, of_device: bool, row: Int64) -> None:
    """Whether the device is known in the slice, and the time observed and imputed: of the device, or of who sits at ``seat``."""
    observed, imputed = desk.sums[OBSERVED_MS], desk.sums[IMPUTED_MS]
    row[_KNOWN], row[_OBSERVED], row[_IMPUTED] = observed + imputed > 0, 0, 0
    if of_device:
        row[_OBSERVED], row[_IMPUTED] = observed, imputed
    elif seat != ABSENT:
        row[_OBSERVED], row[_IMPUTED] = desk.accounts[seat, OBSERVED_AT], desk.accounts[seat, IMPUTED_AT]


@kernel
def _tell(desk: Board, now: State, k: int, row: Int64) -> None:
    """The device's state. Where S is 0 the sweep keeps no X apart from the idle; then X is all of U that has room beside R."""
    row[_U], row[_R], row[_CLAIMED], row[_S] = now.used, now.reserved, now.parts.claimed, now.parts.used
    row[_X] = now.parts.overhead - now.reserved if now.parts.used > 0 else min(max(now.used, 0), k - now.reserved)
    row[_N], row[_WEIGHTS], row[_OTHERS] = desk.tally[board.HOLDERS], now.split.total, desk.tally[board.MEMORY_SUM]
    if row[_N] > 0:
        row[_REPEATED], row[_UNMAPPED] = now.split.repeated, now.split.unmapped


@kernel
def _tell_holder(desk: Board, seats: int, seat: int, row: Int64) -> None:
    """The asked holder's own state, and how sure it is; of all holders the weakest where it is not among them."""
    if seat == ABSENT:
        for h in range(seats):
            row[_BASIS] = max(row[_BASIS], desk.accounts[h, BASIS_AT])
        return
    own = desk.holders[seat]
    row[_M], row[_DECLARED], row[_WEIGHT] = own[board.MEMORY], own[board.ASKED], own[board.WEIGHT]
    row[_OTHERS] -= own[board.MEMORY]
    row[_BASIS] = desk.accounts[seat, BASIS_AT]


@kernel
def _book(desk: Board, seat: int, booked: Int64) -> None:
    """One slice's byte-ms: the holder's, the bucket's (with the idle that the node's holders will share), and of all together."""
    last = len(desk.accounts) - 1
    for kind in range(len(_ACCOUNTS)):
        column, bucket = _ACCOUNTS[kind], _BUCKETS[kind]
        if seat != ABSENT:
            booked[kind, 0], booked[kind, 1] = desk.accounts[seat, column], desk.accounts[seat, column + 1]
        high, low = desk.accounts[last, column], desk.accounts[last, column + 1]
        if bucket != ABSENT:
            booked[3 + kind, 0], booked[3 + kind, 1] = desk.sums[bucket], desk.sums[bucket + 1]
            high, low = wide.add(high, low, desk.sums[bucket], desk.sums[bucket + 1])
        booked[6 + kind, 0], booked[6 + kind, 1] = high, low


def _samples(book: Book, device: int, holder: int, cuts: Int64) -> pd.DataFrame:
    """The samples behind each slice: of the device's own series, and of the asked holder's."""
    topology = book.shard.topology
    first, last = topology.series_offsets[device], topology.series_offsets[device + 1]
    role, local = topology.role[first:last], topology.local[first:last]
    of_holder = np.isin(role, (instant.POD, instant.DECLARED))
    wanted = first + np.flatnonzero(~of_holder | (local == holder))
    tables = [_of_series(book, int(s), cuts) for s in wanted]
    columns = ["slice", "role", "level", "metric", "container", "sample_ms", "last_ms", "value_bytes", "imputed", "samples"]
    if not tables:
        return pd.DataFrame(columns=columns)
    return pd.concat(tables, ignore_index=True)[columns].sort_values("slice", kind="stable", ignore_index=True)


def _of_series(book: Book, s: int, cuts: Int64) -> pd.DataFrame:
    """The sample of one series that holds at the start of each slice where it shows a value, and how many hold one by one."""
    runs, shard = book.runs, book.shard
    a, b = runs.offsets[s], runs.offsets[s + 1]
    p = np.searchsorted(runs.end[a:b], cuts[:-1], side="right")
    known = np.flatnonzero(p < b - a)
    active = known[runs.start[a:b][p[known]] <= cuts[known]]
    p = p[active]
    ts = shard.ts[shard.offsets[s] : shard.offsets[s + 1]]
    place = np.searchsorted(ts, cuts[active], side="right") - 1
    return pd.DataFrame(
        {
            "slice": active,
            "role": _ROLE_NAMES[int(shard.topology.role[s])],
            "level": _LEVEL_NAMES[int(shard.topology.level[s])],
            "metric": shard.series.metric.iloc[s],
            "container": shard.series.container.iloc[s],
            "sample_ms": ts[place],
            "last_ms": ts[np.searchsorted(ts, cuts[1:][active], side="left") - 1],
            "value_bytes": runs.value[a:b][p],
            "imputed": runs.imputed[a:b][p],
            "samples": np.searchsorted(ts, cuts[1:][active], side="left") - place,
        }
    )
