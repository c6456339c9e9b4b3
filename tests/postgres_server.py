"""A real PostgreSQL for tests: a server of its own folder and port, started once a session, a database a test."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port, wait_until_listening

WITHOUT_POSTGRES = "the Debian package `postgresql` is not installed: run scripts/install_test_servers.sh"
_DEBIAN = Path("/usr/lib/postgresql")
_SUPERUSER, _UNPRIVILEGED = "tester", "postgres"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Database:
    """An empty database, and the variables by which libpq finds it."""

    environment: Mapping[str, str]

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query of another session finds."""
        import psycopg

        places = {name.removeprefix("PG").lower(): value for name, value in self.environment.items()}
        named = {"dbname" if name == "database" else name: value for name, value in places.items()}
        with psycopg.connect(autocommit=True, **named) as connection:
            found = connection.execute(query, values)
            return found.fetchall() if found.description else []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Mapping[str, str]]:
    """How to reach a server that is there until the session ends."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    programs = _programs()
    if programs is None:
        pytest.skip(WITHOUT_POSTGRES)
    folder = Path(tempfile.mkdtemp(prefix="gpu-chargeback-postgres-"))
    try:
        become = _unprivileged(folder)
        data, port = folder / "data", free_port()
        make = [
            str(programs / "initdb"),
            "-D",
            str(data),
            "-A",
            "trust",
            "-U",
            _SUPERUSER,
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **become)
        options = ("listen_addresses=127.0.0.1", "fsync=off", "timezone=Asia/Kolkata")
        serve = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
        serve += [word for option in options for word in ("-c", option)]
        with (folder / "log").open("wb") as log, subprocess.Popen(serve, stdout=log, stderr=log, cwd=folder, **become) as server:
            try:
                wait_until_listening(port, server)
                yield {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": _SUPERUSER}
            finally:
                server.terminate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgres_server: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Database:
    """An empty database, which this process and those it starts connect to."""
    for name in [n for n in os.environ if n.startswith("PG")]:
        monkeypatch.delenv(name)
    name = f"test_{next(_numbers)}"
    Database({**postgres_server, "PGDATABASE": "postgres"}).rows(f"CREATE DATABASE {name}")
    found = Database({**postgres_server, "PGDATABASE": name})
    for variable, value in found.environment.items():
        monkeypatch.setenv(variable, value)
    return found


def _programs() -> Path | None:
    """The folder of the newest installed version; Debian puts none of it on the path."""
    versions = sorted((p for p in _DEBIAN.glob("*/bin") if (p / "initdb").exists()), key=lambda p: float(p.parent.name))
    if versions:
        return versions[-1]
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def _unprivileged(folder: Path) -> dict[str, Any]:
    """What starts a process as somebody else where we are root, as whom PostgreSQL refuses to run; the folder is theirs."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(_UNPRIVILEGED)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
