"""Partitions on disk: whole or not at all, the same bytes for the same rows, and names that stay in their folder."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import SourceUnavailableError
from pipelines.storage import Partition, TableStore

DAY = Partition(date(2026, 10, 1), "prod")


def rows(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def test_a_partition_is_replaced_whole(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    store.write_parts("t", DAY, iter([rows(1), rows(2), rows(3)]))
    store.write_parts("t", DAY, iter([rows(4)]))
    assert [p["n"].to_pylist() for p in store.read_parts("t", DAY)] == [[4]]
    names = sorted(p.name.split("-")[0] for p in (tmp_path / "t" / DAY.path).iterdir())
    assert names == ["_commit.json", "part"]


def test_a_failure_in_the_middle_leaves_the_old_rows(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    store.write("t", DAY, rows(1))

    def broken() -> Iterator[pa.Table]:
        yield rows(2)
        raise RuntimeError("the second shard failed")

    with pytest.raises(RuntimeError, match="second shard"):
        store.write_parts("t", DAY, broken())
    kept = store.read("t", DAY)
    assert kept is not None
    assert kept["n"].to_pylist() == [1]
    assert [p.name for p in (tmp_path / "t").iterdir()] == [DAY.path.split("/")[0]]


def test_a_partition_without_its_marker_is_not_there(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    store.write("t", DAY, rows(1))
    (tmp_path / "t" / DAY.path / "_commit.json").unlink()
    assert store.read("t", DAY) is None
    assert store.partitions("t") == []


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for place in ("a", "b"):
        TableStore(str(tmp_path / place)).write("t", DAY, rows(1, 2), {"run_id": "r"})
    a, b = (sorted(p for p in (tmp_path / place).rglob("*") if p.is_file()) for place in ("a", "b"))
    assert [p.read_bytes() for p in a] == [p.read_bytes() for p in b]


@pytest.mark.parametrize("name", ["..", ".", "a/../../b", "x=y", "line\nbreak", "%2F", "größe", " "])
def test_any_name_comes_back_and_stays_inside(tmp_path: Path, name: str) -> None:
    store = TableStore(str(tmp_path / "out"))
    partition = Partition(date(2026, 10, 1), name)
    store.write("t", partition, rows(1))
    assert store.partitions("t") == [partition]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert len(partition.path.split("/")) == 2


def test_a_file_in_the_way_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    with pytest.raises(SourceUnavailableError, match="setting: output"):
        TableStore(str(tmp_path / "out")).write("t", DAY, rows(1))
