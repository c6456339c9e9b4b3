"""Values as JSON knows them: money as text with all its places, so that no reader rounds it; nothing as null."""

from collections.abc import Mapping
from numbers import Number

import pyarrow as pa


def plain(value: object) -> object:
    """One value; whole numbers and truths stay what they are."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Number):
        return None if value != value else f"{value:f}"
    return str(value)


def plain_row(row: Mapping[str, object]) -> dict[str, object]:
    """One row by column."""
    return {name: plain(value) for name, value in row.items()}


def plain_rows(table: pa.Table) -> list[dict[str, object]]:
    """All rows of a small table."""
    return [plain_row(row) for row in table.to_pylist()]
