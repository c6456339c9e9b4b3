"""What stands against closing a month, in lines for people: days that lack the same are one line."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from pipelines.closing.ready import MISSING, Obstacle

_DAY = timedelta(days=1)


def lines(obstacles: Sequence[Obstacle]) -> list[str]:
    """One line an obstacle, and one for all days in a row of which the same clusters lack the same."""
    missing = [one for one in obstacles if one.kind == MISSING]
    return [*_missing(missing), *(one.text for one in obstacles if one.kind != MISSING)]


def _missing(obstacles: Sequence[Obstacle]) -> Iterator[str]:
    spans: dict[tuple[date, date, str], list[str]] = {}
    of_cluster: dict[tuple[str, str], list[date]] = {}
    for one in obstacles:
        of_cluster.setdefault((str(one.cluster), one.lacks), []).append(date.fromisoformat(str(one.day)))
    for (cluster, lacks), days in of_cluster.items():
        for first, last in _in_a_row(days):
            spans.setdefault((first, last, lacks), []).append(repr(cluster))
    for (first, last, lacks), clusters in sorted(spans.items()):
        when = f"{first}" if first == last else f"{first} to {last}"
        whose = f"cluster {clusters[0]}" if len(clusters) == 1 else f"clusters {', '.join(clusters)}"
        yield f"{when} of {whose}: {lacks}; `gpu-chargeback run CONFIG --from {first} --until {last + _DAY}`"


def _in_a_row(days: Sequence[date]) -> list[tuple[date, date]]:
    """Runs of days without a hole, by first and last."""
    found: list[tuple[date, date]] = []
    for day in sorted(days):
        if found and day - found[-1][1] == _DAY:
            found[-1] = found[-1][0], day
        else:
            found.append((day, day))
    return found
