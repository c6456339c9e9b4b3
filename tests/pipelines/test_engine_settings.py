"""Where shards run: what may be said of it, and how many processes it means."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines import engine_settings
from pipelines.engine_settings import WORKER_BYTES, EngineEntry

MANY_CORES = 64


def limited(folder: Path, monkeypatch: pytest.MonkeyPatch, cpu: str, memory: str) -> EngineEntry:
    """The default engine in a container with these limits, on a machine of many cores."""
    (folder / "cpu.max").write_text(cpu, encoding="ascii")
    (folder / "memory.max").write_text(memory, encoding="ascii")
    monkeypatch.setattr(engine_settings, "CONTROL_GROUP", folder)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(MANY_CORES)), raising=False)
    return EngineEntry()


def test_a_word_is_a_kind() -> None:
    assert EngineEntry.model_validate("local") == EngineEntry(kind="local")


@pytest.mark.parametrize(
    ("cpu", "workers"), [("200000 100000", 2), ("350000 100000", 3), ("50000 100000", 1)], ids=["two", "three and a half", "half"]
)
def test_processes_are_no_more_than_the_containers_cores(
    cpu: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = limited(tmp_path, monkeypatch, cpu, str(2 * WORKER_BYTES * MANY_CORES))
    assert (entry.workers_here, entry.in_flight_here) == (workers, 2 * workers)


def test_processes_fit_into_the_containers_memory_beside_the_main_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limited(tmp_path, monkeypatch, "max 100000", str(4 * WORKER_BYTES)).workers_here == 3
    assert limited(tmp_path, monkeypatch, "max 100000", str(WORKER_BYTES)).workers_here == 1


def test_what_is_said_goes_before_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(tmp_path, monkeypatch, "100000 100000", str(WORKER_BYTES))
    assert EngineEntry(workers=5, shards_in_flight=7).in_flight_here == 7
    assert EngineEntry(workers=5).in_flight_here == 10


@pytest.mark.parametrize("entry", [{"kind": "dask"}, {"workers": 0}, {"master": "local[2]"}, {"kind": "spark", "workers": 2}])
def test_what_cannot_be_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EngineEntry.model_validate(entry)
