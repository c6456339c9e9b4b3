"""What a page says and in which order: from figures to sentences, cards, charts and tables."""

from collections.abc import Sequence

import pyarrow as pa

from allocation.shown import Coin, exact_text
from pipelines.reports import charts
from pipelines.reports.columns import coins_of, nanos_of
from pipelines.reports.figures import KINDS, SURE, MonthFigures, exact_total
from pipelines.reports.names import clean
from pipelines.reports.page import Cell, Column, Page, Row, Section, as_drawn
from pipelines.reports.sentences import (
    NO_SHARE,
    UNTIED,
    amount,
    cards,
    in_words,
    kind_costs,
    lead,
    month_name,
    notes,
    share,
    tied,
)  # fmt: skip
from pipelines.reports.tie import BILL, CHARGED, CORRECTIONS, DIFFERENCE, ELSEWHERE, LATE, OUTSIDE, REPORT
from pipelines.version import VERSION

TOP, IN_CHART = 25, 12
_STEPS = {
    CHARGED: "Charged on days of this month",
    OUTSIDE: "Out of scope",
    ELSEWHERE: "Parts of these lines on days that are not in this report",
    BILL: "Bill lines of the month",
    DIFFERENCE: "Difference",
    LATE: "Booked here of other days or bills",
    CORRECTIONS: "Corrections of closed months",
    REPORT: "This report",
}


def month_page(of: MonthFigures) -> Page:
    """The report of a month for all teams."""
    found = [_teams(of), _days(of), _kinds(of), _changes(of), _sure(of), _findings(of), _tie(of), _adjustments(of)]
    return _page(of, [s for s in found if s.rows or s.chart or s.key in ("teams", "tie")], None)


def team_page(of: MonthFigures, team: str | None) -> Page:
    """The report of one team, from figures of its rows alone; without charts, so that thousands of pages take minutes."""
    found = [_models(of), _buckets(of), _day_table(of), _changes(of), _adjustments(of)]
    return _page(of, [s for s in found if s.rows], clean(team))


def _page(of: MonthFigures, sections: list[Section], team: str | None) -> Page:
    name = month_name(of)
    return Page(
        title=f"{name} · {of.cost_metric} · {of.currency}" + (f" · {team}" if team is not None else ""),
        month=str(of.month),
        month_name=name,
        metric=of.cost_metric,
        currency=of.currency,
        state="closed" if of.closed else "open",
        lead=lead(of, team),
        tied=tied(of) if team is None else "",
        coin_name=f"whole {of.currency}" if not of.coin.places else f"{of.currency} with {of.coin.places} decimals",
        version=VERSION,
        notes=notes(of) if team is None else [n for n in notes(of) if n.head != UNTIED],
        cards=cards(of, team),
        sections=sections,
        team=team,
    )


