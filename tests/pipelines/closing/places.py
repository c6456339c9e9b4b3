"""The last two days of a company's October, computed and ready to be closed on 6 November."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines import cli, clock
from pipelines.storage import TableStore
from tests.months import Company, days

FIRST = date(2026, 10, 30)


@dataclass
class Books:
    """A company, its store, and commands on it."""

    company: Company
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    @property
    def store(self) -> TableStore:
        return TableStore(str(self.company.folder / "out"))

    def at(self, moment: str) -> "Books":
        """Puts the clock."""
        then = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        self.monkeypatch.setattr(clock, "now", lambda: then)
        return self

    def call(self, command: str, *argv: str, code: int = 0) -> str:
        """What a command says, on both streams."""
        found = cli.main([command, str(self.company.config), *argv])
        said = self.capsys.readouterr()
        assert found == code, said
        return said.out + said.err

    def told(self, command: str, *argv: str, code: int = 0) -> Any:  # noqa: ANN401
        """The same in JSON."""
        return json.loads(self.call(command, *argv, "--format", "json", code=code))

    def run(self, first: date = FIRST, count: int = 1, *argv: str) -> Any:  # noqa: ANN401
        """Computes days."""
        window = ("--from", str(first), "--until", str(first + timedelta(days=count)))
        return self.told("run", *window, *argv)["partitions"]


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Books:
    """Both days computed, the clock on 6 November."""
    company = Company(tmp_path / "company", days(FIRST, 2), start=FIRST).write()
    found = Books(company, monkeypatch, capsys).at("2026-11-06T09:00:00")
    found.run(FIRST, 2)
    return found
