"""Settings that name something which no cluster of the day has: a model of GPU, a type of machine.

They are likely misspelt, and what they ask for is not done. Here do not belong settings wrong in themselves (``settings``).
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from difflib import SequenceMatcher

import pandas as pd
import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from pipelines.samples import Fetched
from pipelines.settings import Settings, day_start

_SHOWN = 5


def unused_settings(
    settings: Settings, fetched: Mapping[str, Fetched], nodes: Mapping[str, pd.DataFrame], lines: pa.Table, day: date
) -> list[Finding]:
    """A finding for each model under ``policy.reserved`` and each type under ``instance_types`` that the day does not have.

    Args:
        settings: The configuration.
        fetched: What was fetched of every cluster.
        nodes: The nodes of every cluster.
        lines: The day's lines of the bill.
        day: The UTC day.
    """
    told: list[tuple[str, str]] = []
    models = [one.models for one in fetched.values()]
    if all(names is not None for names in models):
        seen = {name for names in models for name in names or ()}
        told += _unused("policy.reserved", settings.policy.reserved, seen, "no card of the day has that model")
    types = {str(kind) for table in nodes.values() for kind in table.instance_type.dropna()}
    types |= {str(kind) for kind in lines["instance_type"].unique().to_pylist() if kind}
    told += _unused("instance_types", settings.instance_types, types, "no node and no line of the day has that type")
    period = day_start(day), day_start(day) + timedelta(days=1)
    return [Finding(Code.UNUSED_SETTING, Severity.INFO, setting, evidence, period) for setting, evidence in told]


def _unused(section: str, named: Iterable[str], seen: set[str], what: str) -> Iterator[tuple[str, str]]:
    """Setting and evidence of each name that was not seen; nothing where nothing at all was."""
    for name in sorted(set(named) - seen) if seen else ():
        near = sorted(seen, key=lambda other: (-SequenceMatcher(None, name.lower(), other.lower()).ratio(), other))
        more = f" and {len(near) - _SHOWN} more" if len(near) > _SHOWN else ""
        yield f"{section}.{name}", f"{what}; seen, the nearest first: {', '.join(near[:_SHOWN])}{more}"
