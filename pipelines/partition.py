"""What a partition is, and the marker by which it is there: its files with their hashes, and what was said of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from urllib.parse import quote

from allocation.errors import ChargebackError
from allocation.schemas import SCHEMA_VERSION

COMMIT = "_commit.json"


@dataclass(frozen=True)
class Partition:
    """One UTC day of one cluster (or of ``_bill``)."""

    day: date
    cluster: str

    @property
    def path(self) -> str:
        """The folder below a table's."""
        return f"date={self.day.isoformat()}/cluster={quote(self.cluster, safe='')}"

    def __str__(self) -> str:
        return f"{self.day.isoformat()}|{self.cluster}"


@dataclass(frozen=True)
class Commit:
    """A partition's marker: its files with their hashes, and what was said of it."""

    files: Mapping[str, str]
    detail: Mapping[str, object]

    @classmethod
    def parse(cls, content: bytes, place: str) -> "Commit":
        """The marker as it is kept; ``place`` is where, for people."""
        try:
            held = json.loads(content)
            return cls(dict(held["files"]), dict(held["detail"]))
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(place) from error

    def content(self, table: str) -> bytes:
        """The marker as it is kept in a table."""
        held = {
            "table": table,
            "schema_version": SCHEMA_VERSION,
            "files": dict(self.files),
            "detail": dict(self.detail),
        }
        return json.dumps(held, indent=1, sort_keys=True, default=str).encode()


def damaged(place: str) -> ChargebackError:
    """The error of a file of the store that cannot be read."""
    return ChargebackError(f"{place}: is damaged and cannot be read; restore it, or delete its partition and run the day again")
