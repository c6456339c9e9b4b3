"""What one device holds at one instant: the rules of the method that know no time.

K capacity, U used by the device's own account, R reserved by the driver, S the pods' memory, X used by nobody known. A missing
value is ``ABSENT``. Rules R2, R3, R5-R8, R10, R22, R25, R42.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allocation.compiled import kernel

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

USED, FREE, TOTAL, RESERVED, ROWS, POD, DECLARED = range(7)
"""Roles of series. ROWS is the device's value as its pods' rows repeat it, newest first (R2)."""
CONTAINER, DEVICE = 0, 1
"""Levels: a pod's value is its own, or repeats the device's."""
ABSENT = -1
EXCLUSIVE, MEASURED, ESTIMATED_REQUESTS, ESTIMATED_EVEN = range(4)
"""How sure a holder's figure is, the weaker the larger (R28)."""
REPEATED_WITHIN = 50
"""Equal pod values repeat the device's value where they lie within a fiftieth of it (R2)."""


class Series(NamedTuple):
    """The series of one device in one period, with what each shows now. ``local`` is the place of its holder on the device."""

    role: Int64
    level: Int64
    includes_reserved: Bool
    local: Int64
    active: Bool
    value: Int64
    imputed: Bool


class Device(NamedTuple):
    """What the device says of itself: values in bytes or ABSENT; ``rows`` only where no own account is there."""

    used: int
    free: int
    reserved: int
    rows: int
    includes_reserved: bool


class Holders(NamedTuple):
    """Who holds the device: ``who`` (places on the device), their memory and what they declared (or ABSENT), bytes."""

    who: Int64
    memory: Int64
    declared: Int64
    container_level: bool


class Split(NamedTuple):
    """How the memory in use is shared: S bytes by ``weights`` (summing to ``total``), and how sure that is."""

    size: int
    weights: Int64
    total: int
    basis: int
    repeated: bool
    unmapped: bool


@kernel
def device_values(series: Series) -> Device:
    """The device's own series; of several series of one role the largest value."""
    seen = np.full(5, ABSENT, np.int64)
    includes = False
    for j in range(len(series.role)):
        role = series.role[j]
        if series.active[j] and role <= ROWS:
            seen[role] = max(seen[role], series.value[j])
            includes = includes or (role == USED and series.includes_reserved[j])
    return Device(seen[USED], seen[FREE], seen[RESERVED], seen[ROWS], includes)


@kernel
def holders_now(series: Series, holders: int, used: int) -> Holders:
    """Each pod's memory from its containers' series.

    Containers add up, but one value repeated in all of a pod's containers counts once unless all fit into U (R3). A device-level
    row names a holder; where another source measures containers on this device, it has 0 bytes (R25).
    """
    count, total = np.zeros(holders, np.int64), np.zeros(holders, np.int64)
    largest, smallest = np.full(holders, ABSENT, np.int64), np.full(holders, ABSENT, np.int64)
    row, declared = np.full(holders, ABSENT, np.int64), np.full(holders, ABSENT, np.int64)
    for j in range(len(series.role)):
        if not series.active[j]:
            continue
        h, v = series.local[j], series.value[j]
        if series.role[j] == DECLARED:
            declared[h] = max(declared[h], 0) + v
        elif series.role[j] == POD and series.level[j] == DEVICE:
            row[h] = max(row[h], v)
        elif series.role[j] == POD:
            smallest[h] = v if count[h] == 0 else min(smallest[h], v)
            largest[h] = max(largest[h], v)
            count[h] += 1
            total[h] += v
    by_container = bool(np.any(count > 0))
    fits = 0 <= np.sum(total) <= used
    n = 0
    who, memory, wanted = np.empty(holders, np.int64), np.empty(holders, np.int64), np.empty(holders, np.int64)
    for h in range(holders):
        if count[h] == 0 and row[h] == ABSENT:
            continue
        repeats = count[h] > 1 and smallest[h] == largest[h] and not fits
        own = largest[h] if repeats else total[h]
        who[n], wanted[n] = h, declared[h]
        memory[n] = own if count[h] > 0 else 0 if by_container else row[h]
        n += 1
    return Holders(who[:n], memory[:n], wanted[:n], by_container)


@kernel
def used_now(device: Device, reserved: int) -> int:
    """U without the reserve, from the device's own account, else from the newest of its pods' rows (R2, R7)."""
    if device.used == ABSENT:
        return device.rows
    return max(0, device.used - reserved) if device.includes_reserved else device.used


@kernel
def reserved_now(device: Device, capacity: int, configured: int) -> int:
    """R from its series, else what is neither used nor free, else the configured figure, else 0; within [0, K] (R7, R8)."""
    used = device.used if device.used != ABSENT else device.rows
    if device.reserved != ABSENT:
        value = device.reserved
    elif used != ABSENT and device.free != ABSENT and not device.includes_reserved:
        value = capacity - used - device.free
    else:
        value = max(configured, 0)
    return min(max(value, 0), capacity)


@kernel
def split_now(holders: Holders, device: Device, used: int) -> Split:
    """Whether pods' values are measurements or the device's value repeated (R2, R42), and by what they share it."""
    n = len(holders.who)
    total = np.sum(holders.memory)
    own_account = device.used != ABSENT
    one_value = bool(n > 0 and np.all(holders.memory == holders.memory[0]))
    if holders.container_level or own_account:
        same = n > 1 and one_value and total > 0 and own_account
        repeated = same and abs(holders.memory[0] - used) * REPEATED_WITHIN <= used
    else:
        repeated = n > 1 or (n == 1 and used != ABSENT)
    unmapped = n > 0 and not holders.container_level and own_account and total == 0 and used > 0
    if not repeated and not unmapped:
        return Split(total, holders.memory, total, EXCLUSIVE if n == 1 else MEASURED, False, False)
    if np.all(holders.declared != ABSENT) and np.sum(holders.declared) > 0:
        weights, basis = holders.declared, ESTIMATED_REQUESTS
    else:
        weights, basis = np.ones(n, np.int64), ESTIMATED_EVEN
    size = used if used != ABSENT else np.max(holders.memory)
    return Split(size, weights, np.sum(weights), EXCLUSIVE if n == 1 else basis, repeated and n > 1, unmapped)
