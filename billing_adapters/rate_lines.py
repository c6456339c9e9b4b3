"""The lines of a rate card on one UTC day: one a machine, part and clock hour, while the machine exists, used or not.

Here belongs which machine is charged for how long. What an hour costs stands in ``rate_card``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from allocation.errors import AdapterError
from allocation.money import LARGEST_NANOS, NO_RESIDUE
from allocation.schemas import LINE_ITEMS, RESIDUE, TEXT, conform
from allocation.times import DAY_MS, HOUR_MS, from_ms, time_column
from billing_adapters.base import BillOptions
from billing_adapters.gcp_machines import MachinePrices
from billing_adapters.rate_card import WHOLE, Charge, RateCard
from billing_adapters.rate_prices import priced
from billing_adapters.row_ids import text_hashes

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_OF_MACHINE = ("node_key", "node_id", "instance_type")


@dataclass(frozen=True)
class DayOfCard:
    """A card's lines of a day (``line_items``), and the rates that were valid then and fit no machine.

    ``early``: rates by list price whose first known price stands for a time before it.
    """

    lines: pa.Table
    unused: tuple[str, ...]
    early: tuple[str, ...] = ()


def card_lines(
    card: RateCard,
    charges: Sequence[Charge],
    stays: pd.DataFrame,
    day_ms: int,
    options: BillOptions,
    delivery: tuple[str, str],
    prices: MachinePrices | None = None,
) -> DayOfCard:
    """All lines of a card on one day.

    Args:
        card: the card.
        charges: its charges.
        stays: one row a machine and stay: ``node_key``, ``node``, ``node_id``, ``instance_type``, ``gpu_model`` (all
            that are told, one a line), ``gpus`` (NaN: unknown), ``cluster``, ``alive_from_ms``, ``alive_until_ms`` (half-open).
        day_ms: UTC midnight that starts the day.
        options: of the billing entry.
        delivery: its fingerprint, and the card's file.
        prices: Google's list prices, where a charge is by them.

    Raises:
        AdapterError: two rates claim one machine and part at one time, or the number of a machine's GPUs is needed and unknown.
    """
    stays = _apart(stays, day_ms)
    machines = stays.drop_duplicates("node_key", ignore_index=True)
    charges, early = _by_list(charges, machines, day_ms, options, prices)
    fits = [_fits(machines, charge) for charge in charges]
    live = [(c, f) for c, f in zip(charges, fits, strict=True) if c.from_ms < day_ms + DAY_MS and c.until_ms > day_ms]
    _refuse_overlaps(live, machines, stays, options)
    whole = _alive(stays, day_ms, day_ms, day_ms + DAY_MS)
    rows = [_rows(charge, machines[fit], stays, whole, day_ms, options) for charge, fit in live if fit.any()]
    unused = sorted({c.rate for c, _ in live} - {c.rate for c, fit in live if fit.any()})
    found = _once(pd.concat([r for r in rows if len(r)], ignore_index=True)) if any(map(len, rows)) else None
    return DayOfCard(LINE_ITEMS.empty() if found is None else _table(found, card, options, delivery), tuple(unused), early)


def _by_list(
    charges: Sequence[Charge], machines: pd.DataFrame, day_ms: int, options: BillOptions, prices: MachinePrices | None
) -> tuple[list[Charge], tuple[str, ...]]:
    """The charges, those by list price told machine by machine; and the rates of which a price is not known from the start."""
    told, early = [], set()
    for charge in charges:
        fits = _fits(machines, charge) if charge.by_list and prices is not None else np.zeros(len(machines), np.bool_)
        own = list(priced(charge, machines[fits], prices, (day_ms, day_ms + DAY_MS), options)) if prices and fits.any() else []
        told += [one for one, _ in own] or [charge]
        early |= {one.rate for one, known_ms in own if one.from_ms < known_ms}
    return told, tuple(sorted(early))


def _once(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a machine, hour and part: where a list price changes inside an hour, its stretches are one line."""
    key = ["rate", "part", "node_key", "hour_ms"]
    if not rows.duplicated(key).any():
        return rows
    sums = dict.fromkeys(("ms", "nanos", "list_nanos"), "sum")
    others = {name: "first" for name in rows.columns if name not in (*key, *sums)}
    return rows.groupby(key, as_index=False, sort=False).agg({**sums, **others})


