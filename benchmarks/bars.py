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
