"""Rates that say ``price: gcp-list``: what each machine costs by Google's price list, version by version.

Here belongs which charge a machine gets. What its parts cost stands in ``gcp_machines``, how lines are made in ``rate_lines``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from allocation.errors import AdapterError
from billing_adapters.base import BillOptions
from billing_adapters.gcp_machines import Machine, MachinePrices, NoListPriceError, machine_of, region_of
from billing_adapters.rate_card import Charge


def priced(
    charge: Charge, machines: pd.DataFrame, prices: MachinePrices, day: tuple[int, int], options: BillOptions
) -> Iterator[tuple[Charge, int]]:
    """The charges of these machines, one a price and version that holds in ``day`` (ms); and from when on the price is known.

    Args:
        charge: a charge by list price.
        machines: those that it fits: ``node_key``, ``node``, ``instance_type``, ``gpu_model``, ``gpus``.
        prices: the price list.
        day: start and end of the day, ms.
        options: of the billing entry.

    Raises:
        AdapterError: the list does not say what a machine costs.
    """
    alike: dict[tuple[Machine, str], list[str]] = {}
    for key, node, kind, model, gpus in _facts(machines):
        try:
            machine, region = machine_of(kind, gpus, model), region_of(key)
            prices.of(machine, region)
        except NoListPriceError as error:
            problem = f"the rate {charge.rate!r} is a list price of Google, and of the node {node} {error}"
            remedy = "Give such nodes an `amount`, or narrow `match`."
            raise AdapterError(problem, file=options.path, remedy=remedy) from error
        alike.setdefault((machine, region), []).append(key)
    for (machine, region), keys in alike.items():
        for version in prices.of(machine, region):
            start, end = max(charge.from_ms, version.from_ms, day[0]), min(charge.until_ms, version.until_ms, day[1])
            if start < end:
                nanos = version.hour_nanos
                own = replace(charge, nanos=nanos, list_nanos=nanos, from_ms=start, until_ms=end, only=frozenset(keys))
                yield own, prices.known_from_ms(machine, region)


def _facts(machines: pd.DataFrame) -> Iterable[tuple[str, str, str, str, int | None]]:
    kinds, models = (machines[name].astype("object").fillna("").astype(str) for name in ("instance_type", "gpu_model"))
    gpus: Sequence[int | None] = [None if pd.isna(count) else int(count) for count in machines.gpus]
    return zip(machines.node_key, machines.node, kinds, models, gpus, strict=True)
