"""The top of a page: what a reader must know in a minute, in sentences and key figures."""

from collections.abc import Sequence

from allocation.shown import exact_text
from pipelines.reports.columns import coins_of, nanos_of
from pipelines.reports.figures import MonthFigures
from pipelines.reports.names import clean
from pipelines.reports.page import Card, Note
from pipelines.reports.tie import BILL, CHARGED, CORRECTIONS, DIFFERENCE, ELSEWHERE, LATE, OUTSIDE

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
NO_SHARE = "-"
UNTIED = "Does not tie to the bill."


def month_name(of: MonthFigures) -> str:
    """The month in words."""
    return f"{_MONTHS[of.month.first.month - 1]} {of.month.first.year}"


def amount(of: MonthFigures, coins: int) -> str:
    """An amount with its currency."""
    return f"{of.coin.text(coins)} {of.currency}"


def share(part: int, total: int) -> str:
    """Percent with one decimal, where a share of the total means anything."""
    if total <= 0 or part < 0:
        return NO_SHARE
    tenths = (2000 * part + total) // (2 * total)
    return f"{tenths // 10}.{tenths % 10} %"


def in_words(code: str) -> str:
    """A code, or several that are joined by ``+``, as people read it.

    >>> in_words("bill_restated+late_metrics")
    'bill restated + late metrics'
    """
    return code.replace("_", " ").replace("+", " + ")


def kind_costs(of: MonthFigures) -> dict[str, tuple[int, int]]:
    """What each kind cost: shown and exact."""
    shown, exact = coins_of(of.kinds["cost"], of.coin), nanos_of(of.kinds["cost_exact"])
    return dict(zip(of.kinds["kind"].to_pylist(), zip(shown, exact, strict=True), strict=True))


def lead(of: MonthFigures, team: str | None) -> str:
    """The report in a few sentences."""
    if not len(of.teams):
        return f"No GPU cost was charged in {month_name(of)}: no line of the bill is of a machine of these clusters."
    lost = kind_costs(of).get("unallocated", (0, 0))
    whose = f"of team {team} " if team is not None else ""
    text = f"GPU cost {whose}in {month_name(of)} was {amount(of, of.shown)}"
    if team is None:
        owners = len(of.teams) - of.teams["team"].null_count
        text += f", charged to {owners:,} team{'s' if owners != 1 else ''}"
    if of.days_before:
        change = of.shown - of.coin.of(of.before)
        text += f", {amount(of, abs(change))} {'more' if change >= 0 else 'less'} than the month before"
    text += "."
    if lost[0]:
        text += f" {amount(of, lost[0])} ({share(lost[1], of.total)}) could not be placed because nothing measured it."
    return text


def tied(of: MonthFigures) -> str:
    """The tie in a sentence."""
    costs: dict[tuple[str, str], list[int]] = {}
    for row, coins in zip(of.tie.to_pylist(), coins_of(of.tie["cost"], of.coin), strict=True):
        costs.setdefault((row["side"], row["what"]), []).append(coins)
    lines, charged, outside = (sum(costs.get(("bill", what), [0])) for what in (BILL, CHARGED, OUTSIDE))
    elsewhere, extra = costs["bill", ELSEWHERE][0], sum(sum(costs.get(("report", what), [0])) for what in (LATE, CORRECTIONS))
    text = f"The bill's lines of the month come to {amount(of, lines)}: {of.coin.text(charged)} charged"
    text += f", {of.coin.text(outside)} out of scope by rule" + (
        f", {of.coin.text(elsewhere)} on other days" if elsewhere else ""
    )
    text += f"; {of.coin.text(extra)} more is booked here from other days or months" if extra else ""
    return text + ("; this does not tie." if _off(of) else "; the difference is 0.")


def notes(of: MonthFigures) -> list[Note]:
    """What must be read before the figures: that they do not tie, which days of which cluster are not in them."""
    off = _off(of)
    found = [Note(UNTIED, f"{', '.join(map(exact_text, off))} {of.currency} differ; see the end.")] if off else []
    if not of.missing:
        return found
    days: dict[str, list[str]] = {}
    for day, cluster in of.missing:
        days.setdefault(clean(cluster), []).append(str(day))
    names = [f"{cluster}: {_ranges(found)}" for cluster, found in days.items()]
    rest = f"; and {len(names) - 20} more clusters" if len(names) > 20 else ""
    text = f"These days are not computed and not in the figures: {'; '.join(names[:20])}{rest}."
    return [*found, Note("Month to date.", text)]


def _off(of: MonthFigures) -> list[int]:
    """The differences of the tie that are not 0, exactly."""
    steps = zip(of.tie["what"].to_pylist(), nanos_of(of.tie["cost_exact"]), strict=True)
    return [nanos for what, nanos in steps if what == DIFFERENCE and nanos]


def _ranges(days: Sequence[str]) -> str:
    """Days of a month in order, neighbours as from ... to."""
    runs: list[list[str]] = []
    for day in days:
        if runs and int(runs[-1][-1][-2:]) + 1 == int(day[-2:]):
            runs[-1].append(day)
        else:
            runs.append([day])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def cards(of: MonthFigures, team: str | None) -> list[Card]:
    """The key figures."""
    coin, kinds = of.coin, kind_costs(of)
    idle = [kinds.get(kind, (0, 0)) for kind in ("free, held", "idle", "stranded")]
    used, lost = kinds.get("in use", (0, 0)), kinds.get("unallocated", (0, 0))
    free = sum(shown for shown, _ in idle), sum(exact for _, exact in idle)
    found = [
        Card("Total", coin.text(of.shown), of.currency, exact_text(of.total)),
        Card("Memory in use", coin.text(used[0]), share(used[1], of.total), exact_text(used[1])),
        Card(
            "Paid for and free",
            coin.text(free[0]),
            f"{share(free[1], of.total)}: idle, stranded, free beside use",
            exact_text(free[1]),
        ),
    ]
    if team is not None:
        return found
    return [
        *found,
        Card("Not placed", coin.text(lost[0]), f"{share(lost[1], of.total)}: nothing measured it", exact_text(lost[1])),
    ]