def money_cells(table: pa.Table, names: Sequence[str], coin: Coin) -> list[list[Cell]]:
    """The shown columns of a table as cells, row by row."""
    columns = []
    for name in names:
        exact, shown = nanos_of(table[f"{name}_exact"]), coins_of(table[name], coin)
        columns.append([Cell(coin.text(c), exact_text(n)) for c, n in zip(shown, exact, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def _sum(table: pa.Table, names: Sequence[str], coin: Coin) -> list[Cell]:
    return [Cell(coin.text(sum(coins_of(table[n], coin))), exact_text(exact_total(table, n))) for n in names]


_TEAM = ("cost", "in_use", "overhead", "free")


def _teams(of: MonthFigures) -> Section:
    top, rest = of.teams.slice(0, TOP), of.teams.slice(TOP)
    names = [clean(team) for team in top["team"].to_pylist()]
    exact = nanos_of(of.teams["cost_exact"])
    models = of.models.to_pylist() if len(of.models) <= 4 * TOP else of.models.slice(0, 20 * TOP).to_pylist()
    inside: dict[str | None, list[tuple[str, Cell]]] = {}
    for row, (cell,) in zip(models, money_cells(of.models.slice(0, len(models)), ["cost"], of.coin), strict=True):
        inside.setdefault(row["team"], []).append((clean(row["model"]), cell))
    rows = []
    for n, (name, cells) in enumerate(zip(names, money_cells(top, _TEAM, of.coin), strict=True)):
        rows.append(Row([Cell(name), cells[0], Cell(share(exact[n], of.total)), *cells[1:]]))
        parts = inside.get(top["team"][n].as_py(), [])
        if n < IN_CHART and len(parts) > 1:
            rows += [Row([Cell(model), cell, *[Cell("")] * 4], "part") for model, cell in parts[:5]]
    if len(rest):
        cells = _sum(rest, _TEAM, of.coin)
        rows.append(Row([Cell(f"others ({len(rest):,})"), cells[0], Cell(share(exact_total(rest), of.total)), *cells[1:]]))
    total = _sum(of.teams, _TEAM, of.coin)
    return Section(
        "teams",
        "Who spent it",
        [
            Column("Team", "name"),
            Column("Cost"),
            Column("Share", "number"),
            Column("In use"),
            Column("Overhead"),
            Column("Free or lost"),
        ],
        rows,
        f"Money by team, the {TOP} largest; below a team its models or buckets. {'All' if len(rest) else ''}".removesuffix(" ")
        + (" teams stand in the workbook and the CSV files." if len(rest) else ""),
        _team_chart(of),
        Row([Cell("Total"), total[0], Cell("100.0 %" if of.total > 0 else NO_SHARE), *total[1:]]) if rows else None,
        "No team was charged anything.",
    )


def _team_chart(of: MonthFigures) -> str:
    top, rest = of.teams.slice(0, IN_CHART), of.teams.slice(IN_CHART)
    if not len(top):
        return ""
    shown = coins_of(top["cost"], of.coin)
    labels = [clean(team) for team in top["team"].to_pylist()]
    if len(rest):
        labels.append(f"others ({len(rest):,})")
        shown.append(sum(coins_of(rest["cost"], of.coin)))
    values = [nanos / 1e9 for nanos in (*nanos_of(top["cost_exact"]), *([exact_total(rest)] if len(rest) else []))]
    return as_drawn(charts.bars(labels, values, [of.coin.text(c) for c in shown], f"Cost by team in {of.currency}"))


def _models(of: MonthFigures) -> Section:
    cells = money_cells(of.models, ["cost"], of.coin)
    rows = [Row([Cell(clean(name)), *cost]) for name, cost in zip(of.models["model"].to_pylist(), cells, strict=True)]
    total = Row([Cell("Total"), *_sum(of.models, ["cost"], of.coin)])
    return Section("models", "Models", [Column("Model or bucket", "name"), Column("Cost")], rows, total=total, compact=True)


def _buckets(of: MonthFigures) -> Section:
    cells = money_cells(of.kinds, ["cost"], of.coin)
    rows = [Row([Cell(kind), *cost]) for kind, cost in zip(of.kinds["kind"].to_pylist(), cells, strict=True)]
    total = Row([Cell("Total"), *_sum(of.kinds, ["cost"], of.coin)])
    return Section("kinds", "What it paid for", [Column("For", "text"), Column("Cost")], rows, total=total, compact=True)


def _by_day(of: MonthFigures) -> dict[tuple[str, str], int]:
    keys = zip(of.days["day"].to_pylist(), of.days["kind"].to_pylist(), strict=True)
    return dict(zip(keys, coins_of(of.days["cost"], of.coin), strict=True))


def _days(of: MonthFigures) -> Section:
    found, days = _by_day(of), [str(day) for day in of.month.days]
    kinds = [kind for kind in KINDS if any(kind == k and day in days for day, k in found)]
    series = [(kind, [found.get((day, kind), 0) / 10**of.coin.places for day in days]) for kind in kinds]
    chart = charts.days([str(n + 1) for n in range(len(days))], series, f"Cost by day in {of.currency}") if kinds else ""
    return Section(
        "days", "Day by day", text=f"Cost in {of.currency} of each day of the month, by what it paid for.", chart=as_drawn(chart)
    )


def _day_table(of: MonthFigures) -> Section:
    found: dict[str, int] = {}
    for (day, _), coins in _by_day(of).items():
        found[day] = found.get(day, 0) + coins
    rows = [Row([Cell(day), Cell(of.coin.text(coins))]) for day, coins in sorted(found.items())]
    total = Row([Cell("Total"), *_sum(of.days, ["cost"], of.coin)])
    return Section("days", "Day by day", [Column("Day", "text"), Column("Cost")], rows, total=total, compact=True)


def _kinds(of: MonthFigures) -> Section:
    costs = kind_costs(of)
    known = [(kind, *costs[kind]) for kind in KINDS if kind in costs]
    strip = [(kind, float(exact), f"{of.coin.text(shown)}  ({share(exact, of.total)})") for kind, shown, exact in known]
    chart = (
        charts.strip(strip, f"What the money paid for, in {of.currency}") if strip and min(v for _, v, _ in strip) >= 0 else ""
    )
    cells = money_cells(of.buckets, ["cost"], of.coin)
    names = zip(of.buckets["bucket"].to_pylist(), of.buckets["reason"].to_pylist(), strict=True)
    rows = [Row([Cell(b), Cell(in_words(r or "")), *c]) for (b, r), c in zip(names, cells, strict=True)]
    total = Row([Cell("Total"), Cell(""), *_sum(of.buckets, ["cost"], of.coin)]) if rows else None
    columns = [Column("Borne by", "text"), Column("Reason", "text"), Column("Cost")]
    text = "Free memory beside use is paid by who held the GPU. Workload rows are pods; the others are buckets, with the reason."
    return Section("kinds", "What it paid for", columns, rows, text, as_drawn(chart), total, compact=True)


def _changes(of: MonthFigures) -> Section:
    names = ("change", "volume", "price", "new", "gone", "corrections", "other")
    columns = ["Change", "Volume", "Price", "New", "Gone", "Corrections", "Not measured"]
    top, rest = of.changes.slice(0, TOP), of.changes.slice(TOP)
    rows = [Row([Cell(clean(t)), *c]) for t, c in zip(top["team"].to_pylist(), money_cells(top, names, of.coin), strict=True)]
    if len(rest):
        rows.append(Row([Cell(f"others ({len(rest):,})"), *_sum(rest, names, of.coin)]))
    text = (
        f"{of.days_before} day{'s' if of.days_before != 1 else ''} of the month before are computed; its total was "
        f"{amount(of, of.coin.of(of.before))}. Volume: more or less GPU time at "
        "last month's price. Price: the rest of what both months have. "
        "The effects of a team add up to its change."
    )
    total = Row([Cell("Total"), *_sum(of.changes, names, of.coin)]) if rows else None
    return Section(
        "changes",
        "What changed since the month before, and why",
        [Column("Team", "name"), *map(Column, columns)],
        rows,
        text,
        total=total,
    )


def _sure(of: MonthFigures) -> Section:
    shown, exact = coins_of(of.sure["cost"], of.coin), nanos_of(of.sure["cost_exact"])
    found = {sure: [0, 0] for sure in SURE}
    for name, coins, nanos in zip(of.sure["sure"].to_pylist(), shown, exact, strict=True):
        found[name][0] += coins
        found[name][1] += nanos
    strip = [(k, float(n), f"{of.coin.text(c)}  ({share(n, of.total)})") for k, (c, n) in found.items() if n]
    chart = charts.strip(strip, f"How sure the split is, in {of.currency}") if strip and min(v for _, v, _ in strip) >= 0 else ""
    names = list(zip(of.sure["sure"].to_pylist(), of.sure["basis"].to_pylist(), strict=True))
    cells = money_cells(of.sure, ["cost"], of.coin)
    rows = [Row([Cell(s), Cell(in_words(b)), *c]) for (s, b), c in zip(names, cells, strict=True)] if not chart else []
    text = "Measured: a pod's own memory. Estimated: shared cards whose exporter repeats one value. Not measured: buckets."
    return Section(
        "sure", "How sure we are", [Column("How", "text"), Column("Basis", "text"), Column("Cost")], rows, text, as_drawn(chart)
    )


def _findings(of: MonthFigures) -> Section:
    top = of.findings.slice(0, 10)
    cells = money_cells(top, ["at_risk"], of.coin)
    rows = [
        Row(
            [
                Cell(in_words(r["code"])),
                *c,
                Cell(f"{r['findings']:,}"),
                Cell(clean(f"{r['largest_subject']}: {r['largest_evidence']}")),
            ]
        )
        for r, c in zip(top.to_pylist(), cells, strict=True)
    ]
    columns = [Column("Finding", "text"), Column("At risk"), Column("Count", "number"), Column("The largest", "text")]
    text = "What to look into first, by the money that hangs on it. Findings may speak of the same money."
    return Section("findings", "What needs attention", columns, rows, text)


def _tie(of: MonthFigures) -> Section:
    cells = money_cells(of.tie, ["cost"], of.coin)
    rows, parts = [], of.tie.to_pylist()
    for row, cost in zip(parts, cells, strict=True):
        rule = f": {in_words(row['rule'])}" if row["rule"] else ""
        mark = "sum" if row["what"] in (BILL, REPORT, DIFFERENCE) else "part"
        rows.append(Row([Cell(clean(_STEPS[row["what"]] + rule)), *cost], mark))
    text = "Every line of the delivered bill that touches the computed days is in it. Both differences must be 0."
    return Section("tie", "How it ties to the bill", [Column("Step", "text"), Column("Cost")], rows, text, compact=True)


def _adjustments(of: MonthFigures) -> Section:
    cells = money_cells(of.adjustments, ["cost"], of.coin)
    rows = [
        Row([Cell(r["original_month"]), Cell(f"{r['billing_period']:%Y-%m}"), Cell(in_words(r["cause"])), *c])
        for r, c in zip(of.adjustments.to_pylist(), cells, strict=True)
    ]
    total = Row([Cell("Total"), Cell(""), Cell(""), *_sum(of.adjustments, ["cost"], of.coin)])
    columns = [Column("Days of", "text"), Column("Bill of", "text"), Column("Why", "text"), Column("Cost")]
    text = "Corrections of closed months and late bill lines that are booked in this month."
    return Section("adjustments", "From earlier months", columns, rows, text, total=total, compact=True)
