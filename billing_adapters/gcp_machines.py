"""What a Google machine costs by the price list: the list prices of its GPUs, cores and memory in its region, over time.

Here belongs of which parts a machine consists and which SKU prices each. How prices are fetched and kept stands in
``gcp_catalog`` and ``gcp_price_cache``.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from allocation.times import milliseconds
from billing_adapters.gcp_price_cache import PriceList

EVER_MS, NEVER_MS = 0, 7_258_118_400_000
PPB = 10**9
_FINE = 1000
"""Amounts are in thousandths of a nano: memory is in thousandths of a GiB, so that each product is whole."""
_N1 = re.compile(r"n1-(standard|highmem|highcpu)-(\d+)")
_N1_MGIB = {"standard": 3750, "highmem": 6500, "highcpu": 900}
"""Thousandths of a GiB for each vCPU."""
_N1_GPUS = ("T4", "V100", "P100", "P4", "K80")
_UNITS = {"gpu": "h", "core": "h", "memory": "GiBy.h"}


class NoListPriceError(Exception):
    """The price list does not say what a machine costs; the text says why."""


class Machine(NamedTuple):
    """The priced parts of a machine. ``gpu``: names of its GPUs' SKU, the first that a region has."""

    series: str
    vcpus: int
    memory_mgib: int
    gpus: int
    gpu: tuple[str, ...]

    def parts(self) -> dict[str, tuple[int, tuple[str, ...]]]:
        """How much of each part (vCPUs and GPUs in thousandths, too), and how its SKU is called."""
        told = {"gpu": (self.gpus * _FINE, self.gpu)}
        if self.series:
            told |= {"core": (self.vcpus * _FINE, (f"{self.series} Instance Core",))}
            told |= {"memory": (self.memory_mgib, (f"{self.series} Instance Ram",))}
        return told


class MachinePrice(NamedTuple):
    """A machine's price in ``[from_ms, until_ms)``, an hour, in thousandths of nanos by part."""

    from_ms: int
    until_ms: int
    gpu: int
    core: int = 0
    memory: int = 0

    @property
    def hour_nanos(self) -> int:
        """The hour in whole nanos, half to even.

        >>> MachinePrice(0, 1, 2_933_908_000_000, 379_332_000_000, 360_145_000_000).hour_nanos
        3673385000
        """
        each, rest = divmod(self.gpu + self.core + self.memory, _FINE)
        return each + (2 * rest > _FINE or (2 * rest == _FINE and each % 2 == 1))

    @property
    def gpu_share_ppb(self) -> int:
        """The GPUs' part of the sum in parts of 10^9, to the nearest one, a half up.

        >>> MachinePrice(0, 1, 2, 1).gpu_share_ppb
        666666667
        """
        whole = self.gpu + self.core + self.memory
        return (2 * self.gpu * PPB + whole) // (2 * whole)


@cache
def _machines() -> Mapping[str, Machine]:
    text = files("billing_adapters").joinpath("data/gcp_machines.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        r["instance_type"]: Machine(
            r["series"], int(r["vcpus"]), int(r["memory_gib"]) * _FINE, int(r["gpus"]), tuple(r["gpu"].split("|"))
        )
        for r in rows
    }


def machine_of(instance_type: str, gpus: int | None = None, models: str = "") -> Machine:
    """The parts of a machine type; of an n1 machine with what is attached to it.

    Args:
        instance_type: Google's machine type.
        gpus: how many GPUs the machine has, which only n1 needs.
        models: the models that labels and series name of them, one a line, which only n1 needs.

    Raises:
        NoListPriceError: the type is not known, or not what is attached.
    """
    known = _machines().get(instance_type)
    if known is not None:
        return known
    match = _N1.fullmatch(instance_type)
    if match is None:
        raise NoListPriceError(f"the parts of the machine type {instance_type!r} are not known")
    attached = {name for name in _N1_GPUS for word in re.split(r"[^A-Za-z0-9]+", models) if word.upper() == name}
    if not gpus or len(attached) != 1:
        raise NoListPriceError(f"which GPUs, and how many, are attached to the {instance_type} is unknown")
    vcpus = int(match[2])
    return Machine("N1 Predefined", vcpus, vcpus * _N1_MGIB[match[1]], gpus, (f"Nvidia Tesla {attached.pop()} GPU",))


