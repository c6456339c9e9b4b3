"""``include`` and ``exclude`` of a billing entry.

Here belongs what may be written there; what it means stands in ``allocation.scope_rules``.
"""

from collections.abc import Iterable

from pydantic import model_validator

from allocation.scope_rules import FIELDS, Rule, ScopeRules
from pipelines.section import Section


class ScopeRuleEntry(Section):
    """Which lines a rule is about: patterns like a shell's, of which all must fit a line's values, whatever the case."""

    service: str | None = None
    usage_type: str | None = None
    line_type: str | None = None
    charge_category: str | None = None
    resource: str | None = None
    sub_account: str | None = None
    region: str | None = None
    rule: str | None = None

    @property
    def patterns(self) -> Rule:
        """The fields that are written, with their patterns."""
        return {name: told for name in FIELDS if (told := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _telling(self) -> "ScopeRuleEntry":
        if not self.patterns:
            raise ValueError(f"the rule fits no line: it names none of {', '.join(FIELDS)}; add one, or take the rule out")
        empty = [name for name, pattern in self.patterns.items() if not pattern.strip()]
        if empty:
            raise ValueError(f"{empty[0]} is empty and would never fit; write a pattern such as *, or leave it out")
        return self


def scope_rules(exclude: Iterable[ScopeRuleEntry], include: Iterable[ScopeRuleEntry]) -> ScopeRules:
    """The same rules as the method reads them."""
    return ScopeRules(tuple(rule.patterns for rule in exclude), tuple(rule.patterns for rule in include))