def _apart(stays: pd.DataFrame, day_ms: int) -> pd.DataFrame:
    """The stays that touch the day, cut to it; times of one machine under several names count once."""
    start, end = stays.alive_from_ms.clip(lower=day_ms), stays.alive_until_ms.clip(upper=day_ms + DAY_MS)
    cut = stays.assign(alive_from_ms=start, alive_until_ms=end).sort_values(["node_key", "alive_from_ms"])
    before = cut.groupby("node_key").alive_until_ms.cummax().groupby(cut.node_key).shift().fillna(0).astype("int64")
    cut["alive_from_ms"] = np.maximum(cut.alive_from_ms, before)
    return cut[cut.alive_from_ms < cut.alive_until_ms].reset_index(drop=True)


def _fits(machines: pd.DataFrame, charge: Charge) -> Bools:
    names = {"provider_id": "node_id"}
    fits = np.ones(len(machines), np.bool_)
    if charge.only is not None:
        fits &= machines.node_key.isin(charge.only).to_numpy(np.bool_)
    if charge.cluster is not None:
        fits &= (machines.cluster == charge.cluster).to_numpy(np.bool_)
    for field, pattern in charge.match.items():
        told = machines[names.get(field, field)].astype("object").fillna("").astype(str)
        wanted = re.compile(translate(pattern), re.IGNORECASE)
        if field == "gpu_model":
            one_fits = {text: any(map(wanted.fullmatch, text.split("\n"))) for text in told.unique()}
            fits &= told.map(one_fits).to_numpy(np.bool_)
        else:
            fits &= told.str.fullmatch(wanted).to_numpy(np.bool_)
    return fits


