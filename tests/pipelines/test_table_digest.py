"""The hash of a table: the same for the same content, another for any other."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipelines.table_digest import table_digest

SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "count": pa.int64(),
        "part": pa.float64(),
        "fine": pa.bool_(),
        "at": pa.timestamp("us", "UTC"),
        "names": pa.list_(pa.string()),
        "labels": pa.map_(pa.string(), pa.string()),
        "asked": pa.map_(pa.string(), pa.float64()),
    }
)
ROW: dict[str, Any] = {
    "text": "ab", "count": 7, "part": 0.5, "fine": True, "at": datetime(2026, 10, 1, tzinfo=UTC), "names": ["x", "yz"],
    "labels": [("a", "b"), ("c", "")], "asked": [("gpu", 2.0)],
}  # fmt: skip
ROWS = [ROW, dict.fromkeys(ROW), {**ROW, "text": "", "names": [], "labels": [], "asked": []}, {**ROW, "count": 0, "fine": False}]


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def test_chunks_and_slices_do_not_matter() -> None:
    whole = table(*ROWS)
    parts = [table({**ROW, "text": "other"}, *ROWS[:2]).slice(1), whole.slice(2, 0), table(*ROWS[2:], ROW).slice(0, 2)]
    assert table_digest(pa.concat_tables(parts)) == table_digest(whole)
    assert table_digest(table()) == table_digest(whole.slice(4))


def test_every_change_of_the_content_matters() -> None:
    changes: list[dict[str, Any]] = [
        {"text": "a"}, {"text": None}, {"count": 8}, {"count": None}, {"part": 0.25}, {"fine": False}, {"fine": None},
        {"at": datetime(2026, 10, 2, tzinfo=UTC)}, {"names": ["xy", "z"]}, {"names": ["x", None]}, {"names": None}, {"names": []},
        {"labels": [("a", "bc"), ("", "")]}, {"labels": [("c", ""), ("a", "b")]}, {"labels": []}, {"labels": None},
        {"asked": [("gpu", 1.0)]}, {"asked": [("gpu", None)]},
    ]  # fmt: skip
    tables = [table(*ROWS), table(*ROWS[::-1]), table(*ROWS[:3]), *(table({**ROW, **change}, *ROWS[1:]) for change in changes)]
    assert len({table_digest(one) for one in tables}) == len(tables)
    assert table_digest(table(*ROWS).rename_columns(["word", *SCHEMA.names[1:]])) != table_digest(table(*ROWS))
    assert table_digest(pa.table({"a": ["xy", "z"]})) != table_digest(pa.table({"a": ["x", "yz"]}))
