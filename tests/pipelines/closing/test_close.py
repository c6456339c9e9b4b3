"""What keeps a month from being closed, and what closing it leaves: an entry, frozen files, and a proof."""

import json
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.schemas import FINDINGS
from pipelines.alone import TakenError, alone
from pipelines.closing.books import open_books
from pipelines.months import Month, month_rows
from pipelines.partition import Partition
from pipelines.places import Place
from tests.pipelines.closing.places import FIRST, Books, books
from tests.servers import s3_server

__all__ = ["books"]

LAST = date(2026, 10, 31)
OCTOBER = Month.parse("2026-10")


def obstacles(books: Books, month: str = "2026-10") -> list[tuple[str, str | None, str | None]]:
    found = books.told("close", month, code=3)
    assert not found["entry"]
    assert not open_books(books.store).is_closed(Month.parse(month))
    return [(one["kind"], one["day"], one["cluster"]) for one in found["obstacles"]]


def test_days_that_lack_something_are_named(books: Books) -> None:
    out = books.company.folder / "out"
    (out / "team_model" / "date=2026-10-31" / "cluster=prod" / "_commit.json").unlink()
    books.company.clusters = ("prod", "eu/1")
    books.company.write()
    assert obstacles(books) == [
        ("day_missing", "2026-10-30", "eu/1"), ("day_missing", "2026-10-31", "prod"), ("day_missing", "2026-10-31", "eu/1"),
    ]  # fmt: skip
    said = books.call("close", "2026-10", code=3)
    todo = "`gpu-chargeback run CONFIG --from 2026-10-31 --until 2026-11-01`"
    assert f"2026-10-31 of cluster 'prod': lacks team_model; {todo}" in said
    assert "2026-10-30 to 2026-10-31 of cluster 'eu/1': never computed; " in said


def test_days_in_a_row_are_one_line(books: Books) -> None:
    books.company.start = date(2026, 10, 2)
    books.company.write()
    said = books.call("close", "2026-10", code=3)
    todo = "`gpu-chargeback run CONFIG --from 2026-10-02 --until 2026-10-30`"
    assert f"- 2026-10-02 to 2026-10-29 of clusters 'prod', '_bill': never computed; {todo}" in said.splitlines()
    assert len(books.told("close", "2026-10", code=3)["obstacles"]) == 2 * 28


def test_a_bill_that_says_something_else_than_the_tables(books: Books) -> None:
    books.company.price[FIRST] = "4.25"
    books.company.write()
    assert obstacles(books) == [("bill_differs", "2026-10-30", None)]
    said = books.call("close", "2026-10", code=3)
    assert "the bill has +0.500000000 USD (billed cost, +0 lines) beyond what the tables hold" in said
    books.run()
    assert "2026-10 is closed" in books.call("close", "2026-10")


def test_a_month_that_is_not_over_and_a_bill_that_is_not_final(books: Books) -> None:
    assert obstacles(books.at("2026-10-31T12:00:00")) == [("month_not_over", None, None), ("bill_not_final", None, None)]
    books.company.entry = {}
    books.company.write()
    assert obstacles(books.at("2027-03-01T00:00:00")) == [("bill_not_final", None, None)]
    books.company.invoices = {date(2026, 10, 1): "INV-7"}
    books.company.write()
    books.at("2026-11-01T00:00:00").run(FIRST, 2)
    assert "2026-10 is closed" in books.call("close", "2026-10")


def test_an_open_bill_can_be_accepted_and_that_is_on_record(books: Books) -> None:
    books.company.entry = {}
    books.company.write()
    entry = Path(books.told("close", "2026-10", "--accept-open", "--by", "Ada")["entry"])
    content = json.loads(entry.read_text(encoding="utf-8"))
    assert (content["by"], content["accept_open"], content["at"]) == ("Ada", True, "2026-11-06T09:00:00+00:00")
    assert [bill["final"] for bill in content["bills"]] == [False]


