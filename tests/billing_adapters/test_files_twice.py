"""A file that lies twice in a delivery without a manifest would be charged twice."""

import gzip
from pathlib import Path

import pytest

from allocation.errors import AdapterError
from tests.billing_adapters.bills import cur_bytes, focus_bytes, parse_all, write, write_export
from tests.billing_adapters.reports import legacy_bytes, zipped


@pytest.mark.parametrize("second", ["b.csv", "copy/a.csv", "2026/10/a.csv"])
def test_the_same_bytes_under_two_names_are_refused_naming_both(tmp_path: Path, second: str) -> None:
    for name in ("a.csv", second, "c.csv"):
        write(tmp_path / name, focus_bytes({"BilledCost": "3"} if name == "c.csv" else {}))
    with pytest.raises(AdapterError, match="the same file twice") as caught:
        parse_all("focus", tmp_path)
    assert "a.csv" in str(caught.value)
    assert second in str(caught.value)
    assert "c.csv" not in str(caught.value)


def test_other_bytes_of_one_length_and_leftovers_are_no_copies(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", focus_bytes({"BilledCost": "3"}))
    write(tmp_path / "b.csv", focus_bytes({"BilledCost": "4"}))
    write(tmp_path / "_old" / "a.csv", focus_bytes({"BilledCost": "3"}))
    assert sum(parse_all("focus", tmp_path)["cost_nanos"].to_pylist()) == 7 * 10**9


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_header_without_rows_may_stand_twice(tmp_path: Path, suffix: str) -> None:
    header = focus_bytes({}).split(b"\n")[0] + b"\n"
    for name in ("a", "b"):
        write(tmp_path / f"{name}{suffix}", gzip.compress(header, mtime=0) if suffix.endswith("gz") else header)
    write(tmp_path / "c.csv", focus_bytes({}))
    assert parse_all("focus", tmp_path).num_rows == 1


def test_two_damaged_copies_are_refused_as_copies(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write(tmp_path / name, gzip.compress(focus_bytes({}), mtime=0)[:-9])
    with pytest.raises(AdapterError, match="the same file twice"):
        parse_all("focus", tmp_path)


def test_chunks_of_one_manifest_that_hold_the_same_bytes_are_refused(tmp_path: Path) -> None:
    one = cur_bytes({}, {"line_item_unblended_cost": "1"})
    root = write_export(tmp_path / "e", {"e-00001.csv.gz": one, "e-00002.csv.gz": one})
    with pytest.raises(AdapterError, match=r"the same file twice: .*e-00001.*e-00002"):
        parse_all("aws-cur2", root)


def test_members_of_one_zip_that_hold_the_same_bytes_are_refused(tmp_path: Path) -> None:
    one = legacy_bytes({}, {"line_item_unblended_cost": "1"})
    path = write(tmp_path / "report-1.zip", zipped({"a.csv": one, "b.csv": one}))
    with pytest.raises(AdapterError, match=r"report-1\.zip: the same file twice: a\.csv and b\.csv"):
        parse_all("aws-cur", path)
