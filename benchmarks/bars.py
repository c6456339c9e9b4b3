"""What a benchmark is held to: a measured figure, and at most or at least what it may be.

Here belongs how bars are told. Here does not belong what is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Bar:
    """A figure and its limit, both in ``unit`` (empty: a ratio)."""

    name: str
    measured: float
    sign: Literal["<=", ">="]
    limit: float
    unit: str = ""
    number: str = ""
    """Which of the figures that the project promises it is, as ``docs/performance.md`` numbers them; empty for none."""

    @property
    def held(self) -> bool:
        """Whether the figure keeps to the limit."""
        return self.measured <= self.limit if self.sign == "<=" else self.measured >= self.limit


def show(title: str, bars: Sequence[Bar]) -> None:
    """Prints the bars as a table, those that are missed marked."""
    print(f"\n{title:64}{'measured':>12}{'wanted':>16}")
    for bar in bars:
        wanted = f"{bar.sign} {bar.limit:g} {bar.unit}".rstrip()
        print(f"{bar.name:64}{bar.measured:12.2f}{wanted:>16}{'' if bar.held else '  missed'}")


def markdown(where: str, bars: Sequence[Bar], missing: Sequence[str]) -> str:
    """The bars as a table in Markdown, in order of their numbers, those without one last, and what it was measured on."""
    ordered = sorted(bars, key=lambda bar: int(bar.number[1:] or 0) if bar.number else 100)
    rows = [
        f"| {bar.number} | {bar.name} | {_amount(bar.measured, bar)} | {bar.sign} {_amount(bar.limit, bar)} |" for bar in ordered
    ]
    rows += [f"| {number} | not measured: what it needs is not on this machine | | |" for number in missing]
    missed = [f"{bar.number} {bar.name}".strip() for bar in ordered if not bar.held]
    told = f"\nMissed: {'; '.join(missed)}.\n" if missed else ""
    return "\n".join(["| # | measure | measured | wanted |", "|---|---|---|---|", *rows, "", f"Measured on: {where}.", told])


def _amount(value: float, bar: Bar) -> str:
    return f"{value:.3g} {bar.unit}".rstrip() if value < 1000 else f"{value:,.0f} {bar.unit}".rstrip()