def test_an_error_blocks_until_it_is_accepted_by_name(books: Books) -> None:
    row = {
        "code": "duplicate_samples", "severity": "error", "subject": "gpu-a", "evidence": "seen twice", "count": 1, "run_id": "x",
    }  # fmt: skip
    whole = dict.fromkeys(FINDINGS.names) | row
    books.store.write("findings", Partition(LAST, "prod"), pa.Table.from_pylist([whole], FINDINGS.arrow()))
    assert obstacles(books) == [("error_finding", "2026-10-31", "prod")]
    assert "duplicate_sample' is no code" in books.call("close", "2026-10", "--accept", "duplicate_sample", code=2)
    assert "2026-10 is closed" in books.call("close", "2026-10", "--accept", "duplicate_samples")


def test_what_closing_leaves(books: Books) -> None:
    said = books.call("close", "2026-10")
    # two days of two hours at 4 dollars, and two fees of 7 that name no machine
    assert "charges: 16.000000000 USD (billed cost)" in said
    assert "the bill's 6 lines: 30.000000000 USD (billed cost) = 16.000000000 charged + 14.000000000 out of scope" in said
    content = open_books(books.store).entries[0].content
    assert content["partitions"] == [[day, cluster] for day in ("2026-10-30", "2026-10-31") for cluster in ("_bill", "prod")]
    assert {t["table"]: t["rows"] for t in content["tables"] if t["date"] == "2026-10-30" and t["cluster"] == "prod"} == {
        "chargeback": 4, "team_model": 2, "reconciliation": 2, "findings": 0, "daily_mart": 2,
    }  # fmt: skip
    told = content["rests_on"]["2026-10-30|prod"]
    assert set(told) == {"run_id", "deliveries", "inputs", "metric_queries"}
    assert told["metric_queries"]
    assert set(told["inputs"]) >= {"policy", "owners", "code", "bill"}
    assert "is closed already, by" in books.call("close", "2026-10", code=1)
    assert books.store.read("monthly_mart", Partition(OCTOBER.first, "prod"))["final"].to_pylist() == [True, True]  # type: ignore[index]


def test_two_closes_at_once(books: Books) -> None:
    books.company.entry = {"final_after": "1ms"}
    books.company.write()
    books.monkeypatch.undo()
    command = [sys.executable, "-m", "pipelines.cli", "close", str(books.company.config), "2026-10", "--by"]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("Ada", "Bea")]
    said = [one.communicate(timeout=120)[1] for one in both]
    assert sorted(one.returncode for one in both) == [0, 1] or sorted(one.returncode for one in both) == [1, 3], said
    loser = said[max(range(2), key=lambda n: both[n].returncode == 1)]
    assert "is closed already, by" in loser or "is under way in another process" in loser


def test_only_one_is_alone_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    with s3_server() as url:
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="bucket")
        one, other = (Place("s3://bucket/out", url, "us-east-1") for _ in range(2))
        with alone(one, "closes/2026-10", what="closing"):
            with pytest.raises(TakenError, match="closing is under way"), alone(other, "closes/2026-10", what="closing"):
                pass
            with alone(other, "closes/2026-11", what="closing"):
                pass
        with alone(other, "closes/2026-10", what="closing"):
            assert [name for name in one.names("closes/2026-10") if name.startswith(".claim-")]
        assert not [name for name in one.names("closes/2026-10") if name.startswith(".claim-")]


@pytest.mark.parametrize("harm", ["changed", "gone", "added"])
def test_verify_finds_what_is_not_as_it_was_closed(books: Books, harm: str) -> None:
    books.call("close", "2026-10")
    assert "are those that were closed" in books.call("verify", "2026-10")
    path = books.company.folder / "out" / "chargeback" / "date=2026-10-30" / "cluster=prod" / "part-0.parquet"
    if harm == "changed":
        content = bytearray(path.read_bytes())
        content[100] ^= 1
        path.write_bytes(content)
    elif harm == "gone":
        path.unlink()
    else:
        path.with_name("part-1.parquet").write_bytes(path.read_bytes())
    said = books.call("verify", code=3)
    words = {"changed": "is another file than was closed", "gone": "is gone", "added": "was put there after the month was closed"}
    assert words[harm] in said
    assert path.parent.name in said


