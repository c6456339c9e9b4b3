"""The compiled pass over one shard's events that says which lost pod must hold which free device (see ``inferred``)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation.compiled import kernel

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

MACHINE, TIME, KIND, WHO, CHANGE = range(5)
"""Columns of an event."""
KNOWN, HELD, NAMED, LIVES = range(4)
"""Kinds of events: of a device, of a device, of a pod's name, of a pod."""


class Kinds(NamedTuple):
    """Kind and GPU of each device, its GPU's whole card, and what each machine must have: GPUs and replicas of each."""

    of_device: Int64
    gpu: Int64
    whole: Int64
    gpu_offsets: Int64
    device_offsets: Int64
    gpus: Int64
    replicas: Int64


class Wanting(NamedTuple):
    """Pods that asked for devices: the kind, how many, the number of their name, and whether devices are shared out in parts."""

    kind: Int64
    request: Int64
    name: Int64
    shared: Bool


class State(NamedTuple):
    """How many series make each device known and held, and name each pod; which pods live. In order of the kinds."""

    known: Int64
    held: Int64
    named: Int64
    lives: Int64


@kernel
def _partitioned(state: State, kinds: Kinds, device: int) -> bool:
    """A whole card of which an instance is known now is no device."""
    if kinds.whole[device] != device:
        return False
    gpu = kinds.gpu[device]
    return bool(np.any(state.known[device + 1 : kinds.device_offsets[gpu + 1]] > 0))


@kernel
def _all_known(state: State, kinds: Kinds, machine: int) -> bool:
    """Every GPU that must exist shows something."""
    n = 0
    for gpu in range(kinds.gpu_offsets[machine], kinds.gpu_offsets[machine + 1]):
        n += bool(np.any(state.known[kinds.device_offsets[gpu] : kinds.device_offsets[gpu + 1]] > 0))
    return bool(n >= kinds.gpus[machine])


@kernel
def _devices(state: State, kinds: Kinds, machine: int, kind: int) -> tuple[int, Int64]:
    """How many devices of the kind are known, and which of them are free."""
    first = kinds.device_offsets[kinds.gpu_offsets[machine]]
    last = kinds.device_offsets[kinds.gpu_offsets[machine + 1]]
    free = np.empty(last - first, np.int64)
    known, n = 0, 0
    for device in range(first, last):
        if kinds.of_device[device] != kind or state.known[device] == 0 or _partitioned(state, kinds, device):
            continue
        known += 1
        if state.held[device] == 0:
            free[n] = device
            n += 1
    return known, free[:n]


@kernel
def _only_way(state: State, kinds: Kinds, wanting: Wanting, machine: int, lost: Int64) -> Int64:
    """The free devices that the lost pods of one kind must hold, or none."""
    free: Int64
    known, free = _devices(state, kinds, machine, wanting.kind[lost[0]])
    total, shared = 0, False
    for pod in lost:
        total += wanting.request[pod]
        shared = shared or wanting.shared[pod]
    alone = len(lost) == 1 and not shared and total == len(free)
    one_each = shared or total == len(lost)
    on_one = known == 1 and len(free) == 1 and one_each and total <= kinds.replicas[machine]
    return free if alone or on_one else np.empty(0, np.int64)


@kernel
def _book(
    state: State, kinds: Kinds, wanting: Wanting, machine: int, pods: tuple[int, int], span: tuple[int, int], last: Int64,
    found: list[tuple[int, int, int, int]],
) -> None:  # fmt: skip
    """Adds who must hold what from one event of the machine to the next."""
    lost = np.empty(pods[1] - pods[0], np.int64)
    n = 0
    for pod in range(pods[0], pods[1]):
        if state.lives[pod] > 0 and state.named[wanting.name[pod]] == 0:
            lost[n] = pod
            n += 1
    if n == 0 or not _all_known(state, kinds, machine):
        return
    lost = lost[:n]
    first = kinds.device_offsets[kinds.gpu_offsets[machine]]
    for kind in np.unique(wanting.kind[lost]):
        of_kind = lost[wanting.kind[lost] == kind]
        for device in _only_way(state, kinds, wanting, machine, of_kind):
            for pod in of_kind:
                k = last[pod - pods[0], device - first]
                if k >= 0 and found[k][3] == span[0]:
                    found[k] = (pod, device, found[k][2], span[1])
                else:
                    last[pod - pods[0], device - first] = len(found)
                    found.append((pod, device, span[0], span[1]))


@kernel
def losses(events: Int64, kinds: Kinds, wanting: Wanting, pod_offsets: Int64, names: int) -> Int64:
    """Rows (pod, device, start, end) of the lost pods.

    Args:
        events: rows in the order of machine and time.
        kinds: the devices.
        wanting: the pods, those of one machine together.
        pod_offsets: machine m has the pods ``pod_offsets[m]:pod_offsets[m+1]``.
        names: how many names the pods have.
    """
    size = len(kinds.of_device)
    state = State(
        np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(names, np.int64), np.zeros(len(wanting.kind), np.int64)
    )
    found = [(0, 0, 0, 0)]
    last = np.empty((0, 0), np.int64)
    for i in range(len(events)):
        machine = events[i, MACHINE]
        if i == 0 or events[i - 1, MACHINE] != machine:
            g0, g1 = kinds.gpu_offsets[machine], kinds.gpu_offsets[machine + 1]
            room = (pod_offsets[machine + 1] - pod_offsets[machine], kinds.device_offsets[g1] - kinds.device_offsets[g0])
            last = np.full(room, -1, np.int64)
        state[events[i, KIND]][events[i, WHO]] += events[i, CHANGE]
        if i + 1 < len(events) and events[i + 1, MACHINE] == machine and events[i + 1, TIME] > events[i, TIME]:
            span = (events[i, TIME], events[i + 1, TIME])
            _book(state, kinds, wanting, machine, (pod_offsets[machine], pod_offsets[machine + 1]), span, last, found)
    rows = np.empty((len(found) - 1, 4), np.int64)
    for k in range(len(rows)):
        rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3] = found[k + 1]
    return rows
