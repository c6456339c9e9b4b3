"""The pages for auditors are whole: each code of a finding and each ruling stands in them, and the row worked by hand adds up."""

import csv
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from allocation.findings import Code, Severity

ROOT = Path(__file__).parents[1]
METHOD = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
CASES = ROOT / "tests" / "cases"
NEVER_RULED = {33, 34}
RULINGS = sorted(set(range(1, 49)) - NEVER_RULED)
WORKED = CASES / "51-dcgm-hostname-renamed"


def entries() -> list[tuple[str, str]]:
    """Each code's heading and the text below it."""
    return re.findall(r"^### `(\w+)`\n\n(.*?)(?=\n\n#|\Z)", FINDINGS, re.MULTILINE | re.DOTALL)


def test_each_code_has_one_entry_and_nothing_else_has() -> None:
    assert sorted(name for name, _ in entries()) == sorted(code.value for code in Code)


def test_each_entry_says_severity_subject_and_what_to_do() -> None:
    severities = "|".join(s.value for s in Severity)
    assert [name for name, text in entries() if not re.match(rf"({severities}) · [^.]+\. ", text) or "**Do:** " not in text] == []


def test_severities_are_those_of_the_code() -> None:
    """Where the code names a severity beside a code, the page has the same."""
    written = re.compile(r"Code\.([A-Z_]+),\s*Severity\.([A-Z]+)")
    sources = [p for room in ("allocation", "billing_adapters", "pipelines") for p in (ROOT / room).rglob("*.py")]
    told = {name: text.split(" ")[0] for name, text in entries()}
    named = {
        (code.lower(), severity.lower()) for p in sources for code, severity in written.findall(p.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert [pair for pair in sorted(named) if told[pair[0]] != pair[1]] == []


@pytest.mark.parametrize("number", RULINGS)
def test_each_ruling_is_told(number: int) -> None:
    assert re.search(rf"\*\*R{number}\.|\(R{number}\)[.:]?\*\*|\*\*R{number}\*\*", METHOD), f"R{number} has no paragraph"


def test_no_ruling_is_made_up() -> None:
    assert {int(n) for n in re.findall(r"\bR(\d+)\b", METHOD)} == set(RULINGS)


def test_each_case_that_the_method_names_is_there() -> None:
    named = {n for group in re.findall(r"\((\d\d(?:, \d\d)*)\)", METHOD) for n in group.split(", ")}
    there = {p.name[:2] for p in CASES.iterdir() if p.is_dir()}
    assert len(named) > 40
    assert named - there == set()


def test_the_row_worked_by_hand_adds_up() -> None:
    table = METHOD.split("**The money.**")[1]
    figures = r"([\d.]+) \| ([\d,.]+) \| ([\d,]+) \| ([\d.]+) \| (\+1)? ?\|$"
    parts = re.findall(rf"^\| ([ab]) (used|overhead|idle) \| {figures}", table, re.MULTILINE)
    assert len(parts) == 6
    with (WORKED / "bill.csv").open(encoding="utf-8", newline="") as file:
        cost = int(Decimal(next(csv.DictReader(file))["BilledCost"]).scaleb(9))
    weights = [Fraction(p[2]) for p in parts]
    exact = [Fraction(p[3].replace(",", "")) for p in parts]
    down = [int(p[4].replace(",", "")) for p in parts]
    assert exact == [cost * w / sum(weights) for w in weights]
    assert down == [int(e) for e in exact]
    assert [Fraction(p[5]) for p in parts] == [e - d for e, d in zip(exact, down, strict=True)]
    largest = sorted(range(6), key=lambda k: (down[k] - exact[k], k))[: cost - sum(down)]
    assert {k for k, p in enumerate(parts) if p[6]} == set(largest)
    with (WORKED / "expected.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["pod"]: row for row in csv.DictReader(file)}
    for k, (pod, column, *_) in enumerate(parts):
        assert Decimal(rows[pod][f"{column}_cost"]).scaleb(9) == down[k] + (k in largest)
