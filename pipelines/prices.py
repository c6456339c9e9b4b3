"""Google's list prices in the walk: the configured list, the GPUs' part of machines by it, and what is to be said of its age.

Here belongs ``policy.gpu_share: from_list_prices``. What a machine's parts cost stands in ``billing_adapters.gcp_machines``.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pandas as pd

from allocation.findings import Code, Finding, Severity
from allocation.policy import FROM_LIST_PRICES, Policy
from billing_adapters.base import PriceOptions
from billing_adapters.gcp_machines import MachinePrice, MachinePrices, NoListPriceError, machine_of, region_of
from billing_adapters.gcp_price_cache import PriceList, price_list
from pipelines.clock import now
from pipelines.settings import Settings, day_start, secret

SUBJECT = "prices"
_UNTOLD = -1


def price_options(settings: Settings) -> PriceOptions:
    """The section ``prices`` as the adapters read it, at this moment."""
    entry = settings.prices
    key = None if entry.api_key is None else secret(entry.api_key, setting="prices.api_key")
    return PriceOptions(str(entry.cache), now(), entry.max_age, entry.currency, entry.endpoint_url, key)


def machine_prices(settings: Settings) -> MachinePrices:
    """The kept list, fetched where it is missing or too old."""
    return MachinePrices(price_list(price_options(settings)))


def with_list_shares(
    periods: pd.DataFrame, nodes: pd.DataFrame, prices: MachinePrices, policy: Policy, day: date
) -> tuple[pd.DataFrame, list[Finding]]:
    """The periods with ``gpu_share_ppb``, where list prices tell it of a machine whose policy asks for it; else -1.

    The price at the period's start counts, whatever comes in it; before the first known price, that one.

    Args:
        periods: ``node_key``, ``start_ms``, ``end_ms``, ``expected_ms``.
        nodes: table ``nodes``, as the method reads it, with ``seen_models``.
        prices: the list.
        policy: the method's choices.
        day: the UTC day.
    """
    share = np.full(len(periods), _UNTOLD, np.int64)
    found, early = list(dated(prices.prices, day)), 0
    begins = periods.start_ms.to_numpy(np.int64)
    rows_of = periods.groupby("node_key").indices
    machines = nodes[nodes.node_key.isin(list(rows_of))].drop_duplicates("node_key").sort_values("node_key")
    for key, name, kind, gpus, models in _facts(machines):
        if policy.share_of(kind) != FROM_LIST_PRICES:
            continue
        rows = rows_of[key]
        try:
            machine, region = machine_of(kind, gpus, models), region_of(key)
            share[rows] = _shares(prices.of(machine, region), begins[rows])
            early += int((begins[rows] < prices.known_from_ms(machine, region)).sum())
        except NoListPriceError as error:
            found.append(_without_price(name, str(error), day))
    if early:
        found.append(before_known(early, "periods", day))
    return periods.assign(gpu_share_ppb=share), found


def _facts(machines: pd.DataFrame) -> Iterator[tuple[str, str, str, int | None, str]]:
    """Of each machine: its key, name, type (empty: unknown), count of GPUs, and all that tells their model."""
    gpus = [None if pd.isna(count) else int(count) for count in machines.gpus]
    types, products, models = (
        machines[name].astype("object").fillna("") for name in ("instance_type", "gpu_product", "seen_models")
    )
    return zip(machines.node_key, machines.node, types, gpus, products + "\n" + models, strict=True)


def _shares(versions: Sequence[MachinePrice], begins: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The GPUs' part at each of these times, in parts of 10^9."""
    starts = np.array([version.from_ms for version in versions])
    told = np.array([version.gpu_share_ppb for version in versions], np.int64)
    shares: npt.NDArray[np.int64] = told[np.searchsorted(starts, begins, side="right") - 1]
    return shares


def _without_price(node: str, reason: str, day: date) -> Finding:
    evidence = (
        f"gpu_share is from_list_prices, and {reason}; all of the machine's cost goes to its GPUs. "
        "Give its type a number in policy.gpu_share"
    )
    return Finding(Code.NO_LIST_PRICE, Severity.WARNING, node, evidence, _period(day))


def dated(prices: PriceList, day: date) -> Iterator[Finding]:
    """A finding where the list is older than it may be and could not be fetched anew."""
    if prices.outdated:
        evidence = f"list prices are those of {prices.fetched_at:%Y-%m-%dT%H:%M:%SZ} ({prices.place}); {prices.outdated}"
        yield Finding(Code.LIST_PRICES_NOT_OF_THE_DAY, Severity.WARNING, SUBJECT, evidence, _period(day))


def before_known(count: int, what: str, day: date) -> Finding:
    """A finding where the first known prices stand for an earlier time."""
    evidence = f"{count} {what} lie before the first price that the list knows; that price stands for them"
    return Finding(Code.LIST_PRICES_NOT_OF_THE_DAY, Severity.WARNING, SUBJECT, evidence, _period(day), count)


def _period(day: date) -> tuple[datetime, datetime]:
    return day_start(day), day_start(day) + timedelta(days=1)