def test_a_cluster_that_comes_later_is_booked_and_not_written(books: Books) -> None:
    books.call("close", "2026-10")
    books.company.clusters = ("prod", "late")
    books.company.write()
    partitions = {p["cluster"]: p for p in books.run()}
    assert partitions["late"]["booked"]["legs"] == 0
    assert Partition(FIRST, "late") not in books.store.partitions("chargeback")
    assert "are those that were closed" in books.call("verify")


def test_an_invoice_of_november_corrects_an_hour_of_closed_october(books: Books) -> None:
    """Its line cannot stand in October's frozen day; it is booked in November, and November ties all the same."""
    books.call("close", "2026-10")
    whole = "2026-11-01T00:00:00Z,2026-12-01T00:00:00Z"
    hour = "2026-10-31T00:00:00Z,2026-10-31T01:00:00Z"
    books.company.extra = [f"acct,{whole},{hour},Credit,-1,USD,AWS,Compute,EC2,i-0a,,,"]
    books.company.days.append(date(2026, 11, 1))
    books.company.write()
    books.at("2026-12-06T09:00:00").run(date(2026, 11, 1))
    assert ("bill_differs", "2026-10-31", None) in obstacles(books, month="2026-11")
    [net] = [net for partition in books.run(LAST) for net in partition["booked"]["net"]]
    assert (net["billing_period"], net["cost"]) == ("2026-11-01", "-1.000000000")
    november = month_rows(books.store, Month.parse("2026-11"))
    # a day of two hours at 4 dollars, and the correction
    assert sum(november["cost"].to_pylist()) == Decimal(7)
    assert {kind for kind, _, _ in obstacles(books, month="2026-11")} == {"day_missing"}
    assert "are those that were closed" in books.call("verify", "2026-10")


def test_opening_again_wants_a_closed_month_and_a_reason(books: Books) -> None:
    assert "2026-10 is not closed" in books.call("reopen", "2026-10", "--reason", "why not", code=1)
    books.call("close", "2026-10")
    assert "for a reason" in books.call("reopen", "2026-10", "--reason", " ", code=1)
    said = books.call("reopen", "2026-10", "--reason", "wrong owners", "--by", "Ada")
    content = json.loads(Path(said.split("; ")[1].strip()).read_text(encoding="utf-8"))
    assert (content["reason"], content["by"]) == ("wrong owners", "Ada")
    assert "no month is closed" in books.call("verify", code=1)
    assert "0003-close.json" in books.call("close", "2026-10")


def test_history_and_diff(books: Books) -> None:
    books.company.price[FIRST] = "5"
    books.company.write()
    books.at("2026-11-07T09:00:00").run()
    books.run()
    place = ("--date", "2026-10-30", "--cluster", "prod")
    versions = books.told("history", *place)
    assert [(v["version"], v["kind"], v["at"], v["cost"]) for v in versions] == [
        (1, "published", "2026-11-06T09:00:00+00:00", "8.000000000 USD billed"),
        (2, "published", "2026-11-07T09:00:00+00:00", "10.000000000 USD billed"),
    ]
    found = books.told("diff", *place)
    assert found["cause"] == "bill_restated"
    assert [(row["team"], row["before"], row["now"], row["change"]) for row in found["rows"]] == [
        ("train-team", "6.000000000", "7.500000000", "1.500000000"), ("chat-team", "2.000000000", "2.500000000", "0.500000000"),
    ]  # fmt: skip
    assert "there is no version 3; `gpu-chargeback history` lists 1 to 2" in books.call("diff", *place, "--to", "3", code=1)


def test_corrections_stand_in_the_first_open_month(books: Books) -> None:
    books.call("close", "2026-10")
    books.company.price[LAST] = "6"
    books.company.write()
    window = ("--from", "2026-10-31", "--until", "2026-11-01", "--booking-date")
    assert "2026-10 is closed; name a day of an open month" in books.call("run", *window, "2026-10-31", code=2)
    assert books.run(LAST, 1, "--booking-date", "2026-11-03")[0]["booked"]["date"] == "2026-11-03"
    rows = month_rows(books.store, Month.parse("2026-11"))
    assert set(rows["entry"].to_pylist()) == {"adjustment"}
    assert sum(rows["cost"].to_pylist()) == Decimal(4)
    assert set(rows["date"].to_pylist()) == {LAST}
