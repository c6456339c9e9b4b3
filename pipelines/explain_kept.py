"""What the store keeps of one cluster's day, as ``explain`` reads it: the stored rows, and the inputs that they came from.

Nothing is fetched, parsed or written: bill lines, series, nodes and pods are those that the run has kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from allocation.chargeback import frames_in, rows_of
from allocation.errors import ChargebackError
from allocation.money import decimal_to_nanos
from allocation.node_keys import node_keys
from allocation.schemas import SAMPLES
from allocation.scope import DayLines, day_lines
from allocation.times import DAY_MS, to_ms
from allocation.trace import open_book
from allocation.usage import measure
from pipelines import inputs
from pipelines.bills import kept_lines
from pipelines.cards import kept_card_lines, with_models
from pipelines.clusters import periods_of
from pipelines.explain_row import Part
from pipelines.inventory import catalogue, nodes_frame, pods_frame, with_billed_types
from pipelines.overruled import overruled
from pipelines.partition import Partition
from pipelines.samples import node_models
from pipelines.settings import day_start
from pipelines.walk import Walk


@dataclass(frozen=True)
class Kept:
    """A stored partition of ``chargeback`` (with each row's ``place`` in it) and what its marker says."""

    cluster: str
    partition: Partition
    detail: Mapping[str, object]
    table: pa.Table


def kept_day(walk: Walk, day: date, cluster: str) -> Kept:
    """The stored partition; refused with the command that computes it where it is not there."""
    partition = Partition(day, cluster)
    commit, table = walk.store.commit("chargeback", partition), walk.store.read("chargeback", partition)
    if commit is None or table is None:
        raise ChargebackError(
            f"{walk.store.place('chargeback')}: the partition {partition} is not there; compute it with "
            f"`gpu-chargeback run CONFIG --from {day} --until {day + timedelta(days=1)}`, or name another --cluster"
        )
    return Kept(cluster, partition, commit.detail, table.append_column("place", pa.array(np.arange(len(table)))))


@dataclass(frozen=True)
class Day:
    """What is kept of one cluster's day, as the method reads it."""

    scope: DayLines
    nodes: pd.DataFrame
    pods: pd.DataFrame


def kept_table(walk: Walk, kept: Kept, name: str) -> pa.Table:
    """A table of the same partition."""
    table = walk.store.read(name, kept.partition)
    if table is None:
        raise ChargebackError(f"{walk.store.place(name)}: the partition {kept.partition} is not there; run the day again")
    return table


def open_kept(walk: Walk, kept: Kept) -> Day:
    """The inputs of the partition's rows. Nodes of other clusters, where kept, have their part of shared lines."""
    start = day_start(kept.partition.day)
    deliveries, named = kept.detail.get("deliveries"), walk.store.commit("samples", kept.partition)
    lines = kept_lines(
        walk.settings, deliveries if isinstance(deliveries, list) else [], walk.store, start, start + timedelta(days=1)
    )
    if named is None:
        raise ChargebackError(
            f"{walk.store.place('samples')}: the partition {kept.partition} is not there, so no row can be walked back to its "
            "series; run the day again, if the sources still have them"
        )
    seen = named.detail.get("nodes")
    nodes = nodes_frame(kept_table(walk, kept, "nodes"), seen if isinstance(seen, list) else [])
    policy, everywhere = walk.policy, _all_nodes(walk, kept, nodes)
    of_cards = kept_card_lines(walk.settings, deliveries if isinstance(deliveries, list) else [], everywhere, kept.partition.day)
    lines = pa.concat_tables([overruled(walk.settings, lines).lines, of_cards])
    scope = day_lines(lines, everywhere, to_ms(start), to_ms(start) + DAY_MS, unattributed=policy.unattributed)
    nodes = with_billed_types(everywhere[kept.cluster], scope.lines, catalogue(walk.settings.instance_types))
    return Day(scope, nodes, pods_frame(kept_table(walk, kept, "pods")))


def _all_nodes(walk: Walk, kept: Kept, own: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The nodes of all clusters whose day is kept, in the configured order."""
    tables = {c.name: walk.store.read("nodes", Partition(kept.partition.day, c.name)) for c in walk.settings.clusters}
    frames = {name: nodes_frame(table) for name, table in tables.items() if table is not None} | {kept.cluster: own}
    marks = {name: walk.store.commit("samples", Partition(kept.partition.day, name)) for name in frames}
    return {name: with_models(frame, node_models(mark.detail) if (mark := marks[name]) else {}) for name, frame in frames.items()}


PartKey = tuple[str, str, int, int, str]


@cache
def _machine(node_id: str) -> str:
    return str(node_keys(pa.array([node_id]))[0])


def part_key(row: Mapping[str, Any]) -> PartKey:
    """Of which part of which line a stored row is: line, cost metric, start and end (ms), machine."""
    start, end = to_ms(row["charge_period_start"]), to_ms(row["charge_period_end"])
    return row["line_item_id"], row["cost_metric"], start, end, _machine(row["node_id"])


def parts_of(walk: Walk, kept: Kept, day: Day, keys: set[PartKey], changed: Sequence[str]) -> dict[PartKey, Part]:
    """Each wanted part of a line with its frame of usage, its stored rows and its line."""
    parts = day.scope.parts[day.scope.parts.cluster == kept.cluster]
    names = day.scope.lines.select(["line_item_id", "cost_metric"]).to_pandas().iloc[parts.line].reset_index(drop=True)
    parts = parts.reset_index(drop=True).assign(line_item_id=names.line_item_id, cost_metric=names.cost_metric)
    of_part = list(zip(parts.line_item_id, parts.cost_metric, parts.start_ms, parts.end_ms, parts.node_key, strict=True))
    place = {key: n for n, key in enumerate(of_part) if key in keys}
    for key in sorted(keys - place.keys()):
        raise ChargebackError(
            f"{kept.partition}: line {key[0]} of the stored row is not among the kept lines of the bill; "
            f"{inputs.since(changed)}run the day again"
        )
    wanted = parts.iloc[sorted(place.values())]
    frames = periods_of(walk, parts, day.scope, day.nodes, kept.partition.day)[0].merge(
        wanted[["node_key", "start_ms", "end_ms"]].drop_duplicates(), on=["node_key", "start_ms", "end_ms"]
    )
    samples, policy = _samples_of(walk, kept, day.nodes, set(frames.node_key)), walk.policy
    usage = measure(samples, day.nodes, day.pods, frames, policy).usage
    book = open_book(samples, day.nodes, day.pods, list(frames.node_key), policy)
    stored = _stored_rows(kept, {key[:2] for key in keys})
    of_day: dict[tuple[str, str], int] = {}
    for key, rows in stored.items():
        of_day[key[:2]] = of_day.get(key[:2], 0) + sum(decimal_to_nanos(r["cost"]) for r in rows)
    lines = {(r["line_item_id"], r["cost_metric"]): r for r in _lines_of(walk, kept, {key[:2] for key in keys})}
    expected = {(f.node_key, f.start_ms, f.end_ms): f.expected_ms for f in frames.itertuples(index=False)}
    begins, ends = rows_of(wanted, day.scope.lines, frames_in(usage))
    first, last = (dict(zip(wanted.index, told.tolist(), strict=True)) for told in (begins, ends))
    found = {}
    for key, n in place.items():
        p = parts.iloc[n]
        frame = (str(p.node_key), int(p.start_ms), int(p.end_ms))
        nanos, mine = int(p.nanos), usage.take(pa.array(np.arange(first[n], last[n])))
        found[key] = Part(lines[key[:2]], frame, int(expected[frame]), nanos, mine, stored[key], of_day[key[:2]], book)
    return found


def _samples_of(walk: Walk, kept: Kept, nodes: pd.DataFrame, keys: set[str]) -> pa.Table:
    """The kept series of some machines, under all their names."""
    names = pa.array(sorted(set(nodes[nodes.node_key.isin(keys)].node)), pa.string())
    parts = [part.filter(pc.is_in(part["node"], names)) for part in walk.store.read_parts("samples", kept.partition)]
    return pa.concat_tables([SAMPLES.empty(), *parts]).combine_chunks()


def _stored_rows(kept: Kept, lines: set[tuple[str, str]]) -> dict[PartKey, list[dict[str, Any]]]:
    """All stored rows of some lines, in their order, by part of line."""
    ids = pa.array(sorted({name for name, _ in lines}), pa.string())
    rows = kept.table.filter(pc.is_in(kept.table["line_item_id"], ids)).to_pylist()
    found: dict[PartKey, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(part_key(row), []).append(row)
    return found


def _lines_of(walk: Walk, kept: Kept, lines: set[tuple[str, str]]) -> list[dict[str, Any]]:
    table = kept_table(walk, kept, "reconciliation")
    named = pc.is_in(table["line_item_id"], pa.array(sorted({name for name, _ in lines}), pa.string()))
    found: list[dict[str, Any]] = table.filter(pc.and_(named, pc.is_null(table["rule"]))).to_pylist()
    return found
