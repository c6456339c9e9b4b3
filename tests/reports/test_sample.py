"""The quick start's report against its bill: every team's figure is worked out again from the bill's amounts."""

import csv
import re
from decimal import Decimal
from html import unescape
from pathlib import Path

import pytest

from scripts.sample_report import NAME, sample
from tests.test_quickstart_files import FOLDER, figures

SAMPLE = Path(__file__).parents[2] / "docs" / "report" / "index.html"
CENT = Decimal("0.01")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sample(tmp_path_factory.mktemp("quickstart"))


def cells(page: str, section: str) -> list[list[str]]:
    """The rows of a section's table as texts."""
    found = re.search(rf'<section id="{section}".*?</section>', page, re.DOTALL)
    assert found
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", found[0], re.DOTALL)
    return [[unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in rows]


def test_the_reports_figures_follow_from_the_bill(page: str) -> None:
    with (FOLDER / "bill.csv").open(encoding="utf-8", newline="") as file:
        bill = list(csv.DictReader(file))
    exact = figures(bill)
    shown = {row[0]: Decimal(row[1]) for row in cells(page, "teams") if row}
    teams = ("research", "assistant", "search", "platform", "nobody")
    for team in teams:
        value = Decimal(exact[team].numerator) / Decimal(exact[team].denominator)
        assert abs(shown[team] - value) < CENT, team
    nodes = Decimal("490.656")
    assert shown["Total"] == Decimal("490.66") == sum(shown[t] for t in (*teams, "documents", "support"))
    assert abs(shown["documents"] - Decimal(float(exact["ocr"]))) < CENT
    tie = {row[0]: row[1] for row in cells(page, "tie") if row}
    everything = sum((Decimal(line["EffectiveCost"]) for line in bill), Decimal())
    assert Decimal(tie["Bill lines of the month"]) == everything.quantize(CENT)
    outside = sum(Decimal(value) for step, value in tie.items() if step.startswith("Out of scope"))
    assert outside == everything - nodes
    assert tie["Difference"] == "0.00"


def test_the_exact_figure_is_beside_the_shown(page: str) -> None:
    assert 'title="490.656000000">490.66<' in page
    assert NAME == "report-2026-10-effective-USD.html"


def test_the_sample_in_the_documentation_has_these_figures(page: str) -> None:
    committed = SAMPLE.read_text(encoding="utf-8")
    sections = re.findall(r'<section id="(\w+)"', page)
    assert sections == re.findall(r'<section id="(\w+)"', committed)
    for section in sections:
        if section != "days":
            assert cells(page, section) == cells(committed, section), f"{section}: run python scripts/sample_report.py --pictures"


@pytest.mark.parametrize("picture", ["1280.png", "390.png"])
def test_pictures_are_small(picture: str) -> None:
    path = SAMPLE.with_name(picture)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert path.stat().st_size < 300_000
