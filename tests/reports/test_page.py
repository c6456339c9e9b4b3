"""The page in a real browser: nothing is run, fetched or cut, charts have marks, and it prints."""

import io
import json
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pypdf import PdfReader

from pipelines.cli import main
from tests.reports.browser import CHROMIUM, Browser
from tests.reports.months import Row, charge, finding, line, write_config, write_day

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs the Debian package `chromium`")
STEM = "report-2026-10-billed-USD"
HOSTILE = (
    "<script>console.error('run')</script>",
    "</style><img src=x onerror=console.error(1)><svg onload=console.error(2)>",
    "=1+1",
    "{{ 7 * 7 }} $x^2$ %s \\frac",
    "x" * 300,
    "部門" * 150,
    "\u202eقسم الأبحاث\u202c " * 20,
    "👩🏽‍🚀🚀" * 40,
    "a\x00b\tc\r\nd\x1b",
    "",
)
CUT = """
JSON.stringify([...document.querySelectorAll('body *')].filter(e => {
  if (e.closest('svg') || !e.getClientRects().length) return false;
  const box = e.getBoundingClientRect();
  return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 || box.right > innerWidth + 1 || box.left < -1;
}).map(e => e.outerHTML.slice(0, 200)))
"""
MARKS = """
JSON.stringify([...document.querySelectorAll('figure svg')].filter(s => s.getClientRects().length).map(s => {
  const box = s.getBoundingClientRect();
  const seen = [...s.querySelectorAll('path, rect')].filter(
    p => !p.closest('defs') && p.getAttribute('style')?.includes('fill: #'));
  const inside = seen.filter(p => { const b = p.getBoundingClientRect();
    return b.width > 0 && b.left >= box.left - 1 && b.right <= box.right + 1 && b.left >= -1 && b.right <= innerWidth + 1; });
  const texts = [...s.querySelectorAll('text')].every(t => { const b = t.getBoundingClientRect();
    return b.left >= box.left - 1 && b.right <= box.right + 1; });
  return [s.getAttribute('aria-label'), seen.length, inside.length, texts];
}))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


def report(folder: Path, *more: str) -> Path:
    assert main(["report", str(write_config(folder)), "--month", "2026-10", "--to", str(folder / "r"), *more]) == 0
    return folder / "r" / f"{STEM}.html"


def hostile(folder: Path) -> None:
    """Every column that a cluster or a bill fills."""
    rows: list[Row] = []
    for n, name in enumerate(HOSTILE):
        rows += [charge(f"{10 - n}.005", name, model=model) for model in (name, f"other {name}")]
    rows += [charge("3", None, bucket="unallocated", reason="<b>why</b>"), charge("-1.25", "credit")]
    lines = [line("4", state="out_of_scope", rule="<i>rule</i>", cost_out=Decimal(0), line_item_id=name) for name in HOSTILE]
    write_day(folder / "out", rows, lines, [finding("unowned", risk="1", subject=n, evidence=n) for n in HOSTILE])
    for day in range(1, 20):
        write_day(folder / "out", rows, day=date(2026, 10, 1) + timedelta(days=day))
    before: Row = {"billing_period": date(2026, 9, 1), "booked_period": date(2026, 9, 1)}
    write_day(folder / "out", [charge("2", name, **before) for name in (*HOSTILE, "gone")], day=date(2026, 9, 3))


def usual(folder: Path) -> None:
    write_day(folder / "out", [charge("1234567.891", "red"), charge("20", "blue", basis="mig")], [line("1234587.891")])


def many(folder: Path) -> None:
    write_day(folder / "out", [charge(f"{n}.5", f"team {n:05d}") for n in range(300)])


def negative(folder: Path) -> None:
    write_day(folder / "out", [charge("-1234567.89", "credit"), charge("2", "red")])


def empty(folder: Path) -> None:
    write_day(folder / "out", [], [line("4", state="out_of_scope", rule="no_resource", cost_out=Decimal(0))])


def one_row(folder: Path) -> None:
    write_day(folder / "out", [charge("0.004", "red")], [line("0.004")])


TOTALS = {usual: "1,234,587.89", many: "45,000.00", negative: "-1,234,565.89", empty: "No GPU cost was charged", one_row: "0.00"}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("month", [hostile, usual, many, negative, empty, one_row], ids=lambda m: m.__name__)
def test_nothing_is_cut_fetched_or_run(tmp_path: Path, browser: Browser, month: object, width: int) -> None:
    month(tmp_path)  # type: ignore[operator]
    browser.open(report(tmp_path, "--format", "html"), width)
    assert browser.complaints() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(CUT) == "[]"
    assert browser.value("document.scripts.length") == 0
    charts = json.loads(browser.value(MARKS))
    assert len(charts) >= (0 if month is empty else 2)
    assert all(seen > 0 and seen == inside and texts for _, seen, inside, texts in charts), charts
    if month in TOTALS:
        assert TOTALS[month] in browser.value("document.body.innerText")


def test_names_are_shown_as_they_are(tmp_path: Path, browser: Browser) -> None:
    hostile(tmp_path)
    browser.open(report(tmp_path, "--format", "html"), 1280)
    names = set(json.loads(browser.value("JSON.stringify([...document.querySelectorAll('#teams bdi')].map(e => e.textContent))")))
    shown = {n for n in HOSTILE if n and "\x00" not in n}
    assert shown <= names
    assert {"a\ufffdb\ufffdc\ufffd\ufffdd\ufffd", "(empty)", "nobody"} <= names


@pytest.mark.parametrize("month", [usual, many, hostile], ids=lambda m: m.__name__)
def test_it_prints_on_a4(tmp_path: Path, browser: Browser, month: object) -> None:
    month(tmp_path)  # type: ignore[operator]
    browser.open(report(tmp_path, "--format", "html"), 1280)
    pdf = PdfReader(io.BytesIO(browser.pdf()))
    box = pdf.pages[0].mediabox
    assert (round(float(box.width)), round(float(box.height))) == (595, 842)
    text = "".join(page.extract_text() for page in pdf.pages).replace("\n", " ")
    assert TOTALS.get(month, "October 2026") in text  # type: ignore[call-overload]
    assert "How it ties to the bill" in text


def test_a_page_of_a_team(tmp_path: Path, browser: Browser) -> None:
    hostile(tmp_path)
    report(tmp_path, "--format", "html", "--all-teams")
    pages = sorted((tmp_path / "r" / "teams").iterdir())
    assert len(pages) == len(HOSTILE) + 2
    for page in pages:
        browser.open(page, 390)
        assert browser.complaints() == []
        assert browser.value("document.documentElement.scrollWidth") <= 390
        assert browser.value(CUT) == "[]"
