"""A disk that is full: one clear line, the old partitions whole, nothing left on the way, and a rerun once there is room."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from allocation.errors import SourceUnavailableError
from pipelines import cli, spool
from pipelines.spool import Spool
from tests.fleets import Fleet, assert_whole, bill_lines

PAGE_BYTES = 4096


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A real disk of that size, in memory."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_run_on_a_full_disk_leaves_whole_partitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With ever more pages free a run gets ever further, until it is done."""
    plain = Fleet(tmp_path / "plain", {"nodes_per_shard": 20})
    assert cli.main(plain.command()) == 0
    new = plain.bytes_of()
    with disk(tmp_path / "disk", "1m") as place:
        fleet = Fleet(tmp_path / "fleet", {"nodes_per_shard": 20}, output=str(place / "out"))
        fleet.write_bill(bill_lines(5))
        assert cli.main(fleet.command()) == 0
        old, failed = fleet.bytes_of(), 0
        fleet.write_bill(bill_lines())
        for pages in (0, 3, 8, 16, 100):
            fill(place, pages)
            capsys.readouterr()
            code = cli.main(fleet.command("--refetch"))
            told = capsys.readouterr().err
            (place / "filler").unlink()
            assert_whole(fleet, old, new)
            assert fleet.left_over() == []
            if code == 0:
                break
            failed += 1
            assert code == 1
            assert "No space left on device" in told
            assert told.count("\n") == 1
        assert failed >= 3
        assert code == 0
        assert fleet.bytes_of() == new


def fill(place: Path, pages: int) -> None:
    """Leaves so many pages free."""
    with (place / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(b"x" * PAGE_BYTES) == PAGE_BYTES:
                pass
        except OSError:
            pass
        filler.truncate(max(filler.tell() - pages * PAGE_BYTES, 0))


def test_rows_of_a_large_day_that_no_disk_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": pa.array(range(40_000), pa.int64())})
    monkeypatch.setattr(spool, "IN_MEMORY_ROWS", 1000)
    with disk(tmp_path / "disk", "256k") as place:
        monkeypatch.setattr("tempfile.tempdir", str(place))
        held = Spool(rows.schema)
        with pytest.raises(SourceUnavailableError, match=r"No space left on device.*TMPDIR") as refused:
            held.add(pa.concat_tables([rows] * 20))
        assert str(place) in str(refused.value)
        held.close()
        assert list(place.iterdir()) == []
        fine = Spool(rows.schema)
        fine.add(rows.slice(0, 20_000))
        fine.add(rows.slice(20_000))
        assert not fine.in_memory
        assert list(place.iterdir()) == [], "a killed run would leave it"
        assert pa.Table.from_batches(fine.batches()).equals(rows)
        fine.close()
