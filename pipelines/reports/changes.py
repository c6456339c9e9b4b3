"""What changed since the month before and why, per team, exactly: the effects add up to the change to the nano-unit.

Compared are a team's cells of one GPU model each. In a cell of both months that was measured in both, the volume effect is last
month's cost times the growth of the quantity (rounded to a nano-unit), the price effect is the rest. What was measured in neither
is told apart as ``other``, and corrections of closed months too.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.reports.columns import money, nanos_of, sums

EFFECTS = ("price", "volume", "new", "gone", "corrections", "other")
_CELL = ("team", "gpu_model")
_GIB = ("used_gib_hours", "overhead_gib_hours", "idle_gib_hours")
_FIGURES = ("cost", "gpu_hours", *_GIB)


def changes(now: pa.Table, before: pa.Table) -> pa.Table:
    """Per team: cost before and now, each of ``EFFECTS``, and the change; rows as of ``month_rows``, of one metric."""
    cells = _cells(now, before)
    columns = _effects(cells)
    found = sums(pa.table({"team": cells["team"], **{name: money(n) for name, n in columns.items()}}), ["team"], [*columns])
    change = [b - a for a, b in zip(nanos_of(found["before"]), nanos_of(found["now"]), strict=True)]
    return found.append_column("change", money(change))


def _cells(now: pa.Table, before: pa.Table) -> pa.Table:
    """The cells of both months side by side, with what was booked as corrections of each team beside them."""
    charged = [rows.filter(pc.equal(rows["entry"], "charge")) for rows in (now, before)]
    corrected = [sums(rows.filter(pc.not_equal(rows["entry"], "charge")), ["team"], ["cost"]) for rows in (now, before)]
    sides = [_marked(sums(rows, _CELL, _FIGURES), side) for side, rows in zip(("now", "before"), charged, strict=True)]
    sides += [_marked(rows, side) for side, rows in zip(("corrected_now", "corrected_before"), corrected, strict=True)]
    return pa.concat_tables(sides, promote_options="default")


def _marked(cells: pa.Table, side: str) -> pa.Table:
    return cells.append_column("side", pa.repeat(side, len(cells)))


def _effects(cells: pa.Table) -> dict[str, list[int]]:
    """Each effect of each cell, on the row of the side that tells it."""
    sides = cells["side"].to_pylist()
    keys = list(zip(cells["team"].to_pylist(), cells["gpu_model"].to_pylist(), strict=True))
    cost, measured = nanos_of(cells["cost"]), _quantities(cells)
    of = {side: {key: n for n, key in enumerate(keys) if sides[n] == side} for side in ("now", "before")}
    teams = [{team for team, _ in of[side]} for side in ("now", "before")]
    found = {name: [0] * len(keys) for name in ("before", "now", *EFFECTS)}
    for n, (key, side) in enumerate(zip(keys, sides, strict=True)):
        found["now" if side in ("now", "corrected_now") else "before"][n] = cost[n]
        sign = 1 if side in ("now", "corrected_now") else -1
        if side.startswith("corrected"):
            found["corrections"][n] = sign * cost[n]
        elif key[0] not in teams[1 if side == "now" else 0]:
            found["new" if side == "now" else "gone"][n] = sign * cost[n]
        elif key not in of["before" if side == "now" else "now"]:
            found["volume" if any(measured[n]) else "other"][n] = sign * cost[n]
        elif side == "now":
            _split(found, n, (cost[n], cost[of["before"][key]]), (measured[n], measured[of["before"][key]]))
    return found


def _split(found: dict[str, list[int]], n: int, cost: tuple[int, int], measured: Sequence[tuple[int, int]]) -> None:
    """Price and volume of a cell of both months, by the first quantity that both know."""
    quantity = next(((a, b) for a, b in zip(*measured, strict=True) if a > 0 and b > 0), None)
    if quantity is None:
        found["other"][n] = cost[0] - cost[1]
        return
    growth, base = cost[1] * (quantity[0] - quantity[1]), quantity[1]
    found["volume"][n] = (2 * growth + base) // (2 * base)
    found["price"][n] = cost[0] - cost[1] - found["volume"][n]


def _quantities(cells: pa.Table) -> list[tuple[int, int]]:
    """GPU-hours and GiB-hours of each row; 0 where none are known."""
    filled = [nanos_of(pc.fill_null(cells[name], pa.scalar(0).cast(cells[name].type))) for name in ("gpu_hours", *_GIB)]
    return [(hours, sum(gib)) for hours, *gib in zip(*filled, strict=True)]
