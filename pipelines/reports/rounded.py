"""Exact tables with shown columns beside them: parts add up to their shown total on every level."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from allocation.shown import Coin
from allocation.summed import summed
from pipelines.reports.columns import coins, coins_of, money, nanos_of, sums

_PARTS = {"in_use": "used_cost", "overhead": "overhead_cost", "free": "idle_cost"}
_QUANTITIES = ("gpu_hours", "held_gpu_hours", "requested_gpu_hours")


def each(table: pa.Table, names: Sequence[str], coin: Coin) -> pa.Table:
    """Each figure rounded by itself, where figures are no parts of one another."""
    for name in names:
        exact = nanos_of(table[name])
        table = _beside(table, name, exact, [coin.of(n) for n in exact], coin)
    return table


def within(table: pa.Table, coin: Coin, order: Sequence[str]) -> pa.Table:
    """Costs that add up to their rounded total; largest first where the order is ``cost``, else by names."""
    table = table.sort_by([(name, "descending" if name == "cost" else "ascending") for name in order])
    exact = nanos_of(table["cost"])
    return _beside(table, "cost", exact, coin.parts(exact, coin.of(sum(exact))), coin)


def alone(table: pa.Table, coin: Coin) -> pa.Table:
    """The steps of a tie: on each side the parts add up to the shown total, the last but one; the last is the difference."""
    exact, side = nanos_of(table["cost"]), table["side"].to_pylist()
    shown: list[int] = []
    for name in ("bill", "report"):
        mine = [n for n, of in zip(exact, side, strict=True) if of == name]
        total = coin.of(mine[-2])
        parts = coin.parts(mine[:-2], total) if sum(mine[:-2]) == mine[-2] else [coin.of(n) for n in mine[:-2]]
        shown += [*parts, total, coin.of(mine[-1])]
    return _beside(table, "cost", exact, shown, coin)


def teams(rows: pa.Table, coin: Coin) -> pa.Table:
    """Money and hours per team, the largest first; parts of a team add up to it, teams to the total."""
    found = sums(rows, ["team"], ["cost", *_PARTS.values(), *_QUANTITIES])
    tokens = summed(rows, ["team"], ["tokens"])["tokens"]
    found = found.append_column("tokens", tokens.cast(pa.int64()))
    found = found.rename_columns({old: new for new, old in _PARTS.items()}).sort_by(
        [("cost", "descending"), ("team", "ascending")]
    )
    exact = nanos_of(found["cost"])
    shown = coin.parts(exact, coin.of(sum(exact)))
    found = _beside(found, "cost", exact, shown, coin)
    return _parts(found, list(_PARTS), shown, coin)


def _parts(table: pa.Table, names: Sequence[str], totals: Sequence[int], coin: Coin) -> pa.Table:
    exact = [nanos_of(table[name]) for name in names]
    shown = [coin.parts(parts, total) for *parts, total in zip(*exact, totals, strict=True)]
    for n, name in enumerate(names):
        table = _beside(table, name, exact[n], [row[n] for row in shown], coin)
    return table


def models(rows: pa.Table, of: pa.Table, coin: Coin) -> pa.Table:
    """Money per team and model (or bucket, where no model is), in the order of teams; a team's add up to what it is shown."""
    named = rows.append_column("name", pc.coalesce(rows["model"], rows["bucket"]))
    found = sums(named, ["team", "name"], ["cost"])
    place = pc.index_in(found["team"], value_set=of["team"].combine_chunks())
    found = found.append_column("place", place).sort_by([("place", "ascending"), ("cost", "descending"), ("name", "ascending")])
    exact, places = nanos_of(found["cost"]), found["place"].to_pylist()
    groups: list[list[int]] = [[] for _ in range(len(of))]
    for n, place_of in zip(exact, places, strict=True):
        groups[place_of].append(n)
    shown = [coins for group, total in zip(groups, coins_of(of["cost"], coin), strict=True) for coins in coin.parts(group, total)]
    return _beside(found.drop_columns("place").rename_columns({"name": "model"}), "cost", exact, shown, coin)


def effects(table: pa.Table, names: Sequence[str], coin: Coin) -> pa.Table:
    """Changes per team, the largest first either way: effects add up to a team's change, changes to the total's."""
    table = table.append_column("size", pc.abs(table["change"]))
    table = table.sort_by([("size", "descending"), ("team", "ascending")]).drop_columns("size")
    exact = nanos_of(table["change"])
    shown = coin.parts(exact, coin.of(sum(exact)))
    table = _parts(_beside(table, "change", exact, shown, coin), names, shown, coin)
    for name in ("before", "now"):
        costs = nanos_of(table[name])
        table = _beside(table, name, costs, coin.parts(costs, coin.of(sum(costs))), coin)
    return table


def _beside(table: pa.Table, name: str, exact: Sequence[int], shown: Sequence[int], coin: Coin) -> pa.Table:
    """The column as it is shown, with its exact value in a column after it."""
    place = table.column_names.index(name)
    return table.set_column(place, name, coins(shown, coin)).add_column(place + 1, f"{name}_exact", money(exact))
