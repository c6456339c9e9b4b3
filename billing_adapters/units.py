"""What a unit of a bill says: whether its last factor is a time, and whether it is plainly hours (R14, R16)."""

import pyarrow as pa
import pyarrow.compute as pc

from billing_adapters.lines import one_of, sure

_TIME = r"(?i)(^|[\s*.-])(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|hours?|hrs?|h|days?)$"
_HOURS = ("hours", "hour", "hrs", "hr", "h")
_PART_OF_MACHINE = r"(?i)\b(v?gpus?|v?cpus?|v?cores?|ocpus?|ram|memory)\b"


def ends_in_time(units: pa.Array) -> pa.Array:
    """Where the last factor is a time: ``Hours``, ``GiB-hours``, ``GB Hours``; not ``GB-Mo``, not ``Requests/Second``.

    >>> ends_in_time(pa.array(["vCPU-hours", "GB-Months", "GB/Hour", "Hrs", None])).to_pylist()
    [True, False, False, True, False]
    """
    return sure(pc.match_substring_regex(units, _TIME))


def plain_hours(units: pa.Array) -> pa.Array:
    """Where the unit is hours and nothing else."""
    return one_of(units, _HOURS)


def names_part_of_machine(texts: pa.Array) -> pa.Array:
    """Where a text speaks of accelerators, cores or memory: such hours are not hours of the machine."""
    return sure(pc.match_substring_regex(texts, _PART_OF_MACHINE))
