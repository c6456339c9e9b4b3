"""A server that dies in the middle of a day: a clear error, and a rerun that asks for the shards that are left."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines import cli, clock
from pipelines.results import RESULT_TABLES
from tests.fleets import DAY, Fleet, fleet_lines
from tests.servers import Answer, ProtocolServer, Request, forwarded, needs_prometheus, prometheus, protocol_server

SHARDS = ("a", "c", "e1", "f")
"""The first node of each shard of two."""


@dataclass
class Dying:
    """A server in front of another; ``dead``: the first node of a shard that it does not answer on."""

    url: str
    dead: str = ""
    front: ProtocolServer = field(init=False)

    def answer(self, request: Request) -> Answer:
        if self.dead and shard_of(request) == self.dead:
            return Answer(500, b"gone")
        return forwarded(self.url, request)

    def asked(self) -> list[str]:
        """The shards that samples were asked for since the last time, in order."""
        shards = list(dict.fromkeys(filter(None, map(shard_of, self.front.requests))))
        self.front.requests.clear()
        return shards


def shard_of(request: Request) -> str:
    """The first node of the shard that a query of samples is for."""
    query = request.param("query")
    if not request.path.endswith("/query") or "DCGM_" not in query:
        return ""
    return next((node for node in SHARDS if f'"{node}|' in query or f'"{node}"' in query), "")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dying]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "m.om").write_text("\n".join([*fleet_lines(), "# EOF", ""]), encoding="utf-8")
    with prometheus(folder, folder / "m.om") as url:
        dying = Dying(url)
        with protocol_server(dying.answer) as dying.front:
            yield dying


@pytest.fixture
def fleet(tmp_path: Path, server: Dying) -> Fleet:
    server.dead = ""
    server.asked()
    return Fleet(tmp_path / "fleet", {"kind": "prometheus", "url": server.front.url, "chunk": "2d", "retries": 0})


def failed(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says why, beside those of a run that has to compile first and so takes long enough to tell how far it is."""
    capsys.readouterr()
    assert cli.main(fleet.command()) == 1
    waited = ("compiling, once", f"{DAY}|")
    (told,) = (line for line in capsys.readouterr().err.splitlines() if not line.startswith(waited))
    assert "nodes e1 to e2 (2)" in told
    assert "answered HTTP 500" in told
    assert not fleet.bytes_of(RESULT_TABLES)


@needs_prometheus
def test_a_rerun_asks_for_the_shards_that_are_left(
    tmp_path: Path, server: Dying, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    server.dead = "e1"
    for asked in (["a", "c", "e1"], ["e1"]):
        failed(fleet, capsys)
        assert server.asked() == asked
    server.dead = ""
    assert cli.main(fleet.command()) == 0
    assert server.asked() == ["e1", "f"]
    plain = Fleet(tmp_path / "plain", {"kind": "prometheus", "url": server.url, "chunk": "2d"})
    assert cli.main(plain.command()) == 0
    assert fleet.bytes_of(RESULT_TABLES) == plain.bytes_of(RESULT_TABLES)
    assert fleet.left_over() == []
    assert cli.main(fleet.command()) == 0
    assert server.asked() == []
    assert cli.main(fleet.command("--refetch")) == 0
    assert server.asked() == list(SHARDS)


@needs_prometheus
def test_refetch_goes_on_with_nothing(server: Dying, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    server.dead = "e1"
    failed(fleet, capsys)
    server.dead = ""
    server.asked()
    assert cli.main(fleet.command("--refetch")) == 0
    assert server.asked() == list(SHARDS)


@needs_prometheus
def test_a_day_that_is_not_over_is_not_gone_on_with(
    server: Dying, fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards that were brought at ten minutes past midnight may lack what comes until a quarter past."""
    midnight = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC) + timedelta(days=1)
    monkeypatch.setattr(clock, "now", lambda: midnight + timedelta(minutes=10))
    server.dead = "e1"
    failed(fleet, capsys)
    assert fleet.left_over() == []
    monkeypatch.setattr(clock, "now", lambda: midnight + timedelta(minutes=16))
    server.dead = ""
    server.asked()
    assert cli.main(fleet.command()) == 0
    assert server.asked() == list(SHARDS)


@needs_prometheus
def test_what_was_told_before_the_day_was_over_is_asked_for_again(
    server: Dying, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run at noon, then one on the day after: the second asks for everything, a third for nothing."""
    midnight = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC)
    asked = []
    for hours in (12, 28, 29):
        monkeypatch.setattr(clock, "now", lambda hours=hours: midnight + timedelta(hours=hours))
        assert cli.main(fleet.command()) == 0
        asked.append(server.asked())
    assert asked == [list(SHARDS), list(SHARDS), []]
