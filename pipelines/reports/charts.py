"""Charts of a report as inline SVG: colours that differ for everyone, hatches that differ in grey, texts drawn by the browser.

Each is drawn twice, for a wide and a narrow page; the page shows one. The same figures give the same bytes.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from allocation.errors import MissingExtraError
from pipelines.reports.names import cells, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, NARROW = 960, 350
COLOURS = {
    "in use": ("#0072B2", ""),
    "overhead": ("#56B4E9", "//"),
    "free, held": ("#009E73", "\\\\"),
    "idle": ("#F0E442", ".."),
    "stranded": ("#E69F00", "xx"),
    "host": ("#CC79A7", "--"),
    "unallocated": ("#D55E00", "++"),
    "measured": ("#0072B2", ""),
    "estimated": ("#56B4E9", "//"),
    "inferred": ("#E69F00", "xx"),
    "not measured": ("#D55E00", "++"),
}
"""The palette of Okabe and Ito, each with a hatch of its own."""
INK, QUIET = "#1d2733", "#59636e"
_DPI = 72
_LETTER = 8.4
"""Room for a letter in points, wide enough for any font's average."""
_STYLE = {
    "svg.fonttype": "none",
    "hatch.linewidth": 0.6,
    "font.family": "sans-serif",
    "text.parse_math": False,
    "axes.unicode_minus": False,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": INK,
}
Series = Sequence[tuple[str, Sequence[float]]]


def bars(labels: Sequence[str], values: Sequence[float], texts: Sequence[str], title: str) -> str:
    """One bar a label from top to bottom, its amount written behind it."""
    return _both(lambda axes, wide: _bars(axes, labels, values, texts, wide), title, 40 + 27 * len(labels))


def days(labels: Sequence[str], series: Series, title: str) -> str:
    """A stacked column a day, a colour and a hatch a series."""
    return _both(lambda axes, wide: _days(axes, labels, series, wide), title, 330)


def strip(series: Sequence[tuple[str, float, str]], title: str) -> str:
    """One bar of parts; the key tells each part's name, amount and share."""
    return _both(lambda axes, _: _strip(axes, series), title, 70 + 26 * len(series))


def _both(draw: Callable[["Axes", bool], None], title: str, height: int) -> str:
    return "".join(
        f'<div class="{kind}">{_svg(draw, width, height, f"{title}{kind}", title)}</div>'
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )


def _svg(draw: Callable[["Axes", bool], None], width: int, height: int, salt: str, title: str) -> str:
    try:
        import matplotlib as mpl  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report") from error
    style: Any = {**_STYLE, "svg.hashsalt": salt, "font.size": 13 if width == WIDE else 12}
    with mpl.rc_context(style), warnings.catch_warnings():
        figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, layout="constrained")
        axes = figure.add_subplot()
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has the letters
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        draw(axes, width == WIDE)
        out = io.StringIO()
        figure.savefig(
            out, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    return _inline(out.getvalue(), title)


def _inline(text: str, title: str) -> str:
    """The drawing alone, with ids only where something refers to them."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text))
    known = {one or other for one, other in used}
    text = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in known else "", text)
    text = text.replace("DejaVu Sans", "Helvetica Neue")
    box = re.search(r'viewBox="[^"]*"', text)
    return re.sub(r"<svg[^>]*>", f'<svg role="img" aria-label="{title}" {box[0] if box else ""}>', text, count=1)


def _bars(axes: "Axes", labels: Sequence[str], values: Sequence[float], texts: Sequence[str], wide: bool) -> None:
    places = range(len(values))
    axes.barh(places, values, color="#0072B2", height=0.66)
    names = [shortened(label, 34 if wide else 15) for label in labels]
    cast("Figure", axes.figure).set_layout_engine("none")  # it would measure letters that only the browser has
    left = max(map(cells, names)) * _LETTER / (WIDE if wide else NARROW) + 0.02
    axes.set_position((left, 0.0, 1.0 - left, 1.0))
    axes.set_yticks(places, names, parse_math=False)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.axvline(0, color=QUIET, linewidth=0.8)
    low, high = min(0.0, *values), max(0.0, *values)
    room = (high - low or 1.0) * (0.16 if wide else 0.62)
    axes.set_xlim(low - (room if low else 0), high + room)
    axes.set_ylim(len(values) - 0.5, -0.5)
    for place, value, text in zip(places, values, texts, strict=True):
        side = "left" if value >= 0 else "right"
        axes.annotate(
            text, (value, place), (4 if value >= 0 else -4, 0), textcoords="offset points", va="center", ha=side, parse_math=False
        )


def _days(axes: "Axes", labels: Sequence[str], series: Series, wide: bool) -> None:
    above, below = [0.0] * len(labels), [0.0] * len(labels)
    for name, values in series:
        colour, hatch = COLOURS[name]
        bottom = [a if v >= 0 else b for a, b, v in zip(above, below, values, strict=True)]
        axes.bar(range(len(labels)), values, 0.8, bottom, color=colour, hatch=hatch, edgecolor="white", linewidth=0.4, label=name)
        above = [a + max(v, 0.0) for a, v in zip(above, values, strict=True)]
        below = [b + min(v, 0.0) for b, v in zip(below, values, strict=True)]
    step = 1 if wide or len(labels) <= 10 else 5
    shown = [n for n in range(len(labels)) if n % step == 0]
    axes.set_xticks(shown, [labels[n] for n in shown])
    axes.set_xlim(-0.6, max(len(labels), 8) - 0.4)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.grid(axis="y", color="#d5dae0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    key: Any = {"frameon": False, "handlelength": 1.6, "columnspacing": 1.2, "ncols": 7 if wide else 3}
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", **key)


def _strip(axes: "Axes", series: Sequence[tuple[str, float, str]]) -> None:
    start = 0.0
    for name, value, text in series:
        colour, hatch = COLOURS[name]
        axes.barh(
            [0], [value], 0.6, [start], color=colour, hatch=hatch, edgecolor="white", linewidth=0.6, label=f"{name}  {text}"
        )
        start += value
    axes.set_yticks([])
    axes.set_xticks([])
    axes.set_xlim(0, start or 1)
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", frameon=False, handlelength=2.2)
