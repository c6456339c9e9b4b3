"""The values of the configuration: texts as people write them into whole numbers with units, and what is refused.

Each type here is read by ``settings``; a ``ValueError`` becomes one line that names the key.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from allocation.errors import nearest
from allocation.owner_values import KEYED_SOURCES, PLAIN_SOURCES
from allocation.owners import MAPPING
from allocation.policy import BY_SKU, FROM_LIST_PRICES
from allocation.schemas import BILL_CLUSTER
from allocation.times import DAY_MS, HOUR_MS

LONGEST_MS = 31 * DAY_MS
MOST_BYTES = 2**50
SMALLEST_DEVICE_BYTES = 2**27
HEAVIEST = 1000
DEFAULT_TYPE = "default"
"""In a table per instance type: of all types that it does not name."""
SHARE_WORDS = {"by_sku": BY_SKU, "from_list_prices": FROM_LIST_PRICES}
"""What may stand in place of a share of the GPUs."""
_KEYED = tuple(f"{kind}:KEY" for kind in KEYED_SOURCES)
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": HOUR_MS, "d": DAY_MS}
_UNITS_BYTES = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}


def parse_duration_ms(value: object) -> int:
    """A duration as written in Prometheus, in milliseconds.

    >>> parse_duration_ms("1h30m")
    5400000
    """
    text = str(value).strip()
    if not re.fullmatch(r"(\d+(ms|s|m|h|d))+", text):
        raise ValueError(f"{value!r} is no duration; write it like 30s, 2m or 1h30m")
    total = sum(int(n) * _UNITS_MS[u] for n, u in re.findall(r"(\d+)(ms|s|m|h|d)", text))
    if not 0 < total <= LONGEST_MS:
        raise ValueError(f"{value!r} is no duration between 1ms and 31d")
    return total


def parse_bytes(value: object) -> int:
    """An amount of memory in bytes.

    >>> parse_bytes("40GiB")
    42949672960
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)", str(value).strip())
    if match is None and re.fullmatch(r"\d+(\.\d+)?", str(value).strip()):
        raise ValueError(f"{value!r} has no unit; write it like {value}GiB or {value}MiB")
    amount = Decimal(match[1]) * _UNITS_BYTES[match[2]] if match else None
    if amount is None or amount != int(amount):
        raise ValueError(f"{value!r} is no whole amount of memory; write it like 40GiB or 600MiB")
    if amount >= MOST_BYTES:
        raise ValueError(f"{value!r} is more memory than a device can have")
    return int(amount)


def _device_bytes(value: object) -> int:
    amount = parse_bytes(value)
    if amount < SMALLEST_DEVICE_BYTES:
        raise ValueError(f"{value!r} is less memory than a device has; write it like 80GiB")
    return amount


class GpuShares(NamedTuple):
    """The GPUs' part of a machine's price, in parts of 10^9 or one of ``SHARE_WORDS``' values.

    ``by_type``: by instance type or pattern, in the file's order.
    """

    default_ppb: int
    by_type: tuple[tuple[str, int], ...] = ()


def _gpu_shares(value: object) -> GpuShares:
    """One share for all machines, or a table by instance type."""
    if isinstance(value, GpuShares):
        return value
    if not isinstance(value, Mapping):
        return GpuShares(_share_ppb(value))
    if not value or not all(isinstance(name, str) and name.strip() for name in value):
        raise ValueError("a table of shares has instance types as its keys, for example {p5.48xlarge: 0.9, default: 1.0}")
    shares = {}
    for name, share in value.items():
        try:
            shares[name] = _share_ppb(share)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    default = shares.pop(DEFAULT_TYPE, 10**9)
    return GpuShares(default, tuple(shares.items()))


def _share_ppb(value: object) -> int:
    if isinstance(value, str) and value.strip() in SHARE_WORDS:
        return SHARE_WORDS[value.strip()]
    try:
        share = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is no share; write a number above 0, up to 1, or {' or '.join(SHARE_WORDS)}") from None
    if not share.is_finite() or not 0 < share <= 1 or share * 10**9 != int(share * 10**9):
        raise ValueError(f"{value!r} is no share above 0, up to 1, with at most nine decimals")
    return int(share * 10**9)


def parse_instant(value: object) -> datetime:
    """A moment in UTC; a date is its midnight."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    moment = datetime.fromisoformat(str(value))
    return parse_instant(moment)


def _cluster_name(value: str) -> str:
    if value == BILL_CLUSTER:
        raise ValueError(f"{BILL_CLUSTER!r} is reserved for lines of no cluster; choose another name")
    if not value:
        raise ValueError("a cluster needs a name")
    return value


def is_match_key(value: str) -> bool:
    """Whether a holder can be matched by this source."""
    kind, _, key = value.partition(":")
    return value in PLAIN_SOURCES or (kind in KEYED_SOURCES and bool(key))


def _match_key(value: str) -> str:
    if not is_match_key(value):
        raise ValueError(f"{value!r} names no owner; {nearest(value, (*PLAIN_SOURCES, *_KEYED))}")
    return value


def _owner_source(value: str) -> str:
    if value != MAPPING and not is_match_key(value):
        raise ValueError(f"{value!r} names no owner; {nearest(value, (*PLAIN_SOURCES, *_KEYED, MAPPING))}")
    return value


def _weight_ppm(value: object) -> int:
    try:
        weight = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is no weight; write a number from 0 to {HEAVIEST}") from None
    if not weight.is_finite() or not 0 <= weight <= HEAVIEST or weight * 10**6 != int(weight * 10**6):
        raise ValueError(f"{value!r} is no weight from 0 to {HEAVIEST} with at most six decimals")
    return int(weight * 10**6)


def _url(value: str | None) -> str | None:
    if value is not None and not _has_host(value):
        raise ValueError(f"{value!r} is no URL; write it like http://prometheus.monitoring:9090")
    return value


def _has_host(value: str) -> bool:
    try:
        return bool(urlsplit(value).hostname) and value.startswith(("http://", "https://"))
    except ValueError:
        return False


OwnerSource = Annotated[str, AfterValidator(_owner_source)]
MatchKey = Annotated[str, AfterValidator(_match_key)]
WeightPpm = Annotated[int, BeforeValidator(_weight_ppm)]
DurationMs = Annotated[int, BeforeValidator(parse_duration_ms)]
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
DeviceBytes = Annotated[int, BeforeValidator(_device_bytes)]
Instant = Annotated[datetime, BeforeValidator(parse_instant)]
ClusterName = Annotated[str, AfterValidator(_cluster_name)]
ServerUrl = Annotated[str | None, AfterValidator(_url)]
GpuShare = Annotated[GpuShares, BeforeValidator(_gpu_shares)]
