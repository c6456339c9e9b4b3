"""What an export refuses, in one line that says what to do; texts that a spreadsheet would run; no half file."""

import csv
from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from allocation.schemas import FINDINGS
from pipelines import cli
from pipelines.csv_text import csv_rows, header
from pipelines.partition import Partition
from pipelines.storage import TableStore
from tests.pipelines.test_focus_export import Day, case, rows_of

__all__ = ["case"]
DANGEROUS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://x","y")']
HARMLESS = ["a=1", 'say "yes", twice', "two\r\nlines", "", " x", "ümlaut"]


def refused(capsys: pytest.CaptureFixture[str], code: int, *argv: str) -> str:
    capsys.readouterr()
    assert cli.main(["export", "focus", *argv]) == code
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    return shown


def test_texts_that_a_spreadsheet_would_run_get_an_apostrophe_and_numbers_none() -> None:
    texts = [*DANGEROUS, *HARMLESS, None]
    money = pa.array([Decimal(-1).scaleb(-9)] * len(texts), pa.decimal128(38, 9))
    batch = pa.RecordBatch.from_arrays([pa.array(texts), money, pa.array([-1.5] * len(texts))], names=["text", "cost", "count"])
    written = (header(["text", "cost", "count"]) + csv_rows(batch)).decode()
    rows = list(csv.reader(written.splitlines(keepends=True)))
    assert rows[0] == ["text", "cost", "count"]
    assert [row[0] for row in rows[1:]] == [f"'{text}" for text in DANGEROUS] + HARMLESS + [""]
    assert {tuple(row[1:]) for row in rows[1:]} == {("-0.000000001", "-1.5")}
    assert written.split("\r\n")[-2].startswith(",")  # null is nothing, an empty text is two quotes
    assert '\r\n"",-0.000000001' in written


def test_a_bill_s_text_cannot_run(case: Callable[..., Day]) -> None:
    day = case("01-fairness-holder")
    bill = day.config.parent / "bill.csv"
    bill.write_text(
        bill.read_text(encoding="utf-8").replace("Amazon Elastic Compute Cloud", "=cmd|' /C calc'!A0"), encoding="utf-8"
    )
    assert cli.main(["run", str(day.config), *day.window]) == 0
    with day.export("x.csv").open(encoding="utf-8", newline="") as file:
        assert {row["ServiceName"] for row in csv.DictReader(file)} == {"'=cmd|' /C calc'!A0"}
    assert {row["ServiceName"] for row in day.rows()} == {"=cmd|' /C calc'!A0"}


@pytest.mark.parametrize(("name", "said"), [("x.xlsx", "ends in '.xlsx'"), ("x", "has no ending")])
def test_an_unknown_ending(case: Callable[..., Day], capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    day = case("01-fairness-holder")
    shown = refused(capsys, 2, str(day.config), *day.window, "--to", name)
    assert said in shown
    assert "'.csv', '.parquet'" in shown


def test_a_day_that_is_missing_is_named_with_its_cluster(case: Callable[..., Day], capsys: pytest.CaptureFixture[str]) -> None:
    day = case("01-fairness-holder")
    path = day.config.parent / "x.csv"
    shown = refused(capsys, 1, str(day.config), "--from", "2026-10-01", "--until", "2026-10-04", "--to", str(path))
    assert "2026-10-02 of cluster 'prod' is not there and 1 more up to 2026-10-03" in shown
    assert "run CONFIG --from 2026-10-02 --until 2026-10-04" in shown
    shown = refused(capsys, 1, str(day.config), "--month", "2026-10", "--to", str(path))
    assert "29 more up to 2026-10-31" in shown
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--focus-version", "1.1"], "--focus-version '1.1' is not written"),
        (["--cost-metric", "biled"], "did you mean 'billed'?"),
        (["--accept", "nothing_known"], "is no code of a finding"),
        (["--month", "2026-10"], "leave out --from and --until"),
        (["--to", "no-such-folder/x.csv"], "cannot be written"),
    ],
)
def test_options_that_are_wrong(
    case: Callable[..., Day], capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    day = case("01-fairness-holder")
    assert said in refused(capsys, 2, str(day.config), *day.window, "--to", str(day.config.parent / "x.csv"), *options)


def test_a_month_that_is_none(case: Callable[..., Day], capsys: pytest.CaptureFixture[str]) -> None:
    day = case("01-fairness-holder")
    assert "is no month" in refused(capsys, 2, str(day.config), "--to", "x.csv", "--month", "2026-13")


def test_several_metrics_need_a_choice(case: Callable[..., Day], capsys: pytest.CaptureFixture[str]) -> None:
    day = case("95-spot-and-on-demand-two-metrics")
    shown = refused(capsys, 2, str(day.config), *day.window, "--to", str(day.config.parent / "x.csv"))
    assert "several cost metrics (billed, list)" in shown
    for metric in ("billed", "list"):
        column = f"{metric.capitalize()}Cost"
        own = sum(row["cost"] for row in day.chargeback() if row["cost_metric"] == metric)
        assert sum(row[column] for row in day.rows("one.parquet", "--cost-metric", metric)) == own


def test_an_error_blocks_until_it_is_accepted(case: Callable[..., Day], capsys: pytest.CaptureFixture[str]) -> None:
    day = case("01-fairness-holder")
    path = day.config.parent / "x.parquet"
    finding = dict.fromkeys(FINDINGS.names) | {
        "code": "duplicate_samples", "severity": "error", "subject": "gpu-a", "evidence": "seen twice", "count": 1, "run_id": "x",
    }  # fmt: skip
    store = TableStore(str(day.config.parent / "out"))
    store.write("findings", Partition(date(2026, 10, 1), "prod"), pa.Table.from_pylist([finding], FINDINGS.arrow()))
    shown = refused(capsys, 1, str(day.config), *day.window, "--to", str(path))
    assert "2026-10-01, cluster 'prod': the finding duplicate_samples (gpu-a) is an error" in shown
    assert not path.exists()
    assert rows_of(day.export(path.name, "--accept", "duplicate_samples"))


def test_a_failure_leaves_the_file_that_was_there(case: Callable[..., Day], capsys: pytest.CaptureFixture[str]) -> None:
    day = case("01-fairness-holder")
    path = day.export("x.csv")
    before = path.read_bytes()
    part = next((day.config.parent / "out" / "chargeback").glob("date=*/cluster=prod/part-*.parquet"))
    content = bytearray(part.read_bytes())
    content[4:200] = b"\0" * 196
    part.write_bytes(bytes(content))
    assert "cannot be read" in refused(capsys, 1, str(day.config), *day.window, "--to", str(path))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []
