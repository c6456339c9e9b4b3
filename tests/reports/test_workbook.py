"""Workbooks read back by another library and recalculated by another program; CSV files read back; what is refused."""

import csv
import shutil
import subprocess
from datetime import date
from decimal import Decimal
from pathlib import Path

import openpyxl
import pytest

from pipelines.cli import main
from tests.reports.months import charge, finding, line, write_config, write_day

STEM = "report-2026-10-billed-USD"
OFFICE = shutil.which("soffice") or shutil.which("libreoffice")
NAMES = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "http://example.com", "<b>", "部門", "x" * 300]


def month(folder: Path) -> None:
    charges = [charge("3.333333333", name) for name in NAMES]
    write_day(folder / "out", charges, [line("33.33333333")], [finding("unowned", risk="1", subject="=cmd()", evidence="=x")])


def report(folder: Path, *more: str) -> int:
    return main(["report", str(write_config(folder)), "--month", "2026-10", "--to", str(folder / "r"), *more])


def sheets(path: Path, *, values: bool) -> openpyxl.Workbook:
    return openpyxl.load_workbook(path, data_only=values)


def test_a_workbook_has_texts_numbers_and_sums(tmp_path: Path) -> None:
    month(tmp_path)
    assert report(tmp_path, "--format", "xlsx") == 0
    book = sheets(tmp_path / "r" / f"{STEM}.xlsx", values=False)
    assert book.sheetnames[:3] == ["summary", "teams", "models"]
    teams = book["teams"]
    assert teams.freeze_panes == "A2"
    names = {teams.cell(row, 1).value for row in range(2, 2 + len(NAMES))}
    assert {"=1+1", "+1", "-1", "@SUM(A1)", "http://example.com", "x" * 300} <= names
    formulas = [c.coordinate for sheet in book for line in sheet.iter_rows() for c in line if c.data_type == "f"]
    assert all(str(book_cell).lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ").isdigit() for book_cell in formulas)
    assert {teams.cell(row, 1).data_type for row in range(2, 2 + len(NAMES))} == {"s"}
    assert [teams.cell(12, n).value for n in (1, 2, 3)] == ["total", "=SUM(B2:B11)", "=SUM(C2:C11)"]
    assert teams["B2"].number_format == "#,##0.00"
    assert not any(cell.hyperlink for row in teams.iter_rows() for cell in row)
    held = sheets(tmp_path / "r" / f"{STEM}.xlsx", values=True)["teams"]
    assert (held["B12"].value, held["C12"].value) == (33.33, 33.33333333)


@pytest.mark.skipif(OFFICE is None, reason="needs the Debian package `libreoffice-calc-nogui`")
def test_totals_recalculated_by_an_office_are_the_sums(tmp_path: Path) -> None:
    month(tmp_path)
    assert report(tmp_path, "--format", "xlsx") == 0
    profile = (tmp_path / "office").as_uri()
    made = [str(OFFICE), f"-env:UserInstallation={profile}", "--headless", "--convert-to", "ods", "--outdir", str(tmp_path)]
    subprocess.run([*made, str(tmp_path / "r" / f"{STEM}.xlsx")], check=True, capture_output=True, timeout=180)
    again = [*made[:-3], "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,2", *made[-2:]]
    subprocess.run([*again, str(tmp_path / f"{STEM}.ods")], check=True, capture_output=True, timeout=180)
    (found,) = tmp_path.glob("*.csv")
    rows = list(csv.reader(found.open(encoding="utf-8", newline="")))
    assert rows[-1][0] == "total"
    assert Decimal(rows[-1][1].replace(",", "")) == Decimal("33.33")
    assert Decimal(rows[-1][2].replace(",", "")) == Decimal("33.33333333")
    assert "=1+1" in [row[0] for row in rows]


def test_csv_files_are_defused_and_exact(tmp_path: Path) -> None:
    month(tmp_path)
    assert report(tmp_path, "--format", "csv") == 0
    with (tmp_path / "r" / STEM / "teams.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["team"] for row in rows} == {f"'{n}" if n[0] in "=+-@\t\r" else n for n in NAMES}
    assert sum(Decimal(row["cost"]) for row in rows) == Decimal("33.33")
    assert sum(Decimal(row["cost_exact"]) for row in rows) == Decimal("33.33333333")


def test_yen_have_no_decimals(tmp_path: Path) -> None:
    write_day(tmp_path / "out", [charge("1000.4", currency="JPY"), charge("0.3", "b", currency="JPY")], [])
    assert report(tmp_path) == 0
    book = sheets(tmp_path / "r" / "report-2026-10-billed-JPY.xlsx", values=True)
    assert [book["teams"].cell(n, 2).value for n in (2, 3, 4)] == [1001, 0, 1001]
    assert book["teams"]["B2"].number_format == "#,##0"
    assert "was 1,001 JPY" in (tmp_path / "r" / "report-2026-10-billed-JPY.html").read_text(encoding="utf-8")


def test_a_report_for_each_metric_and_currency(tmp_path: Path) -> None:
    write_day(tmp_path / "out", [charge("1"), charge("2", cost_metric="list"), charge("3", currency="EUR")])
    assert report(tmp_path, "--format", "html") == 0
    assert len(list((tmp_path / "r").glob("*.html"))) == 3
    shutil.rmtree(tmp_path / "r")
    assert report(tmp_path, "--format", "html", "--cost-metric", "billed", "--currency", "EUR") == 0
    assert [p.name for p in (tmp_path / "r").glob("*.html")] == ["report-2026-10-billed-EUR.html"]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--accept", "unownd"], 2, "is no code of a finding"),
        (["--cost-metric", "biled"], 2, "is no cost metric"),
        (["--currency", "CHF"], 2, "2026-10 has no rows under it; there are billed in USD"),
        (["--team", "rad"], 2, "--team 'rad' has no cost in the month"),
        (["--month", "October"], 2, "is no month; write it like 2026-10"),
        (["--month", "2027-02"], 1, "no day of 2027-02 is there; compute it with"),
    ],
)
def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, said: str) -> None:
    write_day(tmp_path / "out", [charge("1")])
    assert report(tmp_path, *more) == code
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_an_error_blocks_until_it_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_day(tmp_path / "out", [charge("1")], findings=[finding("billed_twice", "error")], day=date(2026, 10, 3))
    assert report(tmp_path) == 1
    assert "say --accept billed_twice" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    assert report(tmp_path, "--accept", "billed_twice") == 0


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_day(tmp_path / "out", [charge("1")])
    (tmp_path / "r").write_text("a file", encoding="utf-8")
    assert report(tmp_path) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_what_does_not_tie_is_said_at_the_top(tmp_path: Path) -> None:
    write_day(tmp_path / "out", [charge("10"), charge("1")], [line("10")])
    assert report(tmp_path, "--format", "html") == 0
    page = (tmp_path / "r" / f"{STEM}.html").read_text(encoding="utf-8")
    assert "<strong>Does not tie to the bill.</strong> 1.000000000 USD differ" in page
