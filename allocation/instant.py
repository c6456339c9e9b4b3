"""What one device holds at one instant: the rules of the method that know no time.

K capacity, U used by the device's own account, R reserved by the driver, S the pods' memory, X used by nobody known. A missing
value is ``ABSENT``. Rules R2, R3, R5-R8, R10, R22, R25, R28, R42.
"""

from typing import NamedTuple

from allocation.compiled import inner

USED, FREE, TOTAL, RESERVED, ROWS, POD, DECLARED = range(7)
"""Roles of series. ROWS is the device's value as its pods' rows repeat it, newest first (R2)."""
CONTAINER, DEVICE, INFERRED_LEVEL = range(3)
"""Levels: a pod's value is its own, or repeats the device's, or only the inventory says that the pod holds the device."""
ABSENT = -1
EXCLUSIVE, MEASURED, ESTIMATED_REQUESTS, ESTIMATED_EVEN, INFERRED = range(5)
"""How sure a holder's figure is, the weaker the larger (R28)."""
BY_MEMORY, BY_DECLARED, EVENLY = range(3)
"""By what the holders share the memory in use."""
REPEATED_WITHIN = 50
"""Equal pod values repeat the device's value where they lie within a fiftieth of it (R2)."""
UNSIZED = 1 << 52
"""The capacity where nothing tells it yet: larger than any."""


class Device(NamedTuple):
    """What the device says of itself: values in bytes or ABSENT; ``rows`` only counts where no own account is there."""

    used: int
    free: int
    reserved: int
    rows: int
    includes_reserved: bool


class Crowd(NamedTuple):
    """What the holders of an instant are together.

    How many, how many of them a source measures per container, how many any source names (the others are inferred), how many
    declared what they want; and in bytes: their memory, the one value that all of them show (or ABSENT), the largest, the sum of
    what they declared.
    """

    holders: int
    measured: int
    named: int
    declaring: int
    memory: int
    one_value: int
    largest: int
    declared: int


class Split(NamedTuple):
    """How the memory in use is shared: S bytes, by what, the sum of the weights, how sure, and what findings tell."""

    size: int
    by: int
    total: int
    basis: int
    repeated: bool
    unmapped: bool


class Parts(NamedTuple):
    """K at an instant in its parts, bytes: used, overhead and idle; ``claimed`` is S before it was cut to what is there."""

    claimed: int
    used: int
    overhead: int
    idle: int


@inner
def reserved_now(device: Device, capacity: int, configured: int) -> int:
    """R from its series, else what is neither used nor free, else the configured figure, else 0; within [0, K] (R7, R8)."""
    used = device.used if device.used != ABSENT else device.rows
    if device.reserved != ABSENT:
        value = device.reserved
    elif used != ABSENT and device.free != ABSENT and not device.includes_reserved and capacity != UNSIZED:
        value = capacity - used - device.free
    else:
        value = max(configured, 0)
    return min(max(value, 0), capacity)


@inner
def used_now(device: Device, reserved: int) -> int:
    """U without the reserve, from the device's own account, else from the newest of its pods' rows (R2, R7)."""
    if device.used == ABSENT:
        return device.rows
    return max(0, device.used - reserved) if device.includes_reserved else device.used


@inner
def memory_of(containers: int, own: int, twin: int, row: int, by_container: bool, fits: bool) -> int:
    """A holder's memory, bytes.

    Its ``containers`` add up to ``own``, but one value ``twin`` that all of them repeat counts once unless all pods' containers
    fit into U (R3). A device-level ``row`` names a holder; where another source measures containers on this device, it has 0
    bytes (R25).
    """
    if containers == 0:
        return 0 if by_container else max(row, 0)
    return twin if twin != ABSENT and not fits else own


@inner
def split_now(crowd: Crowd, device: Device, used: int) -> Split:
    """Whether pods' values are measurements or the device's value repeated (R2, R42), and by what they share it.

    Who is only inferred holds 0 bytes of its own, so that a device in use is shared as where the mapping is broken, without
    telling that it is.
    """
    n = crowd.holders
    own_account = device.used != ABSENT
    if crowd.measured > 0 or own_account:
        same = n > 1 and own_account and crowd.one_value > 0
        repeated = same and abs(crowd.one_value - used) * REPEATED_WITHIN <= used
    else:
        repeated = n > 1 or (n == 1 and used != ABSENT)
    unmapped = n > 0 and crowd.measured == 0 and own_account and crowd.memory == 0 and used > 0
    if not repeated and not unmapped:
        return Split(crowd.memory, BY_MEMORY, crowd.memory, EXCLUSIVE if n == 1 else MEASURED, False, False)
    size = used if used != ABSENT else crowd.largest
    by, total, basis = EVENLY, n, ESTIMATED_EVEN
    if crowd.declaring == n and crowd.declared > 0:
        by, total, basis = BY_DECLARED, crowd.declared, ESTIMATED_REQUESTS
    named = crowd.named > 0
    return Split(size, by, total, EXCLUSIVE if n == 1 else basis, repeated and n > 1 and named, unmapped and named)


@inner
def parts_now(split: Split, used: int, reserved: int, capacity: int) -> Parts:
    """K in its parts: S cut to K - R, O = R + X where S > 0, and the rest idle (R10, R22)."""
    size = min(split.size, capacity - reserved)
    unexplained = min(max(used - size, 0), capacity - reserved - size) if used != ABSENT else 0
    overhead = reserved + unexplained if size > 0 else 0
    return Parts(split.size, size, overhead, capacity - size - overhead)
