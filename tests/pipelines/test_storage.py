"""Partitions on disk: whole or not at all, the same bytes for the same rows, and names that stay in their folder."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import SourceUnavailableError
from allocation.schemas import LINE_ITEMS
from pipelines.kept_bills import KeptBills
from pipelines.partition import Partition
from pipelines.storage import TableStore

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


def written_until(step: int, write: Callable[[], None]) -> bool:
    """Writes in another process that is killed before that step on files, if it gets there; whether it got to its end."""
    pid = os.fork()
    if not pid:
        left = [step]

        def count(event: str, _: tuple[object, ...]) -> None:
            if event == "open" or event.startswith(("os.", "shutil.", "tempfile.")):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        write()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("parts", [1, 2])
def test_a_writer_that_is_killed_at_any_step_leaves_old_or_new_rows(tmp_path: Path, parts: int) -> None:
    """One file of a fixed name, and files named by content: readers see two rows of one kind; the next writer tidies up."""
    store = TableStore(str(tmp_path / "out"))

    def write(value: int) -> None:
        if parts == 1:
            store.write("t", DAY, rows(value, value), {"value": value})
        else:
            store.write_parts("t", DAY, iter([rows(value), rows(value)]), lambda: {"value": value})

    write(1)
    shutil.copytree(tmp_path / "out", tmp_path / "old")
    seen, step = list[int](), 1
    while not written_until(step, lambda: write(2)):
        kept, commit = store.read("t", DAY), store.commit("t", DAY)
        assert kept is not None
        assert commit is not None
        (value,) = set(kept["n"].to_pylist())
        assert len(kept) == 2
        assert commit.detail["value"] in (1, value), "a new marker beside old rows"
        seen.append(value)
        write(2)
        assert [p.name for p in (tmp_path / "out" / "t").iterdir()] == [DAY.path.split("/")[0]]
        shutil.rmtree(tmp_path / "out")
        shutil.copytree(tmp_path / "old", tmp_path / "out")
        step += 1
    assert seen == sorted(seen)
    assert set(seen) == {1, 2}
    assert step > 10


def test_what_a_killed_reader_of_a_bill_left_goes_with_the_next(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    left = tmp_path / "line_items" / ".aside-run.0-key"
    left.mkdir(parents=True)
    (left / "lines.parquet").write_bytes(b"half")
    with pytest.raises(RuntimeError, match="broken off"):
        KeptBills(store).write("key", broken_off(), lambda: rows(1))
    KeptBills(store).write("key", iter([LINE_ITEMS.empty()]), lambda: rows(1))
    assert sorted(p.name for p in (tmp_path / "line_items").iterdir()) == ["_ordinals", "key.parquet"]


def broken_off() -> Iterator[pa.Table]:
    yield LINE_ITEMS.empty()
    raise RuntimeError("broken off")


def test_what_a_killed_run_left_of_a_partition_that_stays_is_cleaned_away(tmp_path: Path) -> None:
    """That which another process has in hand stays, and that of other partitions."""
    store = TableStore(str(tmp_path))
    for name in ("held.0", "left.0"):
        (tmp_path / "t" / f".aside-{name}-2026-10-01%7Cprod").mkdir(parents=True)
    (tmp_path / "t" / ".aside-left.0-2026-10-02%7Cprod").mkdir()
    held = store.arriving("t", DAY, "held")
    store.clean("t", DAY)
    assert sorted(p.name for p in (tmp_path / "t").iterdir()) == [
        ".aside-held.0-2026-10-01%7Cprod",
        ".aside-left.0-2026-10-02%7Cprod",
    ]
    held.drop()
