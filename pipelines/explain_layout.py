"""Lines, titles and tables as the text of ``explain`` has them."""

from rich.console import Console
from rich.table import Table


def say(out: Console, text: str) -> None:
    """A line as it stands, without markup."""
    out.print(text, markup=False, highlight=False)


def title(out: Console, text: str) -> None:
    """The line above a table."""
    out.print(text, markup=False, highlight=False, style="bold")


def make_grid(*columns: str) -> Table:
    """A table whose columns named with a leading `>` are figures."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        figure = name.startswith(">")
        table.add_column(name.lstrip(">"), justify="right" if figure else "left", no_wrap=figure, overflow="fold")
    return table


def clock(text: str) -> str:
    """The time of day of an RFC 3339 time.

    >>> clock("2026-10-01T05:00:00Z")
    '05:00:00'
    """
    return text.partition("T")[2].removesuffix("Z")
