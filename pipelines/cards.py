"""Rate cards in the walk: their lines of a day, from the nodes that are known then; computed anew each time and never kept.

Here belongs what binds cards to the nodes. What a card says stands in ``billing_adapters.rate_card``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import pandas as pd
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.schemas import LINE_ITEMS
from allocation.times import to_ms
from billing_adapters.rate_files import RateCardBill
from billing_adapters.rate_lines import card_lines
from pipelines.billing_entries import RATE_CARD
from pipelines.bills import Bill, discover, options_of
from pipelines.prices import before_known, dated
from pipelines.settings import Settings, day_start


@dataclass(frozen=True)
class CardDay:
    """The lines of all cards on a day, and what was noticed."""

    lines: pa.Table
    findings: tuple[Finding, ...]


def cards_of(bills: Sequence[Bill]) -> tuple[Bill, ...]:
    """Those bills that are rate cards."""
    return tuple(bill for bill in bills if isinstance(bill.source, RateCardBill))


def card_names(settings: Settings) -> set[str]:
    """The names of the billing entries that are rate cards."""
    return {options_of(entry, n).source_id for n, entry in enumerate(settings.billing) if entry.kind == RATE_CARD}


def lines_of_cards(bills: Sequence[Bill], nodes: Mapping[str, pd.DataFrame], day: date) -> CardDay:
    """The lines of these cards on a day.

    Args:
        bills: rate cards; others are left aside.
        nodes: the table ``nodes`` of each cluster, as ``nodes_frame`` gives it.
        day: the UTC day.
    """
    stays = stays_of(nodes)
    tables = [LINE_ITEMS.empty()]
    found: list[Finding] = []
    period = (day_start(day), day_start(day) + timedelta(days=1))
    for bill in bills:
        if not isinstance(bill.source, RateCardBill):
            continue
        card, charges = bill.source.card(bill.delivery)
        origin = (bill.delivery.delivery_id, bill.delivery.files[0])
        prices = bill.source.prices if any(charge.by_list for charge in charges) else None
        lines = card_lines(card, charges, stays, to_ms(day_start(day)), bill.source.options, origin, prices)
        tables.append(lines.lines)
        found += [] if prices is None else dated(prices.prices, day)
        found += [before_known(len(lines.early), "rates of a card", day)] if lines.early else []
        for rate in lines.unused:
            subject, evidence = f"billing.{bill.source.options.source_id}.{rate}", "no node that exists on the day fits this rate"
            found.append(Finding(Code.UNUSED_SETTING, Severity.INFO, subject, evidence, period))
    return CardDay(pa.concat_tables(tables), tuple(found))


def summaries_of(bills: Sequence[Bill]) -> str:
    """What cards hold, for people; each is read, and refused where it is wrong."""
    told = []
    for bill in bills:
        if isinstance(bill.source, RateCardBill):
            card, charges = bill.source.card(bill.delivery)
            rates = "1 rate" if len(card.rates) == 1 else f"{len(card.rates)} rates"
            parts = "" if len(charges) == len(card.rates) else f" of {len(charges)} parts"
            told.append(f"rate card in {card.currency} with {rates}{parts} ({bill.delivery.delivery_id[:12]})")
    return "; ".join(told)


def models_by_node(pairs: Iterable[Sequence[str]]) -> dict[str, str]:
    """The GPU models of each node, one a line, from pairs of node and model."""
    by_node: dict[str, str] = {}
    for node, model in pairs:
        by_node[node] = f"{by_node[node]}\n{model}" if node in by_node else model
    return by_node


def with_models(nodes: pd.DataFrame, models: Mapping[str, str]) -> pd.DataFrame:
    """The table ``nodes`` with the GPU models that series name on each node as ``seen_models``, one a line (empty: none)."""
    return nodes.assign(seen_models=nodes.node.map(dict(models)).astype("object").fillna(""))


def stays_of(nodes: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The stays of all clusters' machines as ``card_lines`` reads them: the inventory's, within the configured (R16)."""
    stays = pd.concat([table.assign(cluster=name) for name, table in nodes.items()], ignore_index=True)
    begins = stays[["from_ms", "seen_from_ms"]].max(axis=1).astype("int64")
    ends = stays[["until_ms", "seen_until_ms"]].min(axis=1).astype("int64")
    none = stays.gpus.isna() & (stays.gpu_resources == 0).fillna(False).astype("bool")
    gpus = stays.gpus.astype("float64").mask(none, 0.0)
    return stays.assign(alive_from_ms=begins, alive_until_ms=ends, gpus=gpus, gpu_model=_models(stays))


def _models(stays: pd.DataFrame) -> "pd.Series[str]":
    """By the node's labels and by its series, one a line."""
    labels, series = stays.gpu_product.astype("object").fillna(""), stays.get("seen_models", pd.Series("", stays.index))
    return (labels + "\n" + series.astype("object").fillna("")).str.strip("\n")


def billed_by_cards(bills: Sequence[Bill], nodes: Mapping[str, pd.DataFrame], day: date) -> set[str]:
    """The keys of the machines that the cards charge on a day."""
    return set(lines_of_cards(bills, nodes, day).lines["node_key"].unique().to_pylist())


def kept_card_lines(settings: Settings, deliveries: Collection[str], nodes: Mapping[str, pd.DataFrame], day: date) -> pa.Table:
    """The lines of the cards that a day was computed from, made again from its nodes. A card that changed has none."""
    only = [
        entry.model_copy(update={"name": entry.name or f"{entry.kind}-{number}"})
        for number, entry in enumerate(settings.billing)
        if entry.kind == RATE_CARD
    ]
    if not only:
        return LINE_ITEMS.empty()
    bills = discover(settings.model_copy(update={"billing": only}))
    return lines_of_cards([bill for bill in bills if bill.delivery.delivery_id in deliveries], nodes, day).lines
