"""Runs that are killed: what readers see until the rerun, and that the rerun gives the very bytes of an undisturbed run."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.results import RESULT_TABLES
from tests.fleets import Fleet, assert_whole, bill_lines, fleet_lines
from tests.forked_runs import ROOT, Forks, alive, children_of, forks, waited
from tests.servers import Answer, Request, forwarded, needs_prometheus, prometheus, protocol_server

KILLS, ROUNDS = 50, 5
NODES = ("a", "c", "d", "e1", "e2", "f", "h")
OLD_PRICE = 5


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with forks(tmp_path_factory.mktemp("forks")) as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "m.om").write_text("\n".join([*fleet_lines(NODES), "# EOF", ""]), encoding="utf-8")
    with prometheus(folder, folder / "m.om") as url:
        yield url


def fleet_at(folder: Path, url: str, workers: int = 2, nodes_per_shard: int = 3) -> Fleet:
    """A small fleet whose day has two shards and one of machines that had several names or have no series."""
    entry = {"kind": "prometheus", "url": url, "chunk": "2d", "retries": 0, "nodes_per_shard": nodes_per_shard}
    engine = {"kind": "local", "workers": workers}
    return Fleet(folder, entry, engine=engine, policy={"max_hold": "5m"}, owners={"team": ["namespace"]})


def killed_at(forked: Forks, fleet: Fleet, part: float, whole_s: float, *more: str) -> None:
    """A run that is killed when this part of its life is over; one that ended before tells how long a life is now."""
    while True:
        run = forked.start(fleet.command(*more))
        while alive(run.pid) and time.monotonic() < run.begun_s + part * whole_s:
            time.sleep(0.002)
        lasted_s = time.monotonic() - run.begun_s
        os.kill(run.pid, signal.SIGKILL)
        if forked.ended(run) == -signal.SIGKILL:
            return
        whole_s = lasted_s


@needs_prometheus
def test_a_rerun_of_a_run_that_was_killed_at_any_moment_gives_the_same_bytes(tmp_path: Path, server: str, forked: Forks) -> None:
    """Fifty moments spread over a run's life; ten of them follow each other, then the run goes to its end."""
    before = fleet_at(tmp_path / "before", server)
    before.write_bill(bill_lines(OLD_PRICE))
    assert forked.run(before.command())[0] == 0
    plain = fleet_at(tmp_path / "plain", server)
    code, whole_s = forked.run(plain.command())
    assert code == 0
    assert bytes_of_one_process(tmp_path / "alone", server, forked) == plain.bytes_of()
    found = set[int]()
    for number in range(ROUNDS):
        fleet, replaces = fleet_at(tmp_path / str(number), server), number % 2 == 1
        if replaces:
            shutil.copytree(before.out, fleet.out)
        old = before.bytes_of() if replaces else {}
        for moment in range(number, KILLS, ROUNDS):
            killed_at(forked, fleet, moment / KILLS, whole_s, *(["--refetch"] if replaces else []))
            assert waited(lambda: not forked.workers())
            assert_whole(fleet, old, plain.bytes_of())
            found.add(len(list(fleet.out.glob("samples/.aside-*/*.json"))))
        assert forked.run(fleet.command())[0] == 0, forked.log.read_text(encoding="utf-8")[-2000:]
        assert fleet.bytes_of() == plain.bytes_of()
        assert fleet.left_over() == []
        shutil.rmtree(fleet.folder)
    assert len(found) > 1, "no moment was one in which some shards were there"


def bytes_of_one_process(folder: Path, url: str, forked: Forks) -> dict[str, bytes]:
    """The same day without workers."""
    alone = fleet_at(folder, url, workers=1)
    assert forked.run(alone.command())[0] == 0
    return alone.bytes_of()


class Held:
    """A server in front of another that keeps its answer on one node's series back until it is told."""

    def __init__(self, url: str, node: str) -> None:
        self._url, self._node = url, node
        self.told = threading.Event()

    def answer(self, request: Request) -> Answer:
        if request.path.endswith("/query") and f'"{self._node}"' in request.param("query"):
            self.told.wait(30)
        return forwarded(self._url, request)


@needs_prometheus
def test_a_worker_that_is_killed_ends_the_run_with_one_clear_line(tmp_path: Path, server: str, forked: Forks) -> None:
    held = Held(server, "f")
    with protocol_server(held.answer) as front:
        fleet = fleet_at(tmp_path, front.url, nodes_per_shard=1)
        begun = forked.log.stat().st_size
        run = forked.start(fleet.command())
        assert waited(forked.workers)
        os.kill(forked.workers()[0], signal.SIGKILL)
        held.told.set()
        assert forked.ended(run) == 1
        told = forked.log.read_text(encoding="utf-8")[begun:]
        assert "a worker process ended before its shard was done" in told
        assert "Traceback" not in told
        assert waited(lambda: not forked.workers())
        assert not fleet.bytes_of(RESULT_TABLES)
        assert forked.run(fleet.command())[0] == 0
    assert fleet.left_over() == []
    assert len(fleet.rows()) > 0


@needs_prometheus
def test_workers_end_with_a_command_that_is_killed(tmp_path: Path, server: str) -> None:
    """The command itself, with all that it starts."""
    held = Held(server, "f")
    with protocol_server(held.answer) as front:
        fleet = fleet_at(tmp_path, front.url, nodes_per_shard=1)
        command = [sys.executable, "-m", "pipelines.cli", *fleet.command()]
        with (tmp_path / "log").open("wb") as log:
            run = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})

        def started() -> list[int]:
            return [*children_of(run.pid), *(worker for child in children_of(run.pid) for worker in children_of(child))]

        assert waited(lambda: len(started()) >= 4), (tmp_path / "log").read_text(encoding="utf-8")
        processes = started()
        run.kill()
        assert run.wait(30) == -signal.SIGKILL
        assert waited(lambda: not any(map(alive, processes)))
        held.told.set()
    assert list(fleet.out.glob("samples/.aside-*/*.json"))
    assert not fleet.bytes_of(RESULT_TABLES)
