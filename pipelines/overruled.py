"""The configured ``include`` and ``exclude`` rules over a day's lines, and what of them fits nothing."""

from datetime import date, timedelta

import pyarrow as pa

from allocation.findings import Code, Finding, Severity
from allocation.scope_rules import Overruled, overruled_scope
from pipelines.bills import options_of
from pipelines.scope_settings import scope_rules
from pipelines.settings import Settings, day_start


def overruled(settings: Settings, lines: pa.Table) -> Overruled:
    """The lines with their scope as the billing entries' rules say."""
    rules = {
        options_of(entry, number).source_id: scope_rules(entry.exclude, entry.include)
        for number, entry in enumerate(settings.billing)
        if entry.exclude or entry.include
    }
    return overruled_scope(lines, rules) if rules else Overruled(lines, ())


def idle_rules(found: Overruled, day: date) -> tuple[Finding, ...]:
    """A finding for each rule that changed no line of the day."""
    period = day_start(day), day_start(day) + timedelta(days=1)
    told = []
    for source, name, rule, why in found.idle:
        subject = f"billing.{source}.{name}: {', '.join(f'{field}: {pattern}' for field, pattern in rule.items())}"
        told.append(Finding(Code.UNUSED_SETTING, Severity.INFO, subject, why, period))
    return tuple(told)


def rules_of(settings: Settings) -> list[object]:
    """All rules in order, for a mark of what a run depends on; empty where there are none."""
    told: list[object] = []
    for number, entry in enumerate(settings.billing):
        if entry.exclude or entry.include:
            lists = ([rule.patterns for rule in rules] for rules in (entry.exclude, entry.include))
            told.append([number, *lists])
    return told
