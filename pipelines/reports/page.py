"""A month's figures as one page of HTML that needs nothing else; what is written on it is decided in ``sections``.

Every text goes through the template's escaping; only charts, which escape themselves, go in as they are. The page's own policy
forbids scripts and requests altogether.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from allocation.errors import MissingExtraError

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Cell:
    """What is shown, and exactly where that is more."""

    text: str
    exact: str = ""


@dataclass(frozen=True)
class Column:
    """``kind``: name (from a cluster or a bill), text, number or money."""

    label: str
    kind: str = "money"


@dataclass(frozen=True)
class Row:
    """A row of a table; ``mark`` makes it a part (sub) or a sum."""

    cells: list[Cell]
    mark: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with a chart, a table or both; ``empty`` is said where there is neither."""

    key: str
    title: str
    columns: list[Column] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    text: str = ""
    chart: str = ""
    total: Row | None = None
    empty: str = "Nothing to show."
    compact: bool = False


@dataclass(frozen=True)
class Note:
    """Something that must be read before the figures."""

    head: str
    text: str


@dataclass(frozen=True)
class Card:
    """A key figure."""

    label: str
    value: str
    sub: str = ""
    exact: str = ""


@dataclass(frozen=True)
class Page:
    """All that a page says."""

    title: str
    month: str
    month_name: str
    metric: str
    currency: str
    state: str
    lead: str
    coin_name: str
    version: str
    notes: list[Note]
    cards: list[Card]
    sections: list[Section]
    team: str | None = None
    tied: str = ""


class Renderer:
    """The template, read once for all pages of a report."""

    def __init__(self) -> None:
        self._template = _template()

    def render(self, page: Page) -> str:
        """The page as HTML."""
        return str(self._template.render(p=page))


def _template() -> "Template":
    try:
        import jinja2  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("jinja2", "report") from error
    loader = jinja2.FileSystemLoader(_TEMPLATES)
    world = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return world.get_template("report.html.j2")


def as_drawn(chart: str) -> str:
    """A chart as the template takes it without escaping."""
    from markupsafe import Markup  # noqa: PLC0415

    return Markup(chart)  # noqa: S704
