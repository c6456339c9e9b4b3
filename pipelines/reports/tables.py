"""The tables of a report, for workbooks and CSV files: all rows, shown and exact figures side by side."""

import pyarrow as pa

from allocation.shown import Coin
from pipelines.reports.columns import coins, money
from pipelines.reports.figures import MonthFigures
from pipelines.reports.names import NOBODY

NAMES = ("summary", "teams", "models", "days", "kinds", "buckets", "sure", "tie", "findings", "changes", "adjustments", "missing")
NOT_ADDED = ("summary", "tie", "findings", "missing")
"""Tables whose rows do not add up to anything."""


def tables(of: MonthFigures) -> dict[str, pa.Table]:
    """Every table by its name; a team that is null reads as nobody."""
    found = {name: getattr(of, name) for name in NAMES if name not in ("summary", "missing")}
    found = {"summary": _summary(of), **found, "missing": _missing(of)}
    return {name: _named(found[name]) for name in NAMES}


def added(name: str, table: pa.Table) -> list[str]:
    """The columns of a table whose rows add up."""
    if name in NOT_ADDED:
        return []
    return [c for c in table.column_names if c.endswith("_exact") or f"{c}_exact" in table.column_names]


def _named(table: pa.Table) -> pa.Table:
    if "team" not in table.column_names:
        return table
    place = table.column_names.index("team")
    return table.set_column(place, "team", table["team"].fill_null(NOBODY))


def _summary(of: MonthFigures) -> pa.Table:
    exact, coin = [of.total, of.before, of.total - of.before], of.coin
    shown = [coin.of(of.total), coin.of(of.before), coin.of(of.total) - coin.of(of.before)]
    return pa.table(
        {
            "month": [str(of.month), str(of.month.before), ""],
            "figure": ["total", "total of the month before", "change"],
            "cost_metric": [of.cost_metric] * 3,
            "currency": [of.currency] * 3,
            "state": ["closed" if of.closed else "open", "", ""],
            "cost": coins(shown, Coin(coin.places)),
            "cost_exact": money(exact),
        }
    )


def _missing(of: MonthFigures) -> pa.Table:
    days, clusters = [day for day, _ in of.missing], [cluster for _, cluster in of.missing]
    return pa.table({"day": pa.array(days, pa.date32()), "cluster": pa.array(clusters, pa.string())})
