"""A bar: what a benchmark measured beside what it may be, and the table of them.

Here does not belong what is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Bar:
    """One figure and its limit."""

    name: str
    measured: float
    sign: Literal["<=", ">="]
    limit: float
    unit: str = ""

    @property
    def held(self) -> bool:
        """Whether the figure is as good as it must be."""
        return self.measured <= self.limit if self.sign == "<=" else self.measured >= self.limit


def show(title: str, bars: Sequence[Bar]) -> None:
    """Prints a table of bars."""
    print(f"\n{title:64}{'measured':>12}{'wanted':>12}")
    for bar in bars:
        told = f"{bar.measured:.2f}{f' {bar.unit}' if bar.unit else ''}"
        print(f"{bar.name:64}{told:>12}{f'{bar.sign} {bar.limit:g}':>12}{'' if bar.held else '  missed'}")