def region_of(node_key: str) -> str:
    """The region of a Google machine by its key.

    >>> region_of("gce:project/us-central1-a/node")
    'us-central1'

    Raises:
        NoListPriceError: it is no Google machine.
    """
    match = re.fullmatch(r"gce:[^/]+/([^/]+)-[^/-]+/[^/]+", node_key)
    if match is None:
        raise NoListPriceError("it is no machine of Google: its provider id is not like gce://PROJECT/ZONE/NAME")
    return match[1]


class _Row(NamedTuple):
    name: str
    region: str
    sku_id: str
    unit: str
    nanos: int
    from_ms: int


class _Version(NamedTuple):
    from_ms: int
    nanos: int


class MachinePrices:
    """The on-demand prices of machine parts in a price list, asked machine by machine."""

    def __init__(self, prices: PriceList) -> None:
        self.prices = prices
        self._by_name: dict[tuple[str, str], dict[str, list[_Version]]] = {}
        self._units: dict[str, str] = {}
        told = sha256(prices.currency.encode())
        for row in _parts_in(prices.table):
            told.update(repr(row).encode())
            skus = self._by_name.setdefault((row.name, row.region), {})
            skus.setdefault(row.sku_id, []).append(_Version(row.from_ms, row.nanos))
            self._units[row.sku_id] = row.unit
        self.price_id = told.hexdigest()[:32]
        """A hash of all that can be asked here: the same after a fetch that told nothing new of it."""

    def of(self, machine: Machine, region: str) -> Sequence[MachinePrice]:
        """The machine's price from ever to never, one entry a version, in order of time.

        Before the first known version the first one stands (``known_from_ms`` says from when it is known).

        Raises:
            NoListPriceError: a part has no price there, or two.
        """
        found = {part: self._versions(part, names, region) for part, (_, names) in machine.parts().items()}
        starts = sorted({EVER_MS, *(v.from_ms for versions in found.values() for v in versions[1:])})
        amounts = {part: amount for part, (amount, _) in machine.parts().items()}
        told = []
        for start, end in zip(starts, [*starts[1:], NEVER_MS], strict=True):
            parts = {part: amounts[part] * _at(versions, start) for part, versions in found.items()}
            told.append(MachinePrice(start, end, **parts))
        if not all(price.gpu for price in told):
            raise NoListPriceError(f"its GPUs have a list price of 0 in {region}")
        return told

    def known_from_ms(self, machine: Machine, region: str) -> int:
        """From when on each of the machine's parts has a price that the list knows."""
        return max(self._versions(part, names, region)[0].from_ms for part, (_, names) in machine.parts().items())

    def _versions(self, part: str, names: Sequence[str], region: str) -> list[_Version]:
        skus = next((s for name in names if (s := self._by_name.get((name.lower(), region)))), None)
        if skus is None:
            raise NoListPriceError(f"the price list has no on-demand SKU {' or '.join(map(repr, names))} in {region}")
        first, *others = sorted(skus)
        if any(skus[other] != skus[first] for other in others):
            raise NoListPriceError(f"the SKUs {', '.join(sorted(skus))} price {names[0]!r} in {region} differently")
        if self._units[first] != _UNITS[part]:
            raise NoListPriceError(f"the SKU {first} is priced per {self._units[first]!r}, not per {_UNITS[part]!r}")
        return skus[first]


def _at(versions: Sequence[_Version], moment_ms: int) -> int:
    """The price at a moment; before the first version the first one's."""
    return next((v.nanos for v in reversed(versions) if v.from_ms <= moment_ms), versions[0].nanos)


def _parts_in(table: pa.Table) -> Iterator[_Row]:
    """The rows that price a part of a machine on demand, in the table's order; ``name`` is in lower case.

    Of a SKU with several tiers the one that starts at 0 counts.
    """
    name = pc.utf8_lower(pc.list_element(pc.split_pattern(table["description"], " running in ", max_splits=1), 0))
    wanted = {n.lower() for m in _machines().values() for _, names in m.parts().values() for n in names}
    wanted |= {"n1 predefined instance core", "n1 predefined instance ram", *(f"nvidia tesla {g} gpu".lower() for g in _N1_GPUS)}
    mine = pc.and_(pc.is_in(name, pa.array(sorted(wanted))), pc.equal(table["usage_type"], "OnDemand"))
    mine = pc.and_(mine, pc.equal(table["tier_start"], 0.0))
    rows = table.append_column("name", name).filter(mine)
    told = (rows[name].to_pylist() for name in ("name", "region", "sku_id", "usage_unit", "price_nanos"))
    return map(_Row, *told, milliseconds(rows["effective_from"]).tolist())