def _alive(stays: pd.DataFrame, day_ms: int, from_ms_: int, until_ms: int) -> pd.DataFrame:
    """``node_key``, ``hour_ms`` and ``ms``: how long each machine lived in each clock hour of ``[from_ms_, until_ms)``."""
    hours = day_ms + HOUR_MS * np.arange(DAY_MS // HOUR_MS, dtype=np.int64)
    start = np.maximum(stays.alive_from_ms.to_numpy(np.int64), from_ms_)[:, None]
    end = np.minimum(stays.alive_until_ms.to_numpy(np.int64), until_ms)[:, None]
    ms = np.minimum(end, hours + HOUR_MS) - np.maximum(start, hours)
    row, hour = np.nonzero(ms > 0)
    table = pd.DataFrame({"node_key": stays.node_key.to_numpy()[row], "hour_ms": hours[hour], "ms": ms[row, hour]})
    return table.groupby(["node_key", "hour_ms"], as_index=False).ms.sum()


def _refuse_overlaps(
    live: Sequence[tuple[Charge, Bools]], machines: pd.DataFrame, stays: pd.DataFrame, options: BillOptions
) -> None:
    """Two rates for one part of a machine at one time; a rate of one amount is the whole price and allows none beside it."""
    for (one, fits), (other, too) in combinations(live, 2):
        first, last = max(one.from_ms, other.from_ms), min(one.until_ms, other.until_ms)
        alike = one.rate != other.rate and (one.part == other.part or WHOLE in (one.part, other.part))
        if not alike or first >= last or not (fits & too).any():
            continue
        there = stays[stays.node_key.isin(machines.node_key[fits & too])]
        there = there[(there.alive_from_ms < last) & (there.alive_until_ms > first)]
        if len(there):
            problem = (
                f"the rates {one.rate!r} ({one.part}) and {other.rate!r} ({other.part}) both price the node {there.node.iloc[0]} "
                f"from {from_ms(max(first, int(there.alive_from_ms.iloc[0]))):%Y-%m-%dT%H:%M:%SZ} on"
            )
            raise AdapterError(problem, file=options.path, remedy="Narrow `match`, or end one (`until`) where the other begins.")


def _rows(
    charge: Charge, machines: pd.DataFrame, stays: pd.DataFrame, whole: pd.DataFrame, day_ms: int, options: BillOptions
) -> pd.DataFrame:
    """One row a machine and hour of one charge, with its money."""
    times = _alive(stays[stays.node_key.isin(machines.node_key)], day_ms, charge.from_ms, charge.until_ms)
    rows = times.merge(whole.rename(columns={"ms": "machine_ms"}), on=["node_key", "hour_ms"])
    rows = rows.merge(machines[[*_OF_MACHINE, "node", "gpus"]], on="node_key")
    count = np.ones(len(rows), np.int64)
    if charge.per == "gpu-hour":
        unknown = rows[rows.gpus.isna()]
        if len(unknown):
            problem = f"the rate {charge.rate!r} is per gpu-hour, but how many GPUs has the node {unknown.node.iloc[0]}?"
            raise AdapterError(
                problem, file=options.path, remedy="Say `gpus` in clusters[].nodes, or its type in instance_types."
            )
        rows = rows[rows.gpus > 0].reset_index(drop=True)
        count = rows.gpus.to_numpy(np.int64)
    hours = rows.hour_ms.to_numpy(np.int64)
    for column, nanos in (("nanos", charge.nanos), ("list_nanos", charge.list_nanos or 0)):
        if len(rows) and nanos * int(count.max(initial=1)) > LARGEST_NANOS:
            raise AdapterError(f"the rate {charge.rate!r} is too large for one line", file=options.path, remedy="Correct it.")
        rows[column] = part_of_hour(charge.hourly(hours, nanos) * count, rows.ms.to_numpy(np.int64))
    return rows.assign(rate=charge.rate, part=charge.part, row=charge.row)


def part_of_hour(nanos: Int64, alive_ms: Int64) -> Int64:
    """What ``alive_ms`` of an hour cost where the whole hour costs ``nanos``.

    The hour is split into its two parts, there and not there, by largest remainder; at a tie the nano is the machine's.
    """
    each, rest = np.divmod(nanos, HOUR_MS)
    return each * alive_ms + (2 * rest * alive_ms + HOUR_MS) // (2 * HOUR_MS)


def _table(rows: pd.DataFrame, card: RateCard, options: BillOptions, delivery: tuple[str, str]) -> pa.Table:
    """The rows as ``line_items``, under each cost metric."""
    rows = rows.sort_values(["hour_ms", "node_key", "row", "part"], ignore_index=True)
    count, hours = len(rows), rows.hour_ms.to_numpy(np.int64)
    month = hours.astype("datetime64[ms]").astype("datetime64[M]").astype("datetime64[D]")
    same = {
        "source_id": options.source_id, "delivery_id": delivery[0], "source_file": delivery[1], "provider": card.provider,
        "billing_account": card.billing_account, "charge_category": "Usage", "usage_unit": "Hours", "currency": card.currency,
    }  # fmt: skip
    columns: dict[str, pa.Array] = {name: pa.repeat(pa.scalar(value, TEXT), count) for name, value in same.items()}
    texts = {"resource_id": "node_id", "node_key": "node_key", "instance_type": "instance_type", "line_type": "part"}
    columns |= {name: pa.array(rows[of].astype("object"), TEXT, from_pandas=True) for name, of in texts.items()}
    columns |= {
        "source_row": pa.array(rows.row.to_numpy(np.int64)),
        "line_item_id": _ids(rows, options.source_id),
        "billing_period": pa.array(month),
        "charge_period_start": time_column(hours),
        "charge_period_end": time_column(hours + HOUR_MS),
        "is_correction": pa.repeat(pa.scalar(False), count),
        "usage_type": pa.array(rows.rate.astype("object"), TEXT),
        "usage_quantity": pa.array(rows.ms.to_numpy(np.float64) / HOUR_MS),
        "machine_ms": pa.array(rows.machine_ms.to_numpy(np.int64)),
        "cost_residue": pa.repeat(NO_RESIDUE, count).cast(RESIDUE),
    }
    columns |= {c.name: pa.nulls(count, c.type) for c in LINE_ITEMS.columns if c.nullable and c.name not in columns}
    tables = []
    for metric in options.costs:
        nanos = rows["list_nanos" if metric == "list" else "nanos"].to_numpy(np.int64)
        money = {"cost_metric": pa.repeat(pa.scalar(metric, TEXT), count), "cost_nanos": pa.array(nanos)}
        tables.append(conform(pa.table({**columns, **money}), LINE_ITEMS, source=options.path))
    return pa.concat_tables(tables)


def _ids(rows: pd.DataFrame, source: str) -> pa.Array:
    """Stable ids: a hash of the entry, the rate, its part, the machine and the hour, whatever these cost."""
    parts = [rows[c].astype("object").astype(str) for c in ("rate", "part", "node_key", "hour_ms")]
    return text_hashes(pa.array(source + "\x1f" + parts[0].str.cat(parts[1:], sep="\x1f"), TEXT)).texts()
